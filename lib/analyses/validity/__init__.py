"""Does a head rank responses as the labels do?

Of one run of any model. Win rates are shared by many analyses and so lie below:
``lib.stats.validity``, ``validity_as_published``, ``baselines``, ``lib.charts.validity``.

``official``        the benchmarks' own scores
``official_words``  their part of the page
``words``           takeaways and what the page keeps
``calibration``     verdicts, intervals, power
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(
    __name__,
    place=20,
    method="Validity",
    audited=EACH,
    calibrated=True,
    keeps={
        "validity": "head subset n prompts win_rate low high p p_adjusted verdict mde note",
        "baselines": "baseline subset n win_rate low high note",
        "outcomes": "kind rule item prompt better worse criterion subset outcome margin",
    },
)
