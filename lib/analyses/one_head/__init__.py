"""One head of a model, taken apart: what makes its margins, how steadily, and what confirms it.

Of the effects of a model on a dataset (``lib.effects``). Nothing is computed that other pages
don't: what they say of all heads stands here for one.

``stats``   ``margin``, ``largest``, ``attention``, ``prompts``
``charts``  ``sources``, ``steadiness``, ``attention``
``words``   takeaways
"""

from lib.declared import EACH, Analysis

ANALYSIS = Analysis(__name__, place=109, audited=EACH)
