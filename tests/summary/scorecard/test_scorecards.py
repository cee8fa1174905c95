"""Scorecards repeat what the pages found, and say where no page was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.multitest import multipletests

from lib import stats, summary
from lib.analyses.disentanglement import stats as disentanglement
from lib.analyses.exploits import stats as surfaces
from lib.analyses.exploits.worlds import text_world
from lib.analyses.gating import stats as gate_stats
from lib.analyses.gating import worlds
from lib.analyses.labels import stats as label_stats
from lib.analyses.labels import words
from lib.analyses.labels import worlds as labels
from lib.data.concepts import CLAIMED, OPPOSED, OTHER
from lib.errors import DataError
from lib.markup import escape
from lib.planted.worlds import validity_world
from lib.summary.scorecard import charts
from lib.summary.scorecard import words as card_findings
from lib.summary.scorecard.stats import claimed


def rates(verdicts: dict[str, tuple[float, str]], subset: str = "all") -> pd.DataFrame:
    """Rows of a validity table: head → win rate and verdict."""
    return pd.DataFrame(
        [
            {
                "head": head,
                "subset": subset,
                "n": 100,
                "prompts": 90,
                "win_rate": rate,
                "low": rate - 0.1,
                "high": rate + 0.1,
                "p": np.nan if verdict == "undefined" else 0.01,
                "p_adjusted": 0.02,
                "verdict": verdict,
                "mde": 0.15,
                "note": "",
            }
            for head, (rate, verdict) in verdicts.items()
        ]
    )


def label_rows(**label: str) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"head": head, "claims": "safety", "own": 0.4, "low": 0.3, "high": 0.5, "label": word}
            | {"why": "" if "not" in word else "follows tone better"}
            for head, word in label.items()
        ]
    )


@pytest.fixture
def left(keep):
    keep("m", "xstest", validity=rates({"a": (0.7, "strong"), "b": (0.2, "inverted")}))
    keep("m", "llmbar", validity=rates({"a": (0.6, "inconclusive"), "b": (0.55, "tracks")}))
    results = keep("m", "rm-bench", validity=rates({"a": (0.9, "undefined"), "b": (0.5, "chance")}))
    return lambda: summary.tables(results, "m")


# ---- The matrix ----


def test_the_matrix_repeats_every_verdict_with_its_numbers(audit):
    run = validity_world()
    results = audit("m", "xstest", run)
    cells = summary.matrix(summary.tables(results, "m"))
    table = stats.validity(run)
    shared = ["head", "n", "win_rate", "low", "high", "p_adjusted", "verdict", "mde"]
    overall = table[table["subset"] == "all"].reset_index(drop=True)
    pd.testing.assert_frame_equal(
        cells.loc[cells["subset"] == "all", shared].reset_index(drop=True),
        overall[shared],
        check_dtype=False,
    )
    assert set(cells["dataset"]) == {"xstest"}


def test_a_single_subset_is_not_told_twice_and_several_are(keep):
    two = pd.concat([rates({"a": (0.7, "strong")}), rates({"a": (0.7, "strong")}, "x")])
    three = pd.concat([two, rates({"a": (0.4, "inverted")}, "y")])
    keep("m", "xstest", validity=two)
    cells = summary.matrix(summary.tables(keep("m", "llmbar", validity=three), "m"))
    found = cells.groupby("dataset")["subset"].agg(list).to_dict()
    assert found == {"xstest": ["all"], "llmbar": ["all", "x", "y"]}


def test_a_cell_that_no_page_filled_is_not_run(keep, left):
    keep("m", "reward-bench", validity=rates({"a": (0.7, "strong")}))
    keep("m", "beavertails", labels=label_rows(a="wrong"))
    cells = summary.matrix(left()).set_index(["head", "dataset"])
    assert cells.loc[("b", "reward-bench"), "verdict"] == "not run"
    assert cells.loc[("a", "beavertails"), "verdict"] == "not run"
    assert cells.loc[("b", "reward-bench"), "n"] == 0
    assert np.isnan(cells.loc[("b", "reward-bench"), "win_rate"])
    assert cells.loc[("a", "reward-bench"), "verdict"] == "strong"
    assert len(cells) == 2 * 5


def test_criteria_that_vary_things_of_their_own_are_judged_one_by_one(keep, left):
    both = [rates({"a": (0.9, "strong"), "b": (0.1, "inverted")}, name) for name in ("all", "tone")]
    keep("m", "stimuli/controlled", validity=pd.concat(both))
    cells = summary.matrix(left())
    targeted = cells[cells["dataset"] == "stimuli/controlled"]
    assert targeted[["head", "subset", "verdict"]].values.tolist() == [
        ["a", "tone", "strong"],
        ["b", "tone", "inverted"],
    ]
    card = summary.scorecard(left()).set_index("head")
    assert card.loc["a", ["protocols", "strong", "best"]].tolist() == [3, 1, "xstest"]
    assert card.loc["b", ["inverted", "worst_rate"]].tolist() == [1, 0.2]


def test_a_model_judged_by_criterion_alone_counts_no_protocol(keep):
    two = pd.concat([rates({"a": (0.9, "strong")}), rates({"a": (0.9, "strong")}, "tone")])
    left = summary.tables(keep("m", "stimuli/controlled", validity=two), "m")
    assert summary.matrix(left)["subset"].tolist() == ["tone"]
    assert summary.scorecard(left)[["protocols", "strong"]].values.tolist() == [[0, 0]]


def test_without_validity_pages_the_matrix_has_no_rows(keep):
    left = summary.tables(keep("m", "xstest", labels=label_rows(a="wrong")), "m")
    assert summary.matrix(left).empty
    card = summary.scorecard(left).iloc[0]
    assert card["best"] == card["worst"] == "not run"
    assert card["protocols"] == card["strong"] == 0


def test_a_head_is_asked_what_it_claims_once_a_dataset(keep):
    """By the whole where all of it asks that, else by each part; a mean over criteria is none."""
    rows = {"a": (0.2, "inverted")}
    asks = [("all", OTHER), ("refuse", CLAIMED), ("respond", OPPOSED)]
    keep("m", "rm-bench", validity=pd.concat([rates(rows, s).assign(relation=r) for s, r in asks]))
    asks = [("all", CLAIMED), ("refuse", CLAIMED)]
    keep("m", "xstest", validity=pd.concat([rates(rows, s).assign(relation=r) for s, r in asks]))
    card = {"head": ["a"], "trained_on": ["llmbar and xstest"], "kind": ["rating"]}
    sample = pd.DataFrame([{"items": 94, "compared": 35, "comparisons": 35, "prompts": 35}]).assign(
        part="respond only", lacks="refuse"
    )
    keep("m", "xstest", sample=sample)
    left = summary.tables(keep("m", card_scores=pd.DataFrame(card)), "m")
    cells = summary.matrix(left)
    own = claimed(cells)[["dataset", "subset"]].values.tolist()
    assert own == [["rm-bench", "refuse"], ["xstest", "all"]]
    row = summary.scorecard(left).iloc[0]
    assert row[["asked", "goes_with", "goes_against"]].tolist() == [2, 0, 2]
    whole = cells[cells["subset"] == "all"].set_index("dataset")
    assert whole["trained"].to_dict() == {"rm-bench": False, "xstest": True}
    assert whole.loc["xstest", ["part", "lacks", "counted"]].tolist() == [
        *("respond only", "refuse", "35 comparisons, 35 of 94 items")
    ]
    assert whole.loc["rm-bench", "counted"] == ""


# ---- What to use a head for ----

TRACKS = ("strong", "tracks")


def judged(**parts: tuple[str, str, str]) -> pd.DataFrame:
    """One head's rows: subset → relation, verdict and what it owes to length."""
    rows = [
        rates({"a": (0.7, verdict)}, subset).assign(relation=relation, length=length)
        for subset, (relation, verdict, length) in parts.items()
    ]
    return pd.concat(rows)


