"""Models that fail on the same comparisons more often than independent errors would."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from statsmodels.stats.inter_rater import cohens_kappa

from lib import summary
from lib.planted.worlds import make_run
from lib.summary.compare import agreement, charts, words

ALONE = np.arange(100)


def wrongs(both: int, one: int, other: int, neither: int) -> np.ndarray:
    """Of two models, shape (2, comparisons)."""
    return np.repeat([[1, 1, 0, 0], [1, 0, 1, 0]], [both, one, other, neither], axis=1)


def judged(*rows: dict) -> pd.DataFrame:
    table = pd.DataFrame([{"note": "", "dataset": f"d{k}"} | row for k, row in enumerate(rows)])
    table = table.assign(model="a", other="b").reindex(columns=[*agreement.AGREEMENT, "scale"])
    return agreement.judged(table)


def test_kappa_its_interval_and_p_are_those_of_the_books():
    a, b = wrongs(20, 10, 15, 55)
    row = agreement.shared(a, b, ALONE)
    known = cohens_kappa([[20, 10], [15, 55]])
    assert row["kappa"] == pytest.approx(known.kappa)
    half = scipy_stats.t.ppf(0.975, 99) * known.std_kappa * np.sqrt(100 / 99)
    assert (row["low"], row["high"]) == pytest.approx((known.kappa - half, known.kappa + half))
    assert row["p"] == pytest.approx(2 * scipy_stats.hypergeom(100, 30, 35).sf(19))
    assert (row["both_wrong"], row["expected"]) == pytest.approx((0.2, 0.3 * 0.35))


def test_models_fail_together_apart_or_neither():
    table = judged(
        *(
            agreement.shared(*wrongs(*cells), np.arange(sum(cells)))
            for cells in ((30, 5, 5, 60), (0, 40, 40, 20), (9, 21, 21, 49))
        )
    )
    assert table["verdict"].tolist() == ["fail together", "fail apart", "not shown"]
    assert table["kappa"].round(3).tolist()[2] == 0
    told = words.agreement(table)
    assert len(told) == 1 and told[0].endswith("(Holm over 3 rows).")
    assert "on d0 (κ 0.78" in told[0] and "not shown to share failures on d2" in told[0]
    assert "d1 -0.6" in charts.agreement(table).alternative


def test_a_subset_that_is_hard_for_both_is_no_shared_failure():
    """In each subset errors are independent; over both they would seem to go together."""
    hard, easy = wrongs(64, 16, 16, 4), wrongs(4, 16, 16, 64)
    a, b = np.concatenate([hard, easy], axis=1)
    subset = np.repeat([0, 1], 100)
    row = agreement.shared(a, b, np.arange(200), subset, draws=999)
    assert row["kappa"] == pytest.approx(0) and row["p"] > 0.5
    assert row["expected"] == pytest.approx(row["both_wrong"])
    assert agreement.shared(a, b, np.arange(200))["kappa"] == pytest.approx(0.36)


def test_prompts_are_exchanged_whole():
    """Two prompts of three comparisons in one model: 4 prompts, so 24 orders, all enumerated."""
    generator = np.random.default_rng(0)
    a, b = generator.integers(0, 2, (2, 4, 3))
    (block,) = agreement._blocks(
        a.ravel(), b.ravel(), np.repeat(np.arange(4), 3), np.zeros(12, int)
    )
    orders = [(a * b[list(order)]).sum() for order in itertools.permutations(range(4))]
    count, mean, variance = agreement._moments([block])
    assert count == (a * b).sum()
    assert (mean, variance) == pytest.approx((np.mean(orders), np.var(orders)))
    found = agreement._permuted([block], 4000, 0)
    assert set(found) <= set(orders) and found.mean() == pytest.approx(mean, abs=0.1)


def test_without_errors_of_both_kinds_nothing_is_said():
    row = agreement.shared(np.zeros(20), np.ones(20), np.arange(20))
    assert row["note"] == agreement.NEVER
    assert judged(row)["verdict"].item() == "undefined"


def test_ties_are_left_out_and_the_table_is_made_from_what_pages_left(audit):
    generator = np.random.default_rng(1)
    lost = generator.random(60) < 0.4
    other = np.where(generator.random(60) < 0.9, lost, ~lost)
    for model, fails in (("a", lost), ("b", other)):
        score = np.zeros(120)
        score[::2] = np.where(fails, -1, 1)
        score[0] = 0  # both responses of the first pair score alike
        run = make_run(score[:, None], final=score)
        results = audit(model, "xstest", run)
    table = summary.agreement(summary.everything(results, ["a", "b"]))
    row = table.iloc[0]
    assert (row["n"], row["ties"], row["dataset"]) == (59, 1, "xstest")
    assert row["both_wrong"] == pytest.approx((lost & other)[1:].mean())
    assert row["verdict"] == "fail together"
    alone = summary.agreement(summary.everything(results, ["a"]))
    assert alone.empty and words.agreement(alone) == []
    assert "nothing to compare" in charts.agreement(alone).alternative
