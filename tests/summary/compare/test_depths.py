"""Models paired on the depth from which their margins stay."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib import summary
from lib.analyses.lens import stats as lenses
from lib.analyses.lens.settling import SETTLING, settling
from lib.effects import FINAL
from lib.errors import ParameterError, StoreError
from lib.extraction import save_run
from lib.mechanisms.disk import save_effects
from lib.planted.effects import make_effects
from lib.planted.worlds import make_run
from lib.summary.compare import charts, document, lens, measure, words


def effects(depths, layers=4, *, prompt=None, gated=False, **given):
    """Margins of 1 that a single layer makes: the one at each depth, 0 for the embedding."""
    part = np.zeros((2 * len(depths), 2 * layers + 2, 1 + gated))
    part[2 * np.arange(len(depths)), 2 * np.asarray(depths), -1] = 1
    return make_effects(part, prompt=prompt, gated=gated, **given)


@pytest.fixture
def left(keep):
    """What lens pages of effects leave, by model."""

    def write(**models):
        for model, made in models.items():
            tables = {"lens_depths": lenses.depths(made), "lens_settling": settling(made)}
            results = keep(model, "xstest", **tables)
        return summary.everything(results, list(models))

    return write


def test_depths_of_comparisons_are_those_of_the_lens_page():
    made = effects([0, 2, 4, 1], gated=True)
    table = settling(made)
    assert table["stays"].tolist() == [0, 2, 4, 1] and set(table["head"]) == {FINAL}
    assert table[["better", "worse"]].to_numpy().tolist() == [[0, 1]] * 4
    assert table["prompt"].tolist() == made["prompt_hash"].values.tolist()
    alike = make_effects(np.zeros((4, 6, 1)))
    assert settling(alike).empty, "responses that score alike have no depth"


def test_several_heads_without_a_score_have_no_depth_unless_one_is_named():
    part = np.zeros((4, 6, 2))
    part[::2, 2] = 1
    made = make_effects(part)
    assert settling(made).columns.tolist() == list(SETTLING) and settling(made).empty
    assert settling(made, "head_1")["stays"].tolist() == [1, 1]
    with pytest.raises(ParameterError, match="head of planted"):
        settling(made, "head_7")


def test_a_profile_is_a_share_of_the_layers_by_prompt(left):
    (row,) = summary.profiles(left(a=effects([1, 3, 4, 4], prompt=[0, 0, 1, 2]))).itertuples()
    own = np.asarray([2, 4, 4]) / 4
    assert (row.n, row.prompts, row.layers) == (4, 3, 4)
    assert row.depth == pytest.approx(own.mean())
    half = scipy_stats.t.ppf(0.975, 2) * own.std(ddof=1) / np.sqrt(3)
    assert (row.low, row.high) == pytest.approx((own.mean() - half, own.mean() + half))
    assert row.settled == 1  # four comparisons show no depth before the end


def test_p_flips_whole_prompts_of_models_with_other_layers(left):
    one, other = effects([4, 4, 2, 3, 4, 1]), effects([2, 2, 1, 1, 1, 1], layers=2)
    (row,) = summary.depths(left(a=one, b=other)).itertuples()
    gap = np.asarray([4, 4, 2, 3, 4, 1]) / 4 - np.asarray([2, 2, 1, 1, 1, 1]) / 2
    assert row.difference == pytest.approx(gap.mean())
    signs = np.asarray(list(itertools.product([1, -1], repeat=6)))
    sums = signs @ gap
    assert row.p == pytest.approx((np.abs(sums) >= abs(gap.sum()) - 1e-9).mean())
    assert row.verdict == "not told apart" and row.mde > row.difference


def test_the_later_model_is_named_and_the_earlier_one(left):
    late, early = effects([4] * 12), effects([1] * 12)
    table = summary.depths(left(a=late, b=early, c=late))
    assert table["verdict"].tolist() == ["later", "not told apart", "earlier"]
    assert table["p_adjusted"][0] == pytest.approx(3 * 2 / 2**12)
    told = words.depths(summary.profiles(left(a=late, b=early)), table)
    assert "margins of a are made later than those of b on xstest (100% and 25%: +75%" in told[0]
    assert "(Holm over 3 rows)" in told[0]


@pytest.mark.parametrize(
    ("other", "note"),
    [
        (effects([1, 2], prompt=[7, 8]), "no comparison in common"),
        (make_effects(np.ones((4, 6, 2))), "several heads and no one score"),
        (effects([1]), "a single prompt has no interval"),
    ],
)
def test_what_cannot_be_paired_says_why(left, other, note):
    table = summary.depths(left(a=effects([1, 2]), b=other))
    assert table[["verdict", "note"]].iloc[0].tolist() == ["undefined", note]
    profiles = summary.profiles(left(a=effects([1, 2]), b=other))
    assert "no two models share one" in words.depths(profiles, table)[0]
    charts.depths(profiles)


def test_without_lens_pages_nothing_is_said(audit):
    given = summary.everything(audit("a", "xstest", make_run(np.ones((8, 1)))))
    profiles, table = summary.profiles(given), summary.depths(given)
    assert profiles.empty and table.empty and words.depths(profiles, table) == []
    assert "No lens page" in charts.depths(profiles).alternative


@pytest.fixture
def folders(tmp_path):
    """A model's kept run and, beside it, its effects."""

    def write(model: str, depths, fingerprint: str = "x") -> str:
        run = make_run(np.random.default_rng(len(model)).standard_normal((24, 1)), name="xstest")
        run = run.assign_attrs(model=model, fingerprint={"heads": "x"})
        save_run(run, tmp_path / model / "run")
        made = effects(depths, model=model, name="xstest")
        made.attrs["fingerprint"] = {"heads": fingerprint}
        save_effects(made, tmp_path / model / "effects")
        return str(tmp_path / model)

    return write


def test_the_command_pairs_effects_that_lie_beside_runs(folders, tmp_path):
    named = [folders("late", [4] * 12), folders("early", [1] * 12)]
    found = measure.compare(named, [], tmp_path / "results")
    content = json.loads(json.dumps(document.finite(document.document(found))))
    (row,) = content["lens"]["depths"]
    assert (row["verdict"], row["difference"], row["n"]) == ("later", 0.75, 12)
    assert [each["depth"] for each in content["lens"]["profiles"]] == [1, 0.25]


def test_effects_of_another_model_than_the_run_s_are_refused(folders, tmp_path):
    named = [folders("late", [4] * 12), folders("early", [1] * 12, fingerprint="y")]
    with pytest.raises(StoreError, match="those of another"):
        measure.compare(named, [], tmp_path / "results")
    (tmp_path / "early" / "effects" / "effects.json").write_text("{}")
    with pytest.raises(StoreError, match="no model in attrs"):
        measure.compare(named, [], tmp_path / "results")


def test_a_family_is_corrected_as_one():
    rows = [lens.paired(np.full(9, 1.0), np.full(9, x), np.arange(9), 0.05) for x in (0, 1)]
    table = lens.judged(pd.DataFrame(rows))
    assert table["p_adjusted"].tolist() == pytest.approx([2 * 2 / 2**9, 1])
