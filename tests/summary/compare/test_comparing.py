"""Models are paired on the comparisons that both were audited on, by prompt."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from lib import summary
from lib.analyses.gating import stats
from lib.analyses.gating.worlds import gating_world
from lib.planted.worlds import make_run, validity_world
from lib.summary.compare import charts, words
from lib.summary.compare.learned import learned


def run_of(won, *, prompt=None, items=None, final=True, heads=1, subset=None):
    """A run whose one score wins, ties or loses each pair as ``won`` says (1, ½, 0)."""
    won = np.asarray(won, float)
    score = np.zeros(2 * len(won))
    score[::2] = 2 * won - 1
    run = make_run(
        np.repeat(score[:, None], heads, axis=1),
        prompt=prompt,
        final=score if final else None,
        subset=subset,
    )
    if items is not None:
        run = run.assign_coords(item=np.asarray(items, np.str_))
    return run


@pytest.fixture
def paired(audit):
    """The comparison of runs, by model, on one dataset."""

    def compare(**runs):
        for model, run in runs.items():
            results = audit(model, "xstest", run)
        return summary.compare(summary.everything(results, list(runs)))

    return compare


def test_a_difference_is_that_of_the_same_comparisons(paired):
    one = [1] * 12 + [0] * 3 + [1, 0.5, 0, 0, 1]
    other = [0] * 12 + [1] * 3 + [1, 0.5, 0, 0.5, 0.5]
    (row,) = paired(a=run_of(one), b=run_of(other)).itertuples()
    assert (row.model, row.other, row.dataset, row.n, row.prompts) == ("a", "b", "xstest", 20, 20)
    assert row.rate == pytest.approx(np.mean(one))
    assert row.other_rate == pytest.approx(np.mean(other))
    gap = np.subtract(one, other)
    assert row.difference == pytest.approx(gap.mean())
    half = scipy_stats.t.ppf(0.975, 19) * gap.std(ddof=1) / np.sqrt(20)
    assert (row.low, row.high) == pytest.approx((gap.mean() - half, gap.mean() + half))


def test_p_is_the_sign_test_where_each_prompt_has_one_comparison(paired):
    table = paired(a=run_of([1] * 14 + [0] * 2 + [1] * 5), b=run_of([0] * 14 + [1] * 2 + [1] * 5))
    assert table["p"].item() == pytest.approx(scipy_stats.binomtest(14, 16).pvalue)
    assert table["verdict"].item() == "higher"


def test_the_smallest_difference_is_that_of_prompts_where_the_models_differ(paired):
    """They differ on 12 of 40: 10 of these must go one way (.039), 9 are not enough (.146)."""
    one, other = np.resize([1, 0], 12), np.resize([0, 1], 12)
    table = paired(a=run_of([*one, *[1] * 28]), b=run_of([*other, *[1] * 28]))
    share = scipy_stats.beta.ppf(0.8, 10, 3)
    assert table["mde"].item() == pytest.approx((2 * share - 1) * 12 / 40, abs=1e-6)
    alike = paired(a=run_of([*[1] * 5, 1, 0]), b=run_of([*[1] * 5, 0, 1]))
    assert alike["mde"].isna().all()


def test_p_counts_prompts_and_not_comparisons(paired):
    prompt = [0, 0, 0, 1, 1, 2, 3, 4]
    one, other = [1, 1, 0.5, 1, 1, 0, 1, 0.5], [0, 0.5, 0, 0, 1, 1, 0, 1]
    table = paired(a=run_of(one, prompt=prompt), b=run_of(other, prompt=prompt))
    gap = pd.Series(np.subtract(one, other)).groupby(prompt).sum().to_numpy()
    signs = np.array(list(itertools.product([-1, 1], repeat=len(gap))))
    extreme = np.abs(signs @ gap) >= abs(gap.sum()) - 1e-9
    assert table["p"].item() == pytest.approx(extreme.mean())
    assert table["prompts"].item() == 5


def test_only_what_both_were_audited_on_counts_whatever_the_order(paired):
    one = run_of([1, 1, 0, 1], items=["i", "j", "k", "l"], prompt=[1, 2, 3, 4])
    other = run_of([0, 1, 1], items=["l", "k", "j"], prompt=[4, 3, 2])
    row = paired(a=one, b=other).iloc[0]
    assert row[["n", "n_model", "n_other"]].tolist() == [3, 4, 3]
    # j: 1 and 1; k: 0 and 1; l: 1 and 0
    assert row[["rate", "other_rate", "difference"]].tolist() == pytest.approx([2 / 3, 2 / 3, 0])


def test_an_item_of_another_prompt_is_another_comparison(paired):
    row = paired(a=run_of([1, 0], prompt=[1, 2]), b=run_of([1, 0], prompt=[1, 3])).iloc[0]
    assert row["n"] == 1


def test_a_model_and_its_copy_are_not_told_apart(paired):
    run = validity_world().isel(head=[0])
    row = paired(a=run, b=run).iloc[0]
    assert row["p"] == 1
    assert row[["difference", "verdict"]].tolist() == [0, "not told apart"]


def test_the_better_model_is_lower_when_it_comes_second(paired):
    row = paired(a=run_of([0] * 10), b=run_of([1] * 10)).iloc[0]
    assert row["verdict"] == "lower"
    assert row["p_adjusted"] == pytest.approx(2 / 2**10)


def test_where_each_criterion_varies_another_thing_models_are_not_compared(audit):
    for model, won in (("a", 1), ("b", 0)):
        for dataset in ("xstest", "stimuli/controlled", "helpsteer2"):
            results = audit(model, dataset, run_of([won] * 9))
    left = summary.everything(results)
    assert summary.compare(left)["dataset"].tolist() == ["xstest"]
    assert set(summary.scores(left)["dataset"]) == {"xstest"}


def test_the_family_is_every_pair_and_dataset(audit):
    runs = {"a": run_of([1] * 9), "b": run_of([0] * 9), "c": run_of([0] * 9)}
    for (model, run), dataset in itertools.product(runs.items(), ("xstest", "llmbar")):
        results = audit(model, dataset, run)
    table = summary.compare(summary.everything(results))
    assert len(table) == 6
    told = table[table["other"].isin(["b", "c"]) & (table["model"] == "a")]
    # Holm: four equal p of 2/512, then two of 1
    assert told["p_adjusted"].tolist() == pytest.approx([6 * 2 / 512] * 4)
    assert set(table.loc[table["model"] == "b", "verdict"]) == {"not told apart"}


@pytest.mark.parametrize(
    ("other", "note"),
    [
        (run_of([1, 0], items=["x", "y"]), "no comparison in common"),
        (run_of([1, 0], heads=2, final=False), "several heads and no one score (b)"),
        (run_of([1, np.nan]), "scores that are not numbers"),
    ],
)
def test_what_cannot_be_paired_is_undefined_with_its_reason(paired, other, note):
    row = paired(a=run_of([1, 0]), b=other).iloc[0]
    assert row[["verdict", "note"]].tolist() == ["undefined", note]
    assert np.isnan(row["p_adjusted"])


def test_tables_without_outcomes_are_not_paired(audit):
    audit("a", "xstest", run_of([1, 0]))
    results = audit("b", "xstest", run_of([1, 0]), kept=False)
    row = summary.compare(summary.everything(results, ["a", "b"])).iloc[0]
    assert row["note"] == "who won each comparison was not kept (b)"


def test_two_models_without_outcomes_are_both_named(audit):
    audit("a", "xstest", run_of([1, 0], heads=2, final=False))
    results = audit("b", "xstest", run_of([1, 0]), kept=False)
    row = summary.compare(summary.everything(results, ["a", "b"])).iloc[0]
    assert row["note"] == (
        "several heads and no one score (a); who won each comparison was not kept (b)"
    )


def test_a_model_of_one_head_is_compared_by_it(paired):
    row = paired(a=run_of([1] * 8, final=False), b=run_of([0] * 8)).iloc[0]
    assert row["difference"] == 1


def test_one_model_has_nothing_to_be_compared_with(audit):
    left = summary.everything(audit("a", "xstest", run_of([1, 0])))
    table = summary.compare(left)
    assert table.empty
    assert {"difference", "p_adjusted", "verdict", "note"} <= set(table.columns)


# ---- Side by side ----


def test_scores_are_those_of_the_pages(audit):
    run = validity_world()
    audit("a", "xstest", run.assign(final=("response", run["score"].values[:, 0])))
    results = audit("b", "llmbar", run.isel(head=[0]))
    rows = summary.scores(summary.everything(results)).set_index(["dataset", "model"])
    table = summary.tables(results, "a").read("baselines", "xstest").set_index("baseline")
    score = table[table["subset"] == "all"].loc["final score"]
    a = rows.loc[("xstest", "a")]
    assert a["rule"] == "final score" and a["heads"] == run.sizes["head"]
    assert a[["win_rate", "low", "high"]].tolist() == score[["win_rate", "low", "high"]].tolist()
    b = rows.loc[("llmbar", "b")]
    assert b["rule"] == str(run["head"].values[0]) == b["best"]
    assert b["win_rate"] == b["best_rate"] == pytest.approx(score["win_rate"])
    gate = (("item", "head"), np.ones((run.sizes["item"], run.sizes["head"]), np.float32))
    final = ("response", run["score"].values[:, 0])
    results = audit("a", "xstest", run.assign(final=final, gate=gate))
    again = summary.scores(summary.everything(results)).set_index(["dataset", "model"])
    assert again.loc[("xstest", "a"), "win_rate"] == a["win_rate"], "as the gated score"
    assert rows.loc[("xstest", "b"), "note"] == rows.loc[("llmbar", "a"), "note"] == "not run"
    assert np.isnan(rows.loc[("xstest", "b"), "win_rate"])


def test_heads_without_a_score_give_their_best_and_say_so(audit):
    run = run_of([1, 1, 0], heads=2, final=False)
    score = run["score"].values.copy()
    score[:, 1] = -score[:, 1]
    results = audit("a", "xstest", run.assign(score=(("response", "head"), score)))
    row = summary.scores(summary.everything(results)).iloc[0]
    assert row[["rule", "note", "best"]].tolist() == [
        *("", "several heads and no one score", "head_0")
    ]
    assert np.isnan(row["win_rate"]) and row["best_rate"] == pytest.approx(2 / 3)


def test_length_stands_beside_each_score_on_its_own_comparisons(audit):
    tokens = [9, 1, 9, 1, 5, 5, 1, 9]  # + + = −
    one = make_run(np.ones((8, 1)), tokens=tokens)
    audit("a", "xstest", one)
    results = audit("b", "xstest", one.isel(comparison=[0, 1]))
    rows = summary.scores(summary.everything(results)).set_index("model")
    assert rows["longer"].to_dict() == {"a": 2.5 / 4, "b": 1}


def test_without_baselines_there_is_no_length(audit):
    results = audit("a", "xstest", run_of([1, 0]))
    (results / "a" / "xstest" / "baselines.parquet").unlink()
    assert summary.scores(summary.everything(results))["longer"].isna().all()


# ---- Pooled ----


def test_what_a_gating_page_pools_is_compared_on_together(audit, keep):
    both = {"a": ([1, 1, 1, 0], [1, 0, 1]), "b": ([0, 0, 1, 0], [1, 1, 0])}
    parts = ("hh-rlhf/harmless-base", "hh-rlhf/helpful-base")
    for model, won in both.items():
        for dataset, own in zip(parts, won, strict=True):  # items of the parts share their names
            results = audit(model, dataset, run_of(own))
    alone = summary.compare(summary.everything(results))
    assert alone["dataset"].tolist() == list(parts)
    rules = stats.rules(gating_world(40)).replace(dict(zip(("one", "two"), parts, strict=True)))
    keep("a", rules=rules)
    table = summary.compare(summary.everything(results)).set_index("dataset")
    row = table.loc["hh-rlhf/harmless-base + helpful-base"]
    # by hand: a wins 5 of 7 and b 3; prompts are the same in both parts, so there are four
    assert row[["n", "prompts"]].tolist() == [7, 4]
    assert (row["rate"], row["other_rate"], row["difference"]) == pytest.approx(
        (5 / 7, 3 / 7, 2 / 7)
    )
    assert table["p_adjusted"].max() <= 1 and len(table) == 3
    smallest = table["p"].min()
    assert table["p_adjusted"].min() == pytest.approx(min(1, 3 * smallest)), "one family"
    text = words.together(summary.compare(summary.everything(results)))
    assert "a ranks 0.714 and b 0.429 of 7 in common: a difference of +0.286" in text
    assert "Holm over 3" in text and words.together(alone) == ""


def test_a_model_that_learned_from_a_source_is_marked_beside_one_that_did_not(audit, keep):
    parts = ("hh-rlhf/harmless-base", "hh-rlhf/helpful-base")
    for model in ("a", "b"):
        for dataset in (*parts, "llmbar", "xstest"):
            results = audit(model, dataset, run_of([1, 1, 0]))
    card = pd.DataFrame({"head": ["one", "two"], "kind": "preference"})
    keep("a", card_scores=card.assign(trained_on=["llmbar", f"{parts[0]} and {parts[1]}"]))
    keep("b", card_scores=card.assign(trained_on=["", parts[1]]))
    keep("a", rules=stats.rules(gating_world(40)).replace({"one": parts[0], "two": parts[1]}))
    left = summary.everything(results, ["a", "b"])
    pairs = learned(summary.compare(left), left)
    assert dict(zip(pairs["dataset"], pairs["learned"], strict=True)) == {
        parts[0]: "a",
        parts[1]: "a, b",
        "llmbar": "a",
        "xstest": "",
        "hh-rlhf/harmless-base + helpful-base": "a, b",
    }
    assert words.learned(pairs) == [
        f"a learned from other prompts of {parts[0]}, llmbar, and b didn't: differences there may "
        "come from that alone (†)."
    ]
    assert "llmbar † (" in words.answer(pairs) and "xstest (" in words.answer(pairs)
    drawn = charts.differences(pairs).alternative
    assert "llmbar † " in drawn and "xstest †" not in drawn and f"{parts[1]} †" not in drawn
    scores = learned(summary.scores(left), left)
    assert "llmbar · a †" in charts.scores(scores).alternative
    assert "llmbar · b †" not in charts.scores(scores).alternative
    bare = summary.compare(left)
    assert words.learned(bare) == [] and "†" not in words.answer(bare)


def test_a_pool_of_which_one_part_was_not_kept_says_so(audit, keep):
    parts = ("hh-rlhf/harmless-base", "hh-rlhf/helpful-base")
    for model in ("a", "b"):
        for dataset in parts:
            results = audit(
                model, dataset, run_of([1] * 5), kept=(model, dataset) != ("b", parts[1])
            )
    keep("a", rules=stats.rules(gating_world(40)).replace({"one": parts[0], "two": parts[1]}))
    table = summary.compare(summary.everything(results, ["a", "b"])).set_index("dataset")
    row = table.loc["hh-rlhf/harmless-base + helpful-base"]
    assert (
        row["verdict"] == "undefined" and row["note"] == "who won each comparison was not kept (b)"
    )
