"""A changed byte is noticed, wherever it is."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors import SafetensorError
from safetensors.numpy import save_file

from lib.extraction import sealed


@pytest.fixture
def path(tmp_path):
    tensors = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.arange(3)}
    sealed.save(tmp_path / "x", tensors, about="é")
    return tmp_path / "x"


def test_what_was_saved_comes_back(path):
    tensors, strings = sealed.load(path)
    assert sorted(tensors) == ["a", "b"]
    assert tensors["b"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensors["a"].dtype == np.int64
    assert strings == {"about": "é"}


def test_every_flipped_byte_is_an_error(path):
    content = path.read_bytes()
    for i in range(len(content)):
        changed = bytearray(content)
        changed[i] ^= 0xFF
        path.write_bytes(changed)
        with pytest.raises((SafetensorError, OSError)):
            sealed.load(path)


def test_a_file_without_a_seal_or_with_anothers_is_an_error(path, tmp_path):
    for metadata in (None, {"seal": "7"}, {"seal": "{"}, {"seal": '{"sha256": "0"}'}):
        save_file({"a": np.arange(3)}, tmp_path / "y", metadata)
        with pytest.raises(SafetensorError, match="y doesn't match its checksum"):
            sealed.load(tmp_path / "y")


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    tensors, strings = sealed.load(path)
    sealed.save(tmp_path / "again", dict(reversed(tensors.items())), **strings)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
