"""Statistics that several analyses share: a Run in, a tidy table out. Nothing imports torch.

``winrates``     ``validity``, ``validity_as_published``, ``baselines``; the words of verdicts
``margins``      who won each comparison and how surely, kept for later
``proportions``  clustered win rates and their intervals
``ratios``       a mean as a share of another
``permutation``  the exact sign-flip test, Holm's correction
``maxima``       many means under one test: the largest of all
``signed``       means over prompts of what has a sign: interval, exact sign-flip test
``effects``      how large an effect can be at all
``relations``    how what a head's name claims stands to what labels ask
``correlation``  kinds of correlation, rank correlation
``subspaces``    head matrices as subspaces: spectra, angles, principal directions
``folds``        folds that keep groups whole: ``grouped``
``probing``      probes with folds by prompt; ``questions`` has what is asked of a run
``latents``      responses as a sparse reward reads them

What one analysis computes is in its folder, ``lib.analyses``.
"""

from lib.stats.permutation import holm, sign_flip
from lib.stats.proportions import wilson
from lib.stats.winrates import baselines, distinct, validity, validity_as_published

__all__ = [
    "baselines",
    "distinct",
    "holm",
    "sign_flip",
    "validity",
    "validity_as_published",
    "wilson",
]
