"""Sentences of the summary pages follow their tables, for one head or model as for many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib.analyses.protocols import words as on_protocols
from lib.data.concepts import CLAIMED, OPPOSED, OTHER
from lib.stats.winrates import VERDICTS
from lib.summary.compare import words as compares
from lib.summary.compare.stats import DIFFERENCES, SCORES
from lib.summary.scorecard import words as says
from lib.summary.scorecard.stats import CELLS, GAINS, NO_CONCEPT, PAIRS, uses

NO_PAIRS, NO_GAINS = pd.DataFrame(columns=list(PAIRS)), pd.DataFrame(columns=list(GAINS))


def cells(*rows) -> pd.DataFrame:
    """Head, dataset, win rate, verdict."""
    table = pd.DataFrame(rows, columns=["head", "dataset", "win_rate", "verdict"])
    table["low"], table["high"], table["subset"] = (
        table["win_rate"] - 0.1,
        table["win_rate"] + 0.1,
        "all",
    )
    return table.reindex(columns=list(CELLS))


def card(table: pd.DataFrame, **columns) -> pd.DataFrame:
    rows = []
    for head, own in table.groupby("head", sort=False):
        counts = own["verdict"].value_counts()
        row = {"head": head, "protocols": int((own["verdict"] != "not run").sum())}
        rows.append(row | {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS})
    words = dict.fromkeys(
        ("claims", "label", "label_on", "label_why", "partners", "readout"), "not run"
    )
    numbers = dict.fromkeys(("own", "own_low", "own_high"), np.nan)
    return pd.DataFrame(rows).assign(**words | numbers | columns)


MANY = cells(
    ("a", "xstest", 0.7, "strong"),
    ("b", "xstest", 0.3, "inverted"),
    ("a", "llmbar", 0.5, "chance"),
    ("b", "llmbar", 0.6, "tracks"),
)


def at_once(table: pd.DataFrame) -> pd.DataFrame:
    """Sides as the verdicts say."""
    shown = table["verdict"].isin(["strong", "tracks", "inverted"])
    return table.rename(columns={"dataset": "protocol"}).assign(p_adjusted=1 - 0.99 * shown)


def test_one_head_on_one_protocol_reads_as_such():
    one = cells(("reward", "xstest", 0.7, "strong"))
    told = says.takeaways(card(one, partners="none"), one, NO_PAIRS)
    assert told[0] == "The model's one head, reward, on 1 protocol: 1 strong."
    assert not any("correlate" in sentence or "another" in sentence for sentence in told)


def test_what_was_not_run_is_said():
    empty = cells()
    heads = card(cells(("a", "xstest", np.nan, "not run")))
    told = says.takeaways(heads, empty, NO_PAIRS)
    assert told == ["Not run for this model: validity, labels, disentanglement, probes."]
    assert says.glued(heads, empty)["verdicts"] == "No validity page was executed."
    hole = pd.concat([MANY, cells(("a", "rm-bench", np.nan, "not run"))])
    told = says.takeaways(card(hole), hole, NO_PAIRS)
    assert told[-1] == "Validity was not run for every head on rm-bench."
    assert told[0].startswith("2 heads on 2 protocols give 4 verdicts")


@pytest.mark.parametrize(
    ("labels", "low", "first", "last"),
    [
        (
            ["not contradicted"] * 2,
            [0.51, 0.5],
            "None of the 2 names",
            "1 of 2 tested heads is not shown",
        ),
        (
            ["not contradicted"] * 2,
            [0.4, 0.3],
            "None of the 2 names",
            "2 of 2 tested heads are not shown",
        ),
        (
            ["not contradicted"] * 2,
            0.6,
            "None of the 2 names",
            "Each tested head is shown to win on its own",
        ),
        (
            ["not contradicted", "not tested"],
            0.6,
            "The one name that was",
            "The name of 1 head was",
        ),
        (["not tested"] * 2, np.nan, "No head's name could be", "No head's name could be"),
    ],
)
def test_names_that_are_not_called_wrong_are_no_names_that_hold(labels, low, first, last):
    heads = card(MANY, label=labels).assign(own_low=low)
    about = says.takeaways(heads, MANY, NO_PAIRS)[1:-1]
    assert about[0].startswith(first) and about[-1].startswith(last)


def test_criteria_judged_one_by_one_are_no_verdict_on_a_protocol():
    single = MANY.assign(subset="tone")
    heads = card(cells(("a", "xstest", np.nan, "not run")))
    assert says.answer(heads, single).startswith("No dataset that asks one question as a whole")


def test_entangled_pairs_are_told_once_and_the_rest_counted():
    rows = [("xstest", "a", str(k), 0.9, 0.8, 0.95, "") for k in range(5)]
    rows.append(("llmbar", "a", "0", 0.8, 0.7, 0.9, ""))
    pairs = pd.DataFrame(rows, columns=list(PAIRS))
    told = says.takeaways(card(MANY, partners="some"), MANY, pairs)
    assert (
        told.count("a and 0 are entangled: their choices correlate at 0.90 [0.80, 0.95] on xstest.")
        == 1
    )
    against = pairs[:1].assign(r=-0.77, low=-0.82, high=-0.71)
    told_against = says.takeaways(card(MANY, partners="some"), MANY, against)
    assert "a and 0 are opposed: their choices correlate at -0.77 [-0.82, -0.71] on xstest." in (
        told_against
    )
    assert not any("a and 0 are entangled" in line for line in told_against)
    assert f"{5 - says.SHOWN} further pairs are entangled or opposed." in told
    assert any("of several datasets the largest correlation is told" in line for line in told)
    told = says.takeaways(card(MANY, partners="none"), MANY, NO_PAIRS)
    assert (
        "No two heads' choices correlate beyond ±0.7 for sure, wherever that was looked at." in told
    )


def test_a_head_without_a_rate_is_not_said_to_go_any_way():
    lost = cells(("a", "xstest", np.nan, "undefined")).assign(relation=OPPOSED)
    assert "nan" not in " ".join(says.takeaways(card(lost), lost, NO_PAIRS))


def test_rendering_of_the_scorecard(assert_rendered):
    """One name is wrong, one in doubt, one not tested; one head changes sides, one loses."""
    third = cells(("c", "xstest", 0.5, "inconclusive"), ("c", "llmbar", np.nan, "not run"))
    table = pd.concat([MANY.assign(length=""), third.assign(length="")])
    table.loc[table["verdict"] == "strong", "length"] = "as the longer response"
    table.loc[table["verdict"] == "inverted", "length"] = "no more than the shorter response"
    known = {"a": CLAIMED, "b": OPPOSED, "c": OTHER}
    related = table.assign(relation=table["head"].map(known))
    heads = card(
        table,
        claims=["safety", "tone", NO_CONCEPT],
        label=["wrong", "doubted", "not tested"],
        label_on="llmbar",
        label_why=["follows tone better", "fits better exchanged", ""],
        readout=["safety: not read out (on x)", "safety: read out (on x)", ""],
        partners="some",
    ).assign(own=0.4, own_low=[0.3, 0.6, np.nan], own_high=0.7, from_length=[0.2, 0.05, np.nan])
    pairs = pd.DataFrame([("xstest", "a", "b", 0.9, 0.8, 0.95, "")], columns=list(PAIRS))
    lengths = cells(("", "xstest", 0.7, ""), ("", "llmbar", 0.3, ""))
    gains = [
        {"dataset": d, "rule": "ridge", "gain": g, "gain_low": g - 0.1, "gain_high": g + 0.1}
        | {"p_adjusted": p}
        for d, g, p in (("x", 0.2, 0.01), ("y", -0.2, 0.01), ("z", 0.01, 0.9))
    ]
    gains.append({"dataset": "x", "rule": "gate", "gain": np.nan})
    assert_rendered(
        Path(__file__).parent / "scorecard" / "sentences.txt",
        says.takeaways(heads, related, pairs, at_once(table)),
        says.longer(heads, lengths),
        says.gate(pd.DataFrame(gains).reindex(columns=list(GAINS))),
        [says.answer(heads, table, at_once(table)), says.answer(heads, table)],
        [says.uses(uses(related, heads))],
        says.glued(heads, table),
        dict(zip(*(says.legend()[column] for column in ("verdict", "meaning")), strict=True)),
    )
    assert set(says.legend()["verdict"]) == set(VERDICTS)
    assert says.gate(NO_GAINS) == ["The model has no gate, or no page judged it."]


# ---- Models compared ----


def scores(*models) -> pd.DataFrame:
    return pd.DataFrame({"model": models, "dataset": "x"}).reindex(columns=list(SCORES))


def pairs(*rows) -> pd.DataFrame:
    columns = ["dataset", "difference", "verdict", "p", "note"]
    table = pd.DataFrame(rows, columns=columns).assign(
        model="one", other="two", n=50, rate=0.6, other_rate=0.5, mde=0.15, p_adjusted=0.01
    )
    table["low"], table["high"] = table["difference"] - 0.1, table["difference"] + 0.1
    return table.reindex(columns=list(DIFFERENCES))


def test_one_model_alone_is_not_compared():
    assert compares.takeaways(scores("one"), pairs()) == [
        "One model was audited here (one), so there is nothing to compare it with."
    ]
    assert compares.takeaways(scores("one", "two"), pairs()) == [
        "No two models were audited on the same dataset, so none are compared."
    ]


def test_rendering_of_the_comparison(assert_rendered):
    """Better, worse, not told apart and not paired; which of the two comes first is its own."""
    table = pairs(
        ("x", 0.2, "higher", 0.01, ""),
        ("y", -0.2, "lower", 0.01, ""),
        ("z", 0.02, "not told apart", 0.9, ""),
        ("v", 0.03, "not told apart", 0.9, ""),
        ("w", np.nan, "undefined", np.nan, "no comparison in common"),
    )
    table.loc[3, "mde"] = np.nan  # so few prompts that nothing would have been found
    assert_rendered(
        Path(__file__).parent / "compare" / "sentences.txt",
        compares.takeaways(scores("one", "two"), table),
        [compares.answer(table), compares.answer(table.head(0))],
    )


def test_an_interval_that_excludes_0_beside_not_told_apart_says_why():
    table = pairs(("x", 0.2, "higher", 0.01, ""), ("y", 0.15, "not told apart", 0.04, ""))
    table.loc[1, "p_adjusted"] = 0.06
    assert compares.answer(table).endswith(
        "is not told apart from it on y (+0.150 [+0.050, +0.250]). Verdicts are by Holm's correction "
        "over 2 comparisons of two models; intervals are uncorrected, and exclude 0 though the two "
        "are not told apart for one and two on y (adjusted p = 0.06)."
    )


def test_pairs_that_cannot_be_compared_are_named_one_by_one():
    table = pairs(
        ("xstest", 0.2, "higher", 0.01, ""),
        ("xstest", np.nan, "undefined", np.nan, "why"),
        ("xstest", np.nan, "undefined", np.nan, "why"),
        ("llmbar", np.nan, "undefined", np.nan, "why"),
    ).assign(model=["a", "a", "b", "b"], other=["b", "c", "c", "c"])
    told = compares.takeaways(scores("a", "b", "c"), table)
    assert [line for line in told if "paired" in line] == [
        "a and c are not paired on xstest: why.",
        "b and c are not paired on xstest, llmbar: why.",
    ]


# ---- Sides, corrected over protocols ----


def over_protocols(*rows) -> pd.DataFrame:
    """Head, protocol, win rate, adjusted p."""
    table = pd.DataFrame(rows, columns=["head", "protocol", "win_rate", "p_adjusted"])
    return table.assign(low=table["win_rate"] - 0.1, high=table["win_rate"] + 0.1)


AT_ONCE = over_protocols(
    ("a", "xstest", 0.8, 0.001),
    ("a", "llmbar", 0.3, 0.001),
    ("b", "xstest", 0.7, 0.07),  # passes on its own page alone
    ("b", "llmbar", 0.4, 0.001),
)


def test_the_pages_name_and_count_the_same_heads_that_change_sides():
    """Of b the verdicts of two pages would say it; over all protocols at once only a does."""
    table = cells(
        *(("a", "xstest", 0.8, "strong"), ("a", "llmbar", 0.3, "inverted")),
        *(("b", "xstest", 0.7, "tracks"), ("b", "llmbar", 0.4, "inverted")),
    )
    heads = card(table)
    (named,) = on_protocols.crossing(AT_ONCE)
    assert named.startswith("a goes with the labels of xstest (0.800 [0.700, 0.900])")
    assert named in says.takeaways(heads, table, NO_PAIRS, AT_ONCE)
    assert "1 of 2 heads goes with the labels" in says.answer(heads, table, AT_ONCE)
    assert on_protocols.answer(AT_ONCE).startswith("1 of 2 heads goes with the labels")
    assert "The matrix has both colours for 2:" in says.answer(heads, table, AT_ONCE)
    alike = table.assign(verdict=["strong", "inverted", "chance", "inverted"])
    assert "both colours" not in says.answer(heads, alike, AT_ONCE)
    assert "of another" not in says.answer(heads, table)
    none = AT_ONCE.assign(p_adjusted=0.2)
    assert "No head is shown to go with the labels" in says.answer(heads, table, none)
