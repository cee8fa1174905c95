"""The shell's way in: one-line errors, and paths meant as the user sees them."""

import ast
import errno
import os
import subprocess
import sys

import pytest

from lib import __main__ as main
from lib import paths
from lib.refused import refused


def test_an_error_of_ours_is_one_line_on_stderr(capsys):
    assert main.main(["describe", "hh-rlhf/harmles"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("DataError: ") and "Did you mean 'hh-rlhf/harmless-base'" in told
    assert len(told.strip().splitlines()) == 1


def test_describe_prints_counts_licence_and_citation(capsys):
    assert main.main(["describe", "stimuli/probes"]) == 0
    told = capsys.readouterr().out
    for part in ("140 items", "dropped: none", "missing subsets: none", "licence: MIT", "citation"):
        assert part in told


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stimuli/holistic", "--exploit", "authority"], "stimuli/holistic#authority: 30 items"),
        (["stimuli/holistic", "--exploit"], "judged by sycophancy: "),
        (["stimuli/holistic#length"], "  length, judged by length: "),
    ],
)
def test_manipulations_are_put_to_any_dataset(capsys, words, says):
    assert main.main(["describe", *words, "--limit", "30"]) == 0
    assert says in capsys.readouterr().out


def test_the_parameters_of_a_page_are_listed_with_types_and_meanings(capsys):
    assert main.main(["page", "validity", "--help"]) == 0
    assert "limit: int = 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "given", "seen"),
    [
        ("dataset", "file:pairs.jsonl", "file:{here}/pairs.jsonl"),
        ("dataset", "file:a.jsonl#length", "file:{here}/a.jsonl#length"),
        ("source", "folder", "{here}/folder"),
        ("results", "folder", "{here}/folder"),
        ("dataset", "hh-rlhf", "hh-rlhf"),
        ("model", "smol-armo", "smol-armo"),
        ("source", "", ""),
    ],
)
def test_relative_paths_are_meant_from_where_the_user_is(tmp_path, monkeypatch, name, given, seen):
    monkeypatch.chdir(tmp_path)
    assert main._seen_from_root(name, given) == seen.format(here=tmp_path)


def test_paths_inside_the_checkout_stay_relative_to_it(monkeypatch):
    monkeypatch.chdir(paths.ROOT / "book")
    assert main._seen_from_root("run", "runs/x") == "book/runs/x"


def test_a_page_parameter_needs_an_equals_sign(capsys):
    with pytest.raises(SystemExit):
        main.main(["page", "validity", "-p", "limit"])
    assert "NAME=VALUE" in capsys.readouterr().err


def test_a_page_gets_its_paths_as_they_were_meant(tmp_path, monkeypatch, capsys):
    from lib.book import pages

    seen = {}
    monkeypatch.setattr(pages, "run_page", lambda name, out, given, title: seen.update(given))
    monkeypatch.chdir(tmp_path)
    words = ["-p", "dataset=file:mine.jsonl", "-p", "tables=out", "-p", "limit=7"]
    assert main.main(["page", "validity", *words]) == 0
    assert seen == {
        "dataset": f"file:{tmp_path}/mine.jsonl",
        "tables": f"{tmp_path}/out",
        "limit": 7,
    }


# ---- audit ----


@pytest.fixture
def audited(monkeypatch):
    """What an audit would be asked for."""
    from lib.book import audit

    asked = {}

    def ask(model, datasets, **options):
        asked.update(model=model, datasets=datasets, **options)
        return paths.SITE / "index.html"

    monkeypatch.setattr(audit, "audit", ask)
    return asked


def test_make_hands_over_every_value_as_it_was_typed(audited, capsys):
    given = ["--model", "a $(b) `c` 'd'", "--datasets", "x 'file:my pairs.jsonl'  y"]
    unset = ["--source", "", "--limit", "", "--seed", "", "--dtype", "", "--device", ""]
    assert main.main(["audit", *given, *unset]) == 0
    assert audited["model"] == "a $(b) `c` 'd'"
    assert audited["datasets"] == ["x", "file:my pairs.jsonl", "y"]
    assert audited["limit"] == audited["seed"] == 0
    assert not audited["yes"]
    assert (paths.SITE / "index.html").as_uri() in capsys.readouterr().out


def test_a_quote_that_stays_open_is_an_error(audited, capsys):
    assert main.main(["audit", "--model", "m", "--datasets", "x 'y"]) == 1
    assert "Close each quote" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["-1", "many", "1.5"])
def test_a_limit_is_a_whole_number(audited, capsys, limit):
    with pytest.raises(SystemExit):
        main.main(["audit", "--model", "m", "--datasets", "x", f"--limit={limit}"])
    assert "needed a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["build", "audit --model m --datasets x"])
@pytest.mark.parametrize("cores", ["0", "-3", "two", "1.5", ""])
def test_cores_are_a_whole_number_from_1(audited, capsys, monkeypatch, command, cores):
    monkeypatch.setattr("lib.book.build.build", lambda cores: paths.SITE / "index.html")
    with pytest.raises(SystemExit):
        main.main([*command.split(), f"--cores={cores}"])
    assert "needed a whole number from 1" in capsys.readouterr().err
    assert main.main([*command.split(), "--cores=1"]) == 0


