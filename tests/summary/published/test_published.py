"""Published figures computed again: by hand, by simulation, and from another library."""

import copy
import math

import numpy as np
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from lib.analyses.cascade import stats as cascade
from lib.analyses.concepts import conflict, coverage, divergence
from lib.analyses.separability.worlds import separability_world
from lib.planted.worlds import make_run
from lib.summary.published import planted, stats

HARMLESS, HELPFUL = stats.PARTS


# ---- Names and rates ----


def test_names_are_matched_by_position(figures):
    table = stats.head_names(figures)
    wrong = table[~table["right"]]
    assert len(table) == 19 and list(wrong["position"]) == [6, *range(8, 20)]
    true = stats.true_names(figures)
    assert true["readability"] == "beavertails-is_safe"
    assert true["safety"] == "ultrafeedback-overall_score"
    assert true["harmlessness"] == "ultrafeedback-helpfulness"
    # honesty and truthfulness are swapped; readability is the label of the last row
    notes = table.set_index("called")["note"]
    assert (
        notes["honesty"] == "the label of row 9" and notes["truthfulness"] == "the label of row 8"
    )
    assert notes["readability"] == "the label of row 19" and notes["safety"] == ""


def test_rates_have_exact_tests_and_wilson_intervals(figures):
    table = stats.rates(figures)
    hh = table[table["subset"] == "hh-rlhf"].set_index("called")
    helpful = hh.loc["helpfulness"]
    assert helpful["wins"] == 343  # of 800: .42875
    tail = scipy_stats.binom.cdf(343, 800, 0.5)
    assert helpful["p"] == pytest.approx(2 * tail, rel=1e-9) and 6e-5 < helpful["p"] < 7e-5
    expected = proportion_confint(343, 800, method="wilson")
    assert (helpful["low"], helpful["high"]) == pytest.approx(expected)
    assert helpful["p_adjusted"] == pytest.approx(19 * helpful["p"])
    assert hh["p"][["safety", "harmlessness"]].round(2).tolist() == [0.27, 0.17]
    gpt = table[table["subset"] == "llmbar-adver-GPTInst"].iloc[0]
    assert (round(gpt["low"], 2), round(gpt["high"], 2)) == (0.4, 0.6)
    assert gpt["verdict"] == "inconclusive"


def test_more_than_one_head_is_above_chance_and_several_are_below(figures):
    table = stats.rates(figures)
    hh = table[table["subset"] == "hh-rlhf"].set_index("called")["verdict"]
    above = {"readability", "depth", "truthfulness", "honesty"}
    below = {"correctness", "helpfulness", "instruction_following", "verbosity", "complexity"}
    assert set(hh.index[hh.isin(["strong", "tracks"])]) == above
    assert set(hh.index[hh == "inverted"]) == below


def test_a_rate_that_no_count_gives_is_noted(figures):
    assert stats.reachable(0.429, 800) and stats.reachable(0.857, 35)
    assert not stats.reachable(0.850, 35)  # 29/35 is .829, 30/35 is .857
    given = copy.deepcopy(figures)
    given["audit"]["type_b"]["complexity"] = [0.850, 35]
    before, after = (
        stats.rates(f)["note"].str.contains("no whole number") for f in (figures, given)
    )
    assert not before.any()
    assert stats.rates(given)["called"][after].tolist() == ["complexity"]


def test_an_assumed_number_of_pairs_is_noted(figures):
    table = stats.rates(figures)
    assumed = table[table["note"] != ""]
    assert set(assumed["subset"]) == {stats.TARGETED} and len(assumed) == 5
    assert set(assumed["note"]) == {"number of pairs taken from TYPE B"}
    given = copy.deepcopy(figures)
    given["audit"]["helpfulness_targeted"]["rates"]["safety"] = 0.713  # 142.6 of 200
    table = stats.rates(given)
    both = table[(table["subset"] == stats.TARGETED) & (table["called"] == "safety")].iloc[0]
    assert both["note"] == (
        "no whole number of wins gives this rate; number of pairs taken from TYPE B"
    )


