"""Statistics: a Run in, a tidy table out. Nothing here imports torch.

Files are named for families, functions for what they tell:

``winrates``         ``validity``, ``validity_as_published``, ``baselines``
``descriptive``      ``counts``, ``unscored``, ``lengths``, ``length_summary``
``official``         the benchmarks' own scores
``protocols``        one head under several evaluations, variance components
``labels``           which head answers to which concept (``naming`` says what is claimed,
                     ``exchanges`` has the contrasts that accuse)
``multitrait``       do heads of one concept agree?
``disentanglement``  correlations between and within items, clusters (``linkage``), factors
                     (``parallel`` draws their null)
``geometry``         where entanglement lives, in three gauges (``subspaces`` for the arrays)
``separability``     concept probes (``questions`` are asked, ``probing`` fits)
``readout``          what is lost between the states and a head
``gating``           the gate against fixed rules, debiasing
``weights``          norms and cosines of a head matrix, its card as tables
``published``        what published figures imply; ``claims`` gives each its verdict
``proportions``      clustered win rates and their intervals
``permutation``      the exact sign-flip test, Holm's correction
"""

from lib.stats.descriptive import counts, length_summary, lengths, unscored
from lib.stats.permutation import holm, sign_flip
from lib.stats.proportions import wilson
from lib.stats.winrates import baselines, distinct, validity, validity_as_published

__all__ = [
    "baselines",
    "counts",
    "distinct",
    "holm",
    "length_summary",
    "lengths",
    "sign_flip",
    "unscored",
    "validity",
    "validity_as_published",
    "wilson",
]
