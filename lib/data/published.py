"""Figures of published audits and reward models, as data: ``published.yaml``, checked.

The file is this project's own transcription: numbers and names, no sentence of theirs. Each
block names its source by a key of ``sources``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lib.documents import once_each
from lib.errors import DataError

FILE = Path(__file__).with_suffix(".yaml")
BLOCKS = ("armorm", "armorm_stage2", "cosines", "audit")
BLOCKS += ("reward_lens", "sarm", "tension", "llmbar")
SOURCE = ("title", "address", "version", "read")  # of every source, `unknown` where it is
MEND = "Mend the file of published figures."


class OnceEach(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """What ``lib.documents.OnceEach`` reads, as fast as libyaml does: for files of thousands of
    lines.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        """The mapping, its keys counted."""
        return super().construct_mapping(once_each(node), deep)


def figures(path: Path = FILE) -> dict[str, Any]:
    """All figures, by block.

    Returns
    -------
    dict
        ``sources`` (key → what was read: ``SOURCE``, and where known ``cite`` and ``commit``)
        and the blocks ``BLOCKS``, each with its ``source``.

    Raises
    ------
    DataError
        When the file doesn't parse or gives a key twice, lacks a block, a source lacks one of
        ``SOURCE``, a block names no known source, a number isn't finite, a rate (under
        ``rates``) isn't between 0 and 1, or the audit's names are not as many as the model's
        heads.
    """
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), OnceEach)
    except yaml.YAMLError as error:
        raise DataError(f"YAML in {path.name}", str(error), MEND) from None
    if not isinstance(found, dict):
        raise DataError(f"blocks in {path.name}", type(found).__name__, MEND)
    for block in ("sources", *BLOCKS):
        if not isinstance(found.get(block), dict):
            raise DataError(f"a block {block!r} in {path.name}", ", ".join(map(str, found)), MEND)
        source = found[block].get("source")
        if block in BLOCKS and source not in found["sources"]:
            known = ", ".join(found["sources"])
            raise DataError(f"a source of {block!r} among {known}", repr(source), MEND)
    for key, source in found["sources"].items():
        missing = set(SOURCE) - set(source if isinstance(source, dict) else ())
        if missing:
            raise DataError(f"{min(missing)!r} of the source {key!r}", repr(source), MEND)
    for where, value in _leaves(found):
        if isinstance(value, float) and not math.isfinite(value):
            raise DataError(f"a finite number for {'.'.join(where)}", str(value), MEND)
        if "rates" in where and not (isinstance(value, float) and 0 <= value <= 1):
            raise DataError(f"a rate between 0 and 1 for {'.'.join(where)}", repr(value), MEND)
    names, heads = found["audit"].get("names", []), found["armorm"].get("heads", [])
    if len(names) != len(heads):
        raise DataError(f"{len(heads)} names, one for each head", f"{len(names)}", MEND)
    return found


def _leaves(value: Any, where: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every value that is no container, with the keys that lead to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _leaves(part, (*where, str(key)))
    elif isinstance(value, list):
        for k, part in enumerate(value):
            yield from _leaves(part, (*where, str(k)))
    else:
        yield where, value