def test_paired_bounds_are_those_of_the_extreme_tables():
    low, high = stats.paired_p(144, 134, 200)

    def exact(only_first, only_second):
        counts = [[0, only_first], [only_second, 0]]
        return mcnemar(counts, exact=True).pvalue

    assert low == pytest.approx(exact(10, 0)) == pytest.approx(2 / 1024)
    assert high == pytest.approx(exact(66, 56))  # the first loses 56 in all
    assert stats.paired_p(134, 144, 200) == (low, high)
    assert stats.paired_p(5, 5, 5) == (1.0, 1.0)


# ---- Probes and correlations ----


def test_shares_turn_the_accuracy_formula_around(figures):
    for share in (0.0, 0.3, 0.94):
        accuracy = 1 - math.acos(math.sqrt(share)) / math.pi
        assert stats.share_of(accuracy) == pytest.approx(share, abs=1e-12)
    assert stats.share_of(0.4) == 0
    table = stats.probe_shares(figures).set_index("called")
    assert table["share"].round(2)[["engagement", "depth"]].tolist() == [0.94, 0.46]
    assert (table["low"] < table["share"]).all() and (table["share"] < table["high"]).all()


def test_pairs_have_their_true_names(figures):
    table = stats.rank_pairs(figures).set_index(["called", "other_called"])
    assert table.loc[("engagement", "relevance"), "head"] == "code-explanation"
    # swapped names still name the same pair
    assert not table.loc[("honesty", "truthfulness"), "renamed"]
    assert table["renamed"].sum() == 5 and table["same_source"].sum() == 7
    assert "beavertails-is_safe" not in set(table["head"]) | set(table["other"])


# ---- Geometry ----


def moments(x, y):
    slope, intercept = np.polyfit(x, y, 1)
    r2 = np.corrcoef(x, y)[0, 1] ** 2
    return slope, intercept, r2, math.sqrt(np.mean(x**2)), math.sqrt(np.mean(y**2))


@pytest.mark.parametrize("seed", range(20))
def test_no_regression_breaks_the_bounds(seed):
    generator = np.random.default_rng(seed)
    x = generator.normal(generator.uniform(-1, 1), generator.uniform(0.1, 1), 171)
    y = generator.uniform(-2, 2) * x + generator.normal(generator.uniform(-1, 1), 0.5, 171)
    slope, intercept, r2, gap, rms = moments(x, y)
    assert rms <= stats.largest_rms(slope, intercept, r2, gap) + 1e-9
    assert gap >= stats.smallest_gap(slope, intercept, r2, rms) - 1e-9


@pytest.mark.parametrize("gap", [0.01, 0.038, 0.0875, 0.3, 2.0])
@pytest.mark.parametrize("intercept", [0.273, -0.273])
def test_the_two_bounds_are_inverse_and_the_first_is_the_largest(gap, intercept):
    most = stats.largest_rms(1.213, intercept, 0.28, gap)
    assert stats.smallest_gap(1.213, intercept, 0.28, most) == pytest.approx(gap)
    m = np.linspace(-gap, gap, 20_001)
    grid = (intercept + 1.213 * m) ** 2 + 1.213**2 * (gap**2 - m**2) / 0.28
    assert most == pytest.approx(math.sqrt(grid.max()), abs=1e-6)


def test_the_bound_is_reached_by_some_regression():
    # all cosines equal in absolute value and sign: no spread, r on the line
    x = np.full(171, 0.038)
    assert stats.largest_rms(1.213, 0.273, 0.28, 0.038) == pytest.approx(0.273 + 1.213 * x[0])
    assert stats.smallest_gap(1.213, 0.273, 0.28, 0.2) == 0
    assert stats.smallest_gap(2.0, 0.1, 1.0, 0.5) == pytest.approx(0.2)


def test_the_published_figures_contradict_each_other(figures):
    table = stats.geometry_bounds(figures).set_index("quantity")
    most, least = table.loc["largest RMS correlation"], table.loc["smallest RMS cosine"]
    assert round(most["value"], 3) == 0.319 and round(most["high"], 3) == 0.320
    assert most["high"] < most["published"] == 0.454
    assert round(least["value"], 2) == 0.14 and least["low"] > least["published"] == 0.038
    # if of absolute values: (.454 − .273)/1.213
    assert table.loc["mean cosine", "value"] == pytest.approx(0.181 / 1.213)
    assert table.loc["RMS cosine of the picture", "low"] > least["high"]


