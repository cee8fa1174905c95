"""What would a model pick from n candidates, and how good is that?

Of one run of any model on items with three responses or more: such as have a right answer among
wrong ones (RewardBench 2, RM-Bench), or ratings (UltraFeedback, a file).

``stats``        ``candidates``, ``picked``, ``selection``
``charts``       expected gold by rule, and by number of candidates
``words``        takeaways
``worlds``       ``candidate_world``
``calibration``  picks said to be better or worse than random, intervals, power
"""

from lib.declared import SEVERAL, Analysis

ANALYSIS = Analysis(
    __name__,
    place=27,
    method="Selection",
    audited=SEVERAL,
    calibrated=True,
)
