"""The book's ``audit.json``: of every model with pages, and what changed since the committed one."""

from __future__ import annotations

import shutil

import pytest

from lib import paths, records
from lib.audits import book, command, document, measure
from lib.data import load_items
from lib.models import EMBEDDED
from lib.summary.compare.stats import compare, scores
from lib.summary.tables import everything


@pytest.fixture
def results(run_of, tmp_path):
    """Tables of two models, with the record of a page, and of the page that compares them."""
    folder = tmp_path / "results"
    for seed, model in enumerate("ab"):
        run = run_of(seed=seed).assign_attrs(model=model)
        measure.leave(run, folder / model / "xstest", "xstest", 0)
        records.write("validity", {}, folder / model / "xstest", [run.attrs])
    left = everything(folder)
    scores(left).to_parquet(folder / "compare_scores.parquet", index=False)
    compare(left).to_parquet(folder / "compare_differences.parquet", index=False)
    return folder


def test_every_model_of_the_book_is_in_its_audit(results, tmp_path):
    content = book.now(results)
    assert [model["name"] for model in content["models"]] == ["a", "b"]
    (dataset,) = content["models"][0]["datasets"]
    assert dataset["how"] == measure.EXECUTED
    assert dataset["items"] == "0" * 16
    one, other = (
        [row for row in model["verdicts"] if row["of"] == "compare"] for model in content["models"]
    )
    assert one[0]["judged"] == "b" and other[0]["judged"] == "a"
    assert one[0]["numbers"]["difference"] == -other[0]["numbers"]["difference"]
    book.keep(content, str(tmp_path / "made"))
    assert document.load(tmp_path / "made" / book.FILE) == document.load(_kept(tmp_path, content))


def _kept(folder, content):
    document.save(folder / "kept.json", content)
    return folder / "kept.json"


def test_a_build_of_the_same_tables_changes_nothing(results, tmp_path):
    since = book.since(_kept(tmp_path, book.now(results)), book.now(results))
    assert book.told(since) == [book.NOTHING]
    verdicts, moved = book.tables(since)
    assert verdicts.empty and moved.empty


def test_a_model_that_is_another_is_told(results, run_of, tmp_path):
    kept = _kept(tmp_path, book.now(results))
    run = run_of(seed=0, noise=0.01).assign_attrs(model="a")
    measure.leave(run, results / "a" / "xstest", "xstest", 0)
    _, moved = book.tables(book.since(kept, book.now(results)))
    assert set(moved["verdict"]) == {"higher"} and set(moved["model"]) == {"a"}
    assert (moved["difference"] > 0).all()


def test_what_cannot_be_compared_is_said_and_no_error(results, tmp_path):
    content = book.now(results)
    assert book.told(book.since(tmp_path / "no.json", content)) == [book.NOT_KEPT]
    (tmp_path / "old.json").write_text('{"format": 0}')
    (told,) = book.told(book.since(tmp_path / "old.json", content))
    assert "format 1" in told
    shutil.rmtree(results)
    results.mkdir()
    assert book.now(results) is None
    assert book.told(book.since(tmp_path / "no.json", None)) == [book.NO_PAGES]
    book.keep(None, str(tmp_path / "made"))
    assert book.NO_PAGES in book.link(None).markup


def test_a_release_keeps_the_audit_of_the_build(results, tmp_path):
    assert book.commit(results, tmp_path) is None
    book.keep(book.now(results), str(results))
    made = book.commit(results, tmp_path)
    assert made.read_bytes() == (results / book.FILE).read_bytes()


def test_executed_pages_make_the_report_of_a_model(results, tmp_path):
    made = {"out": str(tmp_path / "report.html"), "results": str(results)}
    target, beside = command.report("a", [], **made)
    assert document.load(beside)["models"] == [book.now(results)["models"][0]]
    assert "Beside other models" in target.read_text()


def test_the_committed_audit_holds_no_text_and_is_small():
    path = paths.BOOK / book.FILE
    assert path.stat().st_size < 2e6
    found = document.load(path)
    assert {model["name"] for model in found["models"]} <= set(EMBEDDED)
    assert all(model["check"] == "right" for model in found["models"])
    texts = load_items("stimuli/exploits").responses["text"]
    content = path.read_text()
    assert not any(text in content for text in texts)
