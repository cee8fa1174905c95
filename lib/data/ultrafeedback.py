"""UltraFeedback: four responses a prompt, each rated by GPT-4; for training heads and for picks.

The ratings stay as columns of ``responses``: instruction_following, truthfulness, honesty
and helpfulness from 1 to 5, overall_score from 1 to 10. They are published as strings or
numbers, with "N/A" where the judge gave none: such a rating is NaN, and counted in
``dropped`` like one that can't be read. Where models gave the same text to one prompt it is
one response with the mean of its judgements; ``judgements`` says of how many. There are no
comparisons: the labels are a model's, not people's.

An overall score of 10 beside ratings of 2 or less on average is left out and counted: early
releases turned the critic's 1 into a 10. The pinned revision is the one said to mend that.
``truthful_qa`` and ``false_qa`` hold the whole of those benchmarks. Models answered under a
system prompt of their own, which is not part of the item. A source folder holds ``flan.jsonl``
and so on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from lib.data import sources
from lib.data.items import Builder, Found
from lib.errors import DataError

REPOSITORY = "openbmb/UltraFeedback"
REVISION = "40b436560ca83a8dba36114c22ab3c66e43f6d5e"
PARTS = ("evol_instruct", "false_qa", "flan", "sharegpt", "truthful_qa", "ultrachat")
WHOLE = True
SPLITS = ("train",)
ALIASES = {"test": "train"}  # the set has one split
ASPECTS = ("instruction_following", "truthfulness", "honesty", "helpfulness")
RATINGS = (*ASPECTS, "overall_score")
COUNT = "judgements"
ABOUT = {
    "licence": "MIT",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Cui et al. (2024), UltraFeedback: Boosting Language Models with Scaled AI "
    "Feedback",
    "cite": "cui2024ultrafeedback",
}

MISSING = "rating missing"
UNREADABLE = "rating unreadable"
CONTRADICTORY = "overall score contradicts the ratings"

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_rating(value: str | float | None, highest: float) -> float | str:
    """A rating from 1 to ``highest``, or why there is none: ``MISSING``, ``UNREADABLE``."""
    text = "" if value is None else str(value).strip()
    if text.upper() in ("", "N/A", "NA", "NAN", "NONE"):
        return MISSING
    if not _NUMBER.fullmatch(text) or not 1 <= float(text) <= highest:
        return UNREADABLE
    return float(text)


def parse_completion(completion: dict) -> tuple[dict[str, float], list[str]]:
    """Ratings of one completion by name, and the reasons for those it lacks."""
    annotations = completion.get("annotations") or {}
    given = {aspect: (annotations.get(aspect) or {}).get("Rating") for aspect in ASPECTS}
    parsed = {aspect: parse_rating(value, 5) for aspect, value in given.items()}
    parsed["overall_score"] = parse_rating(completion.get("overall_score"), 10)
    ratings = {key: value for key, value in parsed.items() if not isinstance(value, str)}
    reasons = [value for value in parsed.values() if isinstance(value, str)]
    aspects = [ratings[aspect] for aspect in ASPECTS if aspect in ratings]
    if ratings.get("overall_score") == 10 and aspects and sum(aspects) / len(aspects) <= 2:
        del ratings["overall_score"]
        reasons.append(CONTRADICTORY)
    return ratings, reasons


def aggregate(judgements: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each rating over the judgements that give it, NaN without any; their count."""
    out = {}
    for key in RATINGS:
        values = [each[key] for each in judgements if key in each]
        out[key] = sum(values) / len(values) if values else math.nan
    return {**out, COUNT: float(len(judgements))}


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Items of one source of prompts, or of all that the folder has."""

    def find(each: str, required: bool):
        hub = {"repository": REPOSITORY, "revision": REVISION, "split": split}
        return sources.rows(source, each, required=required, **hub, data_files=f"{each}.jsonl")

    for each, rows in sources.parts(part, PARTS, find, builder):
        for number, row in enumerate(rows):
            yield from _item(row, number, each)


def _item(row: dict, number: int, part: str) -> Iterator[Found]:
    """Reasons to leave ratings or responses out, then the item or the reason for none."""
    try:
        prompt, completions = row["instruction"], row["completions"]
        texts = [completion["response"] or "" for completion in completions]
        empty = [not text.strip() for text in (prompt, *texts)]
        parsed = [parse_completion(completion) for completion in completions]
    except (AttributeError, KeyError, TypeError):
        raise DataError(
            f"columns 'instruction' and 'completions' (a list) in ultrafeedback/{part}",
            f"row {number} without them",
            "Check that the file is UltraFeedback's own.",
        ) from None
    if empty.pop(0):
        yield "empty prompt"
        return
    judgements: dict[str, list[dict[str, float]]] = {}
    for text, nothing, (ratings, reasons) in zip(texts, empty, parsed, strict=True):
        if nothing:
            yield "empty response"
        else:
            judgements.setdefault(text, []).append(ratings)
            yield from reasons
    if any(ratings for given in judgements.values() for ratings in given):
        rated = [aggregate(given) for given in judgements.values()]
        yield f"{part}/{number}", prompt, list(judgements), [], rated
    else:
        yield "no rated response"
