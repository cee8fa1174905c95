"""The pages written by hand say what the code does, and can be followed word for word."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from pybtex.database import parse_file
from pybtex.richtext import Text
from safetensors import safe_open

from lib import __main__ as shell
from lib import paths
from lib.analyses.bases import naming
from lib.analyses.bases import stats as latent
from lib.analyses.cascade import stats as cascade
from lib.analyses.concepts import conflict
from lib.analyses.disentanglement import stats
from lib.analyses.exploits import stats as exploits
from lib.analyses.geometry import stats as geometry
from lib.analyses.labels import stats as labels
from lib.analyses.protocols import stats as protocols
from lib.analyses.sarm import stats as sarm
from lib.analyses.separability import stats as separability
from lib.book import forks, mathml, pages, plan
from lib.check import invariance
from lib.data import SETS, helpsteer2
from lib.planted import checks
from lib.stats import proportions, winrates
from lib.training import bases as users
from lib.training import gate, lore

PAGES = {
    path.relative_to(paths.BOOK).as_posix(): path.read_text(encoding="utf-8")
    for path in [
        *(paths.BOOK / f"{name}.md" for name in ("methods", "glossary", "reproduce", "stimuli")),
        *sorted((paths.BOOK / "how-to").glob("*.md")),
    ]
}
README = (paths.ROOT / "README.md").read_text(encoding="utf-8")
TEXTS = PAGES | {"README.md": README}
METHODS = PAGES["methods.md"]
BIB = parse_file(str(paths.BOOK / "references.bib"))  # strict: a malformed entry raises
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
EACH = pytest.mark.parametrize("name", TEXTS)


PUBLISHED = {name: module.ABOUT for name, module in SETS.items() if "cite" in module.ABOUT}


def plain(tex):
    """A field of the bibliography without its LaTeX."""
    return str(Text.from_latex(tex))


def section(title):
    """The text of methods under a heading."""
    return METHODS.split(f"\n## {title}\n")[1].split("\n## ")[0]


def blocks(text):
    """``(language, body, the paragraph before it)`` of each fenced block."""
    for found in FENCE.finditer(text):
        body = "".join(line.removeprefix(found[1]) for line in found[3].splitlines(True))
        yield found[2], body, text[: found.start()].rstrip().rsplit("\n\n", 1)[-1]


def files(text):
    """Files whose whole content a page gives: path → content."""
    told = {}
    for language, body, before in blocks(text):
        first = re.match(r"`([\w/.-]+\.py)`", before)
        if language == "python" and first:
            told[first[1]] = body
    return told


def commands(text):
    """Lines of the shell blocks, without what they write to files."""
    for language, body, _ in blocks(text):
        if language == "sh":
            body = re.sub(r"^cat > .*?^END\n", "", body, flags=re.DOTALL | re.MULTILINE)
            yield from body.replace("\\\n", " ").splitlines()


# ---- References ----


def test_every_citation_has_an_entry_and_every_entry_is_cited():
    cited = {key for text in PAGES.values() for key in re.findall(r"\{cite\}`([^`]+)`", text)}
    loaders = {about["cite"] for about in PUBLISHED.values()}
    assert cited | loaders == set(BIB.entries)


@pytest.mark.parametrize("key", BIB.entries)
def test_an_entry_says_who_what_where_and_when(key):
    entry = BIB.entries[key]
    assert entry.persons["author"] and entry.fields["title"]
    assert any(where in entry.fields for where in ("journal", "booktitle", "publisher"))
    if key[-5:].isdigit() or re.search(r"\d{4}", key):
        assert entry.fields["year"] == re.search(r"\d{4}", key)[0]


def test_the_citation_file_names_every_set_that_was_published():
    listed = yaml.safe_load((paths.ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    found = {each["title"]: str(each["year"]) for each in listed["references"]}
    assert len(PUBLISHED) == len(SETS) - 1, "all but ours"
    for about in PUBLISHED.values():
        fields = BIB.entries[about["cite"]].fields
        assert found[plain(fields["title"])] == fields["year"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_set_is_cited_by_its_whole_title(name):
    entry = BIB.entries[PUBLISHED[name]["cite"]]
    first, year = plain(entry.persons["author"][0].last_names[0]), entry.fields["year"]
    told = f"{first} et al. ({year}), {plain(entry.fields['title'])}"
    assert PUBLISHED[name]["citation"] == told


def test_the_citation_file_names_the_authors_of_the_bibliography():
    """A name for all others where the bibliography has one: the format knows no "et al."."""
    known = {plain(entry.fields["title"]): entry for entry in BIB.entries.values()}
    listed = yaml.safe_load((paths.ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert len(listed["references"]) > len(PUBLISHED)
    for reference in listed["references"]:
        expected = [
            {"name": "others"}
            if person.last_names == ["others"]
            else {
                "family-names": plain(" ".join(person.prelast_names + person.last_names)),
                "given-names": plain(" ".join(person.first_names + person.middle_names)),
            }
            for person in known[reference["title"]].persons["author"]
        ]
        assert reference["authors"] == expected


# ---- What is said of the code ----


def test_the_texts_have_names_links_and_commands_to_check():
    """Single pages may have none of a kind, so that a pattern gone wrong would pass on all."""
    names, links, given = (
        {name for name, text in TEXTS.items() if list(found(text))}
        for found in (dotted, linked, commands)
    )
    assert "methods.md" in names
    assert {"methods.md", "README.md"} <= links
    assert {"reproduce.md", "README.md"} <= given


def dotted(text):
    return re.findall(r"`(lib(?:\.\w+)+)`", FENCE.sub("", text))


def linked(text):
    return re.findall(r"(?<!!)\[[^\]]*\]\((?!https?:)([^)#]+)\)", text)


@EACH
def test_names_in_the_text_are_there(name):
    for whole in dotted(TEXTS[name]):
        parts = whole.split(".")
        for count in range(len(parts), 0, -1):
            try:
                found = importlib.import_module(".".join(parts[:count]))
                break
            except ModuleNotFoundError:
                continue
        for part in parts[count:]:
            found = getattr(found, part)


def test_functions_named_alone_are_in_the_module_of_their_section():
    found = 0
    for text in METHODS.split("\n## ")[2:]:
        named = re.findall(r"\(`([a-z_]+)`\)", text)
        if named:
            module = importlib.import_module(re.search(r"`(lib(?:\.\w+)+)`", text)[1])
            assert all(callable(getattr(module, name)) for name in named)
            found += len(named)
    assert found


@EACH
def test_files_in_the_text_are_there(name):
    made = {"audit.local.yml", *files(TEXTS[name])}
    made |= {path for path in re.findall(r"`([\w/.-]+\.ipynb)` has these cells", TEXTS[name])}
    named = re.findall(
        r"`((?:lib|tests|bench|book|notebooks)/[\w/.-]+|\w+\.\w+\.yml)`", TEXTS[name]
    )
    assert [path for path in named if not (paths.ROOT / path).exists()] == [
        path for path in named if path in made
    ]


@EACH
def test_links_lead_to_pages(name):
    planned = {page.output for page in plan.read(local=False).pages}
    folder = (paths.BOOK / name).parent if name != "README.md" else paths.ROOT
    for target in linked(TEXTS[name]):
        path = Path(os.path.normpath(folder / target))
        place = path.relative_to(paths.ROOT).as_posix()
        assert place in planned if "/results/" in place else path.is_file()


def test_every_formula_can_be_drawn():
    found = 0
    for name, text in PAGES.items():
        prose = FENCE.sub("", text)
        for tex in re.findall(r"\$\$(.+?)\$\$", prose, re.DOTALL):
            drawn = mathml.mathml(tex, display=True)
            assert "<math" in drawn and "<mi>&amp;" not in drawn and "<mo>&amp;" not in drawn, name
        for tex in re.findall(r"\$([^$]+)\$", re.sub(r"\$\$.+?\$\$", "", prose, flags=re.DOTALL)):
            assert "<math" in mathml.mathml(tex), name
            found += 1
    assert found


def test_conventions_are_those_of_the_code():
    def told(title, *values):
        text = section(title)
        return all(re.search(rf"(?<!\d){re.escape(_short(value))}(?!\d)", text) for value in values)

    assert told("Validity", winrates.STRONG, *winrates.CHANCE, winrates.POWER)
    assert told("Protocols", protocols.GENERAL, helpsteer2.TARGET_GAP, helpsteer2.OTHER_GAP)
    assert told("Labels", labels.GAP, labels.DISCRIMINANT)
    assert told("Disentanglement", stats.THRESHOLD)
    assert r"N = n + \tfrac14" in section("Validity") and proportions.PSEUDO_CLUSTERS == 1 / 4
    assert "10^{-5}" in section("Geometry") and geometry.TOLERANCE == 1e-5
    assert "twice" in section("Geometry") and geometry.DOMINATES == 2
    assert "six heads" in section("Geometry") and geometry.TESTED == 6
    assert told("Separability", separability.PUBLISHED, separability.RECOVERED)
    assert told("Gating and debiasing", gate.CORRELATION)
    assert told("Cascade", cascade.STRONG, cascade.SCALE, *cascade.WEIGHTS, cascade.LEAST_RISK)
    assert cascade.WEIGHTS[1] + cascade.WEIGHTS[2] == cascade.LEAST_RISK
    assert told("Cascade", cascade.SPEARMAN, winrates.POWER)
    assert told("Exploits", exploits.LEAST)
    assert told("Latent bases", latent.BOUND, latent.CLAIMED, latent.SETTLED, naming.PURE)
    assert told("Latent bases", naming.ALIKE, users.SPREAD, lore.STEPS, lore.SCALE)
    assert users.LOGIT**2 * 2 == 18 and (lore.RATE, lore.NEW_RATE) == (1 / 2, 1 / 2 / 5)
    targets = (checks.LEVEL, checks.FALSE, checks.POWER, *checks.COVERAGE)
    assert told("Calibration", *targets)


def test_what_is_said_to_be_left_out_is():
    assert "layer by layer" in section("Separability").split("*Left out.*")[1]
    files = [*(paths.LIB / "stats").glob("*.py")]
    files += (paths.LIB / "analyses/separability").glob("*.py")
    sources = [path.read_text(encoding="utf-8") for path in files]
    assert sources and not any("layer_hidden" in source for source in sources)


def test_methods_hold_conventions_and_no_results():
    constants = {winrates.STRONG, *winrates.CHANCE, winrates.POWER, labels.GAP, labels.DISCRIMINANT}
    constants |= {stats.THRESHOLD, separability.RECOVERED, gate.CORRELATION, 0.05, 0.95}
    constants |= {checks.LEVEL, checks.FALSE, *checks.COVERAGE, invariance.NOISE}
    constants |= {cascade.STRONG, cascade.SCALE, cascade.SPEARMAN}
    constants |= {*cascade.WEIGHTS, cascade.LEAST_RISK, sarm.SAME}
    constants |= {abs(threshold) for threshold in conflict.PUBLISHED}
    typed = set(re.findall(r"(?<![\w.])\d*\.\d+", METHODS))
    assert typed <= {_short(value) for value in constants}


def _short(value):
    return f"{value:g}".removeprefix("0") if value < 1 else f"{value:g}"


def test_verdicts_are_told_alike_everywhere():
    rows = re.findall(r"^\| (\w+) \|", section("Validity"), re.MULTILINE)
    assert set(rows[1:]) == set(winrates.VERDICTS)
    assert rows[1] == "undefined" and rows[2:] == [v for v in winrates.VERDICTS if v != rows[1]]
    assert set(winrates.VERDICTS) <= set(terms())
    assert all(f"**{verdict}**" in README for verdict in winrates.VERDICTS)


def terms():
    """Terms of the glossary, in order."""
    found = []
    for body in re.findall(r"```\{glossary\}\n(.*?)```", PAGES["glossary.md"], re.DOTALL):
        found += [line for line in body.splitlines() if line and not line.startswith(" ")]
    return found


def test_a_term_is_defined_once_and_each_that_is_used_is_defined():
    assert len(terms()) == len(set(terms()))
    used = {term for text in PAGES.values() for term in re.findall(r"\{term\}`([^`]+)`", text)}
    assert used and used <= set(terms())


def test_the_memory_that_the_readme_tells_was_measured():
    place = re.search(r"took ([\d.]+) GiB at its peak \(`([\w/.]+)`\)", README)
    measured = json.loads((paths.ROOT / place[2]).read_text(encoding="utf-8"))
    assert float(place[1]) == measured["peak_memory_gib"]


# ---- Commands ----


@EACH
def test_commands_are_those_that_there_are(name):
    made = re.findall(r"`notebooks/(\w+)\.ipynb` has these cells", TEXTS[name])
    for line in commands(TEXTS[name]):
        words = shlex.split(line, comments=True)
        if "python -m lib " in line:
            given = words[words.index("lib") + 1 :]
            options = shell._parser().parse_args(given)
            if given[0] == "page" and options.notebook not in made:
                known = pages.declared(options.notebook)
                assert {key for key, _ in options.p} <= set(known), line
        elif words and words[0] == "make":
            assert re.search(rf"^{words[1]}:", MAKEFILE, re.MULTILINE), line
            given = {word.partition("=")[0] for word in words[2:]}
            assert given <= set(re.search(r"GIVEN := (.*)", MAKEFILE)[1].split()), line


MAKEFILE = (paths.ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_committed_run_has_its_command():
    (body,) = (
        body
        for _, body, _ in blocks(PAGES["reproduce.md"])
        if "book/runs/" in body and "extract" in body
    )
    # What the shell makes of the loops, without running any of it.
    script = body.replace(".venv/bin/python -m lib", "echo")
    lines = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, check=True)
    told = {}
    for line in lines.stdout.splitlines():
        options = shell._parser().parse_args(shlex.split(line))
        told[options.out] = options
    runs = {run.folder: run for run in plan.read(local=False).runs if run.committed}
    assert set(told) == set(runs)
    for folder, run in runs.items():
        assert (told[folder].model, told[folder].dataset) == (run.model, run.dataset)
        with safe_open(paths.ROOT / folder / "run.safetensors", framework="numpy") as tensors:
            kept = tensors.get_slice("gate_hidden.rows").get_shape()[0]
            items = tensors.get_slice("n_prompt_tokens").get_shape()[0]
        assert (told[folder].states or items) == kept


# ---- Followed word for word ----


PYTHON = """#!/bin/sh
test "$1" = -m && shift && exec {ask} "$@"
exec {python} "$@"
"""


@pytest.fixture
def checkout(tmp_path, forked):
    """A copy of this checkout, of its book the runs alone, with this environment.

    Its Python gives each module that it runs to a fork that has packages imported, and nothing
    of this library. From nothing kernels start in tests of the page of picks, commands in those
    of small books.
    """
    for name in ("lib", "notebooks", "tests"):
        ignored = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
        shutil.copytree(paths.ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("Makefile", "Snakefile", "_config.yml", "audit.yml", "pyproject.toml"):
        shutil.copy(paths.ROOT / name, tmp_path)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "runs").symlink_to(paths.RUNS, target_is_directory=True)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    ask = shlex.join(forks.command("", forked)[:-1])
    python.write_text(PYTHON.format(python=shlex.quote(sys.executable), ask=ask))
    python.chmod(0o755)
    return tmp_path


def follow(text, root, forked):
    """Do what a page says: write its files, run its commands, but don't build the book."""
    for path, content in files(text).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content, encoding="utf-8")
    told = ""
    for language, body, _ in blocks(text):
        if language == "sh" and "make " not in body:
            done = subprocess.run(
                ["bash", "-euc", body],
                cwd=root,
                capture_output=True,
                text=True,
                env=os.environ
                | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(root)}
                | {"REWARD_AUDIT_CACHE": str(paths.cache())}
                | forked,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            told += done.stdout
    return told