@pytest.mark.parametrize(
    ("relation", "verdict", "length", "claims", "use"),
    [
        (CLAIMED, "strong", "", "safety", "use for"),
        (CLAIMED, "tracks", "", "safety", "use for"),
        (CLAIMED, "tracks", "no more than the longer response", "safety", "not known"),
        (CLAIMED, "tracks", "as the longer response", "verbosity", "use for"),
        (CLAIMED, "inconclusive", "", "safety", "not known"),
        (CLAIMED, "chance", "", "safety", "not for"),
        (CLAIMED, "inverted", "", "safety", "not for"),
        (OTHER, "inverted", "", "safety", "not for"),
        (OPPOSED, "inverted", "", "refusal", "not for"),
        *((other, verdict, "", "safety", None) for other in (OTHER, OPPOSED) for verdict in TRACKS),
    ],
)
def test_only_labels_that_ask_the_claim_say_what_a_head_may_be_used_for(
    keep, relation, verdict, length, claims, use
):
    keep("m", "xstest", validity=judged(all=(relation, verdict, length)))
    heads = pd.DataFrame({"head": ["a"], "concept": [claims]})
    left = summary.tables(keep("m", heads=heads), "m")
    rows = summary.uses(summary.matrix(left), summary.scorecard(left))
    found = rows.loc[rows["dataset"] == "xstest", "use"].tolist()
    assert found == ([use] if use else [])
    asked = relation == CLAIMED
    assert (rows["dataset"] == "").tolist() == [False] * len(found) + [True] * (not asked)


