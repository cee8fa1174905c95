"""What failed stays failed until it succeeds, and what is said to be built is there.

Small books of their own, with two tiny pages, built by the program that builds the book.
"""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import nbformat
import numpy as np
import pandas as pd
import pytest
import yaml

from lib import atomic, paths
from lib.book import forks, pages, plan, site, steps
from lib.book.forks import keep
from lib.errors import PageError, ParameterError
from lib.extraction import sealed

DECLARED = 'tables: str = ""  # where\nresults: str = "book/results"  # of all'
BUILT = "The book is built"
# As when memory runs out: nothing of the step can speak. Its page is named by its process.
KILLED = "import glob, os, signal\n(page,) = glob.glob('book/results/.killed.partial-*')\n"
KILLED += "os.kill(int(page.split('-')[-1].split('.')[0]), signal.SIGKILL)"


class Small:
    """A checkout with a book of its own; ``forked`` are surroundings of builds that run to an end."""

    def __init__(self, root, forked=None):
        self.root = root
        self.forked = forked or {}

    def notebook(self, name, *cells, kernel="python3"):
        book = nbformat.v4.new_notebook()
        book.metadata["kernelspec"] = {"name": kernel, "display_name": "x", "language": "python"}
        book.cells.append(nbformat.v4.new_markdown_cell(f"# Page {name}\n\nProse."))
        for index, source in enumerate((DECLARED, *cells)):
            cell = nbformat.v4.new_code_cell(source, id=f"c{index}")
            cell.metadata["tags"] = ["parameters"] if index == 0 else []
            book.cells.append(cell)
        nbformat.write(book, self.root / "notebooks" / f"{name}.ipynb")

    def audit(self, *notebooks, **more):
        document = {"pages": [{"notebook": name} for name in notebooks], **more}
        (self.root / "audit.yml").write_text(yaml.safe_dump(document, sort_keys=False))

    def start(self, command="build", *, by=None, ignored=(), most=0, **environment):
        def before():
            for number in ignored:
                signal.signal(number, signal.SIG_IGN)
            if most:  # bytes of a file: writing more fails as on a full disk
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

        return subprocess.Popen(
            [*(by or forks.command("lib", {})), command],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root), "OMP_NUM_THREADS": "1"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,
        )

    def build(self, command="build", **options):
        by = forks.command("lib", self.forked)
        process = self.start(command, by=by, **self.forked, **options)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def built(self, **options):
        code, out, err = self.build(**options)
        assert code == 0 and BUILT in out, out + err

    def fails(self, *words, times=2, **options):
        """An error with a reason, each time."""
        for _ in range(times):
            code, out, err = self.build(**options)
            assert code == 1 and BUILT not in out, out + err
            last = err[max(0, err.rfind("needed every step")) :]
            for word in words:
                assert word in last, err
        return last

    def stale(self, **environment):
        """Names of the steps that a build would do."""
        code = "from lib.book import steps; print(*(step.name for step in steps.stale()))"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root)} | environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def step(self, name, **environment):
        """Do one step of a build."""
        done = subprocess.run(
            [*forks.command("lib.book.steps", self.forked), name],
            cwd=self.root,
            env=os.environ | {"PYTHONPATH": str(self.root)} | self.forked | environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def page(self, name):
        return (self.root / "book/_build/html/book/results" / f"{name}.html").read_text()


def checkout(root, forked=None):
    """A checkout with two pages."""
    site._write_bundle()  # made once for all
    for name in ("book", "notebooks"):
        (root / name).mkdir(parents=True)
    library = root.with_name("lib")
    shutil.copytree(paths.LIB, library, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "lib").symlink_to(library)
    for name in ("Snakefile", "_config.yml", "book/references.bib"):
        shutil.copy(paths.ROOT / name, root / name)
    shutil.copytree(paths.BOOK / "_static", root / "book" / "_static")
    (root / "book" / "index.md").write_text("# Small\n\nA book.\n")
    small = Small(root, forked)
    by = "import sys; print('by ' + sys.executable)"
    small.notebook("one", *saved("first", gone=1, kept=1), by, kernel="other")
    small.notebook("two", "print('the ' + 'second')", by)
    small.audit("one", "two")
    return small


def saved(word, **tables):
    """Cells of a page that says a word and saves tables of one number."""
    yield "import pandas as pd\nfrom lib import report\npage = report.begin('one', globals())"
    for name, number in tables.items():
        yield f"page.save(pd.DataFrame({{'x': [{number}]}}), {name!r})"
    yield f"page.provenance()\nprint('the ' + {word!r})"


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """Built where kernels are installed that start nothing."""
    small = checkout(tmp_path_factory.mktemp("small") / "book")
    for name in ("python3", "other"):
        kernel = small.root.with_name("jupyter") / "kernels" / name
        kernel.mkdir(parents=True)
        spec = {"argv": ["/bin/false"], "display_name": "x", "language": "python"}
        (kernel / "kernel.json").write_text(json.dumps(spec))
    small.built(JUPYTER_PATH=str(small.root.with_name("jupyter")))
    assert "the first" in small.page("one")
    return small.root


@pytest.fixture
def small(template, tmp_path, forked):
    """One that was built, to break; its builds are forks, but for those that are ended."""
    shutil.copytree(template, tmp_path / "book", symlinks=True)
    return Small(tmp_path / "book", forked)


# ---- A failure stays one ----


@pytest.mark.slow
def test_steps_that_failed_fail_again_until_they_are_mended(small, write_tiny):
    """A cell, a full disk, a process that was killed and data, at once: each has its reason.

    The data file's name holds what Snakemake and a shell would expand.
    """
    folder = small.root / "book" / "results"
    data = small.root / "{x} <y> $(z).jsonl"
    place = f"tiny/{paths.slug(f'file:{data.name}')}"
    rows = [{"prompt": f"Say {word}.", "chosen": word, "rejected": "no"} for word in ("a", "b")]
    data.write_text("{")
    write_tiny.write_classifier(small.root / "tiny", max_position_embeddings=4096)
    dataset = {"name": f"file:{data.name}"}
    small.notebook("own", "print('its own')")
    audit = {"model": "tiny", "datasets": [dataset], "pages": ["own"]}
    small.notebook("one", *saved("third", kept=2, more=2), "1/0")
    small.notebook("large", "print('x' * 300_000)")
    small.notebook("killed", KILLED)
    small.audit("one", "two", "large", "killed", audits=[audit])
    given = {"REWARD_AUDIT_CACHE": str(small.root / "cache"), "most": 150_000}
    reasons = (
        *("page/one", "cell 7", "ZeroDivisionError", "page/large", "File too large"),
        *("page/killed: it was ended from outside", f"extract/{place}: DataError"),
    )
    last = small.fails(*reasons, "The last site was kept", times=1, **given)
    assert "page/two" not in last and "page/tiny" not in last
    assert "the first" in small.page("one")

    def tables():
        return {path.stem: pd.read_parquet(path)["x"].item() for path in folder.glob("*.parquet")}

    assert tables() == {"gone": 1, "kept": 1}
    shutil.rmtree(small.root / "book" / "_build")
    last = small.fails(*reasons, times=1, **given)
    assert "last site was kept" not in last
    assert tables() == {"gone": 1, "kept": 1}

    small.notebook("one", *saved("third", kept=3))
    os.utime(small.root / "notebooks" / "one.ipynb", (1e9, 1e9))
    small.audit("one", "two", audits=[audit])
    data.write_text("\n".join(map(json.dumps, rows)))
    run = small.root / ".cache" / "runs" / place / "run.json"
    run.parent.mkdir(parents=True, exist_ok=True)
    run.write_text('{"half of')
    del given["most"]
    small.built(**given)
    assert "the third" in small.page("one") and "the second" in small.page("two")
    assert tables() == {"kept": 3}
    good = run.read_bytes()
    assert json.loads(good)["sizes"]["item"] == 2
    run.write_bytes(good[:50])
    again = [name for name in small.stale(**given) if name.startswith("extract/")]
    small.step(*again, **given)
    assert run.read_bytes() == good
    older = data.with_suffix(".older")
    older.write_text(data.read_text().replace("Say a.", "Say z."))
    os.utime(older, (1e9, 1e9))
    assert small.stale(**given) == []
    os.replace(older, data)  # as cp -p and rsync -a put an older file in place
    kinds = [name.partition("/")[0] for name in small.stale(**given)]
    assert kinds == ["extract", "page", "site"]


@pytest.mark.slow
def test_a_site_that_failed_fails_again_until_it_is_mended(small):
    index = small.root / "book" / "index.md"
    index.write_text("# Small\n\n[lost](nowhere.md)\n")
    small.fails("site/book", "nowhere.md", "The last site was kept")
    index.write_text("# Small\n\nFound again.\n")
    small.fails("File too large", "The last site was kept", command="site", most=150_000, times=1)
    small.built()
    assert "Found again." in (small.root / "book/_build/html/book/index.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [(), (signal.SIGINT,)], ids=["as a rule", "by nohup"])
def test_a_build_that_is_ended_is_no_build(small, kernels, ignored):
    """Nor where its steps are forks."""
    forked = {} if ignored else kernels
    small.notebook("one", "import time", "open('runs', 'w').close()\ntime.sleep(600)")
    process = small.start(ignored=ignored, **forked)
    limit = time.monotonic() + 60
    while not (small.root / "runs").exists():
        assert time.monotonic() < limit
        time.sleep(0.1)
    (page,) = (small.root / "book" / "results").glob(".one.partial-*")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 143 and BUILT not in out
    assert "the first" in small.page("one")
    ended(page.name.split("-")[1].split(".")[0])
    assert small.stale() == ["page/one", "site/book"]


# ---- What is said to be built is there ----


@pytest.mark.slow
def test_what_was_removed_or_damaged_is_made_again(small):
    (small.root / "book" / "results" / "one.ipynb").unlink()
    (small.root / "book" / "_build" / "html" / "search.html").unlink()
    html = small.root / "book/_build/html/book/results/two.html"
    html.write_text("")
    small.built()
    assert "the first" in small.page("one") and "the second" in html.read_text()
    assert (small.root / "book" / "_build" / "html" / "search.html").is_file()


@pytest.mark.slow
def test_a_missing_input_is_an_error(small):
    (small.root / "_config.yml").unlink()
    small.fails("_config.yml", "no such file", times=1)


@pytest.mark.slow
def test_freshness_is_of_content_not_of_time(small):
    notebook = small.root / "notebooks" / "one.ipynb"
    for word, age in (("future", 4e9), ("past", 1e9)):
        small.notebook("one", f"print('the ' + {word!r})")
        os.utime(notebook, (age, age))
        assert small.stale() == ["page/one", "site/book"]


@pytest.mark.slow
def test_an_unchanged_book_is_built_in_a_moment_and_touches_nothing(small):
    small.forked = {}
    os.utime(small.root / "notebooks" / "one.ipynb", (4e9, 4e9))
    before = {p: p.stat().st_mtime_ns for p in (small.root / "book").rglob("*") if p.is_file()}
    busy = os.times()
    small.built()
    after = os.times()
    # Of processors, not of a clock: others may be busy beside this test.
    spent = after.children_user + after.children_system
    assert spent - busy.children_user - busy.children_system < 5
    assert before == {
        p: p.stat().st_mtime_ns for p in (small.root / "book").rglob("*") if p.is_file()
    }


# ---- The interpreter ----


@pytest.mark.slow
def test_pages_run_under_the_interpreter_that_builds(template):
    assert f"by {sys.executable}" in Small(template).page("one")
    assert f"by {sys.executable}" in Small(template).page("two")


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """Notebooks of one's own: ``alone(*cells)`` writes one and is where its page goes."""
    small = Small(tmp_path)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.setattr(paths, "NOTEBOOKS", tmp_path / "notebooks")
    monkeypatch.setattr(paths, "ROOT", tmp_path)

    def write(*cells):
        small.notebook("page", *cells)
        return tmp_path / "out" / "page.ipynb"

    return write


@pytest.fixture(scope="module")
def kernels(forked):
    """Surroundings of pages whose kernels are forks, once there is an answer."""
    limit = time.monotonic() + 60
    while not os.path.exists(forked[forks.VARIABLE]):
        assert time.monotonic() < limit
        time.sleep(0.05)
    command = forks.command("this", forked)
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=60, check=True)
    return forked


@pytest.fixture(params=["its own", "a fork"])
def kernel(request, monkeypatch):
    """Each way in which a page gets its process."""
    if request.param == "a fork":
        for name, place in request.getfixturevalue("kernels").items():
            monkeypatch.setenv(name, place)
    return request.param


def test_a_fork_has_packages_before_and_this_library_only_from_where_it_is(
    kernels, alone, monkeypatch
):
    said = "print({known!r} in sys.modules, os.getcwd(), os.environ['GIVEN'], sys.executable)"
    cells = [f"import os, sys; {said.format(known=name)}" for name in ("pandas", "lib")]
    monkeypatch.setenv("GIVEN", "yes")
    monkeypatch.setenv(forks.VARIABLE, kernels[forks.VARIABLE])
    page = nbformat.read(pages.run_page("page", alone(*cells), {}), 4)
    told = [cell.outputs[0].text for cell in page.cells if cell.get("outputs")]
    rest = f"{paths.ROOT} yes {sys.executable}\n"
    assert told == [f"True {rest}", f"False {rest}"]


def test_where_nobody_answers_a_page_starts_a_kernel_of_its_own(alone, tmp_path, monkeypatch):
    monkeypatch.setenv(forks.VARIABLE, str(tmp_path / "nobody"))
    out = alone("import sys; print('pandas' in sys.modules)")
    page = nbformat.read(pages.run_page("page", out, {}), 4)
    assert page.cells[2].outputs[0].text == "False\n"


def test_who_asks_waits_for_what_is_imported_unless_it_is_told_to_end(tmp_path, monkeypatch):
    """Or who keeps it ends: then it is a program as any."""
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(2)\n")
    (tmp_path / "never.py").write_text("import time\ntime.sleep(600)\n")
    (tmp_path / "tells.py").write_text("import sys\nprint('slow' in sys.modules)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def asks(environment):
        place = environment[forks.VARIABLE]
        limit = time.monotonic() + 60
        while not os.path.exists(place):
            assert time.monotonic() < limit
            time.sleep(0.01)
        return subprocess.Popen(
            forks.command("tells", environment), stdout=subprocess.PIPE, text=True
        )

    with forks.kept(forks.LEAST, ["slow"]) as environment:
        assert asks(environment).communicate(timeout=60)[0] == "True\n"
    with forks.kept(forks.LEAST, ["never"]) as environment:
        first, second = asks(environment), asks(environment)
        time.sleep(0.5)
        first.terminate()
        assert first.wait(30) == -signal.SIGTERM
        first.stdout.close()
    assert second.communicate(timeout=60)[0] == "False\n"


def test_a_fork_is_told_to_end_as_any_program_and_gives_its_status(kernels, tmp_path, monkeypatch):
    monkeypatch.setenv(forks.VARIABLE, kernels[forks.VARIABLE])
    (tmp_path / "waits.py").write_text(
        "import os, sys, time\ntry:\n    print(os.getpid(), *sys.argv[1:], flush=True)\n"
        "    time.sleep(60)\nexcept KeyboardInterrupt:\n    sys.exit(7)\n"
    )
    for number, status in ((signal.SIGINT, 7), (signal.SIGTERM, -15), (signal.SIGKILL, -9)):
        asks = subprocess.Popen(
            [*forks.command("waits"), "a b"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        own, rest = asks.stdout.readline().split(maxsplit=1)
        assert rest == "a b\n" and int(own) != asks.pid
        asks.send_signal(number)
        assert asks.wait(30) == status
        ended(own)
        asks.stdout.close()


@pytest.fixture
def kept(tmp_path):
    """A process to fork from, kept by a checkout of its own: its root, and what runs there."""
    small = checkout(tmp_path / "book")
    time.sleep(keep.RECENT / 1e9)  # what is newer isn't imported
    keeps, asks = (str(small.root / "lib/book/forks" / name) for name in ("keep.py", "ask.py"))
    process = subprocess.Popen(
        [sys.executable, keeps, str(tmp_path / "forks")], stdin=subprocess.PIPE, cwd=small.root
    )

    def run(code, **options):
        (small.root / "runs.py").write_text(code)
        command = [sys.executable, asks, str(tmp_path / "forks"), "runs"]
        return subprocess.run(
            command, cwd=small.root, capture_output=True, text=True, timeout=60, **options
        )

    limit = time.monotonic() + 60
    while not (tmp_path / "forks").exists():
        assert time.monotonic() < limit
        time.sleep(0.05)
    yield small.root, run
    process.stdin.close()
    process.wait(30)


@pytest.mark.slow
def test_a_fork_has_this_library_before_as_long_as_none_of_its_files_changed(kept):
    root, run = kept
    code = (
        "import os, sys; print({n for n in sys.modules if n.partition('.')[0] == 'lib'} > {'lib'})"
    )
    code += "\nimport lib.visible; print(lib.visible.__file__, hasattr(lib.visible, 'MENDED'))"
    code += "\nprint(os.environ['HF_HUB_DISABLE_TELEMETRY'])"
    module = root / "lib" / "visible.py"
    before = module.stat()
    assert run(code).stdout.split() == ["True", str(module), "False", "1"]
    text = module.read_text()
    module.write_text(text + "MENDED = 1\n")
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert run(code).stdout.split() == ["False", str(module), "True", "1"]
    module.write_text("def wrong(:")
    assert "SyntaxError" in run(code).stderr
    module.write_text(text)
    (root / "lib" / "more.py").write_text("HERE = 1\n")
    assert run("import lib.more; print(lib.more.HERE)").stdout == "1\n"


@pytest.mark.slow
def test_a_fork_ends_as_any_program_does(kept):
    """Though nothing of it is taken down object by object."""
    root, run = kept
    code = "import atexit, sys, threading, time\nleft = open('left', 'w')\nleft.write('written')\n"
    code += "atexit.register(print, 'at exit')\n"
    code += "threading.Thread(target=lambda: (time.sleep(0.3), print('a thread'))).start()\n"
    code += "print('the program', end=' ')\nimport gc; gc.freeze()\n{end}"
    for end, status, said in (
        ("", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('why')", 1, "why"),
        ("raise ValueError('wrong')", 1, "ValueError: wrong"),
    ):
        done = run(code.format(end=end))
        assert (done.returncode, done.stdout) == (status, "the program a thread\nat exit\n"), end
        assert said in done.stderr and (said or not done.stderr)
        assert (root / "left").read_text() == "written"
        (root / "left").unlink()


def test_embedded_weights_are_made_by_a_fork_and_then_digested_once_for_all(tmp_path):
    told = tmp_path / "told"

    def made() -> None:
        with told.open("a") as file:
            file.write(f"{os.getpid()}\n")

    def fails() -> None:
        made()
        raise OSError("no room")

    handler = signal.getsignal(signal.SIGCHLD)
    keep._weigh(SimpleNamespace(dequantised=made))
    fork, here = told.read_text().split()
    assert here == str(os.getpid()) != fork
    told.unlink()
    keep._weigh(SimpleNamespace(dequantised=fails))
    (fork,) = told.read_text().split()
    assert fork != here
    assert signal.getsignal(signal.SIGCHLD) == handler


def test_what_notebooks_import_of_this_library_is_known_before(alone):
    alone(
        "from lib.stats import winrates, validity\nimport pandas, lib.report",
        "%matplotlib inline",
        "from lib import nothing_of_that_name, charts",
    )
    for folder in ("lib/stats", "lib/charts"):
        (paths.ROOT / folder).mkdir(parents=True)
    for module in ("stats/winrates", "report"):
        (paths.ROOT / "lib" / f"{module}.py").touch()
    found = ["lib", "lib.charts", "lib.report", "lib.stats", "lib.stats.winrates"]
    assert pages.imported(["page", "no such page"]) == found


def test_a_build_of_few_pages_or_elsewhere_keeps_no_process(monkeypatch):
    with forks.kept(forks.LEAST - 1, (), forks.LEAST_LOADING - 1) as environment:
        assert environment == {}
    with monkeypatch.context() as patch:
        patch.setenv(forks.VARIABLE, "of another")
        with forks.kept(99, (), 99) as environment:
            assert environment == {}
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "elsewhere")
    with forks.kept(99, (), 99) as environment:
        assert environment == {}


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        ("import os; os._exit(3)", "status 3"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL, as when memory"),
        ("import os; os.write(2, b'no \\x1b[1mroom'); os.abort()", "SIGABRT. no ␛"),
    ],
)
def test_the_reason_of_a_dead_kernel_is_shown(kernel, alone, cell, why):
    out = alone("print(1)", cell)
    with pytest.raises(PageError, match="cell 3 of notebooks/page.ipynb: DeadKernelError") as error:
        pages.run_page("page", out, {})
    assert why in str(error.value)
    assert list(out.parent.iterdir()) == []


def test_a_page_that_never_ends_is_ended_and_says_so(kernel, alone, tmp_path):
    out = alone("import os; open('own', 'w').write(str(os.getpid()))\nwhile True: pass")
    with pytest.raises(PageError, match="cell 2 .*longer than the 0.05 minutes that page_minutes"):
        pages.run_page("page", out, {}, seconds=3)
    assert list(out.parent.iterdir()) == []
    ended((tmp_path / "own").read_text())


def ended(process: str) -> None:
    """A process is gone, now or soon."""
    limit = time.monotonic() + 30
    while pages._runs(int(process)):
        assert time.monotonic() < limit
        time.sleep(0.05)


def test_a_kernel_ends_with_the_step_that_it_is_for(kernel, alone, tmp_path):
    out = alone("import os; open('own', 'w').write(str(os.getpid()))\nwhile True: pass")
    code = (
        "import sys; from pathlib import Path; from lib import paths; from lib.book import pages; "
        "paths.ROOT = Path(sys.argv[1]); paths.NOTEBOOKS = paths.ROOT / 'notebooks'; "
        "pages.run_page('page', sys.argv[2], {})"
    )
    step = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(out)])
    limit = time.monotonic() + 60
    while not (tmp_path / "own").is_file() or not (tmp_path / "own").read_text():
        assert time.monotonic() < limit
        time.sleep(0.05)
    step.kill()
    step.wait()
    ended((tmp_path / "own").read_text())


def test_progress_names_the_step_and_for_how_long(monkeypatch, capsys):
    monkeypatch.setattr(steps, "FIRST", 0.05)
    monkeypatch.setattr(steps, "EACH", 30.0)
    with steps._progress("page/slow"):
        time.sleep(0.3)
    assert capsys.readouterr().out.splitlines() == [
        "page/slow …",
        "page/slow has been running for 0 s",
        "page/slow: done in 0 s",
    ]


# ---- Every failure has a reason ----


@pytest.mark.slow
def test_what_the_scheduler_says_is_shown(small):
    small.notebook("one", "print(3)")
    shutil.rmtree(small.root / ".snakemake")
    (small.root / ".snakemake").write_text("no folder")
    small.fails("every step of the build", ".snakemake", times=1)


@pytest.mark.parametrize(
    "text",
    [
        "page_minutes: 2020-13-45",
        "page_minutes: !!int abc",
        "page_minutes: !!int ''",
        "page_minutes: !!timestamp x",
        "page_minutes: !!bool x",
        "page_minutes: .nan",
        "page_minutes: true",
        "page_minutes: 0",
        "page_minutes: 0x" + "f" * 5000,
        "page_minutes: " + "9" * 5000,
        "pages: " + "[" * 3000,
        "pages: " + "[" * 3000 + "]" * 3000,
        "pages: &a [*a]",
        "a: &a [1,1,1,1,1,1,1,1,1,1]\n"
        + "".join(
            f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n"
            for a, b in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        'pages: [{notebook: "\\ud800"}]',
        'pages: [{notebook: "a\\0b"}]',
        "audits: [{model: m, datasets: [{name: d, limit: 0x" + "f" * 5000 + "}]}]",
        "? [a, b]\n: c",
        "x" * 2_000_000,
    ],
    ids=lambda text: text[:24],
)
def test_a_document_with_impossible_values_is_one_clear_error(tmp_path, text):
    path = tmp_path / "audit.yml"
    path.write_text(text)
    with pytest.raises(ParameterError) as error:
        plan.read(path)
    assert len(str(error.value)) < 1500


def test_a_pipe_is_no_document(tmp_path):
    os.mkfifo(tmp_path / "audit.yml")
    with pytest.raises(ParameterError, match="no regular file"):
        plan.read(tmp_path / "audit.yml")


def test_aliases_stand_for_what_they_name(tmp_path):
    path = tmp_path / "audit.yml"
    path.write_text("page_minutes: 2.5\npages: [&one {notebook: compare}]\naudits: []\n")
    assert plan.read(path).page_minutes == 2.5
    path.write_text("pages: []\n")
    assert plan.read(path).page_minutes == plan.MINUTES
    path.with_suffix(".local.yml").write_text("page_minutes: 7\n")
    assert plan.read(path).page_minutes == 7


# ---- Side by side ----


@pytest.mark.slow
def test_what_a_killed_rendering_left_is_swept_and_the_lock_is_taken(small):
    left = small.root / ".cache" / ".build-x1"
    left.mkdir()
    stage = small.root / "book" / "results" / f".one.tables-{2**22 + 1}-ab"
    stage.mkdir()
    small.built()
    assert not left.exists() and not stage.exists()
    lock = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, sys, time\n"
         "f = open('.cache/build.lock', 'a'); fcntl.flock(f, fcntl.LOCK_EX)\n"
         "print('held', flush=True); time.sleep(60)"],
        cwd=small.root, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert lock.stdout.readline() == "held\n"
        left.mkdir()
        code, _, err = small.build("site")
        assert code == 1 and "one build of this checkout at a time" in err
        assert left.exists()
    finally:
        lock.kill()
        lock.wait()
    code, out, err = small.build("site")
    assert code == 0 and not left.exists(), err
    assert small.build()[2] == ""  # its receipt holds: no step runs


def test_readers_find_a_site_while_it_is_swapped(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "SITE", tmp_path / "_build" / "html")
    another = tmp_path / "_build" / "html.new-1-another"
    another.mkdir(parents=True)

    def fresh(number):
        folder = tmp_path / f"made-{number}"
        folder.mkdir()
        (folder / "index.html").write_text(str(number))
        return folder

    site._swap(fresh(0))
    exact = atomic.exchange(another, another)
    missed, over = [], threading.Event()

    def reads():
        while not over.is_set():
            try:
                (paths.SITE / "index.html").read_text()
            except OSError as error:
                missed.append(error)

    reader = threading.Thread(target=reads)
    reader.start()
    for number in range(1, 200):
        site._swap(fresh(number))
    over.set()
    reader.join()
    assert (paths.SITE / "index.html").read_text() == "199"
    assert sorted(path.name for path in paths.SITE.parent.iterdir()) == ["html", another.name]
    assert not missed or not exact


def test_a_swap_without_an_exchange_puts_the_last_site_back(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "SITE", tmp_path / "_build" / "html")
    paths.SITE.mkdir(parents=True)
    (paths.SITE / "index.html").write_text("old")
    monkeypatch.setattr(site, "exchange", lambda *_: False)
    made = tmp_path / "made"
    made.mkdir()
    real, calls = os.replace, []

    def fails_once(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(site.os, "replace", fails_once)
    with pytest.raises(OSError, match="No space"):
        site._swap(made)
    assert (paths.SITE / "index.html").read_text() == "old"
    assert [path.name for path in paths.SITE.parent.iterdir()] == ["html"]


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_what_is_written_by_rename_is_as_readable_as_other_files(tmp_path, mask, mode):
    before = os.umask(mask)
    try:
        with atomic.replacing(tmp_path / "shard") as partial:
            os.close(os.open(partial, os.O_CREAT | os.O_WRONLY, 0o600))
        sealed.save(tmp_path / "run", {"x": np.zeros(2)})
        for name in ("shard", "run"):
            assert (tmp_path / name).stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_pages_of_other_processes_are_not_swept(tmp_path):
    mine = tmp_path / f".one.partial-{os.getpid()}.ipynb"
    dead = tmp_path / f".one.partial-{2**22 + 1}.ipynb"
    for path in (mine, dead):
        path.touch()
    pages.sweep(tmp_path)
    assert mine.exists() and not dead.exists()
    with contextlib.suppress(FileNotFoundError):
        pages.sweep(tmp_path / "gone")
