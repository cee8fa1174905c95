"""Parts, shares and directions of margins that are written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.attribution import charts, stats, words
from lib.analyses.attribution.worlds import CARRIER, DECOYS, NAMES, carried, parts_world
from lib.effects import CONSTANT, FINAL, gaps, prompts
from lib.errors import DataError, StoreError
from lib.planted.effects import components, make_effects

ONE_LAYER = components(1)  # embedding, attention 1, mlp 1, constant


def effects(parts, prompt=None, raw=None, gated=False):
    """Of parts of margins (pairs, components[, heads]), as all of the better response."""

    def rows(given):
        given = np.asarray(given, float)
        given = given[..., None] if given.ndim == 2 else given
        values = np.zeros((2 * len(given), *given.shape[1:]))
        values[::2] = given
        return values

    part_raw = None if raw is None else rows(raw)
    return make_effects(rows(parts), prompt=prompt, part_raw=part_raw, gated=gated)


def row(table, component):
    (found,) = table[table["component"] == component].itertuples()
    return found


def test_means_and_shares_by_hand():
    # Margins 3, 1 and −2.
    table = stats.parts(effects([[0, 2, 1, 0], [0, 2, -1, 0], [0, -1, -1, 0]]))
    attention, mlp = row(table, "attention 1"), row(table, "mlp 1")
    assert (attention.mean, mlp.mean) == pytest.approx((1, -1 / 3))
    # Σ c m / Σ m²: (6 + 2 + 2) / 14 and (3 − 1 + 2) / 14.
    assert (attention.carries, mlp.carries) == pytest.approx((10 / 14, 4 / 14))
    assert (attention.same, mlp.same) == pytest.approx((2 / 3, 2 / 3))
    assert table["carries"].sum() == pytest.approx(1)
    # 2, 2, −1: as far from 0 as 3 are four of eight patterns, ±5 and ±3.
    assert attention.p == pytest.approx(4 / 8)


def test_shares_do_not_depend_on_which_response_is_called_better():
    parts = np.random.default_rng(0).standard_normal((20, 4))
    turned = parts * np.where(np.arange(20) % 3, 1, -1)[:, None]
    one, other = (stats.parts(effects(each)) for each in (parts, turned))
    for column in ("carries", "carries_low", "carries_high"):
        assert one[column].to_numpy() == pytest.approx(other[column].to_numpy(), rel=1e-5)


def test_each_prompt_counts_once():
    parts = [[0, 1, 0, 0], [0, 3, 0, 0], [0, 8, 0, 0]]
    table = stats.parts(effects(parts, prompt=[0, 0, 1]))
    assert row(table, "attention 1").mean == pytest.approx(5)
    assert set(table["prompts"]) == {2}


def test_what_is_the_same_for_both_responses_is_not_tested():
    table = stats.parts(effects([[0, 1, 2, 0], [0, 2, 1, 0]]))
    embedding, constant = row(table, "embedding"), row(table, CONSTANT)
    assert embedding.verdict == constant.verdict == "undefined"
    assert embedding.note == stats.SAME and np.isnan(embedding.p)


def test_a_constant_that_varies_is_a_part_without_a_direction():
    parts = np.ones((30, 4)) + 0.01 * np.random.default_rng(0).standard_normal((30, 4))
    table = stats.parts(effects(parts))
    assert row(table, CONSTANT).verdict == "undefined"
    assert row(table, "mlp 1").verdict == stats.TOWARD_BETTER
    assert row(stats.parts(effects(-parts)), "mlp 1").verdict == stats.TOWARD_WORSE


def test_holm_is_over_all_components_and_heads():
    parts = np.random.default_rng(1).standard_normal((40, 4, 3)) + 0.4
    table = stats.parts(effects(parts))
    tested = table["p"].notna()
    assert tested.sum() == 9  # three components of three heads, the constants apart
    least = table.loc[table["p"].idxmin()]
    assert least["p_adjusted"] == pytest.approx(min(1, 9 * least["p"]))


def test_one_prompt_is_told_and_not_tested():
    table = stats.parts(effects([[0, 1, 2, 0]]))
    assert table["p"].isna().all() and row(table, "mlp 1").note == stats.ONE_PROMPT
    totals = stats.totals(effects([[0, 1, 2, 0]]))
    assert totals["low"].isna().all() and totals["half"].tolist() == [1, 1]
    told = words.takeaways(table, totals, 0.0)
    assert told[0].startswith("Nothing can be said of parts")


def test_how_many_carry_half_and_how_much_cancels():
    # Two components write 6 and −5, a margin of 1 in every pair: shares 6 and −5.
    parts = np.tile([0.0, 6, -5, 0], (5, 1)) * np.arange(1, 6)[:, None]
    found = stats.totals(effects(parts, raw=parts[:, [0, 2, 1, 3]]))
    normed, raw = found.itertuples()
    assert (normed.half, normed.components) == (1, 2)
    assert normed.cancels == pytest.approx(11) and normed.cancels_pair == pytest.approx(11)
    assert normed.margin == pytest.approx(3) and normed.low < 3 < normed.high
    assert (raw.form, normed.rho) == (stats.RAW, pytest.approx(raw.rho))


def test_parts_sum_to_the_margin_or_it_is_an_error():
    found = effects(np.random.default_rng(0).standard_normal((6, 4)))
    assert stats.sums(found) < 1e-5
    found["part"] = found["part"] + 0.01
    with pytest.raises(StoreError, match="parts that sum"):
        stats.sums(found)
    found.attrs["extraction"]["dtype"] = "bfloat16"
    assert stats.sums(found) > 1e-3


def test_a_planted_carrier_is_named_and_its_decoys_are_not():
    table = stats.parts(parts_world(0.8, seed=2))
    assert (table.loc[table["component"] == CARRIER, "verdict"] == stats.TOWARD_BETTER).all()
    decoys = table[table["component"].isin(DECOYS)]
    assert (decoys["verdict"] == stats.NOT_SHOWN).all()


def test_shares_of_a_planted_world_are_the_true_ones():
    world = parts_world(pairs=20_000, heads=1)
    shares = stats.carries(gaps(world, "part"), prompts(world)).estimate[:, 0]
    for name in (CARRIER, *DECOYS, NAMES[-1]):
        assert shares[NAMES.index(name)] == pytest.approx(carried(name), abs=0.03)


def test_the_final_score_stands_first():
    found = effects(np.random.default_rng(0).standard_normal((9, 4, 2)), gated=True)
    assert stats.parts(found)["head"].iloc[0] == FINAL
    assert stats.totals(found)["head"].iloc[0] == FINAL
    alone = stats.parts(found.sel(head=[FINAL]))["mean"].to_numpy()
    assert stats.parts(found)["mean"].to_numpy()[:4] == pytest.approx(alone)


def test_the_chart_draws_every_component_and_names_the_largest():
    chart = charts.parts(stats.parts(parts_world(0.8, seed=2)))
    assert "attention" in chart.svg() and "MLP" in chart.svg(width=360, dark=True)
    assert f"{NAMES[-1]} " in chart.alternative and "toward better" in chart.alternative
    with pytest.raises(DataError, match="column"):
        charts.parts(stats.parts(parts_world())[["head"]])
    alike = effects([[0, 1, -1, 0], [0, 2, -2, 0]])
    assert "nothing to draw" in charts.parts(stats.parts(alike)).alternative
    assert set(stats.totals(alike)["note"]) == {stats.NO_MARGIN}


def test_the_page_lists_the_largest_and_all_with_a_direction():
    table = stats.parts(parts_world(0.8, pairs=60, seed=2))
    listed = words.shown(table)
    for _, own in listed.groupby("head"):
        assert words.LARGEST <= len(own) < len(table) / 2
        left = table[
            (table["head"] == own["head"].iloc[0]) & ~table["component"].isin(own["component"])
        ]
        assert left["carries"].abs().max() <= own["carries"].abs().nlargest(words.LARGEST).min()
    directed = table["verdict"].str.startswith("toward")
    assert directed.sum() == listed["verdict"].str.startswith("toward").sum() > 0
