"""Kill whole rebuilds of a small book at random moments; build again and compare the sites.

Two contents of the book take turns, so that each round executes every page and renders the
site anew. A reader opens every page all the while. After a kill the site must be one of the
two, whole; after the build that follows it must be the new one, but for times::

    python bench/kills.py                  # 20 kills, some in a terminal
    python bench/kills.py --kills 100 --seed 7
"""

from __future__ import annotations

import argparse
import fcntl
import importlib.util
import json
import os
import pty
import random
import re
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIME = re.compile(rb"(<th>Run time</th><td><code>)[\d.]+ s")
WORDS = ("apples", "pears")  # contents of the book, built in this order
READ = ("index.html", "book/index.html", "book/results/one.html", "book/results/two.html")
ENDED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGKILL: -9}
# How builds end: signal, is SIGINT ignored as by nohup and &, in a terminal?
WAYS = [
    (signal.SIGINT, False, False),
    (signal.SIGTERM, False, False),
    (signal.SIGKILL, False, False),
    (signal.SIGHUP, False, False),
    (signal.SIGINT, False, True),  # Ctrl-C, which reaches the whole foreground group
    (signal.SIGTERM, True, False),
    (signal.SIGKILL, True, False),
    (signal.SIGHUP, True, False),
    (signal.SIGHUP, False, True),  # the terminal is closed
    (signal.SIGINT, True, False),  # nothing happens
]
# Each signal, each end of a terminal and what is ignored once; the tests take these.
EACH = [way for way in WAYS if not way[1] or way[0] == signal.SIGINT]


def steady():
    """The module of tests that makes small books."""
    path = ROOT / "tests" / "book" / "test_steady.py"
    spec = importlib.util.spec_from_file_location("small_books", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(small, word: str) -> None:
    """Two pages whose every part says the word; one leaves a table, too."""
    small.notebook(
        "one",
        "import pandas as pd\nfrom lib import report\npage = report.begin('one', globals())",
        f"print('{word} ' * 3)",
        f"page.save(pd.DataFrame({{'x': ['{word}']}}), 'one')",
        "page.provenance()",
    )
    small.notebook("two", f"print('{word} ' * 3)")
    (small.root / "book" / "index.md").write_text(f"# Small\n\nA book of {word}.\n")


def content(site: Path) -> dict[str, bytes]:
    """The files of a site without what differs from build to build: times."""
    found = {}
    for path in sorted(site.rglob("*")):
        if path.is_file():
            held = TIME.sub(rb"\1", path.read_bytes())
            if path.name == "searchindex.js":
                held = _searched(held)
            found[path.relative_to(site).as_posix()] = held
    return found


def _searched(index: bytes) -> bytes:
    found = json.loads(re.fullmatch(rb"Search\.setIndex\((.*)\)\s*", index, re.DOTALL)[1])
    found["terms"] = {
        term: on for term, on in found["terms"].items() if not re.fullmatch(r"(time)?\d+", term)
    }
    return json.dumps(found, sort_keys=True).encode()


@contextmanager
def reading(site: Path):
    """Open every page in a loop meanwhile; gives what was read and what failed."""
    told: dict = {"reads": 0, "missed": []}
    over = threading.Event()

    def reads() -> None:
        while not over.is_set():
            for name in READ:
                try:
                    text = (site / name).read_bytes()
                    whole = text.rstrip().endswith(b"</html>")
                    if not whole and name != "index.html":  # that one only points on
                        told["missed"].append(f"{name} of {len(text)} bytes")
                except OSError as error:
                    told["missed"].append(str(error))
                told["reads"] += 1
            time.sleep(0.01)

    reader = threading.Thread(target=reads)
    reader.start()
    try:
        yield told
    finally:
        over.set()
        reader.join()


def start(small, ignored: bool, terminal: bool) -> tuple[subprocess.Popen, int | None]:
    """A build, and the terminal's other end."""
    if not terminal:
        process = small.start(ignored=(signal.SIGINT,) if ignored else ())
        for stream in (process.stdout, process.stderr):
            threading.Thread(target=stream.read, daemon=True).start()
        return process, None
    master, slave = pty.openpty()

    def own() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "lib", "build"],
        cwd=small.root,
        env=os.environ | {"PYTHONPATH": str(small.root), "OMP_NUM_THREADS": "1"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=own,
    )
    os.close(slave)

    def drain() -> None:
        with suppress(OSError):
            while os.read(master, 4096):
                pass

    threading.Thread(target=drain, daemon=True).start()
    return process, master


