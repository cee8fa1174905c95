"""Tokens are marked by what is read from them, in more than colour, and stay text."""

from __future__ import annotations

import re

import numpy as np
import pytest
import xarray as xr

from lib.analyses.attribution import examples
from lib.effects import FINAL
from lib.mechanisms.tokens import OWN

HOSTILE = "</span><script>window.hacked=1</script>"


def side(texts, parts, constant=0.5):
    parts = np.asarray(parts, float)
    return xr.Dataset(
        {
            "part": ("token", parts),
            "own": ("what", [0.1, 0.2, parts[-1] - 0.3]),
            "constant": constant,
            "score": parts.sum() + constant,
            "text": ("token", np.asarray(texts, np.str_)),
            "place": ("token", np.asarray(["prompt"] + ["response"] * (len(parts) - 1))),
        },
        {"what": list(OWN)},
    )


def shown(*sides) -> str:
    return examples.example("an item", dict(zip(("better", "worse"), sides, strict=False))).markup


def spans(markup: str) -> list[tuple[str, str]]:
    return re.findall(r'<span class="(token [^"]*)"[^>]*>(.*?)</span>', markup)


def test_marks_say_up_or_down_and_how_much_in_steps():
    texts = ["a", "b", "c", "d", "e", "end"]
    found = spans(shown(side(texts, [0.9, -0.31, 0.1, -0.04, 0.01, 5.0])))
    kinds = [kind.removeprefix("token token-").split(" ") for kind, _ in found]
    assert kinds[0] == ["prompt", "token-up", "token-3"]
    assert kinds[1] == ["response", "token-down", "token-3"]
    assert kinds[2] == ["response", "token-up", "token-2"]
    assert kinds[3] == ["response", "token-down", "token-1"]
    assert kinds[4] == ["response"]  # below a thirtieth of .9; the last token sets no scale
    assert kinds[5][1:] == ["token-up", "token-3"]


def test_a_marked_token_has_its_number_and_can_be_reached_by_keyboard():
    markup = shown(side(["a", "end"], [0.25, -1.5]))
    assert 'data-part="+0.2500" tabindex="0"' in markup
    assert 'data-part="-1.5000" tabindex="0"' in markup


def test_hostile_tokens_stay_text():
    markup = shown(side([HOSTILE, '" onfocus="x', "end"], [1, 1, 1]))
    assert "<script" not in markup and 'onfocus="' not in markup
    assert "&lt;script&gt;" in markup


def test_a_line_break_is_seen():
    assert "⏎\n" in shown(side(["\n", "end"], [1, 1]))


def test_the_table_has_ten_and_what_is_left_and_sums_to_the_reward():
    parts = np.linspace(-1, 1, 14)
    table = examples.table({"better": side([f"t{i}" for i in range(14)], parts)})
    assert len(table) == examples.LARGEST + 3
    assert table["token"].tolist()[-3:] == ["all 4 others", "constant", "the reward"]
    *some, reward = table["part"]
    assert sum(some) == pytest.approx(reward)
    (last,) = table.loc[table["number"] == "14", "note"]
    assert last == "the last: embedding +0.100, attention to itself +0.200, MLPs +0.700"


class _Page:
    """What of a page is read."""

    def __init__(self, dataset, model=None, heads=(FINAL,)):
        self.parameters = {"dataset": dataset, "seed": 0}
        self.effects = xr.Dataset(coords={"head": list(heads)})
        self.given = model

    @property
    def model(self):
        assert self.given is not None, "a model that isn't needed was loaded"
        return self.given


def test_only_our_own_texts_are_shown():
    markup = examples.shown(_Page("hh-rlhf/<b>")).markup
    assert "aren't shown here" in markup and "<b>" not in markup


def test_two_comparisons_of_our_stimuli_are_shown(tiny_model):
    markup = examples.shown(_Page("stimuli/probes", tiny_model, ["first", "second"])).markup
    assert markup.count("<details open>") == 2
    assert markup.count("better: reward") == markup.count("worse: reward") == 2
    assert markup.count("the reward</bdi>") == 4 and "<em>first</em>" in markup


def test_a_model_that_is_not_described_is_said(write_tiny, tmp_path):
    from lib.models import load_model

    write_tiny.write_classifier(tmp_path / "model", kind="gpt_neox", labels=3)
    model = load_model(str(tmp_path / "model"), device="cpu")
    names = [head.name for head in model.heads]
    markup = examples.shown(_Page("stimuli/probes", model, names)).markup
    assert markup.startswith("<p>No example is shown:") and "gpt_neox" in markup
