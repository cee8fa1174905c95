"""Protocols: what is the heads', what the evaluation's, and what is nothing but sampling."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.multitest import multipletests

from lib.analyses.protocols import stats, words
from lib.analyses.protocols.worlds import cell_logits, protocol_world
from lib.errors import DataError
from lib.planted.worlds import from_gaps, make_run


def run_of(wins: dict[str, int], n: int, name: str, **given):
    """A run with the given wins of each head out of n, wins first."""
    gaps = np.column_stack([np.repeat([1.0, -1.0], [w, n - w]) for w in wins.values()])
    return from_gaps(gaps, name=name, heads=list(wins), **given)


def parts(runs, scale="logit", **options):
    table = stats.variance_components(runs, **({"draws": 200} | options))
    return table[table["scale"] == scale].set_index("component")


# ---- The matrix ----


def test_each_run_is_a_protocol_with_its_kind():
    runs = [
        run_of({"a": 6, "b": 3}, 10, "hh-rlhf/helpful-base"),
        run_of({"b": 8, "a": 5}, 20, "llmbar"),
    ]
    table = stats.protocol_matrix(runs)
    assert table["kind"].tolist() == ["holistic"] * 2 + ["structured"] * 2
    rate = table.set_index(["protocol", "head"])["win_rate"]
    assert rate["llmbar", "a"] == 5 / 20 and rate["llmbar", "b"] == 8 / 20
    assert table["logit"][0] == pytest.approx(np.log(6.5 / 4.5))
    assert ((table["low"] < table["win_rate"]) & (table["win_rate"] < table["high"])).all()


def test_the_subsets_of_a_single_run_are_protocols():
    run = run_of({"a": 6}, 10, "rm-bench", subset=["x"] * 5 + ["y"] * 5)
    table = stats.protocol_matrix([run])
    assert table[["protocol", "n", "wins"]].values.tolist() == [["x", 5, 5], ["y", 5, 1]]


def test_a_dataset_whose_criteria_each_vary_a_thing_is_no_protocol_beside_others():
    whole = [run_of({"a": 6}, 10, "llmbar"), run_of({"a": 5}, 20, "xstest")]
    targeted = run_of({"a": 1}, 4, "stimuli/controlled", subset=["x", "x", "y", "y"])
    assert stats.left_out([*whole, targeted]) == ["stimuli/controlled"]
    table = stats.protocol_matrix([targeted, *whole])
    pd.testing.assert_frame_equal(table, stats.protocol_matrix(whole))
    assert set(stats.longer([targeted, *whole])["protocol"]) == {"llmbar", "xstest"}


def test_without_any_other_its_criteria_are_the_protocols():
    one = run_of({"a": 1}, 4, "stimuli/controlled", subset=["x", "x", "y", "y"])
    other = run_of({"a": 1}, 4, "stimuli/probes", subset=["x", "x", "z", "z"])
    assert stats.left_out([one, other]) == []
    assert stats.protocol_matrix([one])["protocol"].tolist() == ["x", "y"]
    assert stats.protocol_matrix([one, other])["protocol"].tolist() == [
        *("stimuli/controlled: x", "stimuli/controlled: y"),
        *("stimuli/probes: x", "stimuli/probes: z"),
    ]


def test_only_heads_that_all_runs_have_are_compared():
    runs = [run_of({"a": 6, "b": 3}, 10, "llmbar"), run_of({"b": 6}, 10, "xstest")]
    assert stats.protocol_matrix(runs)["head"].tolist() == ["b", "b"]


def test_runs_that_can_not_be_compared_are_refused():
    a, b = run_of({"a": 1}, 4, "llmbar"), run_of({"b": 1}, 4, "xstest")
    with pytest.raises(DataError, match="at least one run"):
        stats.protocol_matrix([])
    with pytest.raises(DataError, match="a head that all runs have"):
        stats.protocol_matrix([a, b])
    with pytest.raises(DataError, match="llmbar twice"):
        stats.protocol_matrix([a, a])
    b.attrs["model"] = "another"
    with pytest.raises(DataError, match="one model"):
        stats.protocol_matrix([a, b])


def test_broken_and_tied_heads_are_named():
    gaps = np.ones((10, 3))
    gaps[0, 1], gaps[:, 2] = np.nan, 0
    table = stats.protocol_matrix([from_gaps(gaps, name="llmbar")])
    assert table["note"].tolist() == ["", "scores that are not numbers", "all comparisons tie"]
    assert table["win_rate"].isna().tolist() == [False, True, False]


# ---- Analysis of variance ----


def test_mean_squares_are_those_of_statsmodels():
    y = np.random.default_rng(2).standard_normal((4, 3))
    frame = pd.DataFrame(
        {"y": y.ravel(), "h": np.repeat(list("abcd"), 3), "p": np.tile(list("xyz"), 4)}
    )
    mean = anova_lm(ols("y ~ h + p", frame).fit())
    mean = mean["sum_sq"] / mean["df"]
    found = stats.anova(y)
    assert found[2] == pytest.approx(mean["Residual"])
    assert found[0] == pytest.approx((mean["h"] - mean["Residual"]) / 3)
    assert found[1] == pytest.approx((mean["p"] - mean["Residual"]) / 4)
    assert stats.anova(np.stack([y, 2 * y]))[1] == pytest.approx(4 * found)


def test_sampling_noise_is_the_expectation_of_the_components_under_it():
    # For y = noise alone with covariance S, E of each mean square is a trace.
    generator = np.random.default_rng(7)
    heads, count, universe = 3, 2, 12
    where = [np.arange(8), np.arange(4, 12)]  # four prompts are shared
    influence = [generator.standard_normal((8, heads)) for _ in where]
    full = np.zeros((universe, heads, count))
    for p, rows in enumerate(where):
        full[rows, :, p] = influence[p]
    flat = full.reshape(universe, -1)
    covariance = flat.T @ flat

    def trace(rows, columns, free):
        projection = np.kron(rows, columns)
        return np.trace(projection @ covariance) / free

    mean_h, mean_p = np.full((heads, heads), 1 / heads), np.full((count, count), 1 / count)
    rest_h, rest_p = np.eye(heads) - mean_h, np.eye(count) - mean_p
    ms_int = trace(rest_h, rest_p, (heads - 1) * (count - 1))
    ms_head, ms_prot = trace(rest_h, mean_p, heads - 1), trace(mean_h, rest_p, count - 1)
    expected = [(ms_head - ms_int) / count, (ms_prot - ms_int) / heads, ms_int]
    assert stats.noise(influence, where, universe) == pytest.approx(expected)


def test_without_shared_prompts_noise_is_the_formula_of_the_methods():
    generator = np.random.default_rng(7)
    where = [np.arange(10), np.arange(10, 30)]
    influence = [generator.standard_normal((len(rows), 3)) for rows in where]
    blocks = np.stack([part.T @ part for part in influence])
    v = np.diagonal(blocks, axis1=1, axis2=2).mean()
    c = blocks[:, ~np.eye(3, dtype=bool)].mean()
    assert stats.noise(influence, where, 30) == pytest.approx([0, c, v - c])


def test_components_by_hand_on_the_win_rate_scale():
    # Rates .8 .6 | .4 .6 of 100 each: MS_head = 2(.1² + .1²) = .04, MS_prot = 0, and all four
    # cells lie .1 off, so MS_int = .04.
    runs = [
        run_of({"a": 80, "b": 40}, 100, "llmbar"),
        run_of({"a": 60, "b": 60}, 100, "xstest", prompt=np.arange(100, 200)),
    ]
    found = parts(runs, "win rate")
    assert found["naive"].tolist() == pytest.approx([0, -0.02, 0.04, 0.02])
    v = (0.8 * 0.2 + 0.4 * 0.6 + 0.6 * 0.4 * 2) / 4 / 99
    # Wins come first: min(80, 40)/100 and 60/100 are won by both.
    c = ((0.4 - 0.8 * 0.4) + (0.6 - 0.6 * 0.6)) / 2 / 99
    assert found["sampling"].tolist()[:3] == pytest.approx([0, c, v - c])
    assert found["estimate"].tolist()[2] == pytest.approx(0.04 - (v - c))


def test_the_heads_part_is_the_mean_covariance_of_two_protocols():
    y = np.random.default_rng(3).standard_normal((6, 4))
    over_heads, over_protocols = np.cov(y.T), np.cov(y)
    head, protocol, _ = stats.anova(y)
    assert head == pytest.approx(over_heads[~np.eye(4, dtype=bool)].mean())
    assert protocol == pytest.approx(over_protocols[~np.eye(6, dtype=bool)].mean())


def opposed():
    """Two heads that trade places: rates .8 .2 | .2 .8, of 100 each."""
    return [
        run_of({"a": 80, "b": 20}, 100, "llmbar"),
        run_of({"a": 20, "b": 80}, 100, "xstest", prompt=np.arange(100, 200)),
    ]


def test_estimates_and_shares_keep_their_sign():
    """MS_head = MS_prot = 0 and MS_int = 4 · .3² = .36, so both parts are -.18 before noise."""
    found = parts(opposed(), "win rate")
    assert found["naive"].tolist() == pytest.approx([-0.18, -0.18, 0.36, 0])
    assert found.loc["head", "estimate"] == pytest.approx(-0.18)
    # of .8 and .2 wins, those of both come first: covariance .2 - .16 under each protocol
    v, c = 0.16 / 99, 0.04 / 99
    total = -0.18 - 0.18 - c + 0.36 - (v - c)
    assert found.loc["total", "estimate"] == pytest.approx(total)
    assert total < 0 and found["share"].isna().all()
    # with a third protocol on which both win .5 the total is above 0
    third = run_of({"a": 50, "b": 50}, 100, "rm-bench", prompt=np.arange(200, 300))
    found = parts([*opposed(), third], "win rate")
    assert found.loc["head", "high"] < 0 and found.loc["head", "below"]
    estimate = found["estimate"]
    share = found["share"]
    assert (
        share["head"] == pytest.approx(estimate["head"] / estimate["total"]) and share["head"] < 0
    )
    assert share["interaction"] > 1 and share[:3].sum() == pytest.approx(1)
    assert found.loc["head", ["share_low", "share_high"]].notna().all()


# ---- With a protocol left out ----


def test_each_protocol_is_left_out_once_and_the_estimates_are_those_of_the_rest():
    runs = protocol_world("main", heads=3, protocols=4, prompts=60, shared=True)
    found = stats.leave_one_out(runs, draws=50)
    assert found["without"].drop_duplicates().tolist() == [run.attrs["dataset"] for run in runs]
    for p, run in enumerate(runs):
        rest = stats.variance_components(runs[:p] + runs[p + 1 :], draws=50)
        own = found[found["without"] == run.attrs["dataset"]].reset_index(drop=True)
        for column in ("scale", "component", "protocols"):
            assert own[column].tolist() == rest[column].tolist()
        for column in ("estimate", "naive", "sampling"):
            assert own[column].to_numpy() == pytest.approx(rest[column].to_numpy(), abs=1e-12)
    assert stats.leave_one_out(runs[:2], draws=10).empty


def test_an_interaction_of_one_protocol_does_not_last():
    runs = protocol_world("one protocol", prompts=400, sd=0.7)
    assert parts(runs).loc["interaction", "found"]
    found = stats.leave_one_out(runs, draws=200).query("scale == 'logit'")
    found = found[found["component"] == "interaction"].set_index("without")["found"]
    assert not found["file:planted-0"] and found.drop("file:planted-0").all()


def test_what_a_change_of_sides_hangs_on():
    rows = [
        *(("a", "p", 0.7, 0.01), ("a", "q", 0.3, 0.01), ("a", "r", 0.6, 0.01)),  # below at q alone
        *(("b", "p", 0.8, 0.01), ("b", "q", 0.3, 0.01), ("b", "r", 0.4, 0.3)),  # p and q alone
        *(("c", "p", 0.7, 0.01), ("c", "q", 0.6, 0.01), ("c", "r", 0.4, 0.2)),  # no change
        *(("d", "p", 0.7, 0.01), ("d", "q", 0.6, 0.01), ("d", "r", 0.4, 0.01), ("d", "s", 0.3, 0)),
    ]
    table = pd.DataFrame(rows, columns=["head", "protocol", "win_rate", "p_adjusted"])
    found = stats.changing(table).set_index("head")
    assert found["needs"].to_dict() == {"a": ["q"], "b": ["p", "q"], "d": []}
    assert table.loc[found.loc["a", ["best", "worst"]], "protocol"].tolist() == ["p", "q"]
    table = table.assign(low=0.1, high=0.9)
    assert words.answer(table) == (
        "3 of 4 heads go with the labels of one protocol and against those of another (corrected "
        "by Holm over 13 cells as one family); 1 of these is shown whichever protocol is left out "
        "(without q 1 is left, without p 2)."
    )
    ends = [sentence.partition("; ")[2] for sentence in words.crossing(table)]
    assert ends == [
        "not shown without q.",
        "not shown without p nor without q.",
        "shown whichever protocol is left out.",
    ]


def component(estimate, low, high, **given):
    row = {"scale": "logit", "estimate": estimate, "low": low, "high": high, "mde": 0.1}
    return row | {"found": False, "below": False, "naive_share": 1.0, "note": ""} | given


def test_an_estimate_below_zero_is_no_zero():
    rows = [
        component(-0.2, -0.3, -0.1, component="head", below=True),
        component(-0.2, -0.3, -0.1, component="protocol"),
        component(0.5, 0.4, 0.6, component="interaction", found=True),
    ]
    interaction, protocol, head = words._parts(pd.DataFrame(rows))
    assert ": below 0 (variance -0.200 [-0.300, -0.100] in log odds), so" in head
    assert "win more under one protocol win less under another" in head
    assert ": not shown" in protocol and "below 0 there but not in win rates" in protocol
    assert ": shown (variance +0.500 [+0.400, +0.600]" in interaction


def test_what_becomes_of_a_component_is_told_with_the_protocol_left_out():
    whole = pd.DataFrame(
        [component(0.5, 0.4, 0.6, component=c, found=True) for c in stats.COMPONENTS]
    )
    without = pd.DataFrame(
        [
            component(size, size - 0.1, size + 0.1, component=c, found=size > 0.1, without=out)
            for out, size in (("p", 0.05), ("q", 0.6), ("r", 0.4))
            for c in stats.COMPONENTS
        ]
    )
    without.loc[without["component"] == "head", "found"] = True
    interaction, _, head = words.lasting(whole, without)
    assert interaction == (
        "The interaction: shown with all protocols, but not shown without p (+0.050 [-0.050, "
        "+0.150])."
    )
    assert head == (
        "Differences between heads: shown whichever protocol is left out (a variance from +0.050 "
        "[-0.050, +0.150] without p to +0.600 [+0.500, +0.700] without q)."
    )
    assert words.lasting(whole, without.head(0)) == []


# ---- Planted worlds ----


def worlds(count, **options):
    return [
        stats.variance_components(protocol_world(seed=seed, **options), draws=200, seed=seed)
        for seed in range(count)
    ]


def gather(tables, column, scale="logit"):
    return np.stack([table.loc[table["scale"] == scale, column].to_numpy() for table in tables])


@pytest.fixture(scope="module")
def zero():
    return worlds(40)


def test_nothing_is_found_in_the_zero_world_where_the_naive_shares_go_to_the_interaction(zero):
    naive = gather(zero, "naive_share")[:, 2].mean()
    assert 0.6 < naive < 0.9
    for scale in stats.SCALES:
        estimate = gather(zero, "estimate", scale)
        error = estimate.std(axis=0, ddof=1) / np.sqrt(len(zero))
        assert (np.abs(estimate.mean(axis=0)) < 3 * error).all()
    found = gather(zero, "found").astype(bool)[:, :3].any(axis=1).sum()
    assert scipy_stats.binomtest(int(found), len(zero)).proportion_ci(0.99).low <= 0.06


def test_no_shares_where_the_corrected_total_is_not_above_zero(zero):
    total = gather(zero, "estimate")[:, 3]
    assert (total <= 0).any() and (total > 0).any()
    shares = gather(zero, "share")[:, :3]
    assert np.isnan(shares[total <= 0]).all()
    bounds = gather(zero, "share_low")[:, :3]
    assert np.isnan(bounds[gather(zero, "low")[:, 3] <= 0]).all()
    assert shares[total > 0].sum(axis=1) == pytest.approx(np.ones((total > 0).sum()))


@pytest.mark.parametrize("shared", [False, True])
def test_main_effects_are_found_and_no_interaction(shared):
    tables = worlds(12, kind="main", shared=shared)
    found = gather(tables, "found").astype(bool)
    assert found[:, 0].mean() > 0.9 and found[:, 1].mean() > 0.9
    assert scipy_stats.binomtest(int(found[:, 2].sum()), 12).proportion_ci(0.99).low <= 0.06
    assert gather(tables, "estimate").mean(axis=0)[:2] == pytest.approx([0.25, 0.25], abs=0.06)


def test_an_interaction_is_found_and_its_interval_holds_the_truth():
    tables = worlds(25, kind="interaction")
    assert gather(tables, "found").astype(bool)[:, 2].mean() > 0.9
    assert gather(tables, "estimate")[:, 2].mean() == pytest.approx(0.25, abs=0.03)
    low, high = gather(tables, "low")[:, 2], gather(tables, "high")[:, 2]
    covered = int(((low < 0.25) & (high > 0.25)).sum())
    assert scipy_stats.binomtest(covered, 25).proportion_ci(0.99).high >= 0.93


def test_planted_cells_have_the_components_they_are_named_for():
    generator = np.random.default_rng(0)
    assert stats.anova(cell_logits("main", 6, 5, 0.5, generator)) == pytest.approx([0.25, 0.25, 0])
    assert stats.anova(cell_logits("interaction", 6, 5, 0.5, generator))[2] == pytest.approx(0.25)


def test_repeated_comparisons_of_a_prompt_are_no_new_evidence():
    once = protocol_world("main", prompts=40)
    many = [
        from_gaps(
            np.repeat(run["score"].values[::2], 3, axis=0),
            name=run.attrs["dataset"],
            prompt=np.repeat(np.arange(40) + 40 * p, 3),
        )
        for p, run in enumerate(once)
    ]
    for scale, column in (("win rate", "estimate"), ("win rate", "sampling")):
        assert parts(many, scale)[column].to_numpy() == pytest.approx(
            parts(once, scale)[column].to_numpy(), abs=1e-6
        )


def test_an_interaction_counts_only_on_both_scales():
    table = stats.variance_components(protocol_world("main", sd=2.0, prompts=400))
    alone = table["low"] > stats.ROUNDING
    rows = table["component"] == "interaction"
    # Main effects on the logit scale bend on that of win rates.
    assert alone[rows].tolist() == [False, True]
    assert not table.loc[rows, "found"].any()


def test_the_same_seed_gives_the_same_table():
    runs = protocol_world("main", prompts=30)
    one = stats.variance_components(runs, draws=100, seed=1)
    pd.testing.assert_frame_equal(one, stats.variance_components(runs, draws=100, seed=1))


# ---- Bad input ----


@pytest.mark.parametrize(
    "runs",
    [
        [run_of({"a": 3}, 10, "llmbar"), run_of({"a": 5}, 10, "xstest")],
        [run_of({"a": 3, "b": 4}, 10, "llmbar")],
        [run_of({"a": 1, "b": 0}, 1, "llmbar"), run_of({"a": 5, "b": 2}, 10, "xstest")],
        [from_gaps(np.zeros((0, 2)), name="llmbar")],
    ],
    ids=["one head", "one protocol", "one prompt", "no comparison"],
)
def test_too_little_to_compare_says_so(runs):
    table = stats.variance_components(runs, draws=10)
    assert table["note"].str.contains("needs two heads and two protocols").all()
    assert table["estimate"].isna().all() and not table["found"].any()
    assert len(stats.protocol_matrix(runs))


def test_heads_that_tie_or_break_under_one_protocol_are_left_out_by_name():
    runs = protocol_world("main", heads=5, protocols=3, prompts=40)
    clean = stats.variance_components([run.isel(head=[0, 1, 2]) for run in runs], draws=50)
    runs[0]["score"][::2, 3], runs[0]["score"][1::2, 3] = 1.0, 1.0
    runs[1]["score"][0, 4] = np.nan
    found = stats.variance_components(runs, draws=50)
    assert set(found["note"]) == {"left out: head_3, head_4"}
    pd.testing.assert_frame_equal(found.drop(columns="note"), clean.drop(columns="note"))


def test_sources_say_what_was_compared():
    table = stats.sources([run_of({"a": 3}, 10, "llmbar")])
    assert table[["dataset", "kind", "items", "prompts"]].values.tolist() == [
        ["llmbar", "structured", 10, 10]
    ]


# ---- Tests of cells ----


def test_cells_are_tested_exactly_and_corrected_together():
    runs = [
        run_of({"a": 40, "b": 30}, 60, "llmbar"),
        run_of({"a": 12, "b": 19}, 20, "xstest"),
    ]
    table = stats.protocol_matrix(runs).set_index(["protocol", "head"])
    expected = [
        scipy_stats.binomtest(w, n).pvalue for w, n in ((40, 60), (30, 60), (12, 20), (19, 20))
    ]
    assert table["p"].tolist() == pytest.approx(expected)
    adjusted = multipletests(expected, method="holm")[1]
    assert table["p_adjusted"].tolist() == pytest.approx(adjusted)
    # 41 of 60 are needed at .05/4: the quantile .8 of Beta(41, 20)
    least = next(k for k in range(30, 61) if 2 * scipy_stats.binom.sf(k - 1, 60, 0.5) < 0.05 / 4)
    expected = scipy_stats.beta.ppf(0.8, least, 61 - least) - 0.5
    assert table.loc[("llmbar", "b"), "mde"] == pytest.approx(expected, abs=1e-6)


def test_a_cell_of_ties_or_of_no_numbers_is_no_test():
    gaps = np.column_stack([np.zeros(9), np.full(9, np.nan), np.ones(9)])
    table = stats.protocol_matrix([from_gaps(gaps, name="llmbar", heads=["ties", "nan", "wins"])])
    table = table.set_index("head")
    assert np.isnan(table.loc["ties", "p"]) and np.isnan(table.loc["nan", "p"])
    assert table.loc["wins", "p_adjusted"] == table.loc["wins", "p"] == pytest.approx(2 / 2**9)


def test_a_component_that_large_would_have_been_found():
    """Of worlds whose interaction is what the zero world says it would find, most show it."""
    mde = parts(protocol_world("zero", prompts=100)).loc["interaction", "mde"]
    found = [
        parts(protocol_world("interaction", prompts=100, sd=np.sqrt(mde), seed=seed)).loc[
            "interaction", "found"
        ]
        for seed in range(12)
    ]
    assert sum(found) >= 7


# ---- Length ----


def test_what_the_longer_response_wins_is_counted_by_hand_and_outside_the_family():
    one = make_run(np.ones((8, 2)), tokens=[9, 1, 9, 1, 5, 5, 1, 9], name="llmbar")  # + + = −
    other = make_run(np.ones((4, 2)), tokens=[1, 9, 1, 9], name="xstest")
    table = stats.longer([one, other])
    assert table.columns.tolist() == list(stats.MATRIX)
    assert table["head"].tolist() == ["longer response"] * 2
    assert table[["protocol", "kind", "n", "wins", "ties", "losses"]].values.tolist() == [
        ["llmbar", "structured", 4, 2, 1, 1],
        ["xstest", "structured", 2, 0, 0, 2],
    ]
    assert table["win_rate"].tolist() == [2.5 / 4, 0]
    assert table[["p", "p_adjusted", "mde"]].isna().all(axis=None)


def test_the_longer_response_has_a_row_for_each_subset_of_a_single_run():
    run = make_run(np.ones((8, 1)), tokens=[9, 1] * 2 + [1, 9] * 2, subset=["x", "x", "y", "y"])
    table = stats.longer([run])
    assert table[["protocol", "win_rate"]].values.tolist() == [["x", 1], ["y", 0]]


def test_a_protocol_without_comparisons_takes_no_head_with_it():
    runs = protocol_world("main", sd=1.0, heads=3, protocols=2, prompts=60)
    empty = runs[0].isel(comparison=slice(0)).assign_attrs(dataset="file:nothing")
    with_it = stats.variance_components([*runs, empty], draws=50, seed=0)
    without = stats.variance_components(runs, draws=50, seed=0)
    pd.testing.assert_frame_equal(with_it, without)
    assert without["estimate"].notna().any()
