"""Statistics: a Run in, a tidy table out. Nothing here imports torch.

Files are named for families, functions for what they tell:

``winrates``      ``validity``, ``validity_as_published``, ``baselines``
``proportions``   clustered win rates and their intervals
``permutation``   the exact sign-flip test, Holm's correction
"""

from lib.stats.permutation import holm, sign_flip
from lib.stats.proportions import wilson
from lib.stats.winrates import baselines, validity, validity_as_published

__all__ = ["baselines", "holm", "sign_flip", "validity", "validity_as_published", "wilson"]
