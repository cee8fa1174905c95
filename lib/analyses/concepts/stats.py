"""Concepts: what the page computes, from the modules of its parts.

``directions``   are concepts in the states, and do heads pay for them?
``dose``         what happens to a reward as a concept is added
``conflict``     do two concepts' directions go together?
``coverage``     the published distortion index, and what it stands on
``divergence``   when is a state unlike others?
"""

from lib.analyses.concepts.conflict import conflict
from lib.analyses.concepts.coverage import coverage
from lib.analyses.concepts.directions import alignment, by_layer, found
from lib.analyses.concepts.divergence import calibrated, tail
from lib.analyses.concepts.dose import dose, slopes

__all__ = [
    "alignment",
    "by_layer",
    "calibrated",
    "conflict",
    "coverage",
    "dose",
    "found",
    "slopes",
    "tail",
]
