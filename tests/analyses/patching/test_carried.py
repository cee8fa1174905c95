"""Which nodes carry a margin, on planted effects whose answer is known or worked out by hand."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats as scipy_stats

from lib.analyses.patching import agreement, charts, stats, words
from lib.analyses.patching.stats import CANCELLED, CONFIRMED, NOT_SHOWN, OPPOSES, UNDEFINED
from lib.analyses.patching.worlds import exchanged, patching_world, planted
from lib.data.published import figures
from lib.effects import BOTH_ENDS, DENOISING, EVERYTHING, FINAL, LEFT, NOISING
from lib.errors import DataError

PLANTED = {"mlp 10": 1.0, "attention 4": -1.0, "attention 7": 1.5}


@pytest.fixture(scope="module")
def world():
    return patching_world(carry=PLANTED, cancel={"attention 7": "mlp 7"})


@pytest.fixture(scope="module")
def found(world):
    return stats.verdicts(world)


def told(effects: xr.Dataset, found: pd.DataFrame, whole: bool = True) -> list[str]:
    """Every sentence of the page."""
    left = stats.verdicts(effects, LEFT)
    return words.takeaways(
        found,
        stats.largest(effects, found),
        agreement.attribution(effects),
        agreement.faults(effects),
        agreement.alignment(effects, found, left),
        agreement.ways(effects),
        agreement.gate(effects),
        figures()["reward_lens"]["attribution"],
        whole,
    )


def setting(effects: xr.Dataset, node: str, **carried: float) -> xr.Dataset:
    """With what a node carries by each mode, the same in every prompt and head."""
    effects = effects.copy(deep=True)
    for mode, value in carried.items():
        effects["effect"].loc[{"way": f"{mode}, {BOTH_ENDS}", "node": node}] = -value
    return effects


def one(table: pd.DataFrame, node: str, head: str = "head_0") -> pd.Series:
    return table[(table["node"] == node) & (table["head"] == head)].iloc[0]


def test_what_was_planted_is_found_and_nothing_else(found):
    said = found.groupby("node", sort=False)["verdict"].agg(set).to_dict()
    planted = {"mlp 10": CONFIRMED, "attention 4": OPPOSES}
    planted |= dict.fromkeys(("attention 7", "mlp 7"), CANCELLED)
    assert said == {node: {planted.get(node, NOT_SHOWN)} for node in said}
    assert one(found, "attention 7")["undone_by"] == "mlp 7"
    assert one(found, "mlp 10")["undone_by"] == ""


def test_a_node_by_hand():
    # Twelve prompts of one sign: p = 2 / 2¹², times 48 tests of Holm, of which it is the first.
    effects = setting(patching_world(12, 2, margin=3), "mlp 3", noising=1.0, denoising=3.0)
    row = one(stats.verdicts(effects), "mlp 3")
    assert (row["carried"], row["noising"], row["denoising"]) == pytest.approx((2, 1, 3))
    assert row["p"] == pytest.approx(2**-11)
    assert row["p_adjusted"] == pytest.approx(48 * 2**-11)
    assert row["verdict"] == CONFIRMED
    assert row["same"] == 1
    margin = effects["margin"].values[:, 0].mean()
    assert (row["margin"], row["share"]) == pytest.approx((margin, 2 / margin))


def test_a_node_that_only_one_mode_shows_is_not_confirmed():
    effects = setting(patching_world(12, 2, margin=3), "mlp 3", noising=9.0, denoising=-1.0)
    row = one(stats.verdicts(effects), "mlp 3")
    assert row["p_adjusted"] < 0.05 and row["verdict"] == NOT_SHOWN


def test_a_head_that_prefers_the_worse_response_is_carried_that_way():
    effects = patching_world(12, 2, margin=-3)
    effects = setting(effects, "mlp 3", noising=-1.0, denoising=-1.0)
    effects = setting(effects, "mlp 5", noising=1.0, denoising=1.0)
    found = stats.verdicts(effects)
    assert one(found, "mlp 3")["verdict"] == CONFIRMED
    assert one(found, "mlp 5")["verdict"] == OPPOSES
    assert one(found, "mlp 3")["share"] > 0 > one(found, "mlp 3")["carried"]
    assert "scores the worse response higher by" in told(effects, found)[0]


def test_without_a_margin_there_is_nothing_to_carry():
    effects = setting(patching_world(12, 2, margin=0, seed=4), "mlp 3", noising=1, denoising=1)
    found = stats.verdicts(effects)
    assert (found["verdict"] == NOT_SHOWN).all() and (found["note"] == stats.NO_MARGIN).all()
    assert found["share"].isna().all()
    assert one(found, "mlp 3")["pulls"] == "better"
    (sentence,) = [s for s in told(effects, found) if s.startswith("head_0: its mean margin")]
    assert "is not told from 0" in sentence
    assert "1 of 24 nodes towards the better response (mlp 3 +1.000)" in sentence


def test_exchanging_better_and_worse_turns_what_is_carried_and_no_p(world, found):
    swapped = exchanged(world)
    there = stats.carried(world, stats.way_of(NOISING)) + stats.carried(
        world, stats.way_of(DENOISING)
    )
    again = stats.carried(swapped, stats.way_of(NOISING)) + stats.carried(
        swapped, stats.way_of(DENOISING)
    )
    assert np.abs(again) == pytest.approx(np.abs(there))
    turned = np.sign(again[:, 0, 0]) != np.sign(there[:, 0, 0])
    assert 0.2 < turned.mean() < 0.8
    assert (stats.verdicts(swapped)["verdict"] == NOT_SHOWN).all()
    gap = world["score"].values[world["better"].values] - world["score"].values[world["worse"]]
    gap_again = (
        world["score"].values[swapped["better"].values]
        - world["score"].values[swapped["worse"].values]
    )
    assert np.sign(gap_again / gap)[:, 0].tolist() == np.where(turned, -1, 1).tolist()


def test_comparisons_of_one_prompt_count_as_one():
    effects = patching_world(12, 2, margin=3)
    effects["prompt_hash"].values[1::2] = effects["prompt_hash"].values[::2]
    found = stats.verdicts(setting(effects, "mlp 3", noising=1, denoising=1))
    assert set(found["prompts"]) == {6}
    assert one(found, "mlp 3")["p"] == pytest.approx(2**-5)
    assert found["mde"].isna().all()  # six signs reach no p below .05/48


def test_scores_that_are_no_numbers_are_undefined_and_no_part_of_the_family():
    effects = setting(patching_world(12, 2, margin=3), "mlp 3", noising=1, denoising=1)
    effects["margin"].values[:, 1] = np.nan
    effects["effect"].values[:, 3, 2:, 1] = np.nan
    found = stats.verdicts(effects)
    assert one(found, "mlp 3")["p_adjusted"] == pytest.approx(24 * 2**-11)
    lost = found[found["head"] == "head_1"]
    assert (lost["verdict"] == UNDEFINED).all() and (lost["note"] == stats.NOT_NUMBERS).all()
    sentences = told(effects, found)
    assert f"head_1: nothing can be told: {stats.NOT_NUMBERS}." in sentences


def test_one_prompt_says_so():
    effects = patching_world(1, 1)
    found = stats.verdicts(effects)
    assert (found["note"] == stats.FEW).all() and found["low"].isna().all()
    assert told(effects, found)[0] == f"head_0: nothing can be told: {stats.FEW}."


def test_nodes_has_every_way_with_its_interval_and_share(world):
    table = stats.nodes(world)
    assert len(table) == 4 * 25 * 3
    row = table[(table["way"] == "noising, left") & (table["node"] == "mlp 10")].iloc[0]
    values = -world["effect"].sel(way="noising, left", node="mlp 10").values[:, 0]
    right = scipy_stats.ttest_1samp(values.astype(float), 0).confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx((right.low, right.high))
    every = table[(table["node"] == EVERYTHING) & (table["alignment"] == BOTH_ENDS)]
    assert every["share"].to_numpy() == pytest.approx(1)


def test_the_largest_components_stand_in_order_with_what_patches_say(world, found):
    table = stats.largest(world, found, count=3)
    assert table.groupby("head").size().tolist() == [3, 3, 3]
    parts = world["part"].values[::2].mean(axis=0)[:, 0]
    order = world["component"].values[np.argsort(-np.abs(parts))][:3].tolist()
    rows = table[table["head"] == "head_0"]
    assert rows["component"].tolist() == order
    assert rows["part"].tolist() == pytest.approx(parts[np.argsort(-np.abs(parts))][:3], rel=1e-5)
    assert rows["verdict"].tolist() == ["", OPPOSES, CONFIRMED]
    assert rows["carried"].iloc[1] == one(found, "attention 4")["carried"]


def test_agreement_is_spearmans_in_each_comparison(world):
    table = agreement.attribution(world)
    real = world["node"].values[:-1]
    parts = world["part_raw"].sel(component=real).values[::2, :, 1]
    patch = -world["effect"].sel(way="noising, left", node=real).values[..., 1]
    rho = [scipy_stats.spearmanr(a, b).statistic for a, b in zip(parts, patch, strict=True)]
    row = table[
        (table["head"] == "head_1")
        & (table["alignment"] == LEFT)
        & (table["parts"] == agreement.RAW)
    ].iloc[0]
    assert row["rho"] == pytest.approx(np.mean(rho))
    assert (row["lower"], row["median"], row["upper"]) == pytest.approx(
        np.quantile(rho, [0.25, 0.5, 0.75])
    )
    whole = scipy_stats.spearmanr(parts.mean(axis=0), patch.mean(axis=0)).statistic
    assert row["of_means"] == pytest.approx(whole)


def test_the_two_faults_sum_to_what_both_make(world):
    table = agreement.faults(world).pivot(index="head", columns="what", values="change")
    assert (table["alignment"] + table["norm"]).to_numpy() == pytest.approx(table["both"])
    rho = agreement.attribution(world).set_index(["head", "alignment", "parts"])["rho"]
    both = rho[("head_0", *agreement.CORRECTED)] - rho[("head_0", *agreement.AS_PUBLISHED)]
    assert table.loc["head_0", "both"] == pytest.approx(both)
    assert (table[["alignment", "norm"]] > 0.05).all(axis=None), "as planted"


def test_from_the_left_longer_responses_are_out_of_reach(world, found):
    # Each better response has 12 tokens and each worse one ten; from the left half is left over.
    table = agreement.alignment(world, found, stats.verdicts(world, LEFT)).set_index("mode")
    assert (table.loc[NOISING, "unreached"] == 1).all()
    assert (table.loc[DENOISING, "unreached"] == 0).all()
    assert table["left_over"].to_numpy() == pytest.approx(0.5)
    same = agreement.alignment(world, found, found)
    assert (same["changed"] == 0).all() and (same["nodes"] == 24).all()


def gated(world):
    """The world with a final score that a gate makes, and one way with the gate recomputed."""
    effects = world.assign_coords(head=["head_0", "head_1", FINAL])
    held = effects.isel(way=[0]).assign_coords(way=["zero, all (better)"])
    again = held.assign_coords(way=["zero, all (better), gate recomputed"]).copy(deep=True)
    again["gate"] = ("way", ["recomputed"])
    again["effect"].loc[{"node": "mlp 2", "head": FINAL}] -= 0.25
    ways = [effects, held, again]
    return xr.concat(ways, "way", data_vars="minimal", coords="minimal", compat="override")


def test_a_gate_that_is_recomputed_stands_beside_the_gate_held(world):
    effects = gated(world)
    table = agreement.gate(effects).set_index("node")
    assert table["change"].drop("mlp 2").abs().max() < 1e-6
    assert table.loc["mlp 2", "change"] == pytest.approx(0.25, abs=1e-6)
    assert table.loc["mlp 2", "p_adjusted"] < 1e-6
    found = stats.verdicts(effects)
    assert found["head"].iloc[0] == FINAL
    assert "With the gate recomputed, zeroing mlp 2 changes most" in " ".join(told(effects, found))
    assert agreement.gate(world).empty


def test_rendering(world, found, assert_rendered):
    effects = gated(world)
    table = stats.verdicts(effects)
    rows = agreement.attribution(effects)
    assert_rendered(
        Path(__file__).parent / "sentences.txt",
        told(effects, table),
        words.glued(table, stats.largest(effects, table), rows),
    )


def test_of_criteria_that_ask_different_things_no_mean_margin_is_told(world, found):
    mixed = told(world, found, whole=False)
    assert mixed[0].startswith("Each criterion of these comparisons asks its own question")
    assert not any("mean margin" in text or "scores the" in text for text in mixed)
    assert mixed[1:] == [text for text in told(world, found) if text in mixed]


# ---- Charts ----


def lettering(chart, **options) -> list[str]:
    svg = ET.fromstring(chart.svg(**options))
    return ["".join(text.itertext()) for text in svg.iter("{http://www.w3.org/2000/svg}text")]


def drawn(chart, starts: str) -> pd.DataFrame:
    (text,) = [t for t in chart.spec["datasets"].values() if str(t).startswith(starts)]
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


def test_each_head_has_a_picture_of_its_largest_components(world, found):
    table = stats.largest(world, found)
    chart = charts.largest(table)
    (menu,) = [p for p in chart.spec["params"] if p["name"] == "group"]
    assert menu["bind"]["labels"] == ["head_0", "head_1", "head_2"]
    rows = drawn(chart, "row,group")
    assert rows.groupby("group")["row"].agg(list).tolist() == [list(range(10))] * 3
    assert f"mlp 10 · {CONFIRMED}" in lettering(chart)
    assert "embedding" in lettering(chart, width=360, dark=True)


def test_depth_tells_confirmed_nodes_by_their_fill_and_in_words(found):
    chart = charts.depth(found)
    assert len(drawn(chart, "head,node")) == len(found)
    assert drawn(chart, "head,node")["told"].sum() == 4 * 3
    row = one(found, "mlp 10")
    assert f"mlp 10 {row['carried']:+.3f}" in chart.alternative
    assert chart.svg(dark=True)


def test_agreement_is_drawn_in_four_forms(world):
    chart = charts.attribution(agreement.attribution(world))
    shown = lettering(chart)
    assert {"both ends, normed", "left, raw"} <= set(shown)
    assert drawn(chart, "row,group")["tone"].tolist()[:4] == ["text", *["baseline"] * 3]


def test_nothing_is_drawn_of_nothing_and_other_tables_are_errors(found):
    empty = charts.depth(found.assign(carried=np.nan))
    assert "nothing to draw" in empty.alternative
    for draw in (charts.largest, charts.depth, charts.attribution):
        with pytest.raises(DataError, match="column"):
            draw(pd.DataFrame({"other": [1]}))


def test_hostile_names_stay_text(world):
    evil = "</script><script>window.hacked=1</script>"
    effects = world.assign_coords(head=[evil, "b", "c"])
    found = stats.verdicts(effects)
    for chart in (charts.largest(stats.largest(effects, found)), charts.depth(found)):
        assert "</script><script>" not in chart.html().replace("</figure><script>", "")


def test_effects_without_patches_are_refused_in_words(world):
    with pytest.raises(DataError, match="none among the effects of planted.*with some patched"):
        stats.verdicts(world.isel(patched=slice(0)))


def test_planted_values_are_those_of_the_world_and_exchange_as_it_does():
    options = {"carry": PLANTED, "cancel": {"attention 7": "mlp 7"}, "seed": 3}
    values, effects = planted(**options), patching_world(**options)
    for made, whole in ((values, effects), (values.exchanged(5), exchanged(effects, 5))):
        for mode, own in (("noising", made.there), ("denoising", made.back)):
            carried = stats.carried(whole, f"{mode}, {BOTH_ENDS}")[:, :-1]
            assert own == pytest.approx(carried, abs=1e-5)
        assert made.margin == pytest.approx(stats.margins(whole), abs=1e-5)
