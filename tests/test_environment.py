"""One environment, however it is made, and machines elsewhere that call what is here."""

import re
from importlib import metadata

import pytest
import yaml

from lib import data, paths

LOCK = (paths.ROOT / "requirements.lock").read_text().split()
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


def test_this_environment_is_the_locked_one():
    wrong = {}
    for line in LOCK:
        name, version = line.split("==")
        found = metadata.version(name).split("+")[0]
        if found != version:
            wrong[name] = (version, found)
    assert not wrong


def test_conda_installs_the_lock_on_a_python_that_the_package_takes():
    environment = read("environment.yml")
    *conda, last = environment["dependencies"]
    assert last["pip"] == ["-r requirements.lock", "-e ."]
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
    assert made or path.stem not in ("book", "links", "gpu")
    assert all(line.startswith(("make ", "touch .venv/")) for line in commands)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_on_something_and_may_do_little(path):
    document = yaml.safe_load(path.read_text())
    assert document[True]  # "on" is a truth value in YAML 1.1
    assert document["permissions"] == {"contents": "read"}
    for step in steps(path):
        assert ("run" in step) != ("uses" in step)
        assert re.fullmatch(r"actions/[a-z/-]+@v\d+", step.get("uses", "actions/x@v1"))
        assert "${{" not in step.get("run", ""), "text of others never becomes a command"


def test_the_workflows_are_the_book_its_links_and_a_gpu():
    assert [path.stem for path in WORKFLOWS] == ["book", "gpu", "links"]
    commands = {path.stem: " ".join(s.get("run", "") for s in steps(path)) for path in WORKFLOWS}
    assert "make book" in commands["book"] and "make test" in commands["book"]
    assert "make linkcheck" in commands["links"] and "make audit" in commands["gpu"]


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
