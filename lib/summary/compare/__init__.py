"""Models side by side, paired on the comparisons that all were audited on.

``stats``        ``scores``, ``compare``
``agreement``    do two models fail on the same comparisons?
``charts``       scores, differences, agreement
``words``        takeaways
``calibration``  differences between models
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=110,
    calibrated=True,
)
