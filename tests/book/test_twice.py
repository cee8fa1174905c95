"""Two builds of one commit give the same site apart from times."""

import json
import re

import pytest

from lib import paths
from lib.book import pages, plan

pytestmark = pytest.mark.slow
TIME = re.compile(rb"(<th>Run time</th><td><code>)[\d.]+ s")
INDEX = "# Twice\n\n{glue:text}`results/data.ipynb::read:` rows.\n"


def searched(index: bytes) -> dict:
    """The search index without numbers and ``time0``: cells of a table run together in it."""
    found = json.loads(re.fullmatch(rb"Search\.setIndex\((.*)\)\s*", index, re.DOTALL)[1])
    found["terms"] = {
        term: on for term, on in found["terms"].items() if not re.fullmatch(r"(time)?\d+", term)
    }
    return found


def test_two_builds_differ_in_times_only(small_book, tmp_path):
    run = next(run for run in plan.read(local=False).runs if run.committed)
    given = {"model": run.model, "dataset": run.dataset, "run": run.folder}
    builds = []
    for number in range(2):
        executed = {
            name: pages.run_page(name, tmp_path / str(number) / f"{name}.ipynb", given, run.dataset)
            for name in ("data", "validity")
        }
        site = small_book(INDEX, executed)
        builds.append({path.relative_to(site): path for path in site.rglob("*") if path.is_file()})
    first, second = builds
    assert sorted(first) == sorted(second)
    assert paths.BOOK.name in {path.parts[0] for path in first}
    times = 0
    for name, path in first.items():
        one, found = TIME.subn(rb"\1", path.read_bytes())
        other, _ = TIME.subn(rb"\1", second[name].read_bytes())
        times += found if path.suffix == ".html" else 0
        if path.name == "searchindex.js":
            one, other = searched(one), searched(other)
        assert one == other, name
    assert times == len(executed)
