"""Sentences claim a place only where the table does."""

import numpy as np
import pytest

from lib.analyses.geometry import stats, words, worlds


def told(world, weight, gain=None, note="") -> str:
    identity, gauges = stats.identity(world.run, weight), stats.gauges(world.run, weight, gain)
    location = stats.location(gauges, identity)
    sentences = words.takeaways(location, gauges, identity, note)
    sentences += words.published(
        stats.geometry_as_published(world.run, weight, draws=5), stats.mantel(world.run, weight)
    )
    assert set(words.glued(location)) == {"location-pooled", "location-within"}
    assert all(sentence.endswith(".") and "nan" not in sentence for sentence in sentences)
    return " ".join(sentences)


@pytest.mark.parametrize(
    ("make", "place"), [(worlds.heads_world, "heads'"), (worlds.backbone_world, "backbone's")]
)
def test_a_place_is_claimed_where_gauges_agree_only(make, place):
    one, other = make(), make(regauged=True)
    assert f"looks like the {place} in both gauges" in told(one, one.weight, one.gain)
    text = told(other, other.weight, other.gain)
    assert "no place is claimed: the gauges disagree" in text and "looks like" not in text


def test_states_in_a_shorter_type_are_judged_and_their_type_is_told():
    world = worlds.backbone_world(dtype="bfloat16")
    text = told(world, world.weight, world.gain)
    assert "that were computed in bfloat16; 1e-05 is allowed" in text and "Wᵀ holds (" in text
    text = told(world, np.roll(world.weight, 1, axis=0), world.gain)
    assert "Wᵀ fails (" in text and "looks like" not in text


def test_missing_weights_are_told_once_with_their_reason():
    text = told(worlds.heads_world(), None, note="the model is elsewhere")
    assert text.startswith("The model is elsewhere.")
    assert "The published measures can't be had: the head weights are not at hand." in text


def test_few_heads_are_not_tested():
    world = worlds.heads_world(heads=4)
    assert "not tested: fewer than 6 heads" in told(world, world.weight, world.gain)
