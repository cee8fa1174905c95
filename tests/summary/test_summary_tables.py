"""Finding what pages left: models, datasets and addresses, and saying what isn't there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib import declared, paths, summary
from lib.errors import DataError
from lib.planted.worlds import make_run

COLUMNS = {
    name: columns for each in declared.every().values() for name, columns in each.keeps.items()
}

ANY = pd.DataFrame({"x": [1]})
RUN = make_run(np.arange(8.0)[:, None])


def test_datasets_stand_by_kind_under_their_own_names(audit, keep):
    results = audit("m", "file:my data.jsonl", RUN)
    for dataset in ("stimuli/controlled", "xstest", "hh-rlhf/helpful-base", "hh-rlhf"):
        keep("m", dataset, lengths=ANY)
    left = summary.tables(results, "m")
    assert list(left.datasets) == [
        "hh-rlhf",
        "hh-rlhf/helpful-base",
        "xstest",
        "stimuli/controlled",
        "file:my data.jsonl",
    ]
    assert [dataset for dataset, _ in left.each("lengths")] == list(left.datasets)[:4]


def test_a_table_that_is_not_there_is_none(keep):
    left = summary.tables(keep("m", "xstest", lengths=ANY), "m")
    assert left.read("validity", "xstest") is None
    assert left.read("heads") is None
    pd.testing.assert_frame_equal(left.read("lengths", "xstest"), ANY)


def test_the_pages_of_a_model_below_are_not_its_own(audit):
    audit("org", "xstest", RUN)
    results = audit("org/name", "llmbar", RUN)
    assert summary.models(results) == ["org", "org/name"]
    assert list(summary.tables(results, "org").datasets) == ["xstest"]
    assert list(summary.tables(results, "org/name").datasets) == ["llmbar"]


def test_every_model_is_meant_when_none_is_named(audit):
    audit("b", "xstest", RUN)
    results = audit("a", "xstest", RUN)
    assert [left.model for left in summary.everything(results)] == ["a", "b"]
    assert [left.model for left in summary.everything(results, ["b"])] == ["b"]


def test_no_table_at_all_is_an_error(tmp_path, keep):
    with pytest.raises(DataError, match="tables of 'other'"):
        summary.tables(keep("m", "xstest", lengths=ANY), "other")
    with pytest.raises(DataError, match="validity pages of a model"):
        summary.everything(tmp_path)


def test_a_damaged_table_is_an_error(keep):
    results = keep("m", "xstest", lengths=ANY)
    (results / "m" / "xstest" / "validity.parquet").write_bytes(b"no table")
    with pytest.raises(DataError, match=r"a table at .*validity\.parquet"):
        summary.matrix(summary.tables(results, "m"))


def test_an_address_is_that_of_an_executed_page_from_the_sites_root(keep, monkeypatch, tmp_path):
    results = keep("my model", "xstest", lengths=ANY)
    left = summary.tables(results, "my model")
    assert left.page("xstest") == "", "not executed"
    (left.datasets["xstest"] / "validity.ipynb").touch()
    assert left.page("xstest") == "", "not of this site"
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert left.page("xstest") == f"results/{paths.slug('my model')}/xstest/validity.html"
    assert left.page("xstest", "labels") == ""


@pytest.mark.parametrize("name", COLUMNS)
def test_a_table_of_an_older_version_is_an_error(keep, name):
    own = [column for column in COLUMNS[name].split() if column not in ("model", "dataset")]
    lost, *others = *own, "model", "dataset"
    results = keep("m", "xstest", lengths=ANY, **{name: pd.DataFrame(columns=others)})
    left = summary.tables(results, "m")
    with pytest.raises(DataError) as caught:
        left.read(name, "xstest")
    assert f"a table with the column {lost} at " in caught.value.needed
    assert f"{name}.parquet" in caught.value.needed
    assert caught.value.found == ", ".join(others)
    assert "Execute the page" in caught.value.remedy
