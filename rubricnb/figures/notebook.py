"""Figures in notebooks: drawn by the front end where there is one, by HTML in saved copies.

plotly's own default writes no HTML, so that a notebook run headless shows a blank when it is
converted; its notebook renderer writes plotly.js (5 MB) into many cells. Here a figure carries its
HTML, and plotly.js stands in a headless notebook once.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import plotly.io as pio
from plotly.io.base_renderers import PlotlyRenderer

NAME = "rubricnb"
HEADLESS = "RUBRICNB_HEADLESS"


def live() -> bool:
    """Whether somebody can move a control: a kernel whose front end can also answer prompts.

    papermill and nbclient run cells without that (they send allow_stdin false), and so does
    anything that is no kernel. The environment variable RUBRICNB_HEADLESS, "1" or "0", decides
    otherwise.
    """
    told = os.environ.get(HEADLESS, "")
    if told in ("0", "1"):
        return told == "0"
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    if kernel is None:
        return False
    parent = kernel.get_parent("shell") or {}
    return bool(parent.get("content", {}).get("allow_stdin", False))


@functools.cache
def embed_plotlyjs() -> None:
    """Put plotly.js into the page, once a kernel, so that a converted notebook draws offline."""
    from IPython.display import display
    from plotly.offline import get_plotlyjs

    display({"text/html": f"<script>{get_plotlyjs()}</script>"}, raw=True)


class Renderer(PlotlyRenderer):
    """plotly's JSON for JupyterLab and, where nobody watches, HTML for the saved copy."""

    def to_mimebundle(self, fig_dict: dict) -> dict[str, Any]:
        bundle = super().to_mimebundle(fig_dict)
        if live():
            return bundle
        embed_plotlyjs()
        html = pio.to_html(
            fig_dict, full_html=False, include_plotlyjs=False, include_mathjax=False, validate=False
        )
        return {**bundle, "text/html": html}


def use_in_notebooks() -> None:
    """Make this the renderer of bare figures in a kernel, unless another one was chosen."""
    if "ipykernel" in sys.modules and pio.renderers.default == "plotly_mimetype":
        pio.renderers[NAME] = Renderer()
        pio.renderers.default = NAME
