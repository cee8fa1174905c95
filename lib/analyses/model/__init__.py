"""What is in the model: its heads and who named them, their weights, its card, its gate.

Of a model, not of a run.

``stats``   ``heads``, cosines and norms of a head matrix, the card's scores
``charts``  the card's scores, norms
``words``   ``takeaways``
"""

from lib.declared import ONCE, Analysis

ANALYSIS = Analysis(
    __name__,
    place=30,
    audited=ONCE,
    keeps={"heads": "head concept"},
)
