"""A build is one at a time, makes again what changed, and replaces a site by a whole one only."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from filelock import FileLock, Timeout

from lib import paths
from lib.book import build, pages, plan, site, steps, toc
from lib.errors import PageError, ParameterError, StoreError

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own with an empty plan, and a cache elsewhere."""
    root = tmp_path / "checkout"
    (root / "book").mkdir(parents=True)
    (root / "audit.yml").write_text("audits: []\n")
    for name in steps.REQUIRED:
        (root / name).touch()
    places = {"AUDIT": "audit.yml", "TOC": "_toc.yml", "BOOK": "book", "RESULTS": "book/results"}
    for name, place in ({"ROOT": ""} | places | {"SITE": "book/_build/html"}).items():
        monkeypatch.setattr(paths, name, root / place)
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    return root


@pytest.fixture
def complete(checkout, monkeypatch):
    """Something to do, and afterwards everything there."""
    monkeypatch.setattr(steps, "prepare", lambda: [SimpleNamespace(kind="site")])
    monkeypatch.setattr(steps, "stale", lambda: [])
    monkeypatch.setattr(site, "check", lambda *_: None)
    return checkout


# ---- One at a time ----


def test_a_second_build_is_refused_while_one_runs(complete, monkeypatch):
    ran = []

    def remember(*words, **_):
        ran.append(words)
        return 0, ""

    monkeypatch.setattr(build, "_snakemake", remember)
    with (
        FileLock(complete / ".cache" / "build.lock"),
        pytest.raises(StoreError, match="one build of this checkout at a time.*Wait for it"),
    ):
        build.build()
    assert not ran
    build.build()
    assert [words[0] for words in ran] == ["--cores"]
    left = complete / ".snakemake" / "locks" / "0.input.lock"  # by a build that was killed
    left.parent.mkdir(parents=True)
    left.touch()
    build.build()
    assert [words[0] for words in ran[1:]] == ["--unlock", "--cores"]
    left.unlink()
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "elsewhere")  # where locks may be kept, too
    build.build()
    assert [words[0] for words in ran[3:]] == ["--unlock", "--cores"]


def test_builds_of_two_checkouts_with_one_cache_do_not_wait_for_each_other(complete, monkeypatch):
    monkeypatch.setattr(build, "_snakemake", lambda *words, **_: (0, ""))
    with FileLock(paths.cache_folder() / "build.lock"):
        assert build.build() == complete / "book" / "_build" / "html" / "index.html"


@pytest.mark.slow
def test_a_build_takes_up_the_place_of_one_that_was_killed(complete):
    (complete / "Snakefile").write_text("rule all:\n    output: touch('done')\n")
    for kind in ("input", "output"):  # as Snakemake writes them, of a process that is gone
        lock = complete / ".snakemake" / "locks" / f"0.{kind}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text("done\n")
    status, said = build._snakemake("--cores", "1")
    assert status != 0 and "LockException" in said
    build.build(cores=1)
    assert (complete / "done").is_file()


@pytest.mark.parametrize("cores", [0, -3, True, 1.5, "2"])
def test_a_build_needs_a_core(checkout, cores):
    with pytest.raises(ParameterError, match="a whole number of cores from 1"):
        build.build(cores)


# A build of a checkout at argv[1] whose Snakemake is a step that starts a step of its own.
SLOW = """
import os, signal, subprocess, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever started the tests ignores
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from pathlib import Path
from types import SimpleNamespace
from lib import paths
from lib.book import build, plan, steps, toc
steps.prepare = lambda: [SimpleNamespace(kind="site")]
root = paths.ROOT = Path(sys.argv[1])
paths.RESULTS = root / "results"
toc.write = lambda: None
plan.read = lambda: plan.Plan([], [])
build.GRACE = 1.0
real = subprocess.Popen
inner = "import time, pathlib, os; pathlib.Path('inner').write_text(str(os.getpid())); time.sleep(99)"
outer = f"import subprocess, sys; subprocess.call([sys.executable, '-c', {inner!r}])"
def popen(command, **options):
    words = ["-c", "pass"] if "--unlock" in command else ["-c", outer]
    process = real([sys.executable, *words], cwd=root, **options)
    if "--unlock" not in command:
        (root / "outer").write_text(str(process.pid))
    return process
subprocess.Popen = popen
build.build()
"""


