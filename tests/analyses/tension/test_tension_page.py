"""Alignment tension: known shared neurons are found and needed; none are where there are none."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import nbformat
import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file
from scipy import stats as scipy_stats

from lib.analyses.tension import charts, crossed, neurons, published, silencing, stats, words
from lib.analyses.tension.tasks import ALIKE_IN_STYLE, tasks
from lib.analyses.tension.worlds import SHARE, network
from lib.book import pages, plan
from lib.training.tension import kept
from lib.training.tension.kept import GRADIENT, HARMLESS, HELPFUL, MIXED, OWN, SHARED, Set

PLANTED = 20


@pytest.fixture(scope="module")
def planted():
    return network(PLANTED, seed=1)


@pytest.fixture(scope="module")
def even():
    return network(0, seed=1)


# ---- Means over prompts and seeds ----


def test_the_mean_of_crossed_values_has_both_variances():
    generator = np.random.default_rng(0)
    seeds, prompts = generator.standard_normal((4, 1)), generator.standard_normal((1, 30))
    values = seeds + prompts + 0.1 * generator.standard_normal((4, 30))
    found = crossed.mean(values)
    left = values - values.mean(1, keepdims=True) - values.mean(0) + values.mean()
    parts = values.mean(1).var(ddof=1) / 4, values.mean(0).var(ddof=1) / 30
    variance = sum(parts) - (left**2).sum() / (3 * 29) / 120
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 29)
    half = scipy_stats.t.ppf(0.975, freedom) * np.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((values.mean() - half, values.mean() + half))
    assert crossed.mean(values[:1]).estimate == values[0].mean()
    assert np.isnan(crossed.mean(values[:1]).low)
    assert crossed.mean(np.full((3, 5), 0.25))[:3] == (0.25, 0.25, 0.25)


def test_the_mean_over_prompts_is_that_over_comparisons():
    values, prompt = np.asarray([[1.0, 0.0, 1.0, 1.0]]), np.asarray([5, 5, 7, 9])
    found = crossed.by_prompt(values, prompt)
    assert found.shape == (1, 3) and found.mean() == pytest.approx(0.75)


def test_a_further_seed_is_expected_in_students_prediction_interval():
    values = np.asarray([0.60, 0.62, 0.66])
    half = scipy_stats.t.ppf(0.975, 2) * values.std(ddof=1) * np.sqrt(1 + 1 / 3)
    assert crossed.predicted(values) == pytest.approx((values.mean() - half, values.mean() + half))
    assert crossed.predicted(values, 3)[1] < crossed.predicted(values)[1]
    assert np.isnan(crossed.predicted(values[:1])).all()


# ---- Planted networks ----


def test_shared_neurons_are_found_and_needed(planted):
    for side in (HELPFUL, HARMLESS):
        assert neurons.mask(planted, 0, side, GRADIENT).ravel()[:PLANTED].mean() >= 0.9
        assert not neurons.mask(planted, 0, side, OWN).ravel()[:PLANTED].any()
    table = stats.silenced(planted)
    own = table[(table["model"] == MIXED) & (table["put"] == "zero")].set_index(["set", "task"])
    assert (own.loc[GRADIENT, "verdict"] == silencing.LOWER).all()
    assert (own.loc[GRADIENT, "more_high"] < 0).all()
    assert not (own.loc[OWN, "verdict"] == silencing.LOWER).any()


def test_where_abilities_are_spread_evenly_no_set_matters_more(even):
    table = stats.silenced(even)
    assert not table["verdict"].isin([silencing.LOWER, silencing.HIGHER]).any()
    assert "the two aren't told apart" in " ".join(words.shared(table))


def test_the_change_is_that_of_the_accuracies(planted):
    row = stats.silenced(planted).query("model == 'mixed' and set == 'gradient' and put == 'zero'")
    arrays = [planted.models[seed, MIXED]["margin"][:, :150] for seed in planted.seeds]
    way = kept.WAYS.index("gradient, zero")
    change = np.mean([(m[way] > 0).mean() - (m[0] > 0).mean() for m in arrays])
    assert row["change"].iloc[0] == pytest.approx(change)
    drawn = np.mean(
        [(planted.models[seed, MIXED]["random own"][:, :60] > 0).mean() for seed in planted.seeds]
    )
    whole = np.mean([(m[0, :60] > 0).mean() for m in arrays])
    assert row["random"].iloc[0] == pytest.approx(drawn - whole)
    assert row["more"].iloc[0] == pytest.approx(change - (drawn - whole))
    assert row["few"].iloc[0] == 60


def test_overlaps_stand_beside_two_seeds_the_base_and_chance(planted):
    table = stats.overlaps(planted).set_index(["kind", "pair"])
    tops = [neurons.mask(planted, 0, side, OWN) for side in (HELPFUL, HARMLESS)]
    least, most = table.loc[(OWN, "helpful and harmless"), ["least", "most"]]
    assert least <= neurons.jaccard(*tops) <= most
    assert (table["by_chance"] == SHARE / (2 - SHARE)).all()
    assert table.loc[(OWN, "two seeds of one objective"), "seeds"] == 3 * 10
    assert table.loc[(OWN, "helpful and the base's"), "jaccard"] > 0.5
    assert table.loc[("raised", "helpful and the base's"), "jaccard"] < 0.2


def test_what_mixing_keeps_is_counted_on_what_was_right(planted):
    table = stats.kept(planted).set_index("what")
    shares = []
    for seed in planted.seeds:
        helpful, harmless, mixed = (
            planted.models[seed, model]["score hh-rlhf/helpful-base"][::2] > 0
            for model in kept.OBJECTIVES
        )
        union = helpful | harmless
        shares.append((union & mixed).sum() / union.sum())
    found = table.loc["right on hh-rlhf/helpful-base, of either model's"]
    assert found["share"] == pytest.approx(np.mean(shares))
    assert found["published"] == published.figures()["paper"]["retention"]["helpful"]
    own, either = (
        table.loc["own neurons, as published"],
        table.loc["own neurons, of either model's"],
    )
    assert own["share"] <= either["share"]


def test_thirds_of_the_depth_make_up_a_set(planted):
    table = stats.layers(planted)
    whole = table.groupby(["model", "set"])[["share", "base", "by_chance"]].sum()
    np.testing.assert_allclose(whole, 1)


def test_margins_shrink_where_what_carries_them_is_silenced(planted):
    table = stats.shrinkage(planted).query("model == 'mixed'").set_index(["task", "set"])
    gradient = table.loc[("hh-rlhf/helpful-base", GRADIENT)]
    assert gradient["left"] < 0.8 < table.loc[("hh-rlhf/helpful-base", OWN), "left"]
    assert gradient["low"] <= gradient["left"] <= gradient["high"]
    spread = stats.margins(planted)
    assert (spread["low"] <= spread["median"]).all() and (spread["median"] <= spread["high"]).all()


# ---- Length, other sets, what helps ----


def one_set(better, tokens, name="llmbar", subset="Neighbor", worse=None):
    """A study of one harmless model a seed that scores what ``better`` says less 0."""
    n = len(better[0])
    places = np.arange(n) * 2
    worse = places + 1 if worse is None else worse
    own = Set(name, places, worse, np.full(n, subset), np.arange(n), tokens)
    models = {}
    for seed, margins in enumerate(better):
        score = np.zeros(2 * n, np.float32)
        score[::2] = margins
        models[seed, HARMLESS] = {f"score {name}": score}
    return kept.Study({}, {name: own}, [], np.zeros(0, int), models, {})


def test_a_model_that_only_likes_short_responses_has_nothing_left_at_equal_length():
    generator = np.random.default_rng(0)
    tokens = generator.integers(10, 200, 400)
    difference = (tokens[::2] - tokens[1::2]).astype(float)
    short = [-difference + generator.standard_normal(200) for _ in range(3)]
    row = stats.lengths(one_set(short, tokens)).iloc[0]
    assert row["chooses_shorter"] > 0.97 and abs(row["more"]) < 0.03
    assert row["at_equal_low"] < 0 < row["at_equal_high"]
    able = [-difference + 80 + generator.standard_normal(200) for _ in range(3)]
    row = stats.lengths(one_set(able, tokens)).iloc[0]
    assert row["at_equal_low"] > 0 and row["low"] > 0
    assert row["at_equal"] == pytest.approx(80 / np.std(able[0]), rel=0.1)


def test_best_of_all_counts_items_and_styles_are_those_of_one_place():
    # two items: the better response of each against three others
    own = Set(
        "reward-bench-2",
        np.asarray([0, 0, 0, 4, 4, 4]),
        np.asarray([1, 2, 3, 5, 6, 7]),
        np.full(6, "Safety"),
        np.repeat([0, 1], 3),
        np.full(8, 9),
    )
    score = np.asarray([3, 1, 2, 0, 2, 1, 3, 0], np.float32)
    models = {(0, HELPFUL): {"score reward-bench-2": score}}
    study = kept.Study({}, {own.name: own}, [], np.zeros(0, int), models, {})
    table = stats.accuracy(study).set_index("task")["accuracy"]
    assert table["reward-bench-2 Safety"] == pytest.approx(5 / 6)
    assert table["reward-bench-2 Safety, best of all"] == 0.5
    better, worse = (x.ravel() for x in np.meshgrid([0, 1, 2], [3, 4, 5]))
    own = Set("rm-bench", better, worse, np.full(9, "chat"), np.zeros(9, int), np.full(6, 9))
    study = replace(study, sets={own.name: own})
    found = {task.name: len(task.rows) for task in tasks(study)}
    assert found == {"rm-bench chat": 9, "rm-bench chat, alike in style": 3}


def test_what_helps_is_paired_with_the_mixed_model_of_the_same_seeds(planted):
    better = {
        (seed, "average"): {
            name: np.abs(array) for name, array in arrays.items() if name.startswith("score")
        }
        for (seed, model), arrays in planted.models.items()
        if model == MIXED and seed < 3
    }
    study = replace(planted, models=planted.models | better)
    row = stats.helps(study).set_index("model").loc["average"]
    assert row["seeds"] == 3 and row["helpful"] == 1 and row["gain_low"] > 0
    right = [
        (planted.models[seed, MIXED][f"score {task}"][::2] > 0).mean()
        for seed in range(3)
        for task in kept.SOURCES.values()
    ]
    assert row["gain"] == pytest.approx(1 - np.mean(right))
    assert "Shown to keep more: average." in words.helped(stats.helps(study))[0]


def test_refusing_is_told_with_its_data_set_its_size_and_what_length_wins():
    rows = [
        (model, f"rm-bench safety-{end}, {ALIKE_IN_STYLE}", n, rate, rate - 0.1, rate + 0.1, short)
        for model, refuse, response in ((HELPFUL, 0.2, 0.8), (HARMLESS, 0.9, 0.1))
        for end, n, rate, short in (("refuse", 80, refuse, 0.7), ("response", 40, response, 0.3))
    ]
    columns = ["model", "task", "n", "accuracy", "low", "high", "shortest"]
    lengths = pd.DataFrame(columns=["model", "task"])
    (text,) = words.short_or_refusing(pd.DataFrame(rows, columns=columns), lengths)
    assert "(rm-bench safety-refuse, alike in style, 80 comparisons)" in text
    assert "harmless 0.90 [0.80, 1.00] and 0.10 [0.00, 0.20]" in text
    assert "the shorter response alone 0.70 and 0.30." in text


def test_an_earlier_figure_lies_within_where_seeds_are_expected(planted):
    table = stats.against(planted).set_index("what")
    row = table.loc["helpful, hh-rlhf/helpful-base"].iloc[0]
    assert row["within"] == (
        row["predicted_low"] - 0.005 <= row["earlier"] <= row["predicted_high"] + 0.005
    )
    assert table.loc["Jaccard, own and base's", "least"] == 0.9


# ---- What is shown ----


def everything(study):
    names = ("accuracy", "silenced", "overlaps", "lengths", "helps")
    return {name: getattr(stats, name)(study) for name in names} | {"against": stats.against(study)}


def test_the_charts_hold_their_tables(planted):
    tables = everything(planted)
    for name, chart in (
        ("accuracy", charts.accuracies),
        ("silenced", charts.silenced),
        ("overlaps", charts.overlaps),
        ("helps", charts.helps),
    ):
        assert chart(tables[name]).data is tables[name]
    assert "gradient: lower" in charts.silenced(tables["silenced"]).alternative


def test_an_empty_study_says_so(planted):
    none = replace(planted, models={}, metadata={})
    tables = everything(none)
    assert words.takeaways(**tables) == [words.NOTHING]
    for chart, name in (
        (charts.accuracies, "accuracy"),
        (charts.silenced, "silenced"),
        (charts.overlaps, "overlaps"),
        (charts.helps, "helps"),
    ):
        assert len(chart(tables[name]).data) == 0
    assert charts.margins(stats.margins(none)).data.empty
    assert stats.layers(none).empty and stats.shrinkage(none).empty


def save(study, folder):
    """Write a study as a run of it does."""
    folder.mkdir()
    sets = {name: np.unique(own.subset).tolist() for name, own in study.sets.items()}
    (folder / kept.STUDY).write_text(json.dumps(study.document | {"sets": sets}))
    arrays = {"few": study.few}
    rows = dict(study.probe)
    for name, own in study.sets.items():
        codes = np.unique(own.subset, return_inverse=True)[1]
        arrays |= {
            f"{name} {key}": getattr(own, key) for key in ("better", "worse", "opening", "tokens")
        }
        arrays |= {f"{name} subset": codes, f"{name} probe": rows[name]}
    save_file(arrays, folder / kept.DATA)
    for key, of in study.models.items():
        save_file(of, kept.path(folder, *key), {"seconds": "9.5", "machine": "a", "command": "b"})


@pytest.mark.slow
@pytest.mark.parametrize("left", ["all", "one seed", "no random sets", "none"])
def test_the_page_stands_on_what_there_is(planted, tmp_path, left):
    models = {
        "all": planted.models,
        "one seed": {key: of for key, of in planted.models.items() if key[0] == 0},
        "no random sets": {
            key: {name: array for name, array in of.items() if not name.startswith("random")}
            for key, of in planted.models.items()
        },
        "none": {},
    }[left]
    save(replace(planted, models=models), tmp_path / "study")
    given = {"study": str(tmp_path / "study"), "tables": str(tmp_path / "out")}
    page = pages.run_page("tension", tmp_path / "page.ipynb", given)
    cells = nbformat.read(page, 4).cells
    html = [
        output["data"]["text/html"]
        for cell in cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "text/html" in output.get("data", {})
    ]

    text = re.sub(r"<script>.*?</script>", "", " ".join(html), flags=re.DOTALL)
    assert not re.search(r"\b(nan|NaN|inf|None)\b", text), re.search(
        r".{60}\b(nan|NaN|inf|None)\b.{20}", text
    )
    assert len(pd.read_parquet(tmp_path / "out" / "tension_silenced.parquet").columns) == len(
        silencing.SILENCED
    )


def test_shared_neurons_are_said_of_the_mixed_model(planted):
    (told,) = words.shared(stats.silenced(planted))
    assert "hh-rlhf/helpful-base" in told and "hh-rlhf/harmless-base" in told
    table = stats.silenced(planted)
    assert words.shared(table[table["set"] != SHARED]) == []


def test_in_brief_comparisons_are_counted_on_a_models_own_pairs(planted):
    table, overlaps = stats.silenced(planted), stats.overlaps(planted)
    (told,) = words.brief(table, overlaps)
    assert "shown in 0 of 4 comparisons" in told and "mostly those that were largest" in told
    own = (table["set"] == OWN) & (table["model"] == HARMLESS) & table["p"].notna()
    lower = table.assign(verdict=table["verdict"].mask(own, silencing.LOWER))
    assert "shown in 1 of 4 comparisons" in words.brief(lower, overlaps)[0]
    assert words.brief(table[table["p"].isna()], overlaps) == []


def test_the_committed_study_is_whole():
    study = kept.load_study(plan.STUDY)
    seeds, helping = study.document["seeds"], study.document["settings"]["helping"]
    wanted = {(seed, model) for seed in range(seeds) for model in (*kept.OBJECTIVES, kept.AVERAGE)}
    wanted |= {(seed, model) for seed in range(helping) for model in kept.HELPS}
    assert set(study.models) == wanted
    assert all(kept.is_whole(arrays, model) for (_, model), arrays in study.models.items())
    assert all(metadata["machine"] and metadata["command"] for metadata in study.metadata.values())