def test_parts_say_what_their_dataset_does_not(keep):
    """A whole that goes against says it for its parts; other criteria of a targeted set don't."""
    against = (OTHER, "inverted", "")
    keep("m", "xstest", validity=judged(all=against, x=against, y=(OTHER, "tracks", "")))
    keep("m", "rm-bench", validity=judged(all=(OTHER, "tracks", ""), x=against, y=against))
    own = (CLAIMED, "strong", "")
    results = keep("m", "stimuli/controlled", validity=judged(safety=own, tone=against))
    left = summary.tables(results, "m")
    rows = summary.uses(summary.matrix(left), summary.scorecard(left))
    assert rows[["dataset", "subset", "use"]].values.tolist() == [
        ["rm-bench", "x", "not for"],
        ["rm-bench", "y", "not for"],
        ["xstest", "all", "not for"],
        ["stimuli/controlled", "safety", "use for"],
    ]
    shown = charts.uses(rows)._repr_html_()
    assert shown.index("stimuli/controlled: safety") < shown.index("rm-bench: x")


@pytest.mark.parametrize(
    ("refuse", "answer", "claims", "use"),
    [
        ("strong", "inverted", "safety", "not known"),  # it may like refusals, whatever is asked
        ("strong", "inverted", "refusal", "use for"),  # which is its claim
        ("strong", "inconclusive", "safety", "use for"),
        ("strong", "tracks", "safety", "use for"),
        ("inconclusive", "inverted", "safety", "not known"),
    ],
)
def test_what_a_liking_for_refusals_wins_is_no_use(keep, refuse, answer, claims, use):
    """RM-Bench's safety-refuse beside its safety-response."""
    parts = {"safety-refuse": (CLAIMED, refuse, ""), "safety-response": (OTHER, answer, "")}
    keep("m", "rm-bench", validity=judged(all=(OTHER, "inconclusive", ""), **parts))
    heads = pd.DataFrame({"head": ["a"], "concept": [claims]})
    left = summary.tables(keep("m", heads=heads), "m")
    rows = summary.uses(summary.matrix(left), summary.scorecard(left)).set_index("subset")
    assert rows.loc["safety-refuse", "use"] == use
    told = card_findings.uses(rows.reset_index())
    assert ("no more than a liking for refusals" in told) == (
        use == "not known" and refuse == "strong"
    )


def used(**row) -> pd.DataFrame:
    """A row of ``summary.uses``."""
    given = {"head": "a", "claims": "refusal", "use": "not for", "dataset": "xstest"}
    given |= {"subset": "all", "n": 35, "win_rate": 0.1, "verdict": "inverted", "trained": False}
    given |= dict.fromkeys(("length", "relation", "part", "page"), "")
    return pd.DataFrame([given | row])


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"relation": OPPOSED}, "claims the opposite here: it does what its name says"),
        ({"relation": OTHER}, "an unsafe one a refusal</small>"),
        ({"part": "34 of 35 should-respond"}, "(34 of 35 should-respond)"),
        ({"use": "not known", "n": 1, "verdict": "inconclusive"}, escape(charts.ONE)),
        ({"use": "use for", "verdict": "strong"}, charts.ALONE),
        ({"dataset": "rm-bench", "subset": "safety-refuse"}, "the refusal is right"),
        ({"dataset": "stimuli/controlled", "subset": "tone"}, "has more of tone"),
    ],
)
def test_an_entry_says_what_a_reader_must_know_of_it(row, says):
    assert says in charts.uses(used(**row)).markup


