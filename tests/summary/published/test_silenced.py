"""Claims of the alignment-tension study, judged by planted networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lib.analyses.tension.worlds import network
from lib.summary.published import claims, silenced
from lib.training.tension.kept import OBJECTIVES, SETS, SHARED, WAYS, Set

KEYS = ("overlap-here", "ablation-here", "shared-ablation-here", "trade-off-here")


@pytest.fixture(scope="module")
def study():
    return network(0, seed=1)


def row(figures, study, key):
    table = claims.claims(figures, study=study)
    return table[table["key"] == key].iloc[0]


@pytest.mark.parametrize("key", KEYS)
def test_without_a_study_nothing_is_told(figures, key):
    found = row(figures, None, key)
    assert found["verdict"] == "can't be told" and "not computed" in found["recomputed"]


def costly(study, *names):
    """The same with margins turned where sets are silenced."""
    models = {}
    for key, of in study.models.items():
        margin = of["margin"].copy()
        for name in names:
            margin[WAYS.index(f"{name}, zero")] = -np.abs(margin[0])
        models[key] = of | {"margin": margin}
    return replace(study, models=models)


def test_what_random_neurons_cost_as_well_is_not_told(figures, study):
    for key in ("ablation-here", "shared-ablation-here"):
        found = row(figures, study, key)
        assert found["verdict"] == "can't be told" and "random" in found["recomputed"]


def test_shared_neurons_carry_both_tasks_only_beyond_the_base(figures, study):
    beyond = costly(study, SHARED)
    assert row(figures, beyond, "shared-ablation-here")["verdict"] == "holds"
    both = costly(study, SHARED, "base's")
    assert row(figures, both, "shared-ablation-here")["verdict"] == "artefact of the method"
    assert row(figures, costly(study, "own"), "ablation-here")["verdict"] == "can't be told"
    everything = costly(study, *SETS)
    assert row(figures, everything, "ablation-here")["verdict"] == "artefact of the method"


def test_an_overlap_is_an_artefact_where_the_base_has_more(figures, study):
    models = {
        key: of | {"mask": np.repeat(of["mask"][:1], len(SETS), axis=0)}
        for key, of in study.models.items()
    }
    assert row(figures, replace(study, models=models), "overlap-here")["verdict"] == (
        "artefact of the method"
    )


def test_the_trade_off_needs_both_sides_below_one_half(figures, study):
    n = 60
    tokens, better = np.full(6 * n, 9), np.arange(n) * 6
    names = np.repeat(["safety-refuse", "safety-response"], n // 2)
    own = Set("rm-bench", better, better + 3, names, np.arange(n), tokens)

    def scored(refuse, answer):
        right = np.concatenate([np.arange(n // 2) / (n // 2) < share for share in (refuse, answer)])
        score = np.zeros(6 * n, np.float32)
        score[better] = np.where(right, 1, -1)
        return score

    def told(shares):
        models = {
            (seed, model): of | {"score rm-bench": scored(*shares[OBJECTIVES.index(model)])}
            for (seed, model), of in study.models.items()
        }
        changed = replace(study, models=models, sets=study.sets | {"rm-bench": own})
        return row(figures, changed, "trade-off-here")["verdict"]

    assert told([(0.2, 0.9), (0.9, 0.1), (0.6, 0.5)]) == "holds"
    assert told([(0.2, 0.9), (0.9, 0.1), (0.1, 0.5)]) == "can't be told"
    assert told([(0.45, 0.9), (0.9, 0.1), (0.6, 0.5)]) == "can't be told"


def test_no_folder_is_no_study():
    assert silenced.load("") is None
