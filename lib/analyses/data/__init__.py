"""What was loaded, what was left out and why, how long responses are.

Of one run of any model.

``stats``   ``counts``, ``unscored``, ``lengths``, ``length_summary``
``charts``  ``lengths``, ``dropped``
``words``   ``glued``: counts for other pages
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(
    __name__,
    place=10,
    audited=EACH,
)
