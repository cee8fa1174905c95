"""Statistics: a Run in, a tidy table out. Nothing here imports torch.

Files are named for families, functions for what they tell:

``winrates``      ``validity``, ``validity_as_published``, ``baselines``
``descriptive``   ``counts``, ``lengths``, ``length_summary``
``proportions``   clustered win rates and their intervals
``permutation``   the exact sign-flip test, Holm's correction
"""

from lib.stats.descriptive import counts, length_summary, lengths
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
    "validity",
    "validity_as_published",
    "wilson",
]
