"""The status page knows every executed page and what made it."""

import json

import pandas as pd
import pytest

from lib import records, report
from lib.book import status
from lib.errors import PageError, ParameterError

RUNS = [
    {"model": "m", "dataset": "hh-rlhf/part", "items": "abc123"},
    {"model": "m", "dataset": "xstest", "items": "def456"},
]
ROWS = {
    "Model": "m (heads 1)",
    "Extracted with": "torch 2",
    "Page made with": "numpy 1",
    "Machine": "x86_64, 2 cores",
    "Seed": "0",
    "Commit": "0a1b2c3",
    "Run time": "3.2 s",
    "Made by": "papermill notebooks/validity.ipynb out.ipynb -r model m",
}


def executed(results, place, rows=ROWS, runs=RUNS):
    path = results / f"{place}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    if rows is not None:
        records.write(path.stem, rows, path.parent, runs)


def test_a_record_becomes_a_row(tmp_path):
    executed(tmp_path, "m/hh-rlhf/part/validity")
    (row,) = status.read(tmp_path).to_dict("records")
    assert row == {
        "page": "m/hh-rlhf/part/validity",
        "recorded": True,
        "model": "m",
        "data": "hh-rlhf/part (abc123); xstest (def456)",
        "seed": "0",
        "commit": "0a1b2c3",
        "machine": "x86_64, 2 cores",
        "command": ROWS["Made by"],
        "versions": "torch 2; numpy 1",
        "seconds": 3.2,
    }


def test_a_page_without_a_record_is_shown_and_named(tmp_path):
    executed(tmp_path, "m/part/data")
    executed(tmp_path, "m/part/validity", rows=None)
    table = status.read(tmp_path)
    assert table["recorded"].tolist() == [True, False]
    assert any(
        "m/part/validity" in told and "no record" in told for told in status.takeaways(table)
    )


def test_half_written_pages_and_the_status_page_itself_are_left_out(tmp_path):
    executed(tmp_path, "m/data")
    (tmp_path / "m" / ".data.partial-1.ipynb").write_text("{}")
    (tmp_path / "status.ipynb").write_text("{}")
    assert status.read(tmp_path)["page"].tolist() == ["m/data"]


def test_takeaways_add_the_run_times_and_name_the_commit(tmp_path):
    executed(tmp_path, "m/data", ROWS | {"Run time": "2.0 s"})
    executed(tmp_path, "m/validity", ROWS | {"Run time": "5.0 s"})
    told = status.takeaways(status.read(tmp_path))
    assert "Together they ran for 7 s; the longest was m/validity with 5 s." in told
    assert "All were made by commit 0a1b2c3." in told
    assert told[0] == "2 pages were executed, about 1 model."


def test_pages_without_a_record_are_not_among_all(tmp_path):
    executed(tmp_path, "m/data")
    executed(tmp_path, "m/a", ROWS | {"Run time": "?"})
    executed(tmp_path, "m/b", rows=None)
    told = status.takeaways(status.read(tmp_path))
    assert told[1:] == [
        "1 left no record of how: m/b.",
        "Those that record their time, 1 in all, ran for 3 s; the longest was m/data with 3 s.",
        "All with a record were made by commit 0a1b2c3.",
    ]
    executed(tmp_path, "m/a", ROWS | {"Commit": "4d5e6f7"})
    told = status.takeaways(status.read(tmp_path))
    assert told[-1] == "Those with a record were made by 2 commits: 4d5e6f7, 0a1b2c3."


def test_several_commits_and_uncommitted_changes_are_told(tmp_path):
    executed(tmp_path, "m/data")
    executed(tmp_path, "m/validity", ROWS | {"Commit": "4d5e6f7-dirty"})
    told = " ".join(status.takeaways(status.read(tmp_path)))
    assert "2 commits: 0a1b2c3, 4d5e6f7-dirty" in told and "1 was made with changes" in told


def test_machines_and_versions_are_shown_once_each(tmp_path):
    for place in ("m/a", "m/b"):
        executed(tmp_path, place)
    executed(tmp_path, "m/c", ROWS | {"Machine": "another"})
    assert status.shared(status.read(tmp_path))["pages"].tolist() == [2, 1]


def test_addresses_lead_from_the_page_to_the_others(tmp_path):
    table = pd.DataFrame({"page": ["m/part/validity"]})
    assert status.addresses(table, "book/results") == ["m/part/validity.html"]
    assert status.addresses(table, "book/results", "book/results/m") == ["../m/part/validity.html"]


def test_a_damaged_record_is_an_error_that_names_it(tmp_path):
    executed(tmp_path, "m/data")
    (tmp_path / "m" / "data.provenance.json").write_text(json.dumps({"rows": []}))
    with pytest.raises(PageError, match=r"m/data\.provenance\.json"):
        status.read(tmp_path)


def test_a_folder_without_pages_is_an_error(tmp_path):
    with pytest.raises(PageError, match="executed page"):
        status.read(tmp_path)


def test_tables_link_within_the_site_only():
    frame = pd.DataFrame({"page": ["<b>"]})
    shown = report.table(frame, links={"page": ['a"b.html']}).markup
    assert '<a href="a&quot;b.html"><bdi>&lt;b&gt;</bdi></a>' in shown
    for address in ("javascript:alert(1)", "https://example.org", "//example.org", "/etc"):
        with pytest.raises(ParameterError, match="within the site"):
            report.table(frame, links={"page": [address]})
