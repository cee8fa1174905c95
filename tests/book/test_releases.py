"""Headline figures of releases, what changed between them, and how the book is cited."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib import paths
from lib.book import citing, releases
from lib.errors import PageError


@pytest.fixture
def results(tmp_path):
    """Pages of one model on one dataset, and of published claims."""
    folder = tmp_path / "results"
    (folder / "m" / "x").mkdir(parents=True)
    validity = pd.DataFrame({"head": ["a", "NA", "a"], "subset": ["all", "all", "s"]})
    validity = validity.assign(win_rate=[0.61234, 0.4, 0.9], low=0.3, high=0.7, verdict="tracks")
    validity.to_parquet(folder / "m" / "x" / "validity.parquet")
    claims = pd.DataFrame({"key": ["it-holds"], "verdict": ["fails"]})
    claims.to_parquet(folder / "published_claims.parquet")
    return folder


def test_figures_are_those_of_whole_datasets_and_claims(results):
    found = releases.figures(results)
    assert found.astype(object).where(found.notna(), "–").values.tolist() == [
        ["m/x", "win rate", "a", 0.6123, 0.3, 0.7, "tracks"],
        ["m/x", "win rate", "NA", 0.4, 0.3, 0.7, "tracks"],
        ["", "published claim", "it-holds", "–", "–", "–", "fails"],
    ]


def test_without_pages_there_are_none(tmp_path):
    with pytest.raises(PageError, match="make book"):
        releases.figures(tmp_path)


def test_what_is_kept_is_read_again_in_order_of_versions(results, tmp_path):
    folder = tmp_path / "kept"
    for version in ("0.10.0", "0.9.0"):
        releases.keep(results, folder, version)
    kept = releases.kept(folder)
    assert list(kept) == ["0.9.0", "0.10.0"]
    pd.testing.assert_frame_equal(kept["0.9.0"], releases.figures(results))
    with pytest.raises(PageError, match="another version"):
        releases.keep(results, folder, "0.9.0")
    releases.keep(results, folder, "0.9.0", again=True)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "\x00"])
def test_a_damaged_release_is_an_error(tmp_path, text):
    (tmp_path / "1.csv").write_text(text)
    with pytest.raises(PageError, match="1.csv"):
        releases.kept(tmp_path)


def table(**rows):
    """Figures of a page p by name: value (its interval .1 to either side) and verdict."""
    made = [("p", "win rate", name, v, v - 0.1, v + 0.1, told) for name, (v, told) in rows.items()]
    return pd.DataFrame(made, columns=releases.COLUMNS)


def test_a_figure_that_moved_or_has_another_verdict_changed():
    before = table(same=(0.5, "chance"), near=(0.5, "chance"), moved=(0.5, "chance"), left=(1, ""))
    after = table(
        same=(0.5, "chance"), near=(0.5004, "chance"), moved=(0.51, "chance"), new=(1, "")
    )
    told = table(
        same=(0.5, "tracks"), near=(0.5, "chance"), moved=(0.51, "chance"), new=(np.nan, "")
    )
    given = {"1": before, "2": after, "3": told}
    found = releases.changed(given)
    shown = found[["since", "name", "change", "before", "after", "verdict_after"]]
    assert shown.values.tolist() == [
        ["1", "left", "gone", "1.000 [0.900, 1.100]", "", ""],
        ["1", "moved", "changed", "0.500 [0.400, 0.600]", "0.510 [0.410, 0.610]", "chance"],
        ["1", "new", "new", "", "1.000 [0.900, 1.100]", ""],
        ["2", "new", "changed", "1.000 [0.900, 1.100]", "", ""],
        ["2", "same", "changed", "0.500 [0.400, 0.600]", "0.500 [0.400, 0.600]", "tracks"],
    ]
    assert releases.takeaways(given, found)[1:] == [
        "From 1 to 2: 1 changed, 1 new, 1 gone.",
        "From 2 to 3: 2 changed.",
    ]


def test_one_table_alone_has_no_changes():
    assert releases.changed({"1": table(a=(0.5, ""))}).empty


def test_the_book_is_cited_from_its_citation_file():
    about = citing.citation()
    assert f'version = "{about["version"]}"' in (paths.ROOT / "pyproject.toml").read_text()
    entry = citing.bibtex(about)
    assert entry.startswith(f"@software{{reward-audit-{about['version']},\n  title   = {{{{")
    assert "author  = {{the reward-audit contributors}}," in entry and "MIT" in entry


def test_an_entry_has_what_the_citation_gives():
    about = {
        "title": "T",
        "version": "1.2",
        "authors": [{"family-names": "Doe", "given-names": "J."}, {"name": "the others"}],
        "date-released": "2026-11-28",
        "repository-code": "https://example.org/r",
    }
    assert citing.bibtex(about).splitlines() == [
        "@software{reward-audit-1.2,",
        "  title   = {{T}},",
        "  author  = {Doe, J. and {the others}},",
        "  year    = {2026},",
        "  version = {1.2},",
        "  url     = {https://example.org/r},",
        "}",
    ]
    assert "https://example.org/r" in releases.cite(about).markup
    assert "not named yet" in releases.cite(about | {"repository-code": None, "url": ""}).markup


def test_a_release_is_kept_of_this_version():
    assert citing.citation()["version"] in releases.kept(paths.BOOK / "releases")
