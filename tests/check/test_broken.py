"""Whatever is given with a check: none of it becomes a number, or a fault of the model."""

import codecs
import json

import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from lib.__main__ import main
from lib.check import lines, outside
from lib.errors import DataError

IDS = [str(number) for number in range(6)]


@pytest.fixture
def pairs(tmp_path):
    """Six items of two responses, as a dataset's name."""
    path = tmp_path / "pairs.jsonl"
    row = {"prompt": "Question {}?", "chosen": "Answer {}.", "rejected": "No {}!"}
    rows = [{key: text.format(name) for key, text in row.items()} for name in IDS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"file:{path}"


@pytest.fixture
def reference(classifier, checked, pairs, tmp_path):
    """The row of a check against a reference with these rows."""

    def of(rows, folder=None):
        file = tmp_path / "reference.json"
        file.write_text(json.dumps(rows))
        found = checked(folder or classifier(), data=pairs, reference=file)
        return next(row for row in found.rows if row.line == "Reference")

    return of


def test_cells_of_a_csv_are_numbers_and_a_byte_order_mark_is_none(tmp_path):
    table = "id,scores_chosen,scores_rejected\n0,1.5,-2\n"
    (tmp_path / "a.csv").write_text("\ufeff" + table)
    assert outside.read(tmp_path / "a.csv")["0"].scores == [1.5, -2.0]
    (tmp_path / "b.csv").write_text("id,results\n0,1\n1,0\n")
    assert [each.choice for each in outside.read(tmp_path / "b.csv").values()] == [1.0, 0.0]
    content = json.dumps({"id": ["0"], "results": [1]}).encode()
    (tmp_path / "c.json").write_bytes(codecs.BOM_UTF8 + content)
    assert outside.read(tmp_path / "c.json")["0"].choice == 1.0


def test_ids_of_a_column_of_floats_are_whole_numbers(tmp_path):
    pd.DataFrame({"id": [0.0, 1.0], "results": [1, 0]}).to_parquet(tmp_path / "a.parquet")
    assert list(outside.read(tmp_path / "a.parquet")) == ["0", "1"]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "0", "results": []},
        {"id": "0", "scores": []},
        {"id": "0", "scores": [True, False]},
        {"id": "0", "scores": ["a", "b"]},
        {"id": ["0"], "results": 1},
        {"id": True, "results": 1},
        {"id": 0.5, "results": 1},
    ],
)
def test_what_is_no_result_is_an_error(row, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([row]))
    with pytest.raises(DataError, match="row 0"):
        outside.read(tmp_path / "a.json")


@pytest.mark.parametrize(
    "name, text", [("a.jsonl", ""), ("a.csv", "id,results\n"), ("a.json", "[]")]
)
def test_a_reference_without_rows_is_an_error(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match="at least one row"):
        outside.read(tmp_path / name)


def test_columns_that_are_no_json_say_why(tmp_path):
    (tmp_path / "a.json").write_text(
        '{"id": ["0"], "scores_chosen": [NaN], "scores_rejected": [0]}'
    )
    with pytest.raises(DataError, match="isn.t finite"):
        outside.read(tmp_path / "a.json")


def test_scores_that_fit_no_responses_are_not_left_out_in_silence(reference):
    three = [{"id": name, "scores": [1, 2, 3]} for name in IDS]
    found = reference(three)
    assert found.verdict == lines.UNTOLD
    assert found.found == "6 items with another number of scores than responses: 0, 1, 2"
    found = reference([{"id": "0", "results": 0.5}, *three[1:]])
    assert "5 items with another number" in found.found and found.verdict != lines.RIGHT


def test_a_score_that_does_not_vary_agrees_with_nothing(classifier, reference):
    folder = classifier()
    tensors = load_file(folder / "model.safetensors")
    tensors["score.weight"] *= 0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    rows = [{"id": name, "results": 1} for name in IDS]
    assert reference(rows, folder).verdict == lines.BLOCKED


# ---- The command: 4 before a model is loaded ----


@pytest.mark.parametrize(
    "given, told",
    [
        (["--json", "{}/none/check.json"], "no folder"),
        (["--json", "{}"], "a folder"),
        (["--training", "{}/none.jsonl"], "found none"),
        (["--device", "quantum"], "quantum"),
        (["--date", "yesterday"], "yesterday"),
    ],
)
def test_what_is_wrong_with_the_command_is_said_first(
    given, told, classifier, pairs, tmp_path, capsys
):
    flags = [text.format(tmp_path) for text in given]
    before = sorted(tmp_path.iterdir())
    folder = str(classifier())
    assert main(["check", folder, "--quick", "--data", pairs, "--device", "cpu", *flags]) == 4
    out, err = capsys.readouterr()
    assert out == "" and told in err and "needed" in err and "of " + folder not in err
    assert set(tmp_path.iterdir()) - set(before) == {tmp_path / "model"}


def test_a_model_without_a_name_is_none(pairs, capsys):
    assert main(["check", "", "--quick", "--data", pairs]) == 4
    assert "a known model" in capsys.readouterr().err


def test_what_was_found_is_shown_where_it_cannot_be_kept(
    classifier, pairs, tmp_path, capsys, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(lines.Checked, "save", full)
    file = tmp_path / "check.json"
    command = ["check", str(classifier()), "--quick", "--data", pairs, "--device", "cpu"]
    assert main([*command, "--json", str(file)]) == 4
    out, err = capsys.readouterr()
    assert "Head: right" in out and "No space left" in err and not file.exists()