@pytest.fixture
def slow_build(tmp_path):
    """A build in a process of its own, and its step and the step of that, as process ids."""
    command = [sys.executable, "-c", SLOW, str(tmp_path)]
    process = subprocess.Popen(command, cwd=paths.ROOT, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 60
    ids = [tmp_path / name for name in ("outer", "inner")]
    while not all(path.is_file() and path.read_text() for path in ids):
        assert process.poll() is None and time.monotonic() < limit
        time.sleep(0.05)
    outer, inner = (int(path.read_text()) for path in ids)
    yield process, outer, inner
    process.kill()
    process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(outer, signal.SIGKILL)


def running(pid):
    """Is there such a process, other than one that only waits to be told of?"""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@linux
@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
def test_a_build_that_is_told_to_end_ends_its_steps(slow_build, number, status):
    process, *steps = slow_build
    assert all(map(running, steps))
    process.send_signal(number)
    assert process.wait(30) == status
    assert not any(map(running, steps))


@linux
def test_steps_that_outlive_a_killed_build_keep_the_next_one_waiting(slow_build, tmp_path):
    process, outer, _ = slow_build
    process.kill()
    process.wait()
    assert running(outer)
    lock = FileLock(tmp_path / ".cache" / "build.lock", timeout=0)
    with pytest.raises(Timeout):
        lock.acquire()
    os.killpg(outer, signal.SIGKILL)
    lock.acquire(timeout=10)
    lock.release()


def test_handlers_of_signals_are_put_back_and_those_of_others_stay():
    mine = [signal.signal(signal.SIGTERM, signal.SIG_DFL)]
    mine.append(signal.signal(signal.SIGHUP, signal.SIG_IGN))
    try:
        with build._stoppable():
            assert signal.getsignal(signal.SIGTERM) is build._leave
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGHUP), mine, strict=True):
            signal.signal(number, handler)


def test_a_scheduler_that_failed_is_an_error_with_its_words(complete, monkeypatch):
    monkeypatch.setattr(build, "_snakemake", lambda *words, **_: (1, "the clock is skewed"))
    with pytest.raises(PageError, match="found the clock is skewed. There is no site"):
        build.build(cores=1)
    a_site(paths.SITE, "the last good one")
    with pytest.raises(PageError, match="The last site was kept"):
        build.build(cores=1)


def test_what_changed_while_a_build_ran_is_not_built(checkout, monkeypatch):
    monkeypatch.setattr(build, "_snakemake", lambda *words, **_: (0, ""))
    with pytest.raises(PageError, match="changed meanwhile, or what they made, at site/book"):
        build.build(cores=1)


# ---- What changed is made again ----

RUN = "extract/smol-armo/stimuli/probes"
PAGE = "page/smol-armo/stimuli/probes/data"


@pytest.fixture
def pretended(checkout, tmp_path, monkeypatch):
    """A checkout with one run and one page of it, as if they had been made."""
    left_out = shutil.ignore_patterns("__pycache__")
    for name in ("lib", "notebooks"):
        shutil.copytree(paths.LIB.parent / name, checkout / name, ignore=left_out)
    monkeypatch.setattr(paths, "NOTEBOOKS", checkout / "notebooks")
    (checkout / "data").mkdir()
    (checkout / "data" / "pairs.jsonl").write_text("{}\n")
    dataset = {"name": "stimuli/probes", "source": "data"}
    audit = {"model": "smol-armo", "datasets": [dataset], "pages": ["data"]}
    paths.AUDIT.write_text(yaml.safe_dump({"audits": [audit]}))

    def write(place, *_, **__):
        place = checkout / place
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{}")
        return [plan.from_root(place)]

    monkeypatch.setattr(steps, "_extract", lambda options, out: write(f"{out}/run.json"))
    monkeypatch.setattr(pages, "run_page", lambda name, output, *_, **__: write(output))
    monkeypatch.setattr(site, "render", lambda: write(paths.SITE / "index.html"))
    for name in steps.steps():
        steps.run(name)
    assert steps.stale() == []
    return checkout


