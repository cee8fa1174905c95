"""Errors say what was needed, what was found and what to do, and survive a process."""

from __future__ import annotations

import pickle

import pytest

from lib import errors
from lib.errors import AuditError, DataError, ParameterError, unknown


def test_a_message_says_needed_found_and_remedy():
    error = DataError("a file", "a folder", "Name the file.")
    assert str(error) == "needed a file; found a folder. Name the file."
    assert (error.needed, error.found, error.remedy) == ("a file", "a folder", "Name the file.")


def test_a_message_is_no_flood():
    error = DataError("a" * 10**7, "b", "c.")
    assert str(error) == f"needed {'a' * 5000}…; found b. c." and len(error.needed) == 10**7


@pytest.mark.parametrize(
    "kind", ["DataError", "ModelError", "StoreError", "ParameterError", "PageError"]
)
def test_one_except_clause_catches_them_all(kind):
    with pytest.raises(AuditError):
        raise getattr(errors, kind)("this", "that", "Mend it.")


def test_an_error_crosses_a_process_with_its_fields():
    # A worker of a pool pickles what it raises.
    error = pickle.loads(pickle.dumps(DataError("a file", "a folder", "Name the file.")))
    assert type(error) is DataError
    assert (error.needed, error.found, error.remedy) == ("a file", "a folder", "Name the file.")


def test_an_unknown_name_lists_the_known_ones_and_the_nearest():
    error = unknown("dataset", "hh-rlfh", ["stimuli", "hh-rlhf"], DataError)
    assert type(error) is DataError
    assert str(error) == (
        "needed a known dataset; found 'hh-rlfh'. Did you mean 'hh-rlhf'? Known: hh-rlhf, stimuli."
    )


def test_an_unknown_name_like_no_other_gets_no_suggestion():
    error = unknown("parameter", "zzz", ["alpha", "draws"])
    assert type(error) is ParameterError
    assert error.remedy == "Known: alpha, draws."


def test_nothing_known_is_said():
    assert unknown("parameter", "x", []).remedy == "Known: none."