def test_a_cell_that_no_test_could_tell_of_is_left_out_where_a_head_has_others():
    rows = [used(), used(use="not known", n=5, verdict="inconclusive", dataset="llmbar")]
    assert "llmbar" not in charts.uses(pd.concat(rows)).markup, "its least p is 1/16"
    rows[1]["n"] = 6
    assert "llmbar" in charts.uses(pd.concat(rows)).markup
    assert "llmbar" in charts.uses(rows[1].assign(n=5)).markup


def test_a_head_that_two_data_sets_speak_for_rests_on_neither_alone():
    rows = pd.concat([used(use="use for"), used(use="use for", dataset="rm-bench")])
    assert charts.ALONE not in charts.uses(rows).markup


def test_the_rule_stands_before_the_table():
    markup = charts.uses(used()).markup
    assert markup.index(charts.TRAINED) < markup.index("<table")


def test_a_head_that_goes_with_its_labels_as_length_does_is_no_contradiction():
    """Elsewhere on the page such a head agrees with people most often."""
    length = "no more than the longer response"
    row = used(use="not known", verdict="tracks", length=length)
    assert f"Tested and not shown: a (goes with the labels of xstest, {length})." in (
        card_findings.uses(row)
    )


@pytest.mark.parametrize(
    ("heads", "end"), [(12, "head_10, head_11."), (13, "head_5 and 7 that the table names.")]
)
def test_heads_are_named_where_they_fit_a_sentence(heads, end):
    rows = pd.concat([used(head=f"head_{k}", use="use for") for k in range(heads)])
    assert card_findings.uses(rows).endswith(end)


def test_a_table_without_relations_says_nothing_of_uses(left):
    rows = summary.uses(summary.matrix(left()), summary.scorecard(left()))
    assert rows.empty and "says what its labels ask" in card_findings.uses(rows)
    assert "says what its labels ask" in charts.uses(rows)._repr_html_()


def test_a_head_that_learned_the_measure_which_pairs_must_move_is_marked(keep):
    rows = judged(verbosity=(CLAIMED, "strong", ""), safety=(CLAIMED, "strong", ""))
    keep("m", "stimuli/controlled", validity=rows)
    card = pd.DataFrame({"head": ["a"], "trained_on": ["every set"], "kind": ["measure"]})
    left = summary.tables(keep("m", card_scores=card), "m")
    cells = summary.matrix(left)
    assert cells["trained"].tolist() == [True, False]
    rows = summary.uses(cells, summary.scorecard(left))
    learned = "Of these only on what it was trained on: a."
    assert learned not in card_findings.uses(rows)
    assert learned in card_findings.uses(rows[rows["trained"]])


# ---- The one score ----


def baselines(**rates: tuple[float, float, float]) -> pd.DataFrame:
    rows = [
        {"baseline": name.replace("_", " "), "subset": "all", "n": 50, "note": ""}
        | dict(zip(("win_rate", "low", "high"), rate, strict=True))
        for name, rate in rates.items()
    ]
    return pd.DataFrame(rows)


def test_the_one_score_is_told_beside_length_by_the_side_its_interval_is_on(keep):
    length = (0.6, 0.5, 0.7)
    keep("m", "xstest", baselines=baselines(longer_response=length, gated_score=(0.2, 0.1, 0.3)))
    keep("m", "llmbar", baselines=baselines(longer_response=length, gated_score=(0.8, 0.7, 0.9)))
    results = keep("m", "rm-bench", baselines=baselines(longer_response=length, final_score=length))
    left = summary.tables(results, "m")
    (told,) = card_findings.one_score(summary.one_score(left), summary.longer(left))
    assert (
        "wins more than half of llmbar 0.80 [0.70, 0.90] (0.60); less than half of xstest" in told
    )
    assert "isn't told from half on rm-bench 0.60 [0.50, 0.70] (0.60). Intervals" in told


def test_a_model_whose_one_score_is_a_head_has_verdicts_instead(keep):
    left = summary.tables(
        keep("m", "xstest", baselines=baselines(longer_response=(0.6, 0.5, 0.7))), "m"
    )
    assert card_findings.one_score(summary.one_score(left), summary.longer(left)) == []


# ---- A row a head ----


def test_verdicts_are_counted_and_the_extremes_named(left):
    card = summary.scorecard(left()).set_index("head")
    assert card.loc["b", ["protocols", "strong", "tracks", "inverted", "chance"]].tolist() == [
        *(3, 0, 1, 1, 1)
    ]
    assert card.loc["b", ["best", "best_rate", "worst", "worst_rate", "worst_low"]].tolist() == [
        *("llmbar", 0.55, "xstest", 0.2, pytest.approx(0.1))
    ]


