"""What does the gate gain over rules that are the same for every prompt, where, and is it M?

Of one run of a gated model.

``stats``        ``identity``, ``rules``, ``coefficients``, ``debiasing``
``charts``       coefficients, rules
``words``        takeaways
``worlds``       ``gating_world``, ``equal_world``, ``debiased_world``
``calibration``  what a gate gains, and where it loses
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(
    __name__,
    place=90,
    method="Gating and debiasing",
    audited=EACH,
    gated=True,
    calibrated=True,
    keeps={
        "rules": "rule subset chosen n win_rate low high gain gain_low gain_high "
        "p_adjusted mde note"
    },
)
