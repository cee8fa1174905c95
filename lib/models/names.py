"""Names of heads, and where each comes from.

``KNOWN``, from ``names.yaml``, is the one table of multi-head models whose checkpoints don't
name their heads. A name is never guessed: what no source names is
``head_0``, ``head_1``, … with the source ``"unnamed"``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from lib.errors import ModelError
from lib.models.base import Head

GIVEN = "given by the user"
UNNAMED = "unnamed"
FROM_CONFIG = "id2label of its config.json"
LONGEST = 200  # characters: arrays hold names at a fixed width, that of the longest


@dataclass(frozen=True)
class Known:
    """A published model whose head names are documented outside its checkpoint.

    ``heads`` gives name → concept in the order of the score's columns, ``source`` where the
    names are documented, ``note`` what a reader of its scores must know.
    """

    heads: Mapping[str, str]
    source: str
    note: str = ""


_entries = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
KNOWN = {
    name: Known(**({"source": f"model card of {name}"} | entry)) for name, entry in _entries.items()
}
ARMORM = KNOWN["RLHFlow/ArmoRM-Llama3-8B-v0.1"].heads
# ArmoRM's names, for a checkpoint of its layout under another name.
LOOK_ALIKE = (
    "model card of RLHFlow/ArmoRM-Llama3-8B-v0.1, whose layout and number of heads this "
    "checkpoint has"
)


def recognise(model: str) -> Known | None:
    """The entry of a hub id, of a folder named as its repository, or of its hub cache."""
    parts = re.split(r"[/\\]", model)
    for name, known in KNOWN.items():
        repository = name.split("/")[1]
        if repository in parts or f"models--{name.replace('/', '--')}" in parts:
            return known
    return None


def named(
    count: int,
    *,
    model: str,
    given: Sequence[str] | None = None,
    labels: Mapping[int, str] | None = None,
    armorm: bool = False,
) -> list[Head]:
    """Heads for the rows of a checkpoint's head matrix.

    The first that applies: the user's names, the table, the checkpoint's ``id2label``
    (unless it only counts, ``LABEL_0``), ArmoRM's own names for 19 heads in its layout,
    and otherwise no name.

    Raises
    ------
    ModelError
        For a wrong number of names, an empty one, one of more than 200 characters, or one
        that occurs twice.
    """
    if given is not None:
        if isinstance(given, str):
            given = [given]
        return _heads([(name, "") for name in given], GIVEN, count, model)
    known = recognise(model)
    if known is not None:
        return _heads(list(known.heads.items()), known.source, count, model)
    # A gated model may keep the one label that it was fine-tuned from.
    if labels and _mean_something(labels) and (len(labels) == count or not armorm):
        return _heads([(label, "") for label in labels.values()], FROM_CONFIG, count, model)
    if armorm and count == len(ARMORM):
        return _heads(list(ARMORM.items()), LOOK_ALIKE, count, model)
    return [Head(f"head_{i}", UNNAMED) for i in range(count)]


def _mean_something(labels: Mapping[int, str]) -> bool:
    """Do the labels say more than their number?"""
    return not any(re.fullmatch(r"(?i)(label)?_?\d*", label.strip()) for label in labels.values())


def _heads(names: list[tuple[str, str]], source: str, count: int, model: str) -> list[Head]:
    if len(names) != count:
        raise ModelError(
            f"{count} head names for {model}, one for each row of its head matrix",
            f"{len(names)} ({source})",
            "Give as many names as there are heads: heads=[…].",
        )
    texts = [name for name, _ in names]
    long = [name for name in texts if isinstance(name, str) and len(name) > LONGEST]
    if long:
        raise ModelError(
            f"head names of at most {LONGEST} characters for {model}",
            f"{len(long[0])} characters in {long[0][:40]!r}… ({source})",
            "Name each head by a shorter text: heads=[…].",
        )
    # A NUL or half a surrogate pair fails where it is stored.
    wrong = [
        name
        for name in texts
        if not (isinstance(name, str) and name.strip() and name.isprintable())
        or texts.count(name) > 1
    ]
    if wrong:
        raise ModelError(
            f"distinct, printable head names for {model}",
            f"{wrong[0]!a:.80} ({source})",
            "Name each head by a text of its own: heads=[…].",
        )
    return [Head(name, source, concept) for name, concept in names]
