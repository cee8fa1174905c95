"""Alignment tension: what the page computes of a study, from the modules of its parts.

``abilities``  ``accuracy``, one row a model and task; ``lengths``, one row an objective and task;
               ``helps``, one row a model of both sources
``silencing``  ``silenced``, ``shrinkage`` and ``margins``, one row an objective, task and set of
               silenced neurons
``neurons``    ``overlaps``, one row a pair of sets of neurons; ``kept``, one row a share of
               abilities or neurons that mixing keeps; ``layers``, one row an objective, set and
               third of the depth
``earlier``    ``against``, one row a figure of an earlier run

Intervals are over prompts and seeds together (``crossed``), except where a column says otherwise.
What can't be computed is NaN.
"""

from lib.analyses.tension.abilities import accuracy, helps, lengths
from lib.analyses.tension.earlier import against
from lib.analyses.tension.neurons import kept, layers, overlaps
from lib.analyses.tension.silencing import margins, shrinkage, silenced

__all__ = [
    "accuracy",
    "against",
    "helps",
    "kept",
    "layers",
    "lengths",
    "margins",
    "overlaps",
    "shrinkage",
    "silenced",
]
