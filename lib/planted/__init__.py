"""Worlds whose right answers are known, for tests and for the calibration page.

``make_run`` builds a Run from scores alone and ``wins`` draws clustered outcomes of a known
win rate; each analysis has a module of the same name with its own worlds.
"""

from lib.planted.disentanglement import blocks_world, copies_world, independent_world
from lib.planted.gating import equal_world, gating_world
from lib.planted.geometry import backbone_world, heads_world
from lib.planted.labels import agreement_gaps, label_wins, label_world
from lib.planted.protocols import cell_logits, protocol_wins, protocol_world
from lib.planted.separability import separability_world
from lib.planted.worlds import (
    length_wins,
    make_run,
    model_wins,
    skewed_gaps,
    validity_world,
    wins,
)

__all__ = [
    "agreement_gaps",
    "backbone_world",
    "blocks_world",
    "cell_logits",
    "copies_world",
    "equal_world",
    "gating_world",
    "heads_world",
    "independent_world",
    "label_wins",
    "label_world",
    "length_wins",
    "make_run",
    "model_wins",
    "protocol_wins",
    "protocol_world",
    "separability_world",
    "skewed_gaps",
    "validity_world",
    "wins",
]
