"""A model that is right is right in every line; a check of it is one document."""

import json
import shutil

import jsonschema
import numpy as np
import pytest

from lib import paths
from lib.__main__ import main
from lib.check import check, lines, template
from lib.check.invariance import shown
from lib.check.scales import shares
from lib.data import load_items
from lib.errors import StoreError
from lib.extraction import extract
from lib.models import load_model

STIMULI = "stimuli/controlled"
FIELDS = ("prompt", "chosen", "rejected")
SHORT = [
    ("How many days has a week?", "A week has seven days.", "Nine, I think."),
    ("What do bees make?", "Bees make honey and wax.", "Ask somebody else."),
    ("Name a river.", "The Danube, which ends in the Black Sea.", "I won't."),
    ("Who wrote Hamlet?", "William Shakespeare wrote it around 1600.", "Some man."),
]
SCHEMA = json.loads(lines.SCHEMA.read_text())
ASKED = set(lines.LINES) - {"Reference", "Overlap"}


def assert_right(checked):
    assert {line: checked.lines[line] for line in ASKED} == dict.fromkeys(ASKED, lines.RIGHT)
    assert checked.lines["Reference"] == checked.lines["Overlap"] == lines.NOT_ASKED
    assert checked.verdict == lines.RIGHT and checked.unsound == []
    jsonschema.validate(lines.finite(checked.document()), SCHEMA)


def test_a_tiny_classifier_is_right(classifier, checked):
    assert_right(checked(classifier(), data=STIMULI))


def test_a_model_with_one_kernel_alone_is_right_and_says_so(classifier, checked):
    found = checked(classifier(kind="gemma2"), data=STIMULI)
    assert_right(found)
    notes = {row.what for row in found.rows if row.verdict == lines.NOTE}
    assert {"attention kernel", "packing"} <= notes


def test_a_tiny_armorm_is_right(tiny, tmp_path, checked):
    tiny.write_armorm(tmp_path, max_position_embeddings=4096)
    found = checked(tmp_path, data=STIMULI)
    assert_right(found)
    assert [record["score"] for record in found.tables["scale"]][-1] == "final score"


def test_a_spread_over_few_items_is_shown_to_be_less_than_it_looks():
    # By hand from a table: the upper 5% point of chi-square is 15.507 at 8 and 83.675 at 64.
    assert shown(1.0, 8) == pytest.approx((8 / 15.507) ** 0.5, abs=1e-4)
    assert shown(1.0, 64) == pytest.approx((64 / 83.675) ** 0.5, abs=1e-4)


@pytest.mark.slow
def test_an_embedded_model_is_right(tmp_path):
    """The gated one, on short texts; what is committed of each is of 64 stimuli."""
    file = tmp_path / "pairs.jsonl"
    file.write_text(
        "".join(f"{json.dumps(dict(zip(FIELDS, row, strict=True)))}\n" for row in SHORT)
    )
    found = check("smol-armo", data=f"file:{file}", quick=True, device="cpu")
    assert_right(found)
    assert found.items == len(SHORT)


@pytest.mark.parametrize("name", [path.stem for path in (paths.BOOK / "checks").glob("*.json")])
def test_what_is_committed_of_an_embedded_model_is_right_and_of_its_present_weights(name):
    path = lines.committed(name)
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    assert_right(lines.load(path))


def test_a_document_is_read_as_it_was_written(classifier, checked, tmp_path):
    found = checked(classifier())
    found.save(tmp_path / "check.json")
    again = lines.load(tmp_path / "check.json")
    assert again.document() == lines.finite(found.document())
    assert again.frame()["line"].tolist() == [row.line for row in found.rows]


@pytest.mark.parametrize("change", [{"format": 2}, {"rows": [{"line": "Head"}]}, {"tables": []}])
def test_what_is_no_check_is_an_error(change, classifier, checked, tmp_path):
    path = tmp_path / "check.json"
    path.write_text(json.dumps(lines.finite(checked(classifier()).document()) | change))
    with pytest.raises(StoreError):
        lines.load(path)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(json.loads(path.read_text()), SCHEMA)


def test_a_committed_check_that_is_damaged_is_none_that_is_good(tmp_path, monkeypatch):
    whole = lines.committed("smol-armo").read_bytes()
    monkeypatch.setattr(paths, "BOOK", tmp_path)
    monkeypatch.setattr(paths, "RESULTS", tmp_path)
    assert lines.unsound("smol-armo") == []
    path = lines.committed("smol-armo")
    path.parent.mkdir()
    path.write_bytes(whole)
    assert lines.unsound("smol-armo") == []
    path.write_bytes(whole[:-10])
    with pytest.raises(StoreError, match="a check at"):
        lines.unsound("smol-armo")


# ---- The command ----


def told(command, *more):
    return main(["check", *map(str, command), "--quick", "--items", "12", "--device", "cpu", *more])


def test_exit_statuses_tell_right_wrong_untold_and_not_run(classifier, tiny, tmp_path, capsys):
    folder = classifier()
    assert told([folder], "--json", str(tmp_path / "check.json")) == 0
    out, err = capsys.readouterr()
    assert "Head: right" in out and out.strip().endswith("right") and "Reading of" in err
    jsonschema.validate(json.loads((tmp_path / "check.json").read_text()), SCHEMA)
    open_ended = tiny.OPENS_WHEN_ASKED.replace("{{ '<|eot_id|>' }}", "{{ ' ' }}")
    (folder / "chat_template.jinja").write_text(open_ended)
    assert told([folder]) == 3
    shutil.copy(folder / "config.json", tmp_path)
    (folder / "model.safetensors").unlink()
    assert told([folder]) == 1
    assert "WRONG" in capsys.readouterr().out
    assert told([tmp_path / "none"]) == 4
    with pytest.raises(SystemExit) as usage:
        main(["check"])
    assert usage.value.code == 2


# ---- Numbers behind lines ----


def test_the_rate_under_its_own_template_is_that_of_a_run(classifier, checked, tmp_path):
    folder = classifier()
    costs = checked(folder, quick=False).frame("costs").set_index("template")
    items = load_items(template.STIMULI)
    items = items.select((items.comparisons["subset"] == template.SUBSET).to_numpy())
    run = extract(load_model(str(folder), device="cpu"), items, store=tmp_path / "states")
    score = run["score"].values[:, 0]
    won = score[run["better"].values] > score[run["worse"].values]
    assert costs.loc["its own", "rate"] == pytest.approx(won.mean())
    assert (costs["n"] == 100).all() and costs.loc["its own", "difference"] == 0
    others = costs["rate"] - costs.loc["its own", "rate"]
    assert costs["difference"].to_numpy() == pytest.approx(others.to_numpy())


def test_shares_between_prompts_by_hand():
    # Two prompts of two: means 1 and 5, within 1 each. MSB = 2·(2² + 2²)/1 = 16, MSW = 4/2 = 2,
    # n₀ = 2: σ²_b = 7, share 7/9.
    scores = np.asarray([[0.0, 3.0], [2.0, 3.0], [4.0, 3.0], [6.0, 3.0]])
    assert shares(scores, np.asarray([0, 0, 1, 1])) == pytest.approx([7 / 9, np.nan], nan_ok=True)


def test_dates_are_days_and_nothing_else():
    text = "December 2023, 26 Jul 2024, Jul 26, 2024, 2024-07-26, 3 of May 2024, version 2024-7"
    assert template.dates(text) == ["2024-07-26"]
