"""Is the score even right? The first question about a model.

Of a check that ``lib.check`` made, which needs the model itself.

``charts``  ``shifts``, ``windows``, ``costs``
``words``   takeaways
"""

from lib.declared import ONCE, Analysis

ANALYSIS = Analysis(
    __name__,
    place=5,
    method="Check",
    audited=ONCE,
    keeps={"check": "line verdict"},
)
