"""The shell's way in: one-line errors, and paths meant as the user sees them."""

import pytest

from lib import __main__ as main
from lib import paths


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


def test_the_parameters_of_a_page_are_listed_with_types_and_meanings(capsys):
    assert main.main(["page", "validity", "--help"]) == 0
    assert "limit: int = 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "given", "seen"),
    [
        ("dataset", "file:pairs.jsonl", "file:{here}/pairs.jsonl"),
        ("source", "folder", "{here}/folder"),
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