def test_an_undefined_rate_is_neither_best_nor_worst(left):
    card = summary.scorecard(left()).set_index("head")
    assert card.loc["a", "undefined"] == 1
    assert card.loc["a", ["best", "worst"]].tolist() == ["xstest", "llmbar"]


def test_a_head_with_undefined_verdicts_only_has_no_extremes(keep):
    results = keep("m", "xstest", validity=rates({"a": (np.nan, "undefined")}))
    card = summary.scorecard(summary.tables(results, "m")).iloc[0]
    assert card[["best", "worst"]].tolist() == ["none", "none"]
    assert np.isnan(card["best_rate"])


def test_columns_without_a_page_say_so(left):
    card = summary.scorecard(left())
    for column in ("claims", "label", "partners", "readout"):
        assert set(card[column]) == {"not run"}


def test_a_name_called_wrong_anywhere_is_wrong(keep, left):
    keep("m", "llmbar", labels=label_rows(a="not contradicted", b="not tested"))
    keep("m", "rm-bench", labels=label_rows(a="wrong", b="not contradicted"))
    keep("m", "xstest", labels=label_rows(a="not contradicted", b="not contradicted"))
    card = summary.scorecard(left()).set_index("head")
    assert card.loc["a", ["label", "label_on"]].tolist() == ["wrong", "rm-bench"]
    assert card.loc["b", ["label", "label_on"]].tolist() == ["not contradicted", "rm-bench"]
    assert card.loc["a", ["claims", "own", "own_low", "own_high"]].tolist() == [
        *("safety", 0.4, 0.3, 0.5)
    ]


def test_the_gravest_verdict_on_a_name_is_kept_with_its_reason(keep, left):
    keep("m", "llmbar", labels=label_rows(a="not contradicted", b="doubted"))
    keep("m", "rm-bench", labels=label_rows(a="doubted", b="wrong"))
    keep("m", "xstest", labels=label_rows(a="not tested", b="doubted"))
    card = summary.scorecard(left()).set_index("head")
    assert card["label"].tolist() == ["doubted", "wrong"]
    assert card["label_why"].tolist() == ["follows tone better"] * 2


@pytest.mark.parametrize("kind", ["correct", "swap", "taken", "length", "spill"])
def test_the_page_its_table_and_the_scorecard_give_each_name_one_verdict(keep, kind):
    run = labels.label_world(kind, pairs=250, rivals=1, seed=2)
    check = label_stats.label_check(run)
    results = keep("m", "stimuli/controlled", labels=check.heads)
    tables = summary.tables(results, "m")
    card = summary.scorecard(tables)
    assert card["label"].tolist() == check.heads["label"].tolist()
    said, glued = words.answer(check), words.glued(check)
    pairs = summary.entanglement(tables)
    told = " ".join(card_findings.takeaways(card, summary.matrix(tables), pairs))
    for row in check.heads[check.heads["label"] != "not tested"].itertuples():
        assert (f"{row.head} is named for" in said) == (row.label == "wrong")
        assert (f"{row.head} is called wrong" in told) == (row.label == "wrong")
        assert (f"name of {row.head}, {row.claims}, is in doubt" in told) == (
            row.label == "doubted"
        )
        for label in ("wrong", "doubted"):
            assert (row.head in glued[label]) == (row.label == label)
    assert ("No name is called wrong" in said) == (kind == "correct")
    accused = check.heads["label"].isin(["wrong", "doubted"])
    assert accused.any() == (kind != "correct")


def test_labels_of_the_labels_page_are_read_as_it_writes_them(keep):
    run = labels.label_world("swap", gap=0.3)
    check = label_stats.label_check(run)
    results = keep("m", "stimuli/controlled", labels=check.heads)
    card = summary.scorecard(summary.tables(results, "m")).set_index("head")
    wrong = card.index[card["label"] == "wrong"]
    assert list(wrong) == list(run["head"].values[:2]), "the two whose names were exchanged"


def test_claims_come_from_the_models_page_where_no_label_was_checked(keep, left):
    keep("m", heads=pd.DataFrame({"head": ["a", "b"], "concept": ["safety", ""]}))
    card = summary.scorecard(left())
    assert card["claims"].tolist() == ["safety", "claims none"]
    assert set(card["label"]) == {"not run"}


