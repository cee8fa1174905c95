"""Disentanglement: levels are told apart, factors counted, and no head breaks the table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

from lib.analyses.disentanglement import stats
from lib.analyses.disentanglement import worlds as planted
from lib.analyses.disentanglement.linkage import best_jaccard
from lib.analyses.disentanglement.parallel import permuted_correlations
from lib.planted.worlds import make_run

HAND = np.array([[3.0, 1.0], [1.0, 2.0], [6.0, 5.0], [4.0, 8.0], [2.0, 0.0], [2.0, 2.0]])


def cell(table: pd.DataFrame, kind: str, head: str, other: str) -> pd.Series:
    names = {head, other}
    found = table[(table["kind"] == kind) & table["head"].isin(names) & table["other"].isin(names)]
    assert len(found) == 1
    return found.iloc[0]


def whole(run, draws=50):
    published, pairs = (
        stats.disentanglement_as_published(run),
        stats.disentanglement(run, draws=draws),
    )
    groups, found = stats.clusters(run, draws=draws), stats.factors(run, draws=draws)
    return published, pairs, groups, found, stats.overview(published, pairs, groups, found)


# ---- Components of covariance ----


def test_components_by_hand():
    """Three pairs of head 0: means 2, 5, 2; within (1+1+1+1+0+0)/3; MS_between 2·6/2 = 6."""
    scores = stats.prepare(make_run(HAND))
    scale = HAND.std(axis=0, ddof=1)
    found = {k: c[0, :2, :2] * np.outer(scale, scale) for k, c in stats.components(scores).items()}
    within = 4 / 3
    assert found["within"][0, 0] == pytest.approx(within)
    assert found["between"][0, 0] == pytest.approx((6 - within) / 2)
    # products of the heads' deviations: (1)(−.5)·2 + (1)(−1.5)·2 + 0 = −4, over 3
    assert found["within"][0, 1] == pytest.approx(-4 / 3)
    assert found["pooled"] == pytest.approx(np.cov(HAND.T))


def test_within_is_the_second_moment_of_gaps_halved():
    generator = np.random.default_rng(0)
    score = generator.standard_normal((40, 3)).astype(np.float32)
    gaps = score[::2] - score[1::2]
    run = make_run(score)
    found = stats.components(stats.prepare(run))["within"][0, :3, :3]
    scale = score.std(axis=0, ddof=1)
    assert found == pytest.approx(gaps.T @ gaps / 2 / 20 / np.outer(scale, scale), abs=1e-6)


def test_unequal_prompts_match_the_one_way_analysis_of_variance():
    generator = np.random.default_rng(1)
    prompt = [0, 0, 0, 1, 2, 2, 3]  # items that share a prompt are one: sizes 6, 2, 4, 2
    score = generator.standard_normal((14, 2))
    run = make_run(score, prompt=prompt)
    scores = stats.prepare(run)
    z = scores.z[:, 0]
    groups = np.split(z, scores.start[1:])
    f = scipy_stats.f_oneway(*groups).statistic
    within = sum(((g - g.mean()) ** 2).sum() for g in groups) / (14 - 4)
    n0 = (14 - (36 + 4 + 16 + 4) / 14) / 3
    found = stats.components(scores)
    assert found["within"][0, 0, 0] == pytest.approx(within)
    assert found["between"][0, 0, 0] == pytest.approx((f * within - within) / n0)


def test_a_resample_equals_the_data_repeated():
    run = planted.blocks_world(pairs=6, blocks=2)
    weight = np.array([[2.0, 0, 1, 3, 0, 0]])
    scores = stats.prepare(run)
    rows = np.concatenate([[2 * g, 2 * g + 1] for g in (0, 0, 2, 3, 3, 3)])
    repeated = stats.Scores(scores.z[rows], np.arange(0, 12, 2), np.full(6, 2), scores.reason)
    for kind, covariance in stats.components(scores, weight).items():
        assert covariance == pytest.approx(stats.components(repeated)[kind], abs=1e-12)


def test_levels_that_cancel_when_pooled_are_told_apart():
    run = planted.levels_world()
    table = stats.disentanglement(run, draws=300)
    pooled, between, within = (
        cell(table, kind, "first", "second") for kind in ("pooled", "between", "within")
    )
    assert pooled["low"] < 0 < pooled["high"]
    assert between["low"] < 0.8 < between["high"]
    assert within["low"] < -0.8 < within["high"]


def test_heads_that_only_share_length_part_when_it_is_held_fixed():
    row = cell(stats.disentanglement(planted.length_world(), draws=20), "within", "first", "second")
    assert row["r"] == pytest.approx(0.5, abs=0.05)
    assert row["r_length"] == pytest.approx(0, abs=0.1)


def test_a_head_that_is_length_has_no_correlation_given_length_and_a_note():
    tokens = np.arange(10, 50)
    score = np.column_stack([np.log(tokens), np.random.default_rng(0).standard_normal(40)])
    run = make_run(score, heads=["long", "noise"], tokens=tokens)
    table = stats.disentanglement(run, draws=20).set_index("kind")
    for kind in ("pooled", "within"):
        assert np.isfinite(table.loc[kind, "r"]) and np.isnan(table.loc[kind, "r_length"])
        assert "no r given length, which leaves long no variance" in table.loc[kind, "note"]
    plain = stats.disentanglement(planted.length_world(), draws=20)
    assert not plain["note"].str.contains("given length").any()


def test_the_partial_correlation_is_that_of_residuals():
    run = planted.length_world(pairs=50)
    scores = stats.prepare(run)
    x = np.column_stack([np.ones(100), scores.z[:, 2]])
    residual = scores.z[:, :2] - x @ np.linalg.lstsq(x, scores.z[:, :2], rcond=None)[0]
    found = stats.partial_correlation(stats.components(scores)["pooled"])[0, 0, 1]
    assert found == pytest.approx(np.corrcoef(residual.T)[0, 1])


def test_intervals_cover_the_planted_value():
    """60 worlds, 95% intervals: fewer than 51 would happen once in 2,000."""
    covered = 0
    for seed in range(60):
        run = planted.levels_world(pairs=150, seed=seed)
        row = cell(stats.disentanglement(run, draws=200, seed=seed), "within", "first", "second")
        covered += row["low"] <= -0.8 <= row["high"]
    assert covered >= 51


# ---- As published ----


def test_spearman_is_scipys():
    scores = np.random.default_rng(2).integers(0, 5, (30, 4)).astype(float)
    assert stats.spearman(scores) == pytest.approx(scipy_stats.spearmanr(scores).statistic)


def test_two_columns_give_a_matrix_and_a_constant_one_only_its_own_cells():
    scores = np.array([[1.0, 5, 3], [2, 5, 1], [3, 5, 2]])
    assert stats.spearman(scores[:, :2]).shape == (2, 2)
    found = stats.spearman(scores)
    assert np.isnan(found[1]).all() and np.isnan(found[:, 1]).all()
    assert found[0, 2] == pytest.approx(-0.5)


def test_published_flags_pairs_above_the_threshold():
    table = stats.disentanglement_as_published(planted.copies_world())
    flagged = table[table["flagged"]][["head", "other"]].values.tolist()
    assert flagged == [["original", "copy"], ["original", "opposite"], ["copy", "opposite"]]


# ---- Factors ----


@pytest.mark.parametrize("general", [0.0, 0.3, 0.5])
def test_five_blocks_are_found_under_a_general_factor(general):
    run = planted.blocks_world(general=general)
    table = stats.factors(run, draws=200)
    assert table.groupby("kind")["kept"].sum().to_dict() == {"pooled": 5, "within": 5}
    groups = stats.clusters(run, draws=20)
    for _, rows in groups.groupby("kind"):
        block = rows["head"].str.split(" head").str[0]
        assert rows["cluster"].nunique() == 5
        assert rows.groupby(block)["cluster"].nunique().eq(1).all()


def test_a_dominant_general_factor_hides_blocks_and_the_table_says_so():
    overview = whole(planted.blocks_world(general=0.7))[-1].set_index("kind")
    assert overview.loc["pooled", "factors"] < 5
    assert overview.loc["pooled", "note"] == "minor factors can't be seen"


def test_unrelated_heads_show_a_factor_in_few_worlds():
    """At a true rate of .05, more than 8 of 60 would happen once in 700."""
    worlds = [planted.independent_world(pairs=80, heads=6, seed=seed) for seed in range(60)]
    tables = [stats.factors(world, draws=200) for world in worlds]
    for kind in stats.FACTOR_KINDS:
        found = sum(table[table["kind"] == kind]["kept"].any() for table in tables)
        assert found <= 8


def test_a_null_of_independent_rows_would_find_false_factors():
    """What whole items are for: 40 prompts asked 10 times, and no head related to another."""
    generator = np.random.default_rng(3)
    prompt = np.repeat(np.arange(40), 5)
    score = np.repeat(generator.standard_normal((40, 10)), 10, axis=0)
    score = score + 0.3 * generator.standard_normal(score.shape)
    clustered = make_run(score, prompt=prompt)
    separate = make_run(score)  # the same rows, each pair taken for a prompt of its own
    assert not stats.factors(clustered, draws=200)["kept"].any()
    assert stats.factors(separate, draws=200).query("kind == 'pooled'")["kept"].sum() >= 2


def test_the_null_keeps_each_heads_variance_and_moves_only_like_prompts():
    run = make_run(HAND, prompt=[0, 0, 1])
    scores = stats.prepare(run)
    values = scores.z[None, :, :2] / np.sqrt(5)
    r = permuted_correlations(values, scores.start, scores.size, 200, 0)[0]
    assert r[:, 0, 0] == pytest.approx(1) and r[:, 1, 1] == pytest.approx(1)
    # prompts of sizes 4 and 2 can't trade places: 4·2 rotations of one head, as many of the other
    assert len(np.unique(r[:, 0, 1].round(9))) <= 8


def test_participation_ratio_by_hand():
    assert stats.participation_ratio(np.zeros(6)) == 4
    assert stats.participation_ratio(np.ones(6)) == 1
    eigenvalues = np.array([1.5, 0.5])
    assert stats.participation_ratio([0.5]) == pytest.approx(4 / (eigenvalues**2).sum())


# ---- Clusters ----


def test_batched_average_linkage_is_scipys():
    generator = np.random.default_rng(4)
    points = generator.standard_normal((40, 9, 3))
    distance = np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)
    found = stats.average_linkage(distance, 1.8)
    for d, label in zip(distance, found, strict=True):
        tree = hierarchy.linkage(squareform(d, checks=False), "average")
        expected = hierarchy.fcluster(tree, 1.8, "distance")
        assert ((label[:, None] == label) == (expected[:, None] == expected)).all()


def test_the_cophenetic_correlation_is_scipys():
    run = planted.blocks_world(pairs=50)
    table = stats.clusters(run, draws=5).query("kind == 'pooled'")
    distance = 1 - np.abs(np.corrcoef(run["score"].values.astype(float).T))
    flat = squareform(distance, checks=False)
    expected = hierarchy.cophenet(hierarchy.linkage(flat, "average"), flat)[0]
    assert table["cophenetic"].iloc[0] == pytest.approx(expected)


def test_copies_are_one_cluster_in_every_resample_and_drawn_side_by_side():
    table = stats.clusters(planted.copies_world()).query("kind == 'within'").set_index("head")
    same = table.loc[["original", "copy", "opposite"]]
    assert same["cluster"].nunique() == 1 and (same["size"] == 3).all()
    assert same["stability"].iloc[0] == pytest.approx(1)
    assert np.ptp(same["position"]) == 2
    assert sorted(table["position"]) == list(range(6))


def test_jaccard_by_hand():
    """Clusters {0, 1} and {2}; found again as {0}, {1, 2}: ½ and ½."""
    found = best_jaccard(np.array([0, 0, 1]), np.array([[0, 1, 1]]))
    assert found == pytest.approx(np.array([[0.5, 0.5]]))


# ---- Bad input ----


def test_a_constant_head_gives_nan_cells_and_its_name():
    _, pairs, groups, found, overview = whole(planted.copies_world())
    own = (pairs["head"] == "constant") | (pairs["other"] == "constant")
    assert pairs.loc[own, "r"].isna().all() and pairs.loc[~own, "r"].notna().all()
    assert pairs.loc[own, "note"].eq("constant: the same for all responses").all()
    assert groups.query("head == 'constant'")["cluster"].eq(0).all()
    assert (overview["heads"] == 5).all()
    assert len(found) == 10


def test_scores_that_are_not_numbers_cost_their_head_only():
    score = np.random.default_rng(5).standard_normal((60, 3))
    score[7, 1] = np.nan
    _, pairs, *_ = whole(make_run(score))
    own = (pairs["head"] == "head_1") | (pairs["other"] == "head_1")
    assert pairs.loc[own, "r"].isna().all() and pairs.loc[~own, "r"].notna().all()
    assert pairs.loc[own, "note"].str.contains("not numbers").all()


def test_a_head_that_reads_only_the_prompt_has_no_within_correlation():
    generator = np.random.default_rng(6)
    score = generator.standard_normal((60, 2))
    score[:, 0] = np.repeat(score[::2, 0], 2)
    row = cell(stats.disentanglement(make_run(score), draws=20), "within", "head_0", "head_1")
    assert np.isnan(row["r"]) and row["note"] == "no variance within items"


@pytest.mark.parametrize("shape", [(40, 1), (2, 3), (2, 1)])
def test_one_head_or_one_item_gives_tables_without_a_number(shape):
    run = make_run(np.random.default_rng(7).standard_normal(shape))
    _, pairs, groups, _, overview = whole(run)
    assert len(pairs) == 3 * (shape[1] * (shape[1] - 1) // 2)
    assert len(groups) == 3 * shape[1]
    assert overview.set_index("kind").loc["between", "heads"] == 0


def test_two_heads_have_a_correlation_and_no_cophenetic_one():
    overview = whole(planted.levels_world(pairs=100))[-1].set_index("kind")
    assert overview.loc["within", "heads"] == 2
    assert np.isnan(overview.loc["within", "cophenetic"])
    assert overview.loc["within", "note"] == ""


# ---- Sizes ----


def test_sizes_are_those_of_the_pairs_with_an_interval_around_the_truth():
    """A general factor at .5 of three-fold pairs: |r| known from a very large sample."""
    many = stats.sizes(planted.blocks_world(pairs=20_000, general=0.3, seed=9), draws=2)
    truth = many.set_index("kind")
    run = planted.blocks_world(pairs=400, general=0.3)
    table = stats.sizes(run, draws=400).set_index("kind")
    pairs = stats.disentanglement(run, draws=2)
    for kind in stats.KINDS:
        row, r = table.loc[kind], pairs.loc[pairs["kind"] == kind, "r"]
        assert row["mean_abs_r"] == pytest.approx(r.abs().mean())
        assert row["effective"] == pytest.approx(stats.participation_ratio(r))
        assert row["mean_low"] < truth.loc[kind, "mean_abs_r"] < row["mean_high"]
        assert row["effective_low"] < truth.loc[kind, "effective"] < row["effective_high"]


def test_unrelated_heads_may_be_as_many_as_they_are_counted():
    """What noise adds to Σr² is taken out: 10 heads, though the ratio itself says fewer."""
    table = stats.sizes(planted.independent_world(pairs=100), draws=400).set_index("kind")
    assert table.loc["within", "effective"] < 9.6
    assert table.loc["within", "effective_high"] == pytest.approx(10, abs=0.1)


def test_intervals_of_sizes_cover():
    truth = stats.sizes(planted.blocks_world(pairs=20_000, general=0.3, seed=9), draws=2)
    truth = truth.set_index("kind")
    hits = dict.fromkeys(stats.KINDS, 0)
    for seed in range(40):
        run = planted.blocks_world(pairs=200, general=0.3, seed=seed)
        table = stats.sizes(run, draws=200, seed=seed).set_index("kind")
        for kind in stats.KINDS:
            low, high = table.loc[kind, ["effective_low", "effective_high"]]
            hits[kind] += low <= truth.loc[kind, "effective"] <= high
    for count in hits.values():
        assert scipy_stats.binomtest(count, 40).proportion_ci(0.99).high >= 0.95


@pytest.mark.parametrize("shape", [(40, 1), (2, 2)])
def test_without_two_heads_sizes_say_so(shape):
    table = stats.sizes(make_run(np.random.default_rng(0).standard_normal(shape)), draws=20)
    assert table["mean_abs_r"].isna().all()
    assert set(table["note"]) == {"no two heads to compare"}


def test_the_overview_tells_from_where_on_a_factor_would_count():
    *tables, _ = whole(planted.blocks_world())
    found = tables[3]
    row = stats.overview(*tables).set_index("kind").loc["within"]
    eigen = found[(found["kind"] == "within") & ~found["kept"]].iloc[0]
    assert row["next"] == eigen["share"] <= row["next_needed"]
    assert row["next_needed"] == pytest.approx(eigen["threshold"] / row["heads"])
    assert np.isnan(row["mean_low"])


# ---- Against an independent library ----


def test_levels_agree_with_pingouins_intraclass_correlation():
    import pingouin  # brings what draws figures: not in each worker

    """ICC1 is the between-item share of variance: between / (between + within)."""
    run = planted.levels_world(pairs=40)
    found = stats.components(stats.prepare(run))
    between, within = (found[kind][0, 0, 0] for kind in ("between", "within"))
    long = pd.DataFrame(
        {
            "item": run["item_of_response"].values,
            "slot": run["slot"].values,
            "score": run["score"].values[:, 0].astype(float),
        }
    )
    table = pingouin.intraclass_corr(long, targets="item", raters="slot", ratings="score")
    expected = table["ICC"].iloc[0]
    assert between / (between + within) == pytest.approx(expected)


def test_length_partialled_correlations_are_pingouins():
    import pingouin

    run = planted.length_world(pairs=60)
    found = stats.partial_correlation(stats.components(stats.prepare(run))["pooled"])[0, 0, 1]
    frame = pd.DataFrame(run["score"].values[:, :2].astype(float), columns=["one", "other"])
    frame["length"] = np.log(run["n_response_tokens"].values)
    expected = pingouin.partial_corr(frame, "one", "other", covar="length")["r"].iloc[0]
    assert found == pytest.approx(expected)