@pytest.mark.parametrize(
    "command",
    [
        "audit --model m --datasets x",
        "describe x",
        "extract --model m --dataset x",
        "train armorm --ratings x --preferences y --out z",
    ],
)
def test_a_seed_is_one_that_numpy_and_scikit_learn_take(audited, capsys, command):
    for seed, says in (("-1", "0 or more"), (str(2**32), "a seed from 0 to 4294967295")):
        with pytest.raises(SystemExit):
            main.main([*command.split(), f"--seed={seed}"])
        assert says in capsys.readouterr().err
    options = main._parser().parse_args([*command.split(), f"--seed={2**32 - 1}"])
    assert options.seed == 2**32 - 1


def test_a_list_of_runs_that_holds_no_texts_is_one_line(capsys):
    assert main.main(["page", "gating", "-p", "runs=[1, 2]"]) == 1
    told = capsys.readouterr().err
    assert told.startswith("ParameterError: needed runs as a list of texts; found [1, 2]")


def test_make_expands_nothing_of_what_is_typed(tmp_path):
    hostile = "a b\"$(shell touch pwned)`touch pwned`'"
    script = "lib/__main__.py"
    (tmp_path / "lib").mkdir()
    (tmp_path / script).write_text("import sys; print(sys.argv[1:])")
    (tmp_path / "lib" / "__init__.py").write_text("")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    locks = [path.name for path in paths.ROOT.glob("requirements*.lock")]
    for name in (*locks, "pyproject.toml", ".venv/.ready"):
        (tmp_path / name).write_text("")
    os.utime(tmp_path / ".venv" / ".ready", (2e9, 2e9))
    done = subprocess.run(
        [
            "make",
            "-f",
            paths.ROOT / "Makefile",
            "audit",
            f"MODEL={hostile}",
            "DATASETS=x $y",
            f"CORES={hostile}",
            "YES=1",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    said = ast.literal_eval(done.stdout.strip() or "[]")
    assert said[:5] == ["audit", "--model", hostile, "--datasets", "x $y"], done.stderr
    assert said[-3:] == ["--cores", hostile, "--yes"]
    assert not list(tmp_path.rglob("pwned"))


def test_make_check_names_only_what_is_set(tmp_path):
    given = ["MODEL=m", "QUICK=1", "JSON=a b.json", "ITEMS=12"]
    told = subprocess.run(
        ["make", "-n", "-f", paths.ROOT / "Makefile", "-o", ".venv/.ready", "check", *given],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    ).stdout
    words = told.replace("\\\n", " ").split()
    assert words[:5] == [".venv/bin/python", "-m", "lib", "check", '"$AUDIT_MODEL"'], told
    assert words[5:] == ["--quick", "--items", '"$AUDIT_ITEMS"', "--json", '"$AUDIT_JSON"']


# ---- toc, extract ----


def test_contents_out_of_step_are_an_error_and_stay(tmp_path, monkeypatch, capsys):
    assert main.main(["toc", "--check"]) == 0
    monkeypatch.setattr(paths, "TOC", tmp_path / "_toc.yml")
    paths.TOC.write_text("old")
    assert main.main(["toc", "--check"]) == 1
    assert "python -m lib toc" in capsys.readouterr().err
    assert paths.TOC.read_text() == "old"


def test_a_run_of_hours_is_not_started_unasked(tmp_path, monkeypatch, capsys, tiny_model):
    from lib.extraction import estimate

    slow = estimate.Estimate("stimuli/probes", 10**4, 2 * 10**4, 10**8, 1000.0, "cpu", "float32")
    monkeypatch.setattr("lib.models.load_model", lambda *args, **options: tiny_model)
    monkeypatch.setattr(estimate, "estimate", lambda *args, **options: slow)
    words = ["extract", "--model", "m", "--dataset", "stimuli/probes", "--limit", "2"]
    words += ["--out", str(tmp_path / "run")]
    assert main.main(words) == 1
    told = capsys.readouterr().err
    assert "about 27 h 47 min" in told and "--yes" in told
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("REWARD_AUDIT_CACHE", str(tmp_path / "cache"))
    assert main.main([*words, "--yes"]) == 0
    assert (tmp_path / "run" / "run.json").is_file()


@pytest.mark.parametrize("part", ["0/0", "0/99999999999999999999", f"0/{'9' * 5000}"])
def test_a_run_has_a_bounded_number_of_parts(part, capsys):
    words = ["extract", "--model", "smol-armo", "--dataset", "stimuli/controlled"]
    with pytest.raises(SystemExit):
        main.main([*words, "--part", part])
    assert "--part" in capsys.readouterr().err


def test_what_the_system_refuses_is_one_line(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main.main(["calibrate", "--draws", "1", "--out", str(tmp_path / "file")]) == 1
    said = capsys.readouterr().err
    assert "StoreError: needed to read and write files; found" in said and "Traceback" not in said
    assert "take away what is there." in said


@pytest.mark.parametrize(
    ("number", "told"),
    [(errno.ENOSPC, "Free some disk"), (errno.EACCES, "may read and write"), (0, "can be read")],
)
def test_what_to_do_about_a_refusal_is_told_by_its_kind(number, told):
    error = refused(OSError(number, "no"))
    assert told in error.remedy and "no" in str(error)
