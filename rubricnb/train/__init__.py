"""Training with step credit: trl's GRPO, the study's arms, and their evaluation. Needs torch."""
