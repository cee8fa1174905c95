"""One row a head, from all of its model's pages.

``stats``   ``scorecard``, ``matrix``, ``uses``, ``longer``, ``sides``, ``entanglement``, ``gates``
``charts``  the matrix of heads and protocols, the table of what to use a head for
``words``   takeaways, the gate, a legend of verdicts
"""

from lib.declared import ONCE, Analysis

ANALYSIS = Analysis(
    __name__,
    place=100,
    audited=ONCE,
)
