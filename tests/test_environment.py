"""One environment, however it is made, and machines elsewhere that call what is here."""

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from lib import data, paths

LOCKS = sorted(paths.ROOT.glob("requirements*.lock"))
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def pinned(path):
    """Lines of a lock, each a package with its hashes."""
    return path.read_text().replace("\\\n", " ").splitlines()


LOCK = [line.split()[0] for line in pinned(paths.ROOT / "requirements.lock")]
MAKEFILE = (paths.ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((paths.ROOT / ".github" / "workflows").glob("*.yml"))


def read(name):
    return yaml.safe_load((paths.ROOT / name).read_text())


# ---- The environment ----


def test_every_package_is_pinned_once():
    pins = [re.fullmatch(r"([A-Za-z0-9._-]+)==([\w.+!]+)", line) for line in LOCK]
    assert all(pins), [line for line, pin in zip(LOCK, pins, strict=True) if not pin]
    names = [re.sub(r"[-_.]+", "-", pin[1]).lower() for pin in pins]
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_every_file_of_every_package_has_its_hash(path):
    for line in pinned(path):
        package, *marked = line.split(";")
        words = (marked or [package])[-1].split()
        hashes = [word for word in words if word.startswith("--hash")]
        assert hashes and all(map(HASH.fullmatch, hashes)), line[:80]
    installs = re.findall(r"PIP\) install .*", MAKEFILE)
    assert all("--require-hashes" in line or line.endswith("-e .") for line in installs)


def test_torch_for_cuda_is_locked_apart():
    """The same version of torch brings them along elsewhere, and not on a machine for CPUs."""
    names = [line.split("==")[0] for line in pinned(paths.ROOT / "requirements-cuda.lock")]
    assert {"triton", "nvidia-cublas", "nvidia-nccl-cu13"} <= set(names)
    assert not {line.split("==")[0] for line in LOCK} & set(names)


def test_this_environment_is_the_locked_one():
    wrong = {}
    for line in LOCK:
        name, version = line.split("==")
        found = metadata.version(name).split("+")[0]
        if found != version:
            wrong[name] = (version, found)
    assert not wrong


def test_every_file_that_modules_read_is_shipped():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())
    given = project["tool"]["setuptools"]["package-data"].items()
    folders = [(paths.ROOT / package.replace(".", "/"), patterns) for package, patterns in given]
    shipped = {file for folder, patterns in folders for p in patterns for file in folder.glob(p)}
    files = {p for p in (paths.ROOT / "lib").rglob("*") if p.is_file()}
    assert {p for p in files if p.suffix not in (".py", ".pyc")} <= shipped


def test_conda_installs_the_lock_on_a_python_that_the_package_takes():
    environment = read("environment.yml")
    *conda, last = environment["dependencies"]
    assert last["pip"] == ["-r requirements.lock", "-r requirements-cuda.lock"]
    (python,) = (line.removeprefix("python=") for line in conda if line.startswith("python="))
    project = (paths.ROOT / "pyproject.toml").read_text()
    low, high = re.search(r'requires-python = ">=(\d+\.\d+),<(\d+\.\d+)"', project).groups()
    version = [tuple(map(int, text.split("."))) for text in (low, python, high)]
    assert version[0] <= version[1] < version[2]


# ---- Machines elsewhere ----


