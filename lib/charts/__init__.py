"""Charts: a table in, a figure out. They draw what ``lib.stats`` returned, no more.

``validity``   a forest plot of win rates, coloured and named by verdict
``lengths``    distributions of response lengths
``dropped``    items by step, with each reason to leave some out

The charts of an analysis are in the module of its name (``labels``, ``geometry``, …). Each
returns a ``Chart``, which a notebook shows and the site draws. ``theme`` holds the
visual language that a new chart should speak.
"""

from lib.charts.data import dropped, lengths
from lib.charts.render import Chart
from lib.charts.winrates import validity

__all__ = ["Chart", "dropped", "lengths", "validity"]
