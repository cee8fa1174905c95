"""Do a model's failures go together: does it fail in one way where it fails in another?

Of one run of any model on scenarios that are crossed with dimensions: prompts that have a
comparison in each subset, as in ``stimuli/cascade``.

``stats``        ``dimensions``, ``correlations``, ``as_published``
``charts``       preferences by dimension, mean correlations, correlations of two dimensions
``words``        takeaways
``worlds``       ``factor_world``
``calibration``  dimensions said to go together, and the published correlations
"""

from lib.declared import Analysis

ANALYSIS = Analysis(
    __name__,
    place=96,
    method="Cascade",
    audited="stimuli/cascade",
    calibrated=True,
)