def end(process: subprocess.Popen, master: int | None, number: int) -> None:
    """Send the signal, as a terminal does where there is one."""
    if master is None:
        process.send_signal(number)
    elif number == signal.SIGINT:
        os.write(master, b"\x03")
    else:
        os.close(master)


def again(small, patience: float = 120) -> tuple[int, int]:
    """Build until no killed one's steps hold the lock; the waits, and the last exit status."""
    limit, waits = time.monotonic() + patience, 0
    while True:
        code, out, err = small.build()
        if "one build of this checkout at a time" not in err or time.monotonic() > limit:
            assert code == 0, out + err
            return waits, code
        waits += 1
        time.sleep(0.3)


def run(
    small,
    kills: int,
    seed: int,
    tell: Callable[[str], None] = print,
    ways: list[tuple] = WAYS,
) -> Counter:
    """So many rounds; an ``AssertionError`` for the first that isn't right.

    What is killed is no fork, whatever the builds before and after are.
    """
    draw = random.Random(seed)
    # Ignored by a shell's & or by nohup, and builds would inherit that.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    site = small.root / "book" / "_build" / "html"
    sites, took = {}, 0.0
    for word in WORDS:
        write(small, word)
        if word == WORDS[-1]:
            began = time.monotonic()
            process, _ = start(small, False, False)
            assert process.wait(300) == 0
            took = time.monotonic() - began
        else:
            small.built()
        sites[word] = content(site)
    tell(f"a whole build takes {took:.1f} s; {len(sites['pears'])} files")
    found: Counter = Counter()
    with reading(site) as told:
        for number in range(kills):
            before, word = WORDS[::-1] if number % 2 == 0 else WORDS
            sign, ignored, terminal = ways[number % len(ways)]
            write(small, word)
            # Each tenth of a build once in ten kills.
            moment = took * (draw.random() + draw.randrange(10)) / 10
            began = time.monotonic()
            process, master = start(small, ignored, terminal)
            with suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            late = process.poll() is not None
            took = min(took, time.monotonic() - began) if late else took  # a machine less busy
            end(process, master, sign)
            status = process.wait(120)
            if master is not None and sign == signal.SIGINT:
                os.close(master)
            held = content(site)
            left = next((name for name in (before, word) if held == sites[name]), "a mixture")
            waits, _ = again(small)
            way = f"{sign.name}{', SIGINT ignored' * ignored}{', terminal' * terminal}"
            tell(
                f"{number:3} {way:34} at {moment:4.1f} s: status {status}, site of {left}"
                f"{', waited for its steps' * bool(waits)}{', had ended' * late}"
            )
            assert left != "a mixture", way
            assert status in (0, ENDED[sign], -sign), (way, status)
            if ignored and sign == signal.SIGINT:
                assert (status, left) == (0, word), way
            assert left == word or status, way  # what ended early doesn't say that it is built
            now = content(site)
            differ = {name for name, _ in now.items() ^ sites[word].items()}
            assert not differ, (way, sorted(differ)[:5])
            strays = [path.name for path in (small.root / "book" / "results").glob(".*")]
            strays += [path.name for path in site.parent.glob("html.*")]
            strays += [path.name for path in (small.root / ".cache").glob(".build-*")]
            assert not strays, (way, strays)
            found["had ended" if late else f"site of {'new' if left == word else 'last'}"] += 1
    assert not told["missed"], told["missed"][:5]
    tell(f"{told['reads']} pages read, none missed")
    return found


def main() -> int:
    """Make a small book in a temporary folder and kill its builds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    module = steady()
    with tempfile.TemporaryDirectory() as folder:
        small = module.checkout(Path(folder) / "book")
        print(dict(run(small, given.kills, given.seed, lambda line: print(line, flush=True))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
