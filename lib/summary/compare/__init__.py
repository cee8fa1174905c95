"""Models side by side, paired on the comparisons that all were audited on.

``stats``        ``scores``, ``compare``
``agreement``    do two models fail on the same comparisons?
``contested``    items on which two models are sure of different responses
``lens``         ``profiles``, ``depths``: is one ranking settled at an earlier part of the layers?
``learned``      which models learned from other prompts of a data set's source
``charts``       scores, differences, agreement, depths
``words``        takeaways
``calibration``  differences between models
``measure``      the same of models that are named: their runs, and what those leave
``document``     ``compare.json``, with its schema
``command``      ``python -m lib compare``
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=110,
    method="Models compared",
    calibrated=True,
)
