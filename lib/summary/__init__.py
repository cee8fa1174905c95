"""Summary pages: one model over all its pages, or models side by side, from tables alone.

Executed pages leave their tables as Parquet under a results folder. Nothing here runs a model
or repeats a statistic that a page computed; what a page didn't leave is said to be not run.

``tables``        what one model's pages left, by dataset; ``everything`` that of several
``models``        names of the models that left any
``matrix``        one row a head, protocol and subset, with verdict and page
``uses``          what each head may be used for, what not: the cells that say so
``longer``        what the longer response alone wins on each of these
``one_score``     what a gated model's one score wins there
``sides``         win rates by protocol, corrected over all protocols at once
``scorecard``     one row a head, from all of its pages
``entanglement``  pairs of heads that choose nearly alike
``gates``         a gated model's score beside rules that are the same for every prompt
``exploits``      surfaces that the one score pays for, by axis
``scores``        one row a model and protocol
``compare``       models paired on the comparisons that both were audited on
``agreement``     do two models fail on the same of these?
``contested``     items on which two models are sure of different responses
``profiles``      at which part of its layers each model's ranking is settled
``depths``        models paired on that
``published``     what published audits claim, and what of it holds
"""

from lib.summary.compare.agreement import agreement
from lib.summary.compare.contested import contested
from lib.summary.compare.lens import depths, profiles
from lib.summary.compare.stats import compare, scores
from lib.summary.scorecard.stats import (
    entanglement,
    exploits,
    gates,
    longer,
    matrix,
    one_score,
    scorecard,
    sides,
    uses,
)
from lib.summary.tables import Tables, everything, models, tables

__all__ = [
    "Tables",
    "agreement",
    "compare",
    "contested",
    "depths",
    "entanglement",
    "everything",
    "exploits",
    "gates",
    "longer",
    "matrix",
    "models",
    "one_score",
    "profiles",
    "scorecard",
    "scores",
    "sides",
    "tables",
    "uses",
]