def steps(path):
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        yield from job["steps"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_exist(path):
    commands = [step["run"] for step in steps(path) if "run" in step]
    made = [word for line in commands for word in re.findall(r"\bmake ([a-z]+)", line)]
    assert set(made) <= TARGETS
    assert made
    assert all(line.startswith(("make ", "touch .venv/")) for line in commands)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_on_something_and_may_do_little(path):
    document = yaml.safe_load(path.read_text())
    assert document[True]  # "on" is a truth value in YAML 1.1
    assert document["permissions"] == {"contents": "read"}
    for step in steps(path):
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(
            r"actions/[a-z/-]+@[0-9a-f]{40}", step.get("uses", f"actions/x@{'0' * 40}")
        )
        assert "${{" not in step.get("run", ""), "text of others never becomes a command"


def test_the_workflows_are_the_book_its_links_its_calibration_and_a_gpu():
    assert [path.stem for path in WORKFLOWS] == ["book", "calibration", "gpu", "links"]
    commands = {path.stem: " ".join(s.get("run", "") for s in steps(path)) for path in WORKFLOWS}
    assert "make book" in commands["book"] and "make test" in commands["book"]
    assert "make calibrate" in commands["calibration"]
    assert "make linkcheck" in commands["links"] and "make audit" in commands["gpu"]


def test_telemetry_is_off_in_the_program_unless_a_user_says_otherwise():
    said = "import lib, huggingface_hub.constants as c; print(c.HF_HUB_DISABLE_TELEMETRY)"
    bare = {key: value for key, value in os.environ.items() if "TELEMETRY" not in key}
    for given, off in (({}, b"True\n"), ({"HF_HUB_DISABLE_TELEMETRY": "0"}, b"False\n")):
        command = [sys.executable, "-c", said]
        done = subprocess.run(command, env=bare | given, cwd=paths.ROOT, stdout=-1)
        assert done.stdout == off


# For a Python whose venv installs pip: this one's stands in for that, which takes five seconds.
PYTHON = """#!/bin/sh
test "$*" = "-m venv --clear .venv" && {base} "$@" --without-pip && ln -s {pip} {site}
"""


@pytest.mark.slow
@pytest.mark.parametrize("half", ["without pip", "without Python"])
def test_a_half_made_environment_is_made_again(tmp_path, half):
    """As an interrupted ``python -m venv`` leaves it."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix) / "bin" / version
    pip = Path(importlib.util.find_spec("pip").origin).parent
    python, left = tmp_path / "python", tmp_path / ".venv" / "left"
    python.write_text(PYTHON.format(base=base, pip=pip, site=f".venv/lib/{version}/site-packages"))
    python.chmod(0o755)
    subprocess.run([base, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    left.touch()
    for path in LOCKS:
        (tmp_path / path.name).write_text("")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1"\n')
    if half == "without Python":
        (tmp_path / ".venv" / ".ready").touch()
        os.utime(tmp_path / ".venv" / ".ready", (2e9, 2e9))
        for path in (tmp_path / ".venv" / "bin").glob("python*"):
            path.unlink()
    # Nothing is installed: it ends where it would.
    command = ["make", "-f", paths.ROOT / "Makefile", "install", f"PYTHON={python}", "LOCKED=false"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "Installing dependencies" in done.stdout and "No module named pip" not in done.stderr
    made = [tmp_path / ".venv" / "bin" / "python", "-m", "pip", "--version"]
    assert subprocess.run(made, capture_output=True).returncode == 0
    assert not left.exists()


def test_every_target_is_phony_or_a_file():
    phony = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())
    assert phony == TARGETS


# ---- Before a commit ----


def test_hooks_run_in_the_environment_and_cover_notebooks_and_contents():
    hooks = [hook for repo in read(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert all(hook["language"] == "system" for hook in hooks)
    assert all(hook["entry"].startswith(".venv/bin/") for hook in hooks)
    assert {"ruff", "ruff-format", "notebooks", "toc"} == {hook["id"] for hook in hooks}
    for word in " ".join(hook["entry"] for hook in hooks).split():
        assert not word.startswith("tests/") or (paths.ROOT / word).exists()


# ---- Citation ----


def test_the_citation_names_every_data_set_that_is_not_ours():
    citation = read("CITATION.cff")
    sets = [each for each in citation["references"] if each["notes"] in data.SETS]
    assert {reference["notes"] for reference in sets} == set(data.SETS) - {"stimuli"}
    project = (paths.ROOT / "pyproject.toml").read_text()
    assert f'version = "{citation["version"]}"' in project
    for reference in sets:
        assert reference["authors"] and 2020 <= reference["year"] <= 2026
        family = reference["authors"][0]["family-names"]
        module = data.SETS[reference["notes"]]
        assert f"{family} et al. ({reference['year']})" in module.ABOUT["citation"]
