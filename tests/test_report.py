"""Pages check their own parameters and show hostile text as itself."""

import pandas as pd
import pytest

from lib import report
from lib.data import file
from lib.errors import ParameterError
from lib.planted.worlds import validity_world

DECLARED = 'model: str = "smol-armo"\nlimit: int = 0\n'


def namespace(injected="", **values):
    cells = ["", DECLARED]
    if injected:
        cells.append(f"# Parameters\n{injected}")
    return {"In": [*cells, "page = report.begin(...)"], "model": "smol-armo", "limit": 0, **values}


def test_a_page_without_injected_parameters_has_its_defaults():
    page = report.begin("validity", namespace())
    assert page.parameters == {"model": "smol-armo", "limit": 0}


def test_an_injected_name_that_is_not_declared_is_an_error():
    with pytest.raises(ParameterError, match="'limt'.*Did you mean 'limit'"):
        report.begin("validity", namespace("limt = 7", limt=7))


def test_an_injected_value_of_another_type_is_an_error():
    with pytest.raises(ParameterError, match="limit of type int.*'seven'"):
        report.begin("validity", namespace('limit = "seven"', limit="seven"))


def test_the_command_names_what_differs_from_nothing():
    page = report.begin("validity", namespace("limit = 7", limit=7))
    assert (
        page.command()
        == "papermill notebooks/validity.ipynb out.ipynb -r model smol-armo -p limit 7"
    )


HOSTILE = "<script>alert(1)</script></textarea>{{ x }}$$y$$\n---\n\u202eabc\x1b[31m"


def test_escaped_text_neither_closes_nor_opens_anything():
    shown = report.escape(HOSTILE)
    assert "<" not in shown and "$" not in shown and "\x1b" not in shown and "\u202e" not in shown
    assert "&lt;script&gt;" in shown and "[U+202E]" in shown and "\u241b[31m" in shown


def test_tables_escape_columns_and_cells():
    shown = report.table(pd.DataFrame({HOSTILE: [HOSTILE], "verdict": [HOSTILE]})).markup
    assert "<script" not in shown and "$$" not in shown and "\x1b" not in shown


def test_missing_numbers_are_dashes_and_formats_apply():
    shown = report.table(pd.DataFrame({"p": [0.12345, None]}), {"p": ".2f"}).markup
    assert "0.12" in shown and "–" in shown and "nan" not in shown.lower()


def test_examples_show_hostile_data_as_itself(tmp_path):
    path = tmp_path / "pairs.jsonl"
    row = {"prompt": HOSTILE, "chosen": HOSTILE + "a", "rejected": HOSTILE + "b" * 2000}
    path.write_text(pd.Series([row]).to_json(orient="records", lines=True))
    shown = report.examples(file.load("file:x", path)).markup
    assert "<script" not in shown and "more characters" in shown


def test_examples_say_when_the_text_is_not_at_hand():
    assert "without its text" in report.examples(None).markup


def test_a_page_without_a_run_tells_what_made_it_and_nothing_of_a_run():
    shown = report.Page("calibration", {"draws": 7, "seed": 3, "tables": ""}).provenance().markup
    assert "<th>Seed</th><td><code>3</code>" in shown
    assert "papermill notebooks/calibration.ipynb out.ipynb -p draws 7 -p seed 3" in shown
    for row in ("Model", "Data", "Extraction", "Extracted with", "Prompt as rendered"):
        assert f"<th>{row}</th>" not in shown


def test_a_page_with_a_run_tells_of_it():
    page = report.Page("validity", {"run": "somewhere"}, _run=validity_world(10))
    shown = page.provenance().markup
    assert "<th>Model</th><td><code>planted" in shown and "10 items, 20 responses" in shown
    assert "<th>Prompt as rendered</th>" in shown


@pytest.fixture
def folders(tmp_path):
    from lib.extraction import save_run

    made = []
    for seed, name in enumerate(["planted/one", "planted/two"]):
        run = validity_world(6, seed=seed)
        run.attrs["dataset"] = name
        made.append(str(save_run(run, tmp_path / f"run{seed}")))
    return made


def test_several_runs_are_pooled_and_each_is_told_of(folders):
    given = {"model": "planted", "dataset": "ignored", "run": "", "runs": folders}
    page = report.Page("gating", given)
    assert page.run.attrs["dataset"] == "planted/one + planted/two"
    assert page.run.sizes["item"] == 12
    shown = page.provenance().markup
    assert "planted/one (" in shown and "planted/two (" in shown and "6 items" in shown


def test_one_run_named_counts_before_a_list_and_is_not_pooled(folders):
    given = {"model": "planted", "dataset": "planted/one", "run": folders[0], "runs": folders[:1]}
    page = report.Page("gating", given)
    assert page.run.attrs["dataset"] == "planted/one"
    assert page.runs == [page.run]


def test_runs_of_another_model_are_not_pooled(folders):
    page = report.Page("gating", {"model": "other", "dataset": "", "run": "", "runs": folders})
    with pytest.raises(ParameterError, match="a run of model 'other'"):
        _ = page.run


def test_a_table_without_rows_says_so():
    assert "no rows" in report.table(pd.DataFrame({"a": [], "<b>": []})).markup
