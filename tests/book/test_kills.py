"""Builds that are killed at any moment, or run side by side, leave a whole site and the right one."""

import threading

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def small(kills, tmp_path_factory, forked):
    """Whose builds are forks, but for those that are killed or run at once."""
    made = kills.steady().checkout(tmp_path_factory.mktemp("killed") / "book", forked)
    kills.write(made, kills.WORDS[0])
    made.built()
    return made


def test_kills_of_every_way_leave_a_whole_site_and_the_next_build_is_right(kills, small):
    """Each signal once, a terminal that interrupts and one that closes, a signal that is ignored.

    Builds that follow are forks, and their sites the same as of those that aren't. Each of them
    with SIGINT ignored as well, and twice: ``python bench/kills.py``.
    """
    assert {way[0] for way in kills.EACH} == set(kills.ENDED)
    found = kills.run(small, len(kills.EACH), seed=0, ways=kills.EACH)
    assert sum(found.values()) == 7


@pytest.mark.parametrize(("command", "word"), [("build", "plums"), ("site", "grapes")])
def test_of_two_at_once_one_is_refused_and_the_site_is_right(kills, small, command, word):
    kills.write(small, word)
    site = small.root / "book" / "_build" / "html"
    native, done = type(small)(small.root), {}

    def run(name, which):
        done[name] = native.build(which)

    with kills.reading(site) as told:
        pair = [threading.Thread(target=run, args=each) for each in ((0, "build"), (1, command))]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
        codes = sorted(code for code, _, _ in done.values())
        refused = [err for code, _, err in done.values() if code]
        assert codes == [0, 1], done
        assert "one build of this checkout at a time" in refused[0]
        kills.again(small)
    assert not told["missed"], told["missed"][:5]
    assert word in small.page("one")
    assert word in small.page("two")
