"""BeaverTails: answers to harmful questions, each judged safe or not; for training heads.

A row is one worker's judgement of one answer. Rows of the same question and answer are one
response, with ``is_safe`` the share of its judgements that say safe and ``judgements`` their
number; all answers to a question are one item, wherever their rows stand. There are no
comparisons.

``30k`` and ``330k`` are two releases that overlap, not halves, so one must be named. Train
and test share nearly all of their questions: hold out by prompt (``lib.training.split``). A
source folder holds ``round0/30k/train.jsonl.gz`` and so on (``round0/`` may be left out).
"""

from __future__ import annotations

from collections.abc import Iterator

from lib.data import sources
from lib.data.items import Builder, Found
from lib.data.rows import check_texts
from lib.errors import DataError

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


def items(builder: Builder, part: str, split: str, source: str | None) -> Iterator[Found]:
    """Questions of one release, with all answers to each."""
    hub = {"repository": REPOSITORY, "revision": REVISION, "split": f"{part}_{split}"}
    rows = sources.rows(source, f"round0/{part}/{split}", f"{part}/{split}", **hub)
    questions: dict[str, dict[str, list[float]]] = {}
    for number, row in enumerate(rows):
        found = _judgement(row, number, f"beavertails/{part}")
        if isinstance(found, str):
            yield found
        else:
            question, answer, safe = found
            questions.setdefault(question, {}).setdefault(answer, []).append(safe)
    for number, (question, answers) in enumerate(questions.items()):
        ratings = [
            {"is_safe": sum(given) / len(given), COUNT: float(len(given))}
            for given in answers.values()
        ]
        yield f"{part}/{split}/{number}", question, list(answers), [], ratings


def _judgement(row: dict, number: int, where: str) -> tuple[str, str, float] | str:
    """Question, answer and judgement (1 safe, 0 not) of a row, or the reason to drop it."""
    safe = _SAFE.get(str(row.get("is_safe")).lower())
    if safe is None or not row.keys() >= {"prompt", "response"}:
        raise DataError(
            f"columns prompt, response and is_safe (true or false) in {where}",
            f"row {number} with {', '.join(sorted(row))}, is_safe {row.get('is_safe')!r}",
            "Check that the file is BeaverTails' own.",
        )
    texts = {column: row[column] or "" for column in ("prompt", "response")}
    check_texts(texts, tuple(texts), number, where, "BeaverTails'")
    for column, text in texts.items():
        if not text.strip():
            return f"empty {column}"
    return *texts.values(), safe
