"""BeaverTails: answers to harmful questions, each judged safe or not; for training heads.

A row is one worker's judgement of one answer. Rows of the same question and answer are one
response, with ``is_safe`` the share of its judgements that say safe and ``judgements`` their
number; all answers to a question are one item, wherever their rows stand. There are no
comparisons.

``30k`` and ``330k`` are two releases that overlap, not halves, so one must be named. Train
and test share nearly all of their questions: hold out by prompt (``lib.training.split``).
"""

from __future__ import annotations

from collections.abc import Iterable

from lib.data import sources
from lib.data.items import Builder, Items
from lib.errors import DataError, unknown

REPOSITORY = "PKU-Alignment/BeaverTails"
REVISION = "8401fe609d288129cc684a9b3be6a93e41cfe678"
PARTS = ("30k", "330k")
WHOLE = False
SPLITS = ("train", "test")
COUNT = "judgements"
ABOUT = {
    "licence": "CC-BY-NC-4.0",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Ji et al. (2023), BeaverTails: Towards Improved Safety Alignment of LLM via a "
    "Human-Preference Dataset",
    "cite": "ji2023beavertails",
}

_SAFE = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


def load(name: str, part: str, *, split: str = "test", source: str | None = None) -> Items:
    """Items of one release; no comparisons.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        ``"30k"`` or ``"330k"``.
    split
        ``"train"`` or ``"test"``.
    source
        A folder with ``round0/30k/train.jsonl.gz`` and so on (``round0/`` may be left out);
        the hub when ``None``.

    Raises
    ------
    DataError
        For an unknown split, a file that the source lacks, or rows without the set's
        columns.
    """
    if split not in SPLITS:
        raise unknown("split of beavertails", split, SPLITS, DataError)
    if source is None:
        rows = sources.from_hub(REPOSITORY, revision=REVISION, split=f"{part}_{split}")
    else:
        path = sources.require(source, f"round0/{part}/{split}", f"{part}/{split}")
        rows = sources.read_rows(path)
    builder = Builder(name)
    questions = judgements(builder, rows, f"beavertails/{part}")
    for number, (question, answers) in enumerate(questions.items()):
        ratings = [
            {"is_safe": sum(given) / len(given), COUNT: float(len(given))}
            for given in answers.values()
        ]
        builder.add(f"{part}/{split}/{number}", question, list(answers), [], ratings)
    return builder.build(ABOUT)


def judgements(
    builder: Builder, rows: Iterable[dict], where: str
) -> dict[str, dict[str, list[float]]]:
    """Judgements (1 safe, 0 not) by question and answer, in the order of first occurrence.

    Raises
    ------
    DataError
        For a row without prompt, response or a true or false ``is_safe``.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for number, row in enumerate(rows):
        safe = _SAFE.get(str(row.get("is_safe")).lower())
        if safe is None or "prompt" not in row or "response" not in row:
            raise DataError(
                f"columns prompt, response and is_safe (true or false) in {where}",
                f"row {number} with {', '.join(sorted(row))}, is_safe {row.get('is_safe')!r}",
                "Check that the file is BeaverTails' own.",
            )
        if not (row["prompt"] or "").strip():
            builder.drop("empty prompt")
        elif not (row["response"] or "").strip():
            builder.drop("empty response")
        else:
            answers = found.setdefault(row["prompt"], {})
            answers.setdefault(row["response"], []).append(safe)
    return found