def test_random_subspaces_are_nearly_orthogonal(figures):
    table = stats.random_angles(figures, draws=3, seed=1).set_index("against")
    assert table.loc[19, "smallest"] > 80 and table.loc[19, "largest"] > 89
    generator = np.random.default_rng(5)
    frames = [np.linalg.qr(generator.standard_normal((4096, 19)))[0] for _ in range(2)]
    cosines = np.linalg.svd(frames[0].T @ frames[1], compute_uv=False)
    mean = np.degrees(np.arccos(cosines)).mean()
    assert table.loc[19, "mean"] == pytest.approx(mean, abs=0.5)


# ---- Alignment tension ----


def test_overlaps_follow_from_single_models(figures):
    table = stats.overlaps(figures).set_index("sets")
    both = table.loc["helpful and harmless"]
    assert both["recomputed"] == pytest.approx(2.8618 / 6) and round(both["without"], 3) == 0.552
    implied = table.loc["mixed and harmless"]
    assert implied["implied"] == pytest.approx(6 * 0.4992 - 5 * 0.579)
    assert implied["low"] < 0.1 < implied["high"]


def test_clamping_takes_everything_where_few_are_positive():
    importance = np.asarray([-3.0, -2, -1, -1, -1, -1, -1, -1, -1, 4])
    assert stats.top_share(importance, 0.2, capped=False).all()
    capped = stats.top_share(importance, 0.2, capped=True)
    assert np.flatnonzero(capped).tolist() == [2, 9]
    plenty = np.arange(1.0, 11)
    assert np.flatnonzero(stats.top_share(plenty, 0.1, capped=False)).tolist() == [9]
    assert stats.jaccard(np.ones(10, bool), capped) == 0.2


def test_the_overlap_with_everything_is_the_size_of_the_other_set(figures):
    assert stats.clamped_overlap(figures) == (184_320, 0.1)


def test_accuracies_where_looks_mislead_are_tested_over_backbones_and_subsets(figures):
    table = stats.looks(figures)
    assert len(table) == 3 * 6 * (4 + 1)
    helpful = table[table["model"] == "helpful"]
    here = helpful[helpful["backbone"] == "SmolLM2-135M"].set_index("subset")
    assert here["wins"].tolist() == [26, 15, 16, 7, 64] and here.loc["all", "n"] == 319
    assert here.loc["all", "rate"] == pytest.approx(100 * 64 / 319)
    # 16 or fewer of 47, twice
    exact = 2 * sum(math.comb(47, k) for k in range(17)) / 2**47
    assert here.loc["llmbar-adver-GPTOut", "p"] == pytest.approx(exact)
    one, together = (helpful[(helpful["subset"] == "all") == all_of] for all_of in (False, True))
    # Holm: the smallest of 24, or of 6, is so many times its own
    for rows, many in ((one, 24), (together, 6)):
        smallest = rows.loc[rows["p"].idxmin()]
        assert len(rows) == many
        assert smallest["p_adjusted"] == pytest.approx(many * smallest["p"])


# ---- Runs and planted worlds ----


def test_heads_that_cross_over_are_found(part):
    runs = [part(HARMLESS, 1.0, -0.6), part(HELPFUL, -0.6, 1.0)]
    table = stats.crossover(runs)
    assert len(table) == 4
    crossed = stats.crossed(table).set_index("head")
    assert crossed.loc["harm", "part"] == HARMLESS and crossed.loc["help", "part"] == HELPFUL
    assert (crossed["own"] > 0.6).all() and (crossed["high"] < 0.5).all()


def test_runs_that_lack_a_part_or_a_head_cross_nothing(part):
    assert stats.crossover([part(HARMLESS, 1.0, 1.0)]).empty
    nothing = stats.crossover([part(HARMLESS, 0, 0), part(HELPFUL, 0, 0)])
    assert stats.crossed(nothing).empty
    assert stats.crossed(stats.crossover([])).empty


