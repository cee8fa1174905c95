"""Sentences on labels and protocols say what the tables hold, and what they can't say."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.labels import stats
from lib.analyses.labels import words as on_labels
from lib.analyses.labels.worlds import agreement_gaps, label_world
from lib.analyses.protocols import stats as protocols
from lib.analyses.protocols import words as on_protocols
from lib.analyses.protocols.worlds import protocol_world
from lib.planted.worlds import from_gaps


def run_of(gaps, heads):
    words = ["safety"] * len(gaps)
    return from_gaps(gaps, heads=heads, criterion=words, subset=words, name="stimuli/planted")


def test_a_pair_is_told_where_it_says_more_than_the_wrong_head():
    pairs = [("a", "b"), ("a", "c"), ("a", "rival"), ("d", "e"), ("f", "c"), ("g", "rival")]
    claims = dict(zip("abcdefg", "ABCDEFG", strict=True)) | {"rival": ""}
    label = dict.fromkeys("abf", "wrong") | dict.fromkeys("deg", "doubted")
    heads = pd.DataFrame({"head": list(claims)})
    heads["label"] = heads["head"].map(label).fillna("not contradicted")
    heads.loc[heads["head"] == "rival", "label"] = "not tested"
    table = pd.DataFrame(pairs, columns=["head", "other"]).assign(wrong=True, p=range(6))
    table["claims"], table["other_claims"] = table["head"].map(claims), table["other"].map(claims)
    follows = {"a": "B", "b": "A", "f": "C"}
    centred = pd.DataFrame({"head": list(follows), "other_claims": list(follows.values())})
    check = stats.LabelCheck(
        heads, table, centred.assign(wrong=True, p=0), pd.DataFrame(), 7, 0, 0, ""
    )
    told = on_labels.unexplained(check)[["head", "other"]].to_numpy().tolist()
    # a and b are exchanged, which explains a's other pairs; f follows what c claims.
    assert told == [["a", "b"], ["d", "e"], ["f", "c"], ["g", "rival"]]


def test_right_names_are_not_called_wrong_and_power_is_told():
    check = stats.label_check(label_world("correct", pairs=200))
    told = " ".join(on_labels.takeaways(check))
    assert "No name is called wrong" in told and "with power" in told
    assert (
        "as a whole fit better than the same names dealt at random (p = 0.042; the smallest p"
        in told
    )
    assert on_labels.glued(check)["wrong"] == "none"
    assert on_labels.in_short(check).count(". ") == 1, "two sentences"
    assert on_labels.in_short(check) == (
        "Where one quality alone varies, of 4 tested names 4 are shown to fit. None is called wrong."
    )


def test_wrong_names_are_called_so_in_two_sentences():
    told = on_labels.in_short(stats.label_check(label_world("swap", pairs=200)))
    assert told.count(". ") == 1 and "not shown to. Called wrong: planted-safety, " in told


def test_a_single_head_gets_a_sentence():
    check = stats.label_check(run_of(np.ones((9, 1)), ["safety"]))
    first, own, *_ = on_labels.takeaways(check)
    assert first.startswith("No name could be tested against others")
    assert own.startswith("safety wins 1.000")


def test_heads_that_claim_nothing_are_named():
    check = stats.label_check(run_of(np.ones((9, 2)), ["safety", "mystery"]))
    assert "Not tested (claims none of the concepts): mystery." in on_labels.takeaways(check)


def test_agreement_is_told_by_verdict():
    (gaps,) = agreement_gaps(np.random.default_rng(0), 1, ratio=0.2, pairs=400)
    names = ["x-safety", "y-safety", "x-verbosity", "y-verbosity"]
    (told,) = on_labels.agreement(stats.mtmm(run_of(gaps, names), draws=200))
    assert "agree within each and differ from each other (HTMT 0." in told
    (none,) = on_labels.agreement(stats.mtmm(run_of(gaps[:, :1], names[:1]), draws=20))
    assert "No concept has heads from two sources" in none


def findings(kind, **options):
    runs = protocol_world(kind, **options)
    components = protocols.variance_components(runs, draws=200)
    return on_protocols.takeaways(protocols.protocol_matrix(runs), components), components


def test_many_protocols_need_no_such_caution():
    told, _ = findings("main", protocols=8, prompts=30)
    assert told and not any("at hand" in sentence for sentence in told)


def test_without_variance_there_are_no_shares():
    for seed in range(10):
        told, components = findings("zero", heads=3, protocols=3, prompts=40, seed=seed)
        if components["share"].isna().all():
            break
    assert sum(": not shown (variance" in sentence for sentence in told) == 3
    assert not any("nan" in sentence for sentence in told)


def test_one_protocol_gets_a_sentence():
    told, _ = findings("zero", protocols=1)
    assert any("needs two heads and two protocols" in sentence for sentence in told)
