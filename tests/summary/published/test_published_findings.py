"""Every claim has words, the words hold no numbers, and sentences say what the tables say."""

import copy
import re

import pandas as pd
import pytest

from lib.data.published import figures as read
from lib.errors import DataError
from lib.summary.published import claims, stats
from lib.summary.published import words as findings


def crossed(*rows):
    columns = ["head", "part", "own", "other", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def tables(figures):
    table = findings.claims(claims.checks(figures), crossed())
    names, rates = stats.head_names(figures), stats.rates(figures)
    return table, names, rates, stats.geometry_bounds(figures), stats.overlaps(figures)


@pytest.fixture(scope="module")
def made():
    return tables(read())


def test_every_claim_has_words_and_no_words_are_left_over():
    checks = claims.checks(read())
    assert set(checks["key"]) == set(findings.WORDS)
    with pytest.raises(DataError, match="'new'"):
        findings.claims(checks.assign(key="new"), crossed())


def test_words_hold_no_numbers():
    for key, words in findings.WORDS.items():
        for text in words:
            plain = text.replace("RewardBench 2", "").replace("HelpSteer2", "")
            assert not re.search(r"\d", plain), key
        assert words[1].endswith("."), key


def test_every_row_of_the_table_is_shown_once(made):
    table = made[0]
    groups = dict.fromkeys(zip(table["system"], table["part"], strict=True))
    shown = [findings.of(table, *group) for group in groups]
    assert sum(map(len, shown)) == len(table)
    assert list(shown[0]) == ["claim", "verdict", "published", "recomputed", "evidence"]
    # longer tables are folded on the page
    assert max(map(len, shown)) <= 15


def test_what_heads_at_hand_do_is_said_as_they_do_it():
    checks = claims.checks(read())

    def evidence(table):
        return findings.claims(checks, table)["evidence"][
            checks["key"] == "valid-heads-cross"
        ].item()

    part = "hh-rlhf/harmless-base"
    assert "it goes against them (0.400" in evidence(crossed(("h", part, 0.7, 0.4, 0.35, 0.45)))
    assert "it goes with them too (0.600" in evidence(crossed(("h", part, 0.7, 0.6, 0.55, 0.65)))
    assert "No head of the model at hand" in evidence(crossed())
    plain = findings.claims(checks, crossed())["evidence"].str.contains("at hand was seen")
    assert plain.sum() == 1


def test_no_p_is_shown_as_nothing(made):
    shown = findings.rated(made[2])
    assert list(shown["p"][made[2]["p"] == 0].unique()) == ["< 1e-12"]
    hh = shown[shown["subset"] == "hh-rlhf"].set_index("called")["p"]
    assert hh["helpfulness"] == "6.3e-05" and hh["safety"] == "0.27"
    assert list(shown) == [
        *["subset", "called", "head", "n", "win_rate", "low", "high", "p", "verdict", "note"]
    ]


def test_counts_add_up(made):
    table = made[0]
    counts = findings.counts(table)
    assert counts["claims"].sum() == len(table)
    sarm = counts[counts["system"] == claims.SARM].set_index("verdict")["claims"]
    assert sarm[claims.FAILS] == 0 and len(sarm) == len(claims.VERDICTS)


def test_takeaways_say_what_was_found(made):
    told = " ".join(findings.published(*made))
    counts = made[0]["verdict"].value_counts()
    assert f"{counts[claims.HOLDS]} hold and {counts[claims.FAILS]} fail" in told
    assert "13 of 19 heads were called by a name that isn't theirs" in told
    assert "valid on hh-rlhf, its readability, is beavertails-is_safe" in told
    assert "4 of the 12 heads given are above one half and 5 below it" in told
    assert "p = 6e-05" in told and "0.320 at most" in told and "0.552 without" in told
    assert "nan" not in told


def test_short_answers_are_takeaways_and_name_their_set(made):
    table, names, rates = made[:3]
    said = findings.published(*made)
    assert findings.answer(table) in said and findings.misnamed(names, rates) in said
    assert all("hh-rlhf" in text for text in said if "valid" in text or "helpfulness at" in text)
    assert sum("valid" in text for text in said) == 1


def test_the_evidence_on_folds_is_about_procedure():
    """METHODS: the effect is small there, so the fault isn't what makes accuracies high."""
    assert "fault of procedure" in findings.WORDS["folds"][1]


def test_takeaways_follow_the_figures():
    given = copy.deepcopy(read())
    given["audit"]["hh"]["rates"]["depth"] = 0.51
    told = " ".join(findings.published(*tables(given)))
    assert "3 of the 12 heads given are above one half" in told


def test_glued_values_are_text(made):
    glued = findings.glued(*made)
    assert glued["readability-is"] == "beavertails-is_safe" and glued["p-helpfulness"] == "6e-05"
    assert glued["heads-misnamed"] == "13" and glued["gap-needed"] == "0.14"
    counted = ("claims-holds", "claims-fails", "claims-artefact", "claims-untold")
    assert sum(int(glued[name]) for name in counted) == int(glued["claims"]) == len(made[0])
    assert all(isinstance(value, str) and value for value in glued.values())
