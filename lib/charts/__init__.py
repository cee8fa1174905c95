"""Charts: a table in, a figure out. They draw what a table holds, no more.

``winrates``   ``validity``, a forest plot of win rates, coloured and named by verdict
``intervals``  rows of intervals; ``rows`` has what figures of rows share
``lines``      lines of several kinds, one of them in its band
``heatmap``    win rates as a table of colours; ``grid`` has the names around it
``kinds``      a menu of kinds of correlation
``render``     ``Chart``, which a notebook shows and the site draws, and the ``frame`` around it;
               ``schema`` says whether its spec is one
``theme``      the visual language that a new chart should speak

The charts of one analysis are in its folder, ``lib.analyses``.
"""

from lib.charts.render import Chart
from lib.charts.winrates import validity

__all__ = ["Chart", "validity"]