@pytest.mark.slow
def test_a_dataset_is_added_by_following_the_page(checkout, forked):
    text = PAGES["how-to/add-a-dataset.md"]
    lines = {
        re.search(r"`([\w/.]+\.py)`", before)[1]: body
        for language, body, before in blocks(text)
        if language == "python" and body.startswith(('"capitals"', '("capitals"'))
    }
    opens = {"lib/data/__init__.py": "SETS = {\n", "lib/data/concepts.py": "CRITERIA = (\n"}
    opens["lib/data/asks.py"] = "DECLARED: Mapping[str, Asks] = {\n"
    assert set(lines) == set(opens)
    for path, opening in opens.items():
        source = (checkout / path).read_text(encoding="utf-8")
        assert source.count(opening) == 1
        source = source.replace(opening, f"{opening}    {lines[path]}")
        if path == "lib/data/__init__.py":
            source = source.replace("    beavertails,\n", "    beavertails,\n    capitals,\n", 1)
        (checkout / path).write_text(source, encoding="utf-8")
    told = follow(text, checkout, forked)
    assert "identical responses" in told and " passed" in told
    assert (checkout / "out.ipynb").is_file()


@pytest.mark.slow
def test_an_analysis_is_added_by_following_the_page(checkout, forked):
    text = PAGES["how-to/add-an-analysis.md"]
    cells, marks = [], {"tags": ["hide-input"]}
    for language, body, _ in blocks(text.split("has these cells")[1].split("\n## 7")[0]):
        if language == "markdown":
            cells.append(nbformat.v4.new_markdown_cell(body.strip()))
        else:
            tags = ["parameters", "hide-input"] if body.startswith("model: str") else marks["tags"]
            cells.append(nbformat.v4.new_code_cell(body.strip(), metadata={"tags": tags}))
    book = nbformat.v4.new_notebook(cells=cells, metadata=_metadata())
    nbformat.write(book, checkout / "notebooks" / "reliance.ipynb")
    told = follow(text, checkout, forked)
    assert "parameters of reliance" in told and " passed" in told
    page = nbformat.read(checkout / "out.ipynb", as_version=4)
    shown = "".join(str(cell.get("outputs", "")) for cell in page.cells)
    assert "prefers the longer response most often" in shown
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--quiet", str(checkout)]
    linted = subprocess.run(ruff, capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout


def _metadata():
    return nbformat.read(paths.NOTEBOOKS / "labels.ipynb", as_version=4).metadata
