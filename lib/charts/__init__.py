"""Charts: a table in, a figure out. They draw what a table holds, no more.

``winrates``   ``validity``, a forest plot of win rates, coloured and named by verdict
``intervals``  rows of intervals (``rows`` for what figures of rows share)
``heatmap``    win rates as a table of colours (``grid`` for the names around it)
``render``     ``Chart``, which a notebook shows and the site draws, and the ``frame`` around it
``theme``      the visual language that a new chart should speak

The charts of one analysis are in its room, ``lib.analyses``.
"""

from lib.charts.render import Chart
from lib.charts.winrates import validity

__all__ = ["Chart", "validity"]
