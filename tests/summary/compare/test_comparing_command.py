"""``python -m lib compare``: names in; a table, a document and the page's tables out."""

from __future__ import annotations

import json
import math
import os

import jsonschema
import numpy as np
import pandas as pd
import pytest

from lib import paths, stats, summary
from lib.__main__ import main
from lib.data import load_items, stream_items
from lib.errors import DataError, ParameterError, StoreError
from lib.extraction import extract, extract_stream, save_run
from lib.models import EMBEDDED
from lib.planted.worlds import make_run
from lib.summary.compare import command, document, measure

SCHEMA = json.loads(document.SCHEMA.read_text())
PAIRS = 60


def run_of(model: str, seed: int = 0, noise: float = 1.0, heads: int = 1, **given):
    """A run whose margins are those of every other seed, with noise of its own."""
    shared = np.random.default_rng(7).standard_normal((2 * PAIRS, 1)) + np.tile(
        [[1], [0]], (PAIRS, 1)
    )
    own = np.random.default_rng(seed).standard_normal((2 * PAIRS, heads))
    run = make_run(shared + noise * own, **given)
    return run.assign_attrs(model=model, dataset=given.get("name", "xstest"))


@pytest.fixture
def folder(tmp_path):
    """Keeps a run; gives its folder."""

    def keep(run, name: str) -> str:
        return str(save_run(run, tmp_path / name))

    return keep


@pytest.fixture
def compared(tmp_path):
    """What was found of models on datasets, and the document that holds it, checked."""

    def compare(*models, datasets=(), **options):
        found = measure.compare(models, list(datasets), tmp_path / "results", **options)
        content = json.loads(json.dumps(document.finite(document.document(found))))
        jsonschema.validate(content, SCHEMA)
        return found, content

    return compare


def test_a_model_and_itself_differ_in_nothing(folder, compared):
    one = folder(run_of("m"), "one")
    found, content = compared(one, one)
    assert [side.name for side in found.sides] == [one, f"{one} (2)"]
    (row,) = content["differences"]
    assert (row["difference"], row["p"], row["disagree"]) == (0, 1, 0)
    assert (row["verdict"], row["mde"]) == ("not told apart", None)
    assert content["contested"] == []


def test_two_checkpoints_of_one_run_are_told_apart_by_their_folders(folder, compared):
    folders = [
        folder(run_of("out", seed, noise), f"checkpoint-{seed}") for seed, noise in ((1, 0), (2, 9))
    ]
    found, content = compared(*folders)
    assert [side.name for side in found.sides] == folders
    (row,) = content["differences"]
    assert row["verdict"] == "higher" and row["n"] == PAIRS
    assert content["family"] == 1 and content["warnings"] == []
    assert {each["how"] for each in content["runs"]} == {"kept run"}


def test_the_family_is_every_pair_and_question(folder, compared, tmp_path):
    for model in "abc":
        for name in ("xstest", "llmbar"):
            folder(run_of(model, ord(model), name=name), f"{model}/{name}")
    found, content = compared(*(str(tmp_path / model) for model in "abc"))
    assert content["family"] == len(content["differences"]) == 6
    assert found.differences["p_adjusted"].min() >= found.differences["p"].min()
    assert set(found.contested.groupby(["model", "other"]).size()) <= set(range(21))


def test_a_model_may_lack_a_dataset_where_nothing_is_scored_for_it(folder, compared, tmp_path):
    for model, names in {"a": ("xstest", "llmbar"), "b": ("llmbar",)}.items():
        for name in names:
            folder(run_of(model, ord(model), name=name), f"{model}/{name}")
    given = [str(tmp_path / model) for model in "ab"]
    found, _ = compared(*given, datasets=["xstest", "llmbar"], unscored=given[1:])
    assert found.differences["dataset"].tolist() == ["llmbar"]
    told = found.scores.set_index(["dataset", "model"])["note"]
    assert told["xstest", "b"] == "not run" and told["xstest", "a"] == ""


