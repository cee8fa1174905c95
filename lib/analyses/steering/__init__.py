"""What does a sparse reward say when one of its features is suppressed, and of what else?

Of one run of a model whose reward reads a sparse autoencoder.

``stats``        ``targets``, ``corrections``, ``change``
``charts``       targets and what else moved
``words``        takeaways
``calibration``  features that are said to correct a criterion, and to move others
"""

from lib.declared import STIMULI, Analysis

ANALYSIS = Analysis(
    __name__,
    place=98,
    method="Steering",
    audited=STIMULI,
    sparse=True,
    calibrated=True,
)
