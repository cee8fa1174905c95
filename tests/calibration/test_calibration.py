"""The worlds are judged as the library judges a run, and the whole table hangs together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib import declared
from lib.analyses.disentanglement import calibration as disentanglement
from lib.analyses.disentanglement import stats, words
from lib.analyses.disentanglement.worlds import blocks_world, length_world, levels_world
from lib.analyses.gating import calibration as gating
from lib.analyses.gating.worlds import COSINE, equal_world, gating_world, transform
from lib.analyses.geometry import calibration as geometry
from lib.analyses.labels import calibration as on_labels
from lib.analyses.labels import stats as labels
from lib.analyses.labels.worlds import label_world
from lib.analyses.protocols import calibration as on_protocols
from lib.analyses.protocols import words as findings_of_protocols
from lib.analyses.protocols.stats import changing, protocol_matrix
from lib.analyses.protocols.worlds import protocol_wins
from lib.analyses.separability import calibration as separability
from lib.analyses.validity import calibration as validity
from lib.calibration import calibrate, kept
from lib.planted.checks import COLUMNS, FORMS, MEASURES, VERDICTS
from lib.planted.worlds import from_gaps, length_wins, model_wins, skewed_gaps
from lib.stats import validity as on_a_run
from lib.stats.winrates import validity_as_published
from lib.summary.compare import calibration

DRAWS = 12  # worlds a check, at most, of the whole table
# Of those whose worlds are slow: a claim that is wrong in each of four still fails.
FEWER = {"bases": 4, "protocols": 4, "separability": 4}


def run_of(gaps: np.ndarray, per_prompt: int):
    return from_gaps(gaps, prompt=np.arange(len(gaps)) // per_prompt)


def by_prompt(gaps: np.ndarray, per_prompt: int) -> np.ndarray:
    draws, rows, heads = gaps.shape
    return (gaps.reshape(draws, rows // per_prompt, per_prompt, heads) > 0).sum(axis=2)


@pytest.mark.parametrize(("per_prompt", "rate"), [(1, 0.65), (6, 0.5), (6, 0.7)])
def test_arrays_of_worlds_are_judged_as_runs_are(per_prompt, rate):
    gaps = skewed_gaps(np.random.default_rng(0), 4, 60, per_prompt, 5, rate, 0.3)
    found = validity.judge(by_prompt(gaps, per_prompt), per_prompt)
    for k in range(4):
        table = on_a_run(run_of(gaps[k], per_prompt), draws=1).query("subset == 'all'")
        assert found.verdict[k].tolist() == table["verdict"].tolist()
        for column in ("win_rate", "low", "high"):
            assert getattr(found, column)[k] == pytest.approx(table[column].to_numpy())
        net = 2 * by_prompt(gaps, per_prompt)[k] - per_prompt
        assert validity.stated(net, per_prompt, 5) == pytest.approx(table["mde"].to_numpy())


def test_the_published_rule_on_arrays_is_that_on_runs():
    gaps = np.random.default_rng(1).normal(0.4, 1, (3, 70, 4))
    p, valid = validity.judge_published(gaps)
    for k in range(3):
        table = validity_as_published(run_of(gaps[k], 1)).query("subset == 'all'")
        assert p[k] == pytest.approx(table["p"].to_numpy())
        assert valid[k].tolist() == table["valid"].tolist()


def test_accusations_on_arrays_are_those_on_runs():
    run = label_world("swap", pairs=60, seed=4)
    table = labels.label_check(run).pairs
    won = (run["score"].values[::2] > 0)[None].astype(float)
    found = labels.moments(won, np.repeat(np.arange(4), 60), np.arange(240))
    # The library orders criteria by name; arrays here by head.
    own = np.arange(4)
    said = labels.verdicts(found, own)
    assert said.swap.adjusted[0] == pytest.approx(table["p_adjusted"].to_numpy())


def sides(won: np.ndarray):
    """A world as the runs of a model, one a protocol."""
    runs = []
    for k in range(won.shape[2]):
        prompt = np.arange(len(won)) + k * len(won)
        gaps = np.where(won[:, :, k], 1.0, -1.0)
        runs.append(from_gaps(gaps, prompt=prompt, name=f"file:planted-{k}"))
    return runs


def test_heads_that_change_sides_on_arrays_are_those_of_the_pages():
    rates = np.array([[0.7, 0.3, 0.5], [0.68, 0.32, 0.68], [0.65, 0.35, 0.5], [0.5, 0.5, 0.8]])
    won = protocol_wins(np.random.default_rng(6), 12, 60, rates)
    together, lasting = on_protocols.changing(won), on_protocols.changing(won, least=2)
    for k in range(12):
        matrix = protocol_matrix(sides(won[k]))
        told = findings_of_protocols.answer(matrix)
        assert told.startswith(f"{together[k].sum()} of 4 heads")
        needs = changing(matrix).set_index("head")["needs"]
        assert [h for h in needs.index if not needs[h]] == [
            f"head_{h}" for h in np.flatnonzero(lasting[k])
        ]
    assert 0 < together.sum() < together.size


def test_outcomes_under_protocols_have_the_rates_and_agreement_that_were_planted():
    rates = np.array([[0.3, 0.8], [0.5, 0.5]])
    won = protocol_wins(np.random.default_rng(7), 40, 1000, rates, agreement=0.6)
    assert won.mean(axis=(0, 1)) == pytest.approx(rates, abs=0.01)
    fair = protocol_wins(np.random.default_rng(8), 40, 1000, np.full((2, 2), 0.5), agreement=0.6)
    # Signs of normals that correlate r agree with probability ½ + asin(r)/π.
    agree = (fair[:, :, 0] == fair[:, :, 1]).mean(axis=(0, 1))
    assert agree == pytest.approx(0.5 + np.arcsin(0.6) / np.pi, abs=0.01)
    across = (fair[:, :, 0, 0] == fair[:, :, 0, 1]).mean()
    assert across == pytest.approx(0.5, abs=0.01), "protocols have prompts of their own"


def test_sides_change_where_planted_and_seldom_elsewhere():
    rows = pd.DataFrame(on_protocols._sides(300, 0)).set_index(["claim", "measure"])
    page = rows.loc["a head changes sides"]
    assert (page.loc["false-positive rate", "rate"] <= 0.05).all()
    assert page.loc["power", "rate"] > 0.9
    lasting = rows.loc["a head changes sides whichever protocol is left out"]
    assert lasting.loc["false-positive rate", "rate"] <= 0.05
    assert lasting.loc["power", "rate"] > 0.9


def test_skewed_gaps_win_as_often_as_planted_and_are_alike_within_prompts():
    gaps = skewed_gaps(np.random.default_rng(2), 1, 20_000, 3, 1, 0.3, 0.5)[0, :, 0]
    won = (gaps > 0).reshape(-1, 3)
    assert won.mean() == pytest.approx(0.3, abs=0.01)
    assert np.corrcoef(won[:, 0], won[:, 1])[0, 1] == pytest.approx(0.5, abs=0.02)
    assert gaps[gaps > 0].mean() / -gaps[gaps < 0].mean() == pytest.approx(10, rel=0.05)


def test_wins_of_heads_that_read_length_agree_and_are_half():
    won = length_wins(np.random.default_rng(3), 1, 40_000, 1, 2, agreement=0.9)[0]
    assert won.mean() == pytest.approx(0.5, abs=0.01)
    # Signs of normals that correlate r agree with probability ½ + asin(r)/π.
    expected = 0.5 + np.arcsin(0.9) / np.pi
    assert (won[:, 0] == won[:, 1]).mean() == pytest.approx(expected, abs=0.01)


def test_a_guessing_gate_is_as_good_as_the_uniform_one():
    run = gating_world(20_000, strength=gating.NEVER_ERR, informed=False)
    score, final = run["score"].values.astype(float), run["final"].values.astype(float)
    uniform = score @ transform().sum(axis=1)
    rates = [((v[::2] - v[1::2]) > 0).mean() for v in (final, uniform)]
    assert rates[0] == pytest.approx(0.75, abs=0.01) and rates[1] == pytest.approx(0.75, abs=0.01)


def test_an_equal_gate_ranks_as_its_best_head_does_and_fixed_weights_rank_more():
    run = equal_world(40_000)
    score, final = run["score"].values.astype(float), run["final"].values.astype(float)
    sine = np.sqrt(1 - COSINE**2)
    cosines = [COSINE, COSINE, COSINE / np.hypot(COSINE, sine / np.sqrt(2))]
    for values, cosine in zip((final, score[:, 0], score @ [0.75, 0.25]), cosines, strict=True):
        rate = ((values[::2] - values[1::2]) > 0).mean()
        assert rate == pytest.approx(1 - np.arccos(cosine) / np.pi, abs=0.01)
    assert not np.allclose(final, score[:, 0])


def test_models_win_as_planted_on_the_same_comparisons():
    won = model_wins(np.random.default_rng(4), 20_000, 2, [0.65, 0.8])
    assert won.mean(axis=0) == pytest.approx([0.65, 0.8], abs=0.01)
    assert np.corrcoef(won.T)[0, 1] > 0.2
    assert np.corrcoef(won[::2, 0], won[1::2, 0])[0, 1] > 0.2, "rows of a prompt"
    apart = model_wins(np.random.default_rng(5), 20_000, 2, [0.65, 0.8], agreement=0, alike=0)
    assert abs(np.corrcoef(apart.T)[0, 1]) < 0.03


def test_levels_have_the_correlation_that_was_planted():
    score = levels_world(20_000, r=0.7)["score"].values.astype(float)
    gaps = score[::2] - score[1::2]
    assert np.corrcoef(gaps.T)[0, 1] == pytest.approx(-0.7, abs=0.02)


def test_equal_models_are_told_apart_in_few_worlds_and_better_ones_in_most(monkeypatch):
    for other in ("_agreement", "_later"):  # rows of other claims, drawn for the whole table
        monkeypatch.setattr(calibration, other, lambda draws, seed: [])
    rows = pd.DataFrame(calibration.checks(60, 0)).set_index("measure")
    told = rows[rows["claim"].str.contains("ranks more")]["rate"]
    assert (told.loc[["false-positive rate"]] < 0.15).all() and (told.loc[["power"]] > 0.6).all()


def test_either_accusation_counts_a_world_with_any():
    rows = pd.DataFrame(on_labels._accusations(300, 0)).pivot(
        index="world", columns="claim", values="rate"
    )
    rows = rows[rows[on_labels.CLAIMS["any"]].notna()]
    one, other = (rows[on_labels.CLAIMS[said]] for said in ("wrong", "pairs"))
    either = rows[on_labels.CLAIMS["any"]]
    assert (either >= np.maximum(one, other)).all() and (either <= one + other + 1e-9).all()
    assert either.max() > 0


def test_thresholds_of_independent_rows_are_near_marchenko_and_pasturs_edge():
    found = disentanglement.independent_rows(400, 10, 0)
    edge = (1 + np.sqrt(10 / 400)) ** 2
    assert found[0] == pytest.approx(edge, rel=0.05)
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize(("blocks", "heads"), [(5, 3), (4, 3), (3, 4)])
def test_whole_blocks_are_known_whatever_their_number_and_size(monkeypatch, blocks, heads):
    monkeypatch.setattr(disentanglement, "BLOCKS", blocks)
    monkeypatch.setattr(disentanglement, "HEADS", heads)
    run = blocks_world(300, blocks, heads)
    assert disentanglement._whole(run, 0)
    run["score"][:, 0] = run["score"][:, -1]  # a head that has moved to another block
    assert not disentanglement._whole(run, 0)
    assert not disentanglement._whole(blocks_world(300, blocks, heads - 1), 0)


@pytest.mark.parametrize(("read", "expected"), [("length", True), ("another thing", False)])
def test_what_goes_with_length_is_what_the_page_says_goes(read, expected):
    run = length_world(100, read=read)
    pairs = stats.disentanglement(run, draws=2)
    found = stats.factors(run, draws=2)
    table = stats.overview(
        stats.disentanglement_as_published(run), pairs, stats.clusters(run, draws=2), found
    )
    told = " ".join(words._levels(table.set_index("kind")))
    assert ("More than half of it within items goes" in told) is expected
    assert disentanglement.goes(run) is expected


def test_wins_cover_what_their_intervals_should():
    rows = validity._coverage(300, 1)
    assert all(row["measure"] == "coverage" for row in rows)
    assert 0.9 < np.mean([row["rate"] for row in rows]) < 0.99


def test_geometry_claims_places_and_none_after_a_change_of_gauge():
    rows = pd.DataFrame(geometry.checks(3, 0))
    power = rows[rows["measure"] == "power"]
    assert (power["rate"] == 1).all() and len(power) == 4
    assert (rows.loc[rows["measure"] == "false-positive rate", "rate"] == 0).all()


def test_places_are_claimed_of_others_weights_where_nothing_is_judged(monkeypatch):
    monkeypatch.setattr(geometry.stats, "TOLERANCE", np.inf)
    rows = pd.DataFrame(geometry._identity(2, 0))
    placed = rows.loc[rows["claim"] == "entanglement has a place"]
    assert (placed["rate"] > 0).tolist() == [True, True], "else the identity decides nothing"


def test_a_swap_is_found_about_as_often_as_the_page_tells():
    rows = [r for r in on_labels._found(500, 0) if "as told" in r["claim"]]
    assert ["rival" in row["world"] for row in rows] == [False, True]
    for row in rows:
        assert row["verdict"] != "fails" and row["draws"] == 500
        assert row["at_most"] - row["at_least"] == pytest.approx(2 * on_labels.WITHIN)


def test_the_same_seed_gives_the_same_rows():
    one, same = (pd.DataFrame(gating.checks(2, 3)) for _ in range(2))
    pd.testing.assert_frame_equal(one, same)


@pytest.fixture(scope="module")
def table():
    def checks(name, module, made, draws, seed):
        return {"rows": made(FEWER.get(name, draws), seed)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "rows", checks)
        return calibrate(draws=DRAWS)


# With so few worlds nothing but what is far from its target can fail.
FAILING = {
    ("any of 19 heads is above chance", "as published"),
    ("a head is valid (.65 or more)", "as published"),
    ("most of the variance is interaction", "as published"),
    ("heads have a common factor (pooled)", "as published"),
    ("two heads are partners", "as published"),
    ("every two dimensions correlate (|r| > .5 on two scenarios)", "as published"),
    ("the published risk is high (above .6)", "as published"),
    ("two concepts' directions go together or are opposed", "as published"),
    ("a state is unlike others", "as published"),  # in 5 dimensions and in 20
    ("a concept is at high risk", "as published"),
    ("a feature is selected (the interval of its score leaves out 0)", "as published"),
    ("suppressing one feature corrects one preference", "as published"),
    ("shared neurons matter (accuracy falls on both sides)", "as published"),
    ("5 factors", "corrected"),
}


@pytest.mark.slow
def test_what_fails_is_what_is_known_to(table):
    failing = table[table["verdict"] == "fails"]
    assert set(zip(failing["claim"], failing["form"], strict=True)) == FAILING
    assert len(failing) == len(FAILING) + 1
    (factors,) = failing.loc[failing["form"] == "corrected", "world"]
    assert factors == "5 blocks of 3 heads, general share 0.5; 300 pairs"
    exact = table[table["target"].isin(["always", "never"])]
    assert len(exact) == 12 and (exact["verdict"] == "shown").all()


def test_a_probe_falls_short_of_a_head_that_is_the_concept_and_the_lower_end_stays_a_bound():
    found = separability._verdicts("head equals concept", 400, 60, 60, 1, flips=0, plants=0)
    assert found["loss"].mean() < 0
    assert (found["low"] <= 0).mean() > (found["high"] >= 0).mean()


@pytest.mark.slow
def test_every_analysis_has_rows_with_targets(table):
    assert list(dict.fromkeys(table["analysis"])) == [
        name for name, each in declared.every().items() if each.calibrated
    ]
    assert table.columns.tolist() == ["analysis", *COLUMNS]
    assert set(table["measure"]) == set(MEASURES) and set(table["form"]) == set(FORMS)
    assert table["verdict"].isin(VERDICTS).all()
    assert ((table["at_least"] > 0) | (table["at_most"] < 1)).all()
    assert ((table["low99"] <= table["rate"]) & (table["rate"] <= table["high99"])).all()
    for name in ("claim", "world"):
        assert (table[name].str.len() > 0).all()
    assert not table.duplicated(["analysis", "claim", "world", "measure", "form"]).any()