def test_a_targeted_dataset_is_compared_on_by_criterion(folder, compared):
    subset = ["safety", "honesty"] * (PAIRS // 2)
    given = {"subset": subset, "criterion": subset, "name": "stimuli/controlled"}
    folders = [folder(run_of(model, k, **given), model) for k, model in enumerate("ab")]
    _, content = compared(*folders)
    told = [(row["dataset"], row["question"], row["n"]) for row in content["differences"]]
    assert told == [("stimuli/controlled", part, PAIRS // 2) for part in ("honesty", "safety")]


def test_many_heads_without_a_score_are_compared_by_a_head_that_is_named(folder, compared):
    folders = [folder(run_of(model, k, heads=300), model) for k, model in enumerate("ab")]
    found, _ = compared(*folders)
    assert found.differences["note"].item() == (
        "several heads and no one score (a); several heads and no one score (b)"
    )
    found, content = compared(*folders, head="head_299")
    assert found.differences["verdict"].item() != "undefined"
    assert content["head"] == content["scores"][0]["rule"] == "head_299"
    with pytest.raises(ParameterError, match="head of a"):
        compared(*folders, head="head_300")


def test_one_head_stands_beside_nineteen_with_a_score(folder, compared):
    many = run_of("armo", 1, heads=19)
    many = many.assign(final=("response", many["score"].values.mean(axis=1)))
    found, content = compared(
        folder(many, "many"), folder(run_of("one", 2), "one"), every_head=True
    )
    assert found.differences["n"].item() == PAIRS
    assert {row["model"]: row["rule"] for row in content["scores"]} == {
        "armo": "final score",
        "one": "head_0",
    }
    assert found.scores["heads"].tolist() == [19, 1]


def test_contested_items_are_those_on_which_both_are_sure(folder, compared):
    mine, theirs = np.ones(8), np.ones(8)
    mine[[1, 3]], theirs[[5, 6]] = [-2, -0.5], [-1, -3]
    runs = []
    for model, gap in (("a", mine), ("b", theirs)):
        score = np.zeros((16, 1))
        score[::2, 0] = gap
        runs.append(folder(make_run(score).assign_attrs(model=model, dataset="xstest"), model))
    found, _ = compared(*runs)
    scale = [np.sqrt(np.mean(np.square(gap))) for gap in (mine, theirs)]
    least = {str(i): min(abs(mine[i]) / scale[0], abs(theirs[i]) / scale[1]) for i in (1, 3, 5, 6)}
    # by hand: 1 and 6 are sure on both sides, then 5, then 3
    assert found.contested["item"].tolist() == sorted(least, key=least.get, reverse=True)
    first = found.contested.iloc[0]
    assert first["margin"] * first["other_margin"] < 0 and first["by"] == 1


def test_the_most_contested_are_few(folder, compared):
    folders = [folder(run_of(model, k, noise=9), model) for k, model in enumerate("ab")]
    found, _ = compared(*folders, most=3)
    assert len(found.contested) == 3


def test_runs_of_other_responses_are_refused(folder, compared):
    other = run_of("b", 1)
    other["n_chars"] = other["n_chars"] + (other["response"] == 3)
    with pytest.raises(DataError, match="1 of 120 responses of another length"):
        compared(folder(run_of("a"), "a"), folder(other, "b"))


def test_what_cannot_be_compared_is_said(folder, compared, tmp_path):
    one = folder(run_of("a"), "a")
    with pytest.raises(ParameterError, match="two models or more"):
        compared(one)
    with pytest.raises(DataError, match="known dataset of the runs"):
        compared(one, one, datasets=["llmbar"])
    other = folder(run_of("b", name="llmbar"), "b")
    with pytest.raises(ParameterError, match="none that every model has a run of"):
        compared(one, other)
    with pytest.raises(StoreError, match="runs of a, b"):
        compared(one, str(tmp_path))
    bare = run_of("a").isel(comparison=[])
    with pytest.raises(DataError, match="comparisons in xstest"):
        compared(folder(bare, "c"), one)


@pytest.fixture(scope="module")
def made():
    """Tables of committed runs, by what makes them, model and dataset."""
    return {}


@pytest.fixture
def made_once(made, monkeypatch):
    """Tables of a committed run, with which each comparison of its model begins, made once."""

    def once(make):
        def table(run, **options):
            key = make, run.attrs["model"], run.attrs["dataset"], *options.items()
            if key not in made:
                made[key] = make(run, **options)
            return made[key].copy()

        return table

    for place, name in [(stats, "validity"), (stats, "baselines"), (measure, "outcomes")]:
        monkeypatch.setattr(place, name, once(getattr(place, name)))


@pytest.mark.parametrize("models", [EMBEDDED[:2], EMBEDDED], ids=len)
def test_embedded_models_are_compared_on_every_committed_set(tmp_path, capsys, models, made_once):
    path = tmp_path / "compare.json"
    assert main(["compare", *models, "--json", str(path)]) == 0
    content = json.loads(path.read_text())
    jsonschema.validate(content, SCHEMA)
    kept = [
        {
            run.parent.relative_to(paths.RUNS / name).as_posix()
            for run in (paths.RUNS / name).rglob("run.json")
        }
        for name in models
    ]
    assert {row["dataset"] for row in content["differences"]} == set.intersection(*kept)
    assert {row["how"] for row in content["runs"]} == {"committed run"}
    assert all(row["verdict"] != "undefined" for row in content["differences"])
    assert 0 < len(content["contested"]) <= 20 * math.comb(len(models), 2)
    told = capsys.readouterr().out
    assert "smol-armo (A) and smol-mixed (B)" in told


def test_text_is_shown_of_own_data_alone(tmp_path, tiny_model, capsys, monkeypatch):
    rows = [
        {"prompt": f"Question {i}?", "chosen": f"Yes, {i}.", "rejected": f"No {i}"}
        for i in range(8)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    name = f"file:{tmp_path / 'pairs.jsonl'}"
    run = extract(tiny_model, load_items(name), store=tmp_path / "states")
    final = ("response", -run["score"].values[:, 0])
    folders = [
        str(save_run(each.assign_attrs(model=model), tmp_path / model))
        for model, each in (
            ("a", run.isel(head=[0]).drop_vars(["final", "gate"], errors="ignore")),
            ("b", run.isel(head=[0]).assign(final=final)),
        )
    ]
    path = tmp_path / "compare.json"
    given = ["compare", *folders, "--datasets", name, "--json", str(path)]
    assert main(given) == 0
    assert "Question" not in capsys.readouterr().out and "Question" not in path.read_text()
    assert main([*given, "--show-text"]) == 0
    content = json.loads(path.read_text())
    jsonschema.validate(content, SCHEMA)
    assert len(content["contested"]) == 8  # one model is the other's opposite
    for record in content["contested"]:
        row = rows[int(record["item"])]
        assert (
            record["text"]["better"] == row["chosen"] and record["text"]["worse"] == row["rejected"]
        )
    assert "user: Question" in capsys.readouterr().out
    assert main(["compare", *EMBEDDED, "--datasets", "llmbar", "--show-text"]) == 1
    assert "a dataset of your own" in capsys.readouterr().err


def test_the_page_reads_what_was_compared(folder, tmp_path):
    folders = [
        folder(run_of(model, k, heads=3, final=np.arange(2.0 * PAIRS)), model)
        for k, model in enumerate("ab")
    ]
    measure.compare(folders, [], tmp_path / "left", every_head=True)
    left = summary.everything(tmp_path / "left", ["a", "b"])
    table = pd.read_parquet(tmp_path / "left" / "a" / "xstest" / "validity.parquet")
    assert set(table["head"]) == {"head_0", "head_1", "head_2"}
    assert len(summary.compare(left)) == 1 and len(summary.scores(left)) == 2


def test_a_folder_of_tables_holds_what_the_last_call_compared(folder, tmp_path, capsys):
    def shown() -> list[tuple[str, str]]:
        return [(left.model, name) for left in summary.everything(tables) for name in left.datasets]

    for model in "ab":
        for name in ("xstest", "llmbar"):
            folder(run_of(model, ord(model), name=name), f"{model}/{name}")
    models, tables = [str(tmp_path / model) for model in "ab"], tmp_path / "new" / "page.tables"
    command.run(models, ["xstest", "llmbar"], tables=str(tables))
    assert len(shown()) == 4
    command.run(models, ["llmbar"], tables=str(tables))
    assert shown() == [("a", "llmbar"), ("b", "llmbar")]
    with pytest.raises(DataError, match="known dataset"):
        command.run(models, ["beavertails"], tables=str(tables))
    assert shown() == [("a", "llmbar"), ("b", "llmbar")] and os.listdir(tables.parent) == [
        tables.name
    ]
    assert tables.stat().st_mode & 0o777 == tables.parent.stat().st_mode & 0o777


def test_a_folder_with_what_is_not_tables_is_left_alone(folder, tmp_path):
    models = [folder(run_of(model, k), model) for k, model in enumerate("ab")]
    (tmp_path / "page.tables").mkdir()
    (tmp_path / "page.tables" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="notes.txt in it"):
        command.run(models, [], tables=str(tmp_path / "page.tables"))
    assert (tmp_path / "page.tables" / "notes.txt").read_text() == "mine"
    with pytest.raises(StoreError, match="a file"):
        command.run(models, [], tables=str(tmp_path / "page.tables" / "notes.txt"))


def test_a_stream_whose_first_piece_scored_nothing_is_compared(tmp_path, compared, tiny_model):
    path = tmp_path / "pairs.jsonl"
    rows = [{"prompt": "long " * 200, "chosen": "a", "rejected": "b"}] * 2
    rows += [{"prompt": f"q{k}", "chosen": "a" * (k + 1), "rejected": "b"} for k in range(4)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    stream = extract_stream(tiny_model, stream_items(f"file:{path}", size=2), tmp_path / "stream")
    assert not (stream / "part-00000").exists() and (stream / "part-00001").is_dir()
    found, _ = compared(str(stream), str(stream), datasets=[f"file:{path}"])
    assert found.sources["scored"].tolist() == [4, 4]


def test_what_tells_of_a_run_is_read_through_the_guard(folder, compared, tmp_path):
    named = [folder(run_of(model, k), model) for k, model in enumerate("ab")]
    path = tmp_path / "a" / "run.json"
    whole = path.read_text()
    for text, told in [
        (whole.replace('"model"', '"modal"', 1), "no model in attrs"),
        (whole.replace('"model": "a"', '"model": 1', 1), "string as model"),
        (whole.replace('"model"', '"model": "a", "model"', 1), "more than once"),
        ("[" * 100_000, "deep"),
    ]:
        path.write_text(text)
        with pytest.raises(StoreError, match=told):
            compared(*named)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(StoreError, match="no regular file"):
        compared(*named)


def test_models_without_runs_are_scored(tmp_path, write_tiny, compared, capsys):
    """An ArmoRM of 19 heads, a classifier of one and one of many, on a file."""
    room = {"max_position_embeddings": 4096}
    write_tiny.write_armorm(tmp_path / "armo", **room)
    write_tiny.write_classifier(tmp_path / "one", **room)
    write_tiny.write_classifier(tmp_path / "many", labels=300, **room)
    rows = [
        {"prompt": f"Is {i} odd?", "chosen": "Yes." if i % 2 else "No.", "rejected": "Maybe so."}
        for i in range(12)
    ]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    models = [str(tmp_path / name) for name in ("armo", "one", "many")]
    found, content = compared(*models, datasets=[f"file:{tmp_path / 'pairs.jsonl'}"], device="cpu")
    assert {row["how"] for row in content["runs"]} == {"scored now"}
    first, *others = content["differences"]
    assert first["n"] == 12 and first["verdict"] != "undefined"
    assert {row["note"] for row in others} == {f"several heads and no one score ({models[2]})"}
