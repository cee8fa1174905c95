"""How does one comparison become a part of a verdict?

Of one run of any model.

``stats``  ``follow``, ``tokens``, ``scores``, ``cell``
``words``  takeaways, step by step
"""

from lib.declared import Analysis

ANALYSIS = Analysis(__name__, place=25)
