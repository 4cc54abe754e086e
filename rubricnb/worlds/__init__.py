"""Worlds that agents act in, and the offline judge of the bundled one. No torch, no plotly."""
