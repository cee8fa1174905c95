"""Every claim has a row, and its verdict follows from the published figures."""

import copy

import numpy as np
import pytest

from lib.analyses.separability.worlds import separability_world
from lib.data.published import figures as read
from lib.planted.worlds import make_run
from lib.summary.published import claims
from lib.summary.published.stats import PARTS

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
    return make_run(score, heads=["harm", "help"], name=dataset)


def test_every_point_and_every_block_has_a_claim(figures, checks):
    points = {p for text in checks["points"] for p in text.split(", ") if p}
    assert points == {str(k) for k in range(1, 13)}
    systems = {claims.ARMORM, claims.AUDIT, claims.LENS, claims.SARM, claims.TENSION}
    assert set(checks["system"]) == systems
    assert checks["key"].is_unique and set(checks["verdict"]) == set(claims.VERDICTS)
    assert (
        not checks[["published", "recomputed"]].apply(lambda c: c.str.contains("nan")).any().any()
    )


def test_without_runs_the_rows_say_what_is_missing(checks):
    assert claims.NO_PARTS in row(checks, "valid-heads-cross")["recomputed"]
    for key in ("pooled", "probes", "folds", "prompts", "lens-alignment"):
        assert claims.NO_RUN in row(checks, key)["recomputed"], key


def test_runs_fill_the_rows(figures):
    world = separability_world("absent", pairs=200)
    runs = [part(HARMLESS, 1.0, -0.6), part(HELPFUL, -0.6, 1.0), world]
    table = claims.checks(figures, runs)
    assert "not computed" not in " ".join(
        row(table, key)["recomputed"]
        for key in ("valid-heads-cross", "pooled", "probes", "folds", "prompts", "lens-alignment")
    )
    assert "harm wins" in row(table, "valid-heads-cross")["recomputed"]
    # a run's results change no verdict, but that of probes where they defy the prediction
    assert table["verdict"].equals(claims.checks(figures)["verdict"])