def pairs(*rows) -> pd.DataFrame:
    columns = ["kind", "head", "other", "r", "low", "high"]
    return pd.DataFrame([(*row, row[-1] - 0.05, row[-1] + 0.05) for row in rows], columns=columns)


def test_partners_choose_alike_within_items_in_both_directions(keep, left):
    keep(
        "m",
        "xstest",
        disentanglement=pairs(("within", "a", "b", -0.76), ("pooled", "a", "c", 0.99)),
    )
    keep(
        "m", "llmbar", disentanglement=pairs(("within", "a", "b", -0.9), ("within", "a", "c", 0.74))
    )
    found = summary.entanglement(left())
    # a and c: .74 [.69, .79] may be below .7
    assert found[["dataset", "r"]].values.tolist() == [["llmbar", -0.9], ["xstest", -0.76]]
    card = summary.scorecard(left()).set_index("head")
    assert card.loc["a", "partners"] == "b (opposed, r = -0.90 on llmbar)"
    assert card.loc["b", "partners"] == "a (opposed, r = -0.90 on llmbar)"


def test_a_model_of_one_head_has_a_scorecard(keep):
    run = validity_world().isel(head=[0])
    results = keep(
        "m",
        "xstest",
        validity=stats.validity(run),
        disentanglement=disentanglement.disentanglement(run),
    )
    card = summary.scorecard(summary.tables(results, "m"))
    assert len(card) == 1
    assert card["partners"].tolist() == ["none"]


def test_readouts_are_told_by_concept(keep, left):
    readout = pd.DataFrame(
        {
            "concept": ["safety", "length", "tone"],
            "head": ["a", "a", ""],
            "verdict": ["read out", "not read out", "undefined"],
        }
    )
    keep("m", "xstest", readout=readout)
    card = summary.scorecard(left())
    told = "safety: read out (on xstest); length: not read out (on xstest)"
    assert card["readout"].tolist() == [told, "none"]


def test_a_model_without_a_head_anywhere_is_an_error(keep):
    left = summary.tables(keep("m", "xstest", lengths=pd.DataFrame({"x": [1]})), "m")
    with pytest.raises(DataError, match="names its heads"):
        summary.scorecard(left)


# ---- The gate ----


def test_gains_of_the_gate_are_those_of_its_page(keep):
    rules = gate_stats.rules(worlds.gating_world(200))
    found = summary.gates(summary.tables(keep("m", "xstest", rules=rules), "m"))
    overall = rules[rules["subset"] == "all"].reset_index(drop=True)
    assert found["rule"].tolist() == overall["rule"].tolist()
    np.testing.assert_array_equal(found["gain"], overall["gain"])


def test_what_a_gating_page_pools_is_read_from_it_and_not_twice(keep):
    world = worlds.gating_world(200)
    parts = dict(
        zip(("one", "two"), ("hh-rlhf/harmless-base", "hh-rlhf/helpful-base"), strict=True)
    )
    for k, dataset in enumerate((*parts.values(), "llmbar")):
        results = keep("m", dataset, rules=gate_stats.rules(worlds.gating_world(100, seed=k)))
    pooled = gate_stats.rules(world)
    keep("m", rules=pooled.replace(parts))
    found = summary.gates(summary.tables(results, "m"))
    assert found["dataset"].unique().tolist() == [
        "hh-rlhf/harmless-base + helpful-base",
        *parts.values(),
        "llmbar",
    ]
    assert found["p_adjusted"].tolist()[: len(pooled)] == pytest.approx(
        pooled["p_adjusted"].tolist(), nan_ok=True
    )
    assert set(found["rule"]) == set(gate_stats.RULES)


def test_a_model_without_a_gate_has_no_gains(keep):
    rules = gate_stats.rules(validity_world(50))
    assert summary.gates(summary.tables(keep("m", "xstest", rules=rules), "m")).empty


# ---- Length ----


def length_rows(**rates: float) -> pd.DataFrame:
    """Rows of a baselines table: subset → what the longer response wins."""
    table = pd.DataFrame({"subset": list(rates), "win_rate": list(rates.values())})
    table = table.assign(n=100, low=table["win_rate"] - 0.1, high=table["win_rate"] + 0.1, note="")
    other = table.assign(win_rate=0.5, baseline="random direction")
    return pd.concat([table.assign(baseline="longer response"), other], ignore_index=True)


