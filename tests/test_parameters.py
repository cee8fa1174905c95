"""Parameters are checked by name and type before anything runs."""

from pathlib import Path

import pytest

from lib import parameters
from lib.errors import ParameterError

CELL = """
dataset: str = "stimuli/controlled"  # which set
limit: int = 0  # at most this many
share: float = 0.5
names: list = []
"""


@pytest.fixture
def known():
    return parameters.declared(CELL)


def test_a_cell_declares_name_type_default_and_meaning(known):
    assert list(known) == ["dataset", "limit", "share", "names"]
    assert known["limit"] == parameters.Parameter("limit", "int", 0, "at most this many")
    assert known["share"].meaning == ""


@pytest.mark.parametrize(
    "cell", ["limit = 3", "limit: int = 1 + x", "import os", "limit: Path = 'a'", "limit: int"]
)
def test_only_typed_literals_may_be_declared(cell):
    with pytest.raises(ParameterError, match="limit: int = 0"):
        parameters.declared(cell)


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(known):
    with pytest.raises(ParameterError) as error:
        parameters.check(known, {"limt": 3})
    assert "'limt'" in str(error.value)
    assert "Did you mean 'limit'?" in str(error.value)
    assert "dataset, limit, names, share" in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("limit", "seven"), ("limit", 1.0), ("limit", True), ("dataset", 7), ("names", "a")],
)
def test_a_wrong_type_names_the_parameter_and_the_value(known, name, value):
    with pytest.raises(ParameterError) as error:
        parameters.check(known, {name: value})
    assert name in str(error.value)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("value", [[1, 2], [None], [["a"]], ["a", 1]])
def test_a_list_holds_texts(known, value):
    with pytest.raises(ParameterError, match="names as a list of texts"):
        parameters.check(known, {"names": value})
    assert parameters.check(known, {"names": ["a", Path("b")]}) == {"names": ["a", "b"]}


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_is_one_that_numpy_and_scikit_learn_take(seed):
    known = parameters.declared("seed: int = 0\nother: int = 0")
    with pytest.raises(ParameterError, match=f"a seed from 0 to 4294967295; found {seed}"):
        parameters.check(known, {"seed": seed})
    assert parameters.check(known, {"seed": 2**32 - 1, "other": seed})["other"] == seed


def test_paths_and_numpy_numbers_become_plain_values(known, tmp_path):
    import numpy as np

    values = parameters.check(known, {"dataset": tmp_path, "limit": np.int64(3), "share": 1})
    assert values == {"dataset": str(tmp_path), "limit": 3, "share": 1.0}
    assert type(values["limit"]) is int


def test_text_from_a_shell_is_read_by_the_declared_type(known):
    assert parameters.from_text(known["dataset"], "007") == "007"
    assert parameters.from_text(known["dataset"], "12e4567") == "12e4567"
    assert parameters.from_text(known["names"], '["a"]') == ["a"]
    with pytest.raises(ParameterError, match="'seven'"):
        parameters.from_text(known["limit"], "seven")