@pytest.mark.parametrize(
    ("key", "verdict", "says"),
    [
        ("armorm-score", claims.HOLDS, "88.97"),
        ("names", claims.FAILS, "13 of 19"),
        ("name-readability", claims.FAILS, "row 11 is beavertails-is_safe"),
        ("sample", claims.FAILS, "800 of 800"),
        ("hh-valid", claims.UNTOLD, "1 of the 12 rates given does; 7 were not given"),
        ("hh-chance", claims.FAILS, "4 above and 5 below"),
        ("hh-helpfulness", claims.FAILS, "p = 6.3e-05"),
        ("hh-stars", claims.FAILS, "0.27 and 0.17"),
        ("geometry-gap", claims.FAILS, "0.320 with roundings"),
        ("geometry-picture", claims.FAILS, "which the regression allows"),
        ("geometry-angles", claims.FAILS, "with 19 dimensions"),
        ("geometry-pairs", claims.UNTOLD, "171 pairs of 19 heads"),
        ("folds", claims.FAILS, claims.NO_RUN),
        ("probes", claims.ARTEFACT, "R² 0.94 and 0.46"),
        ("prompts", claims.FAILS, "2 BOS tokens"),
        ("pooled", claims.UNTOLD, "two planted heads"),
        ("bench-valid", claims.UNTOLD, "between 1 and 17 by the rule, from the 3 rates given"),
        ("bench-safety", claims.FAILS, "p < 1e-12"),
        ("type-b-others", claims.UNTOLD, "of 82"),
        ("type-b-verbosity", claims.UNTOLD, "no length baseline"),
        ("type-a-valid", claims.FAILS, "14 at most"),
        ("bench-complexity", claims.HOLDS, "chance"),
        ("targeted", claims.UNTOLD, "if these are the same 200 pairs, p between 0.002 and 0.42"),
        ("lens-agreement", claims.UNTOLD, "no interval: what was correlated over the 695 pairs"),
        ("lens-alignment", claims.UNTOLD, "the last token of a longer target is out of reach"),
        ("lens-cascade", claims.ARTEFACT, "of 2 random points in 100 draws: 1.000"),
        ("overlap-mixed-harmless", claims.ARTEFACT, "have been 0.100 [0.097, 0.103]"),
        ("overlap-mixed-helpful", claims.UNTOLD, "have been 0.299 [0.297, 0.302]"),
        ("looks", claims.HOLDS, "neighbor 26 of 134 (1.8e-12), GPTInst 15 of 92"),
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
    given["audit"]["hh"]["n"] = 4000  # 800 pairs can't tell .05 from one half
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
    assert row(table, "type-a-valid")["verdict"] == claims.UNTOLD  # no longer contradicted


def change(figures, *path, to):
    given = copy.deepcopy(figures)
    place = given
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = to
    return given


@pytest.mark.parametrize(
    ("path", "to", "key", "verdict", "says"),
    [
        (("reward_lens", "cascade_points"), 20, "lens-cascade", claims.UNTOLD, "of 20 random"),
        # 2 · 2⁻⁵ = .0625 can't reach .05, 2 · 2⁻⁶ = .03125 can
        (("reward_lens", "probe_pairs"), [1, 5], "lens-probes", claims.ARTEFACT, "pairs is 0.062"),
        (("reward_lens", "probe_pairs"), [1, 6], "lens-probes", claims.UNTOLD, "pairs is 0.031"),
        (("audit", "geometry", "random_angle"), 87, "geometry-angles", claims.HOLDS, "at 87°"),
        (("audit", "geometry", "random_angle"), 95, "geometry-angles", claims.FAILS, "at 95°"),
        (
            ("audit", "disentanglement", "mean_abs"),
            0.9,
            "geometry-picture",
            claims.FAILS,
            "which the regression rules out",
        ),
        (
            ("cosines",),
            {"tolerance": 0.008, "mean": 0.01, "rms": 0.04, "largest": 0.3},
            "geometry-picture",
            claims.HOLDS,
            "which the regression rules out",
        ),
        (("audit", "rewardbench", "valid"), 18, "bench-valid", claims.FAILS, "between 1 and 17"),
        (("audit", "rewardbench", "valid"), 0, "bench-valid", claims.FAILS, "between 1 and 17"),
        (("audit", "hh", "valid"), 0, "hh-valid", claims.FAILS, "1 of the 12"),
        # 4 of the 12 given are above, and 7 were not given: 4 to 11
        (("audit", "hh", "valid"), 4, "hh-chance", claims.UNTOLD, "4 above"),
        # .47 of 800 has [.436, .505]: no chance, but no noise shown either
        (
            ("audit", "hh", "rates", "helpfulness"),
            0.47,
            "hh-helpfulness",
            claims.FAILS,
            "0.470 [0.436, 0.505]",
        ),
        # 6 · .4992 − 5 · .56 = .1952
        (
            ("tension", "overlap_without_gpt2_large", "mixed_harmless"),
            0.56,
            "overlap-mixed-harmless",
            claims.UNTOLD,
            "have been 0.195",
        ),
        # 6 · .6074 − 5 · .709 = .0994
        (
            ("tension", "overlap_without_gpt2_large", "mixed_helpful"),
            0.709,
            "overlap-mixed-helpful",
            claims.ARTEFACT,
            "have been 0.099",
        ),
        (
            ("tension", "overlap_by_model", "gpt2-large"),
            0.4,
            "overlap-gpt2-large",
            claims.UNTOLD,
            "0.4000",
        ),
        (
            ("tension", "smollm2_135m", "helpful", "llmbar-adver-GPTOut"),
            64.04,
            "looks",
            claims.FAILS,
            "helpful 16 to 64",
        ),
        # 19 of 47 are below one half, but not beyond chance
        (
            ("tension", "smollm2_135m", "helpful", "llmbar-adver-GPTOut"),
            40.43,
            "looks",
            claims.UNTOLD,
            "GPTOut 19 of 47 (0.24)",
        ),
        # two accuracies nearer to each other than a planted probe is to its prediction
        (
            ("audit", "probes"),
            {"engagement": [0.9, 0.01], "depth": [0.8999, 0.01]},
            "probes",
            claims.UNTOLD,
            "R² 0.90 and 0.90",
        ),
    ],
)
def test_a_changed_figure_changes_the_verdict(figures, path, to, key, verdict, says):
    found = row(claims.checks(change(figures, *path, to=to)), key)
    assert found["verdict"] == verdict and says in found["published"] + found["recomputed"]


def test_fits_are_not_called_heads(figures):
    """Two heads on two data sets are four fits of two heads."""
    worlds = [separability_world("absent", pairs=200, seed=seed) for seed in (0, 1)]
    runs = [world.assign_attrs(dataset=f"d{k}") for k, world in enumerate(worlds)]
    found = row(claims.checks(figures, runs), "probes")["recomputed"]
    assert "in 4 fits at hand (heads: 2, data sets: 2) probes lie" in found


def test_probes_that_defy_the_prediction_change_the_verdict(figures):
    """Rare spikes carry nearly all of a score's variance, and nothing about its median: kept
    variance then predicts far more than any probe can find.
    """
    generator = np.random.default_rng(3)
    hidden = generator.standard_normal((400, 60))
    hidden[:, 0] = 100 * (generator.random(400) < 0.02)
    hidden[:, 59] *= 0.1  # dropped by 50 components
    score = np.column_stack([hidden[:, 0] + hidden[:, 59], hidden[:, 1]])
    run = make_run(score, heads=["spikes", "plain"], hidden=hidden, name="d")
    found = row(claims.checks(figures, [run]), "probes")
    assert found["verdict"] == claims.UNTOLD
    assert "(largest: spikes on d)" in found["recomputed"]


def test_only_pairs_whose_target_is_longer_are_counted(figures):
    tokens = [9, 9, 20, 5, 30, 20, 7, 8]
    run = make_run(np.arange(8.0)[:, None], tokens=tokens, name="d")
    found = row(claims.checks(figures, [run]), "lens-alignment")["recomputed"]
    assert "50% (into the preferred response) and 25% (into the other) on d" in found


def test_a_count_is_confirmed_only_when_everything_was_published(figures):
    """All 19 rates given, and one reaches the share: only then does the claim hold."""
    rates = dict.fromkeys(figures["audit"]["names"], 0.5) | figures["audit"]["hh"]["rates"]
    given = change(figures, "audit", "hh", "rates", to=rates)
    assert row(claims.checks(given), "hh-valid")["verdict"] == claims.HOLDS


def test_small_p_are_not_told_apart():
    assert claims.p_text(0.0) == claims.p_text(1e-13) == "< 1e-12"
    assert claims.p_text(0.271) == "0.27"