def test_unequal_and_cut_responses_are_counted(figures):
    tokens = [10, 10, 1020, 4, 30, 20, 7, 7]  # prompts have 10 tokens
    run = make_run(np.arange(16.0).reshape(8, 2), tokens=tokens)
    table = stats.lengths(figures, [run])
    assert table["cut"].tolist() == [1 / 8]
    assert table["better_longer"].tolist() == [0.5] and table["worse_longer"].tolist() == [0.0]


def test_folds_that_part_a_prompt_know_its_answer():
    """Both responses to a prompt have its state and its score, which nothing else tells."""
    generator = np.random.default_rng(0)
    state = np.repeat(generator.standard_normal((120, 60)), 2, axis=0)
    score = np.repeat(generator.standard_normal((120, 1)), 2, axis=0)
    noise = 1e-3 * generator.standard_normal(state.shape)
    run = make_run(score, heads=["h"], hidden=state + noise, name="d")
    table = stats.folds_again([run]).iloc[0]
    assert table["accuracy"] > 0.6
    assert abs(table["held_out"] - 0.5) < 3 * 0.5 / math.sqrt(120)
    assert list(stats.folds_again([run])) == ["dataset", "head", "accuracy", "held_out"]


def test_where_prompts_have_nothing_in_common_folds_change_little():
    world = separability_world("absent", pairs=400)
    table = stats.folds_again([world], components=6)
    assert len(table) == 2
    assert (table["accuracy"] - table["held_out"]).abs().max() < 0.03


def test_runs_without_states_or_with_few_prompts_have_no_folds():
    without = make_run(np.arange(40.0)[:, None], hidden=np.full((40, 3), np.nan))
    small = separability_world("absent", pairs=4)
    assert stats.folds_again([without, small]).empty and stats.folds_again([]).empty


def test_directions_of_nothing_are_called_as_often_as_random_ones_meet(figures):
    """In d dimensions (1 + cos)/2 of two random directions is Beta((d − 1)/2, (d − 1)/2)."""
    generator = np.random.default_rng(5)
    hidden = generator.standard_normal((4000, 20))
    runs = [
        make_run(np.zeros((4000, 1)), hidden=hidden, name="round"),
        make_run(np.zeros((40, 1)), hidden=np.arange(40.0)[:, None] ** 2, name="line"),
        make_run(np.zeros((40, 1)), name="without states"),
        make_run(np.zeros((14, 1)), hidden=hidden[:14], name="too few"),
    ]
    table = stats.conflicts(figures, runs).set_index("dataset")["share"]
    expected = 2 * scipy_stats.beta.cdf(0.4, 9.5, 9.5)
    assert table["round"] == pytest.approx(expected, abs=3 * math.sqrt(0.24 / 2000))
    assert table["line"] == 1 and len(table) == 2
    assert list(stats.conflicts(figures, [])) == ["dataset", "share"]


def test_thresholds_of_the_rooms_are_the_published_ones(figures):
    given = figures["reward_lens"]
    assert given["distortion"]["high"] == coverage.HIGH
    assert min(given["distortion"]["probes"].values()) <= coverage.FEW
    assert (
        tuple(given["conflict"][name] for name in ("aligned", "orthogonal", "conflict"))
        == conflict.PUBLISHED
    )
    risk = given["cascade_risk"]
    assert tuple(risk["weights"]) == cascade.WEIGHTS and risk["high"] == cascade.LEAST_RISK
    assert given["cascade_points"] == cascade.TWO
    assert given["divergence"]["threshold"] == divergence.THRESHOLD


def test_planted_worlds_show_what_the_methods_do(figures):
    found = planted.planted_evidence(figures)
    assert found["probe"] > 0.7  # the concept is absent
    assert found["probe"] == pytest.approx(found["probe_predicted"], abs=0.03)
    assert found["family"] == pytest.approx(1 - 0.95**19)
    assert found["skewed"] > 0.9
    assert found["between"] > 0.6 and found["within"] < -0.6 and abs(found["pooled"]) < 0.1
    assert found["gap"] > 0.3 and found["gap_again"] < 1e-6 and found["moved"] < 1e-5
    assert found["cascade"] == pytest.approx(1)
    assert 0.4 < found["distortion"] < 0.6
    assert list(found["separability"].values()) == pytest.approx([1, 1])
