"""*Head*: which file and key each head tensor is read from, and what else the files hold."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from lib.check.lines import HEAD, RIGHT, WRONG, Row
from lib.models.checkpoint import Checkpoint


def tensors(folder: Path, read: dict[str, str]) -> list[Row]:
    """Head tensors by key with the file that each is read from, and files that hold another.

    ``read`` maps a key to the name of its file.
    """
    found = ", ".join(f"{key} in {file}" for key, file in sorted(read.items())[:4])
    more = f" and {len(read) - 4} more" if len(read) > 4 else ""
    rows = [Row(HEAD, "tensors", f"{found}{more}", "each tensor of the head, once", RIGHT)]
    for key, files in _twice(folder, read).items():
        different = [file for file, differs in files if differs]
        if different:
            rows.append(
                Row(
                    HEAD,
                    "tensors",
                    f"{key} in {read[key]} and, with other numbers, in {', '.join(different)}",
                    "each tensor of the head, once",
                    WRONG,
                    f"Find out which is the trained one; {read[key]} is read, as in transformers.",
                )
            )
    return rows


def _twice(folder: Path, read: dict[str, str]) -> dict[str, list[tuple[str, bool]]]:
    """Other files that hold a key that is read, and whether their numbers differ."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        for key in read:
            if path.name == read[key]:
                continue
            other = _tensor(path, key)
            if other is not None:
                mine = _tensor(folder / read[key], key)
                same = mine is not None and torch.equal(mine.float(), other.float())
                found.setdefault(key, []).append((path.name, not same))
    return found


def _tensor(path: Path, key: str) -> torch.Tensor | None:
    try:
        with safe_open(path, framework="pt") as file:
            return file.get_tensor(key) if key in file.keys() else None  # noqa: SIM118
    except (SafetensorError, OSError):  # no file of this checkpoint
        return None


def weights(checkpoint: Checkpoint | None, keys: Collection[str]) -> Row:
    """All other weights, of a checkpoint that loaded: what of it isn't read."""
    expected = "no weight missing, and none left over but a language model's output layer"
    if checkpoint is None:
        return Row(HEAD, "weights", "those of the embedded backbone", expected, RIGHT)
    left = ", ".join(checkpoint.left_over) or "none"
    count = len(checkpoint.files) - len(keys) - len(checkpoint.left_over)
    note = f"; {checkpoint.weights_note}" if checkpoint.weights_note else ""
    return Row(
        HEAD,
        "weights",
        f"{count} tensors of the backbone; left over: {left}{note}",
        expected,
        RIGHT,
    )
