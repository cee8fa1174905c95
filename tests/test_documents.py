"""What others wrote is read, or refused in one sentence that names the file and the field."""

import json
import os
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import documents
from lib.errors import AuditError, DataError, ModelError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(tmp_path, content, **options):
    path = tmp_path / "config.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return documents.read_json(path, what="a configuration", error=ModelError, **options)


@settings(deadline=None)
@given(st.dictionaries(st.text(), VALUES))
def test_what_json_can_say_is_read_as_it_stands(document):
    assert documents.parse_json(json.dumps(document)) == document


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200))
def test_whatever_is_given_parses_or_is_a_value_error(content):
    try:
        documents.parse_json(content)
    except ValueError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[1]", "no object"),
        (b'{"a": "\xff"}', "not JSON: 'utf-8'"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested more than 64 deep"),
        ('{"a": ' + "[" * 64 + "0" + "]" * 64 + "}", "nested more than 64 deep"),
        ('{"a": ' * 64 + "1" + "}" * 64 + "}", "not JSON"),
        ('{"a": ' + "9" * 5000 + "}", "a whole number of 5,000 digits"),
        ('{"a": {"b": ["\\ud800"]}}', "half of a surrogate pair in 'b'"),
        ('{"a": {"\\udfff": 1}}', "half of a surrogate pair in '.udfff'"),
        ('{"a": [1, NaN]}', r"isn't finite \(nan\) in 'a'"),
        ('{"a": {"b": -Infinity}}', r"isn't finite \(-inf\) in 'b'"),
        ('{"a": 1e999}', r"isn't finite \(inf\) in 'a'"),
        ('{"a": {"b": 1, "b": 2}}', "the key 'b' more than once"),
    ],
)
def test_a_document_that_would_bite_later_is_refused(tmp_path, content, says):
    with pytest.raises(ModelError, match=says) as caught:
        read(tmp_path, content)
    assert "config.json" in str(caught.value)
    str(caught.value).encode()


def test_depth_digits_and_pairs_within_the_limits_pass(tmp_path):
    deep = '{"a": ' + "[" * 63 + "0" + "]" * 63 + "}"
    assert read(tmp_path, deep)["a"]
    assert read(tmp_path, '{"a": ' + "9" * 100 + "}")["a"] == 10**100 - 1
    assert read(tmp_path, '{"a": "\\ud83d\\ude42"}')["a"] == "🙂"


def test_infinity_passes_where_a_format_has_it(tmp_path):
    assert read(tmp_path, '{"a": [0, Infinity]}', finite=False)["a"] == [0, float("inf")]


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        (int, '"512"', 'a valid integer as field in .*; found "512"'),
        (int, "true", "a valid integer as field"),
        (int | None, "1.5", "a valid integer"),
        (dict[str, str], "null", "a valid dictionary as field .* found null"),
        (dict[str, str], '{"k": 7}', "a valid string as field.k .* found 7"),
        (dict[str, str], "[]", "a valid dictionary"),
        (list[str] | None, "7", "a valid list as field"),
        (list[str], '["a", {"b": 1}]', "a valid string as field.1"),
    ],
)
def test_a_field_of_another_type_is_named_with_its_file(tmp_path, kind, value, says):
    with pytest.raises(ModelError, match=says) as caught:
        read(tmp_path, f'{{"field": {value}}}', fields={"field": kind})
    assert "config.json" in caught.value.needed


def test_fields_of_their_types_or_absent_ones_pass(tmp_path):
    fields = {"a": int | None, "b": dict[str, str], "c": float, "absent": list[str]}
    assert read(tmp_path, '{"a": null, "b": {"x": "y"}, "c": 2}', fields=fields)["c"] == 2


def test_a_pipe_a_folder_a_device_or_an_endless_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "large").write_bytes(b" " * 101)
    began = time.monotonic()
    for path, found in (
        (tmp_path / "pipe", "no regular file"),
        (tmp_path / "folder", "folder|no regular file"),
        (tmp_path / "none", "no such file"),
        (tmp_path / "large", "more than 100 bytes"),
        (tmp_path / "a\0b", "null"),
        ("/dev/zero", "no regular file"),
    ):
        with pytest.raises(AuditError, match=found):
            documents.read_bytes(path, what="a file", limit=100)
    assert time.monotonic() - began < 1


def test_a_high_limit_takes_no_room_before_there_is_content(tmp_path):
    (tmp_path / "file").write_bytes(b"short")
    assert documents.read_bytes(tmp_path / "file", what="a file", limit=1 << 60) == b"short"


def test_a_link_to_a_file_is_read(tmp_path):
    (tmp_path / "file").write_text('{"a": 1}')
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert documents.read_json(tmp_path / "link", what="a file") == {"a": 1}
    (tmp_path / "file").unlink()
    with pytest.raises(DataError, match="no such file"):
        documents.read_json(tmp_path / "link", what="a file")