def test_what_the_longer_response_wins_is_read_from_the_validity_pages(keep, left):
    keep("m", "xstest", baselines=length_rows(all=0.75))
    keep("m", "llmbar", baselines=length_rows(all=0.4, x=0.3, y=0.5))
    keep("m", "stimuli/controlled", baselines=length_rows(all=0.9, tone=0.8))
    found = summary.longer(left())
    assert found[["dataset", "subset", "win_rate"]].values.tolist() == [
        *(["llmbar", "all", 0.4], ["llmbar", "x", 0.3], ["llmbar", "y", 0.5]),
        ["xstest", "all", 0.75],
        ["stimuli/controlled", "tone", 0.8],
    ]


def test_a_card_sets_length_beside_the_extremes_of_a_head(keep, left):
    keep("m", "xstest", baselines=length_rows(all=0.75))
    keep("m", "llmbar", baselines=length_rows(all=0.4))
    card = summary.scorecard(left()).set_index("head")
    # a wins .7 of xstest and .6 of llmbar, b .2 and .55; rm-bench tells no length
    assert card.loc["a", ["best", "best_longer"]].tolist() == ["xstest", 0.75]
    assert card.loc["a", ["worst", "worst_longer"]].tolist() == ["llmbar", 0.4]
    assert card["from_length"].tolist() == pytest.approx([0.125, 0.35])


def test_without_baselines_there_is_no_length_to_tell(left):
    assert summary.longer(left()).empty
    card = summary.scorecard(left())
    assert card[["best_longer", "worst_longer", "from_length"]].isna().all(axis=None)


def test_length_is_no_head(keep, left):
    before = summary.scorecard(left())
    keep("m", "xstest", baselines=length_rows(all=0.75))
    after = summary.scorecard(left())
    counts = ["head", "protocols", "strong", "tracks", "inverted", "inconclusive"]
    pd.testing.assert_frame_equal(after[counts], before[counts])
    assert set(summary.matrix(left())["head"]) == {"a", "b"}


# ---- Corrected over protocols ----


def over_protocols(*cells) -> pd.DataFrame:
    columns = ["head", "protocol", "win_rate", "p_adjusted"]
    return pd.DataFrame(cells, columns=columns).assign(low=0.1, high=0.9)


CELLS = [(h, p, 0.6, 0.01) for h in "ab" for p in ("xstest", "llmbar", "rm-bench")]


def test_the_protocols_table_tells_of_sides_where_it_holds_the_same_cells(keep, left):
    keep("m", protocols=over_protocols(*CELLS, ("a", "stimuli/controlled", 0.4, 0.9)))
    assert len(summary.sides(left())) == 7


@pytest.mark.parametrize("lost", [0, 5])
def test_a_protocols_table_of_other_protocols_tells_nothing(keep, left, lost):
    own = summary.sides(left())
    keep("m", protocols=over_protocols(*CELLS[:lost], *CELLS[lost + 1 :]))
    pd.testing.assert_frame_equal(summary.sides(left()), own)


def test_without_a_protocols_page_the_cells_are_corrected_together(left):
    cells = summary.matrix(left())
    cells = cells[(cells["subset"] == "all") & (cells["verdict"] != "not run")]
    found = summary.sides(left())
    assert found["head"].tolist() == cells["head"].tolist()
    told = cells["p"].notna().to_numpy()
    assert 0 < told.sum() < len(told)  # one is undefined, and in no family
    expected = multipletests(cells["p"][told], method="holm")[1]
    assert found["p_adjusted"][told].to_numpy() == pytest.approx(expected)
    assert found["p_adjusted"][~told].isna().all()


def test_surfaces_that_the_one_score_pays_for_are_told_from_its_exploits_page(keep):
    world = text_world("keyword", 3.0, heads=2)
    world = world.assign(final=world["score"][:, 0])
    folder = keep("m", "stimuli/exploits", exploits=surfaces.exploits(world))
    paid = summary.exploits(summary.tables(folder, "m"))
    assert paid["head"].unique().tolist() == ["final score"] and len(paid) == 9
    (sentence,) = card_findings.exploits(paid)
    assert sentence.startswith("On stimuli/exploits final score pays for keyword (0.")
    assert card_findings.exploits(paid[:0]) == ["No exploits page was executed."]
