"""One comparison followed to its cell: every number is worked out by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.multitest import multipletests

from lib import stats
from lib.analyses.example import stats as steps
from lib.analyses.example import words
from lib.errors import ParameterError
from lib.planted.worlds import make_run
from lib.stats.winrates import FINAL

WINS = {"a": (9, 3), "b": (5, 8)}  # of ten comparisons on each criterion


def planted(**given):
    """Two heads on ten comparisons of helpfulness, then ten of safety; margins of 2 and −2."""
    margins = np.array(
        [
            np.concatenate([np.where(np.arange(10) < wins, 2.0, -2.0) for wins in both])
            for both in WINS.values()
        ]
    ).T
    score = np.zeros((40, 2))
    score[::2] = margins + 1
    score[1::2] = 1
    kinds = ["helpfulness"] * 10 + ["safety"] * 10
    options = {"subset": kinds, "criterion": kinds, "heads": list(WINS)}
    options |= {"concepts": ["", "safety"], "final": np.arange(40.0)}
    run = make_run(score, **(options | given))
    return run.assign_attrs(dataset="file:pairs.jsonl")


@pytest.fixture
def run():
    return planted()


def followed(run, **given):
    found = steps.follow(run, **given)
    table = stats.validity(run)
    return found, steps.scores(run, found, table), steps.cell(run, found, table)


def items(run) -> list[str]:
    return run["item"].values.tolist()


def test_the_first_head_that_claims_what_is_asked_is_followed_on_what_it_claims(run):
    for seed in range(20):
        found = steps.follow(run, seed=seed)
        assert (found.head, found.claims, found.subset) == ("b", True, "safety")
        assert found.row >= 10 and found.item == items(run)[found.row]
    assert len({steps.follow(run, seed=seed).row for seed in range(20)}) > 3


def test_an_item_and_a_head_can_be_named(run):
    found = steps.follow(run, item=items(run)[3])
    assert (found.row, found.head, found.claims, found.subset) == (3, "a", False, "helpfulness")
    found = steps.follow(run, item=items(run)[13], head="a")
    assert (found.row, found.head, found.claims, found.subset) == (13, "a", False, "safety")
    assert steps.follow(run, head="b").row >= 10
    for wrong in ({"item": "nowhere"}, {"head": "c"}):
        with pytest.raises(ParameterError, match="Known"):
            steps.follow(run, **wrong)


def test_of_one_subset_the_cell_is_that_of_all():
    run = planted(subset=["x"] * 20)
    assert steps.follow(run).subset == "all"
    assert steps.follow(planted(subset=["all"] * 5 + ["x"] * 15), item=items(run)[0]).subset == (
        "all (subset)"
    )


def test_scores_and_margins_are_those_of_the_two_responses(run):
    found, scores, _ = followed(run, item=items(run)[9])
    scores = scores.set_index("head")
    assert scores["better"].to_dict() == {"a": -1.0, "b": -1.0, FINAL: 18.0}
    assert scores["worse"].to_dict() == {"a": 1.0, "b": 1.0, FINAL: 19.0}
    assert scores["margin"].to_dict() == {"a": -2.0, "b": -2.0, FINAL: -1.0}
    assert scores["outcome"].eq("loss").all()
    assert scores.loc[["a", "b"], "win_rate"].tolist() == [0.9, 0.5]
    assert pd.isna(scores.loc[FINAL, "verdict"])
    assert steps.tokens(run, found)["response_tokens"].tolist() == [10, 10]


def test_the_cell_is_counted_tested_and_corrected_as_by_hand(run):
    _, _, cell = followed(run, item=items(run)[0], head="a")
    row, without = cell.iloc[0], cell.iloc[1]
    assert (row["n"], row["prompts"], row["wins"], row["losses"]) == (10, 10, 9, 1)
    assert (without["n"], without["wins"], without["losses"]) == (9, 8, 1)
    # one comparison a prompt: flipping signs is tossing coins
    assert row["p"] == pytest.approx(scipy_stats.binomtest(9, 10).pvalue)  # 22/1024
    assert without["p"] == pytest.approx(scipy_stats.binomtest(8, 9).pvalue)  # 20/512
    # the family: a and b on all twenty (12 and 13 wins), on helpfulness (9, 5), on safety (3, 8)
    wins = [(12, 20), (13, 20), (9, 10), (5, 10), (3, 10), (8, 10)]
    p = [scipy_stats.binomtest(*each).pvalue for each in wins]
    assert (row["tests"], row["rank"], row["factor"]) == (6, 1, 6)
    assert row["p_adjusted"] == pytest.approx(multipletests(p, method="holm")[1][2])
    assert row["p_adjusted"] == pytest.approx(6 * row["p"])
    assert row["verdict"] == "inconclusive"


def test_a_larger_product_of_a_smaller_p_counts():
    """p = .0125 · 4 comes to .05, more than .016 · 3 = .048."""
    table = pd.DataFrame({"head": list("abcd"), "subset": "all", "n": 10, "prompts": 10})
    table = table.assign(wins=8, ties=0, losses=2, win_rate=0.8, low=0.6, high=0.9, note="")
    table = table.assign(p=[0.0125, 0.016, 0.5, 0.9], p_adjusted=[0.05, 0.05, 1.0, 1.0])
    table["verdict"] = "inconclusive"
    found = steps.Followed(0, "i", "c", 0, 1, "b", False, "all")
    row = steps._cell("as it is", table, found).iloc[0]
    assert (row["tests"], row["rank"], row["factor"]) == (4, 2, 3)
    (told,) = words._corrected(row)
    assert "multiplies it by 3 to 0.048, less than what a smaller p comes to" in told
    assert told.endswith("adjusted p = 0.05.")


@pytest.mark.parametrize("broken", ["ties", "no numbers", "no comparison", "one comparison"])
def test_what_has_no_numbers_is_said_and_never_counted(run, broken):
    if broken == "ties":
        run["score"].values[:] = 1
    elif broken == "no numbers":
        run["score"].values[:] = np.nan
    else:
        run = run.isel(comparison=slice(0, int(broken == "one comparison")))
    found, scores, cell = followed(run)
    told = " ".join(words.takeaways(found, scores, steps.tokens(run, found), cell))
    assert "nan" not in told
    if broken == "no comparison":
        assert told == words.NONE and scores.empty
        return
    expected = {"ties": "tie", "no numbers": "none", "one comparison": "win"}[broken]
    assert scores["outcome"].iloc[0] == expected
    assert ("reads “undefined”" in told) == (broken != "one comparison")


def test_rendering_of_the_page(run, assert_rendered):
    """A head that claims what is asked, and one that doesn't and is shown to go against it."""
    parts = []
    for given in ({"item": items(run)[10]}, {"item": items(run)[19], "head": "a"}):
        found, scores, cell = followed(run, **given)
        parts.append(words.takeaways(found, scores, steps.tokens(run, found), cell))
    assert_rendered(Path(__file__).parent / "sentences.txt", *parts)
