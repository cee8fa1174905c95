"""Depths, shares and choices of margins that are written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from lib.analyses.lens import charts, orders, stats, words
from lib.analyses.lens.worlds import LAYERS, ordered_world, settled_world
from lib.effects import FINAL
from lib.errors import DataError, StoreError
from lib.planted.effects import make_effects


def effects(margins, raw=None, prompt=None, gated=False):
    """Of one head, or two, from margins (pairs, depths[, heads])."""
    margins = np.asarray(margins, float)
    margins = margins[..., None] if margins.ndim == 2 else margins
    pairs, depths, heads = margins.shape
    layers = depths - 1
    part = np.zeros((2 * pairs, 2 * layers + 2, heads))
    part[::2, 0] = margins[:, 0]
    part[::2, 2:-1:2] = np.diff(margins, axis=1)
    made = make_effects(part, prompt=prompt, gated=gated)
    if raw is not None:
        values = np.zeros((2 * pairs, depths, heads))
        values[::2] = np.asarray(raw, float).reshape(pairs, depths, heads)
        made["lens_raw"] = (made["lens_raw"].dims, values.astype(np.float32))
    return made


def test_first_and_stays_are_told_apart():
    # Half of 4 is 2: reached after one layer, lost after two, there for good from three on.
    margins = np.asarray([[0, 3, 1, 2, 4], [0, -1, -2, -3, -4], [4, 4, 4, 4, 4]], float)
    first, stays = stats.reached(margins[..., None])
    assert first.ravel().tolist() == [1, 2, 0]
    assert stays.ravel().tolist() == [3, 2, 0]


def test_a_margin_of_the_other_sign_is_not_half_there():
    first, stays = stats.reached(np.asarray([[9.0, -9, 1]])[..., None])
    assert (first.item(), stays.item()) == (0, 2)


def test_shares_and_choices_by_hand():
    # Final margins 2, −2 and 4 of three prompts; after one layer 1, 1 and 0.
    table = stats.curves(effects([[0, 1, 2], [0, 1, -2], [0, 0, 4]]))
    assert table["depth"].tolist() == [0, 1, 2]
    # (1 − 1 + 0) / (2 + 2 + 4), and all of it at the end.
    assert table["share"].tolist() == pytest.approx([0, 0, 1])
    # Picked alike: one of three, one not, one tie counted half.
    assert table["agree"].tolist() == pytest.approx([0.5, 0.5, 1])


def test_each_prompt_counts_once():
    table = stats.curves(effects([[0, 2, 2], [0, 2, 2], [0, 0, 2]], prompt=[0, 0, 1]))
    assert table["share"].tolist() == pytest.approx([0, 0.5, 1])
    assert table["prompts"].tolist() == [2, 2, 2]


def test_the_published_lens_is_measured_by_its_own_end_and_by_the_reward():
    margins = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, -1, -2]]
    raw = [[0, 10, 40], [0, 10, 40], [0, 10, -40], [0, -10, -40]]
    found = effects(margins, raw)
    table = stats.curves(found)
    # Of its own end: (10 + 10 − 10 + 10) / 160.
    assert table["share_raw"].tolist() == pytest.approx([0, 20 / 160, 1])
    assert table["agree_raw"].tolist() == pytest.approx([0.5, 1, 0.75])
    assert table["opposed"].tolist() == pytest.approx([0, 0, 0.25])
    (row,) = stats.published(found, table).itertuples()
    assert row.end_opposed == pytest.approx(0.25) and row.low < 0.25 < row.high
    assert (row.depth, row.opposed, row.rho) == (1, 0, pytest.approx(1))


def test_rank_correlation_is_scipys():
    from scipy.stats import spearmanr

    one, other = np.random.default_rng(0).standard_normal((2, 12, 3, 1))
    one[:, 0] = 0
    table = stats.curves(effects(one, other))
    right = [spearmanr(one[:, d, 0], other[:, d, 0]).statistic for d in (1, 2)]
    assert table["rho"].tolist()[1:] == pytest.approx(right, abs=1e-6)
    assert np.isnan(table["rho"][0])


def test_medians_have_whole_ends_that_were_drawn():
    margins = np.zeros((30, 5))
    margins[:, -1] = 1
    margins[:17, 2:] = 1  # seventeen at half from the second layer on, the rest at the end
    (row,) = stats.depths(effects(margins)).itertuples()
    assert (row.first, row.stays, row.first_low, row.first_high) == (2, 2, 2, 4)


def test_comparisons_that_score_alike_are_left_out_and_counted():
    table = stats.depths(effects([[0, 1, 2], [0, 1, 0], [0, 2, 2]]))
    assert table["left_out"].tolist() == [1] and table["n"].tolist() == [2]
    none = effects([[0, 1, 0], [0, 2, 0]])
    assert stats.depths(none)["note"].tolist() == [stats.NO_MARGIN]
    assert stats.curves(none)["share"].isna().all()
    assert orders.order(none)["verdict"].tolist() == ["undefined"]
    told = words.takeaways(
        stats.depths(none), stats.published(none, stats.curves(none)), orders.order(none), 0.0
    )
    assert told == [f"Nothing can be said of depths: {stats.NO_MARGIN}."]
    assert "nothing to draw" in charts.margins(stats.curves(none)).alternative


def test_a_depth_is_settled_where_every_later_one_is_shown_as_well():
    margins = np.ones((60, 5))
    margins[:30, 2] = -1  # half of the choices are another's after the second layer
    assert stats.settled(margins, np.arange(60)) == 3
    margins[:, 2] = 1
    assert stats.settled(margins, np.arange(60)) == 0
    # Five prompts that all agree don't show that four in five do.
    assert stats.settled(margins[:5], np.arange(5)) == 4


def test_the_share_that_would_show_a_depth_is_the_least_that_does():
    needed = stats._needed(60, 0.05)
    margins = np.ones((60, 2))
    margins[: 60 - round(needed * 60), 0] = -1
    assert stats.settled(margins, np.arange(60)) == 0
    margins[: 61 - round(needed * 60), 0] = -1
    assert stats.settled(margins, np.arange(60)) == 1
    assert np.isnan(stats._needed(5, 0.05))


def test_layers_that_grow_are_made_late_and_equal_ones_in_any_order():
    (late,) = orders.order(ordered_world(4.0, seed=1), orders=399).itertuples()
    assert late.verdict == orders.LATER and late.mean_depth > late.high
    steps = np.tile(np.linspace(0, 1, 5), (8, 1))  # each layer adds the same
    (same,) = orders.order(effects(steps), orders=99).itertuples()
    assert same.p == 1 and same.mean_depth == same.low == same.high == 2


def test_p_is_the_share_of_orders_as_far_out():
    # One layer of four writes all: it is as likely to be in each place.
    margins = np.tile([0.0, 0, 0, 0, 1], (6, 1))
    (row,) = orders.order(effects(margins), orders=4000, seed=1).itertuples()
    assert row.p == pytest.approx(0.5, abs=0.05)  # twice one of four


def test_a_single_layer_has_one_order():
    (row,) = orders.order(effects([[0, 1], [0, 2]])).itertuples()
    assert row.note == orders.ONE_LAYER and np.isnan(row.p)


def test_planted_depths_are_found():
    table = stats.depths(settled_world(8, seed=3))
    assert table["settled"].tolist() == [8] and table["layers"].tolist() == [LAYERS]
    assert stats.depths(settled_world(8, before=0.98, seed=3))["settled"].iloc[0] < 8


def test_the_last_point_is_the_reward_or_an_error():
    found = effects([[0, 1, 2], [0, 1, 3]])
    assert stats.ends(found) < 1e-6
    found["lens"] = found["lens"] * 1.01
    with pytest.raises(StoreError, match="ends at the reward"):
        stats.ends(found)
    found.attrs["extraction"]["dtype"] = "bfloat16"
    assert stats.ends(found) > 1e-3


def test_the_final_score_stands_first():
    margins = np.random.default_rng(0).standard_normal((20, 4, 2))
    found = effects(margins, gated=True)
    assert stats.depths(found)["head"].tolist()[0] == FINAL
    assert stats.curves(found)["head"].iloc[0] == FINAL
    right = stats.curves(effects(margins[..., 1]))["share"].to_numpy()
    assert stats.curves(found).query("head == @FINAL")["share"].to_numpy() == pytest.approx(right)


@pytest.mark.parametrize("draw", [charts.margins, charts.agreement])
def test_charts_have_both_lines_and_say_what_they_show(draw):
    chart = draw(stats.curves(settled_world(8)))
    assert "with the norm" in chart.svg() and "as published" in chart.svg(width=360, dark=True)
    assert "1.00" in chart.alternative
    with pytest.raises(DataError, match="column"):
        draw(stats.curves(settled_world(8))[["head", "depth"]])
