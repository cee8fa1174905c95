"""One head taken apart: shares of its margins, by hand and on planted effects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lib.analyses.attribution import stats as attribution
from lib.analyses.one_head import charts, stats, words
from lib.analyses.patching import stats as patching
from lib.analyses.patching.stats import verdicts
from lib.analyses.patching.worlds import patching_world
from lib.effects import FINAL, gaps
from lib.errors import ParameterError
from lib.planted.effects import effects_world, make_effects

PLANTED = {"mlp 10": 1.0, "attention 4": -1.0}


@pytest.fixture(scope="module")
def effects():
    return patching_world(carry=PLANTED)


@pytest.fixture(scope="module")
def largest(effects):
    return stats.largest(effects, "head_0", verdicts(effects))


def test_the_first_head_is_the_final_score_where_there_is_one():
    part = np.ones((4, 4, 2))
    assert stats.chosen(make_effects(part, gated=True)) == FINAL
    assert stats.chosen(make_effects(part)) == "head_0"
    assert stats.chosen(make_effects(part), "head_1") == "head_1"
    with pytest.raises(ParameterError, match="head_1"):
        stats.chosen(make_effects(part), "head_2")


def test_verdicts_are_called_as_patching_calls_them():
    assert {stats.CONFIRMED, stats.OPPOSES, stats.CANCELLED} <= set(patching.VERDICTS)


def test_shares_sides_and_patches_by_hand():
    # Parts of two margins, 3 and -1: embedding, attention 1, mlp 1 and constant.
    part = np.zeros((4, 4, 1))
    part[0, :, 0], part[2, :, 0] = [0, 2, 1, 0], [0, 1, -2, 0]
    effects = make_effects(part)
    table = stats.largest(effects, "head_0", verdicts(effects)).set_index("component")
    assert table.loc["mlp 1", "makes"] == pytest.approx((1 * 3 + -2 * -1) / (9 + 1))
    assert table.loc["attention 1", "makes"] == pytest.approx((2 * 3 + 1 * -1) / (9 + 1))
    assert table.loc["mlp 1", "side"] == 1 and table.loc["attention 1", "side"] == 0.5
    # Nothing reads what the nodes write, so patches take what they make.
    assert table["patches"].dropna().to_dict() == pytest.approx(
        {name: table.loc[name, "makes"] for name in ("attention 1", "mlp 1")}
    )
    row = stats.margin(effects, "head_0").iloc[0]
    assert row["margin"] == 1 and row["better"] == 0.5 and row["n"] == 2


def test_shares_sum_to_one_and_are_those_of_attribution(effects, largest):
    assert len(largest) == stats.LARGEST + 1 and largest["component"].iloc[-1] == stats.OTHERS
    assert largest["makes"].sum() == pytest.approx(1)
    parts = attribution.parts(effects)
    own = parts[parts["head"] == "head_0"].set_index("component")["carries"]
    top = largest.iloc[:-1].set_index("component")["makes"]
    assert top.to_dict() == pytest.approx(own[top.index].to_dict())
    assert (top.abs().min() >= own.drop(top.index).abs()).all()


def test_a_carrier_that_is_cancelled_by_another_makes_nothing():
    effects = effects_world(strength=2)
    table = stats.largest(effects, "head_0", verdicts(effects)).set_index("component")

    assert table.loc["mlp 3", "verdict"] == "confirmed"
    decoys = table.loc[["attention 2", "mlp 2"]]
    assert not decoys["verdict"].isin(["confirmed"]).any()
    assert decoys["makes"].sum() == pytest.approx(0, abs=0.3)


def test_attention_heads_share_out_what_their_layer_makes(effects):
    empty = stats.attention(effects, "head_0")
    assert empty.empty and "--attention-heads" in charts.attention(empty, "head_0").alternative
    layers, many = 12, 3
    shape = (effects.sizes["response"], layers, many, effects.sizes["head"])
    split = np.random.default_rng(0).dirichlet(np.ones(many), shape[:2])[..., None]
    names = [f"attention {n}" for n in range(1, layers + 1)]
    whole = effects["part"].sel(component=names).values[:, :, None]
    dims = ("response", "attention", "attention_head", "head")
    apart = effects.assign(attention_part=(dims, (whole * split).astype(np.float32)))
    table = stats.attention(apart, "head_0", count=layers * many)
    own = table["component"].str.extract(r"layer (\d+), head")[0].astype(int)
    found = table["makes"].groupby(own).sum()
    parts = attribution.parts(effects)
    right = parts[parts["head"] == "head_0"].set_index("component").loc[names, "carries"]
    assert found.to_numpy() == pytest.approx(right.to_numpy(), abs=1e-5)
    assert "layer" in charts.attention(table.head(10), "head_0").alternative


def test_each_prompts_parts_point_towards_what_the_head_prefers(effects, largest):
    names = [*largest["component"].iloc[:-1]]
    each = stats.prompts(effects, "head_0", names)
    margins = gaps(effects, "score")[:, 0]
    whole = stats.prompts(effects, "head_0", [*effects["component"].values])
    sums = whole.groupby("prompt")["part"].sum()
    assert sums.to_numpy() == pytest.approx(np.abs(margins) / np.abs(margins).mean(), abs=1e-4)
    above = each.assign(side=each["part"] > 0).groupby("component", sort=False)["side"].mean()
    assert above.to_numpy() == pytest.approx(largest["side"].iloc[:-1].to_numpy())


def test_pictures_say_in_words_what_they_show(effects, largest):
    each = stats.prompts(effects, "head_0", [*largest["component"].iloc[:-1]])
    for chart in (
        charts.sources(largest, "head_0"),
        charts.steadiness(each, largest, "head_0"),
    ):
        first = largest["component"].iloc[0]
        assert first in chart.alternative and chart.html()


def test_rendering(effects, largest, assert_rendered):
    margin = stats.margin(effects, "head_0")
    layered = stats.largest(
        effects_world(strength=2), "head_0", verdicts(effects_world(strength=2))
    )
    attention = largest.head(5).assign(component=[f"layer {n}, head 2" for n in range(1, 6)])
    assert_rendered(
        Path(__file__).parent / "sentences.txt",
        words.takeaways(margin, largest, attention),
        words.confirmed(layered[layered["component"] != stats.OTHERS]),
        words.glued(margin, largest),
        words.takeaways(margin, largest, attention, whole=False),
    )


def test_without_margins_it_is_said():
    effects = make_effects(np.ones((8, 4, 1)))
    table = stats.largest(effects, "head_0", verdicts(effects))
    empty = stats.attention(effects, "head_0")
    told = words.takeaways(stats.margin(effects, "head_0"), table, empty)
    assert "nothing to share out" in told[-1]
    each = stats.prompts(effects, "head_0", [*table["component"].iloc[:-1]])
    assert "nothing to draw" in charts.steadiness(each, table, "head_0").alternative
    charts.sources(table, "head_0")
