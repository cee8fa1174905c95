"""Every claim has a row, and its verdict follows from the published figures."""

import copy

import numpy as np
import pytest

from lib import planted
from lib.data.published import figures as read
from lib.stats import claims
from lib.stats.published import PARTS

HARMLESS, HELPFUL = PARTS


@pytest.fixture(scope="module")
def figures():
    return read()


@pytest.fixture(scope="module")
def checks(figures):
    return claims.checks(figures)


def row(checks, key):
    return checks[checks["key"] == key].iloc[0]


def part(dataset, effect_first, effect_second, pairs=300, seed=0):
    generator = np.random.default_rng(seed)
    label = np.tile([1.0, 0.0], pairs)[:, None]
    score = generator.standard_normal((2 * pairs, 2)) + label * [effect_first, effect_second]
    return planted.make_run(score, heads=["harm", "help"], name=dataset)


def test_every_point_and_every_block_has_a_claim(figures, checks):
    points = {p for text in checks["points"] for p in text.split(", ") if p}
    assert points == {str(k) for k in range(1, 13)}
    assert set(checks["system"]) == set(claims.SYSTEMS)
    assert checks["key"].is_unique and set(checks["verdict"]) == set(claims.VERDICTS)
    assert (
        not checks[["published", "recomputed"]].apply(lambda c: c.str.contains("nan")).any().any()
    )


def test_without_runs_the_rows_say_what_is_missing(checks):
    assert claims.NO_PARTS in row(checks, "valid-heads-cross")["recomputed"]
    for key in ("pooled", "probes", "prompts", "lens-alignment"):
        assert claims.NO_RUN in row(checks, key)["recomputed"], key


def test_runs_fill_the_rows(figures):
    world = planted.separability_world("absent", pairs=200)
    runs = [part(HARMLESS, 1.0, -0.6), part(HELPFUL, -0.6, 1.0), world]
    table = claims.checks(figures, runs)
    assert "not computed" not in " ".join(
        row(table, key)["recomputed"]
        for key in ("valid-heads-cross", "pooled", "probes", "prompts", "lens-alignment")
    )
    assert "harm wins" in row(table, "valid-heads-cross")["recomputed"]
    # a run's results never change what the published figures are worth
    assert table["verdict"].equals(claims.checks(figures)["verdict"])


@pytest.mark.parametrize(
    ("key", "verdict", "says"),
    [
        ("armorm-score", claims.HOLDS, "88.97"),
        ("names", claims.FAILS, "13 of 19"),
        ("name-readability", claims.FAILS, "row 11 is beavertails-is_safe"),
        ("sample", claims.FAILS, "800 of 800"),
        ("hh-chance", claims.FAILS, "4 above and 5 below"),
        ("hh-helpfulness", claims.FAILS, "p = 6.3e-05"),
        ("hh-stars", claims.FAILS, "0.27 and 0.17"),
        ("geometry-gap", claims.FAILS, "0.320 with roundings"),
        ("type-a-valid", claims.FAILS, "14 at most"),
        ("bench-complexity", claims.HOLDS, "chance"),
        ("targeted", claims.UNTOLD, "p between 0.002 and 0.42"),
        ("lens-divergence", claims.ARTEFACT, "4.6% in 1, 54.9% in 5, 100.0% in 20"),
        ("lens-probes", claims.ARTEFACT, "0.25"),
        ("sarm-score", claims.HOLDS, "73.79"),
        ("overlap-gpt2-large", claims.ARTEFACT, "0.1000"),
        ("retention", claims.UNTOLD, "-4.9%"),
        ("rmsd", claims.HOLDS, "6 of 6 models (sign test p = 0.031)"),
    ],
)
def test_claims_get_the_verdict_that_their_figures_deserve(checks, key, verdict, says):
    found = row(checks, key)
    assert found["verdict"] == verdict and says in found["recomputed"]


def test_verdicts_follow_the_figures(figures):
    """Other figures, other verdicts: none is fixed where it can be computed."""
    given = copy.deepcopy(figures)
    given["audit"]["hh"]["rates"]["helpfulness"] = 0.49
    given["audit"]["geometry"]["gap"] = 0.2
    given["armorm"]["rewardbench"]["score"] = 91.0
    given["tension"]["rmsd"]["gpt2"] = [0.003, 0.002, 0.0025]
    given["sarm"]["rewardbench2"]["score"] = 75.0
    given["audit"]["type_a"]["valid"] = 12
    table = claims.checks(given)
    assert row(table, "hh-helpfulness")["verdict"] == claims.HOLDS
    assert row(table, "geometry-gap")["verdict"] == claims.HOLDS
    assert row(table, "armorm-score")["verdict"] == claims.FAILS
    assert row(table, "rmsd")["verdict"] == claims.FAILS
    assert row(table, "sarm-score")["verdict"] == claims.FAILS
    assert row(table, "type-a-valid")["verdict"] == claims.HOLDS