def stale():
    return {step.name for step in steps.stale()}


def test_what_depends_on_a_changed_file_is_made_again(pretended):
    def again(changed):
        """The steps that are stale once a file has other content of the same age."""
        path = pretended / changed
        content, about = path.read_bytes(), path.stat()
        path.write_bytes(content + b" ")
        os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
        found = stale()
        path.write_bytes(content)
        os.utime(path, (4e9, 4e9))
        assert stale() == set()
        return found

    assert again("_config.yml") == {steps.SITE}
    assert again("notebooks/data.ipynb") == again("lib/charts/theme.py") == {PAGE, steps.SITE}
    assert again("lib/data/stimuli/probes/length.yaml") == {RUN, PAGE, steps.SITE}
    assert again("lib/models/smol_armo/heads.safetensors") == {RUN, PAGE, steps.SITE}
    assert again("data/pairs.jsonl") == {RUN, PAGE, steps.SITE}
    assert again(".cache/runs/smol-armo/stimuli/probes/run.json") == {RUN, PAGE, steps.SITE}
    assert again("book/results/smol-armo/stimuli/probes/data.ipynb") == {PAGE, steps.SITE}


def test_another_parameter_makes_a_step_stale(pretended):
    document = yaml.safe_load(paths.AUDIT.read_text())
    document["audits"][0]["datasets"][0]["seed"] = 1
    paths.AUDIT.write_text(yaml.safe_dump(document))
    assert stale() == {RUN, PAGE, steps.SITE}


def test_a_step_of_which_nothing_is_left_is_not_done(pretended, monkeypatch):
    monkeypatch.setattr(pages, "run_page", lambda *_, **__: None)
    (pretended / "book/results/smol-armo/stimuli/probes/data.ipynb").unlink()
    with pytest.raises(PageError, match="what page/.*/data made.*data.ipynb"):
        steps.run(PAGE)
    assert stale() == {PAGE, steps.SITE}


def test_a_step_whose_inputs_were_not_made_is_refused(pretended):
    (pretended / steps.steps()[RUN].receipt).unlink()
    with pytest.raises(PageError, match="not done: extract/smol-armo/stimuli/probes"):
        steps.run(PAGE)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"digest": 1, "made": 3}', "\0"])
def test_a_damaged_receipt_is_none(pretended, text):
    (pretended / steps.steps()[PAGE].receipt).write_text(text)
    (pretended / steps.RECEIPTS / "digests.json").write_text(text)
    assert stale() == {PAGE, steps.SITE}


# ---- The site ----


def test_a_site_without_an_index_is_not_swapped_in(checkout, monkeypatch, tmp_path):
    """jupyter-book 2 prints an error, exits with 0 and writes nothing."""
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir()
    stub.write_text("#!/bin/sh\nexit 0\n")  # whatever Python is to run
    stub.chmod(0o755)
    paths.SITE.mkdir(parents=True)
    (paths.SITE / "index.html").write_text("the last good one")
    monkeypatch.setattr(sys, "executable", str(stub))
    monkeypatch.setattr(site, "VEGA", tmp_path / "vega.js")
    with pytest.raises(PageError, match="an index.html; found none.*version 1"):
        site.render()
    assert (paths.SITE / "index.html").read_text() == "the last good one"
    assert not list((checkout / ".cache").glob(f"{site.WORK}*"))
    stub.write_text("#!/bin/sh\necho 'x.md:3: WARNING: broken'\necho fine\nexit 1\n")
    with pytest.raises(PageError, match="found x.md:3: WARNING: broken[.]"):
        site.render()
    assert (paths.SITE / "index.html").read_text() == "the last good one"


