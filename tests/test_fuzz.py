"""Whatever a document holds, it is read right or refused in words: see bench/fuzz.py.

Here a modest number of documents, and all that ever failed (``tests/fuzz``). Many more:
``python bench/fuzz.py --examples 1000``.
"""

import importlib.util
import sys

import pytest
from hypothesis import HealthCheck, given, settings

from lib import paths

_spec = importlib.util.spec_from_file_location("bench_fuzz", paths.ROOT / "bench" / "fuzz.py")
fuzz = sys.modules["bench_fuzz"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fuzz)

FEW, FEWER = 20, 2  # documents of a surface; of one that loads a model and runs it
KEPT = sorted(path for path in fuzz.CORPUS.iterdir() if path.suffix != ".md")


@pytest.fixture(scope="module")
def surface(tmp_path_factory):
    made = {}

    def get(name):
        if name not in made:
            made[name] = fuzz.MADE[name](tmp_path_factory.mktemp("surface"))
        return made[name]

    return get


def passes(read, content):
    _, error = fuzz.outcome(read, content)
    if error is not None:
        raise error


@pytest.mark.parametrize("name", fuzz.MADE)
def test_a_mutated_document_is_read_right_or_refused(surface, name):
    place = surface(name)

    @settings(
        max_examples=FEWER if name.startswith(("classifier", "armorm")) else FEW,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(place.content)
    def each(content):
        passes(place.read, content)

    each()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_document_that_failed_once_does_not_again(surface, path):
    name = next(name for name in fuzz.MADE if path.name.startswith(name.replace("/", "-") + "--"))
    passes(surface(name).read, path.read_bytes())


def test_what_the_mutations_leave_alone_is_read_right(surface):
    """Else refusals would tell nothing."""
    rows = fuzz.lines(fuzz.PAIRS)
    assert fuzz.outcome(surface("data.jsonl").read, rows) == ("right", None)
    audit = (paths.ROOT / "audit.yml").read_bytes()
    assert fuzz.outcome(surface("audit.yml").read, audit) == ("right", None)


def test_a_failure_is_told_from_a_refusal():
    def broken(content):
        return content["x"]

    def endless(content):
        while True:
            pass

    assert fuzz.outcome(broken, b"")[0] == "failed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzz, "LIMIT", 0.1)
        assert fuzz.outcome(endless, b"")[0] == "failed"