def test_the_script_of_the_charts_is_made_when_it_is_not_there_as_it_was_made(
    checkout, monkeypatch, tmp_path
):
    made = []
    monkeypatch.setattr(site, "VEGA", tmp_path / "vega.js")
    monkeypatch.setattr("lib.charts.theme.vega_bundle", lambda: made.append(0) or "draw(\n1);\n")
    site._write_bundle()
    whole = site.VEGA.read_text()
    assert whole.startswith("// ") and whole.endswith("\ndraw(\n1);\n")
    site._write_bundle()
    assert len(made) == 1
    for damaged in ("", whole[:-1], whole.replace("1", "2"), "draw(\n1);\n", "\udcff"):
        site.VEGA.write_text(damaged, errors="surrogateescape")
        site._write_bundle()
        assert site.VEGA.read_text() == whole
    monkeypatch.setattr(site, "version", lambda name: "another")
    site._write_bundle()
    assert len(made) == 7 and site.VEGA.read_text() != whole


def test_icons_of_pages_are_drawings_that_need_no_script(tmp_path):
    script = tmp_path / site.ICONS
    script.parent.mkdir(parents=True)
    script.write_text(
        'a={sun:[512,500,[9728],"f185","M1"]},b={sun:[512,512,[9728,"s"],"f185","M2 3z"],'
        '"angle-left":[320,512,[],"f104","M4"]}'
    )
    page = tmp_path / "a" / "page.html"
    page.parent.mkdir()
    page.write_text(
        '<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>\n<p>a</p>'
        '<i class="theme-switch fa-solid fa-sun   fa-lg" data-mode="light"  title="Light"></i>'
        '<span class="fas fa-angle-left"></span><i class="fa-solid fa-unheard-of"></i>'
        '<i class="fa-brands fa-sun"></i><i class="fat fa-sun">x</i><span class="n">fas fa-sun</span>'
    )
    site._lightened(tmp_path)
    assert page.read_text() == (
        '<p>a</p><svg class="svg-inline--fa theme-switch fa-sun fa-lg" viewBox="0 0 512 512"'
        ' role="img" data-mode="light" ><title>Light</title>'
        '<path fill="currentColor" d="M2 3z"></path></svg>'
        '<svg class="svg-inline--fa fa-angle-left" viewBox="0 0 320 512" aria-hidden="true">'
        '<path fill="currentColor" d="M4"></path></svg><i class="fa-solid fa-unheard-of"></i>'
        '<i class="fa-brands fa-sun"></i><i class="fat fa-sun">x</i><span class="n">fas fa-sun</span>'
    )


def a_site(folder, text):
    folder.mkdir(parents=True)
    (folder / "index.html").write_text(text)
    return folder


def test_a_swap_that_was_killed_is_mended_by_the_next(checkout, tmp_path, monkeypatch):
    old, half = (paths.SITE.with_name(f"html.{kind}-1") for kind in ("old", "new"))
    a_site(old, "the last good one")
    a_site(half, "half a copy")
    site.sweep()
    monkeypatch.setattr(site.shutil, "move", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        site._swap(a_site(tmp_path / "html", "new"))
    assert (paths.SITE / "index.html").read_text() == "the last good one"
    assert [path.name for path in paths.SITE.parent.iterdir()] == ["html"]


def test_a_swap_leaves_the_new_site_alone(checkout, tmp_path):
    a_site(paths.SITE, "the last good one")
    a_site(paths.SITE.with_name("html.old-1"), "an older one")
    site.sweep()
    site._swap(a_site(tmp_path / "html", "new"))
    assert (paths.SITE / "index.html").read_text() == "new"
    assert [path.name for path in paths.SITE.parent.iterdir()] == ["html"]


def test_a_page_that_was_not_executed_is_named(checkout):
    (checkout / "audit.yml").write_text("pages: [{notebook: calibration}]\n")
    with pytest.raises(PageError, match="none at book/results/calibration.ipynb. Run make book"):
        site.render()
    assert plan.read().pages and not toc.paths.TOC.exists()
