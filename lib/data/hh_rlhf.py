"""Anthropic's hh-rlhf: pairs of dialogues that differ in the last assistant turn.

Known defects of the published files, each handled and counted (see ``parse_pair``): empty
responses, pairs whose prompts differ, literal ``Human:`` inside a turn. The default split
of the hub's copy is harmless-base first, so "the first 800 rows" holds harmlessness pairs
alone; here a ``limit`` samples across all parts unless ``order="head"`` asks for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from lib.data import sources
from lib.data.items import Builder, Items, in_chunks
from lib.errors import DataError, unknown

REPOSITORY = "Anthropic/hh-rlhf"
REVISION = "09be8c5bbc57cb3887f3a9732ad6aa7ec602a1fa"
PARTS = ("harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled")
WHOLE = True
SPLITS = ("train", "test")
ABOUT = {
    "licence": "MIT",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Bai et al. (2022), Training a Helpful and Harmless Assistant with "
    "Reinforcement Learning from Human Feedback",
    "cite": "bai2022training",
}

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLE = {"Human": "user", "Assistant": "assistant"}


def parse_dialogue(text: str) -> list[dict[str, str]]:
    r"""Turns of a dialogue, split only where ``\n\nHuman:`` or ``\n\nAssistant:`` opens one.

    Contents are stripped of surrounding space. Consecutive turns of one role stay apart.

    Raises
    ------
    ValueError
        When text precedes the first marker, or there is none.
    """
    preamble, *rest = _TURN.split(text)
    if preamble.strip():
        raise ValueError("text before the first turn")
    if not rest:
        raise ValueError("no turns")
    return [
        {"role": _ROLE[role], "content": content.strip()}
        for role, content in zip(rest[::2], rest[1::2], strict=True)
    ]


def parse_pair(chosen: str, rejected: str) -> tuple[list[dict[str, str]], str, str] | str:
    """``(prompt, chosen response, rejected response)``, or the reason to drop the pair."""
    try:
        better, worse = parse_dialogue(chosen), parse_dialogue(rejected)
    except ValueError as error:
        return str(error)
    if better[-1]["role"] != "assistant" or worse[-1]["role"] != "assistant":
        return "last turn not the assistant's"
    if not better[-1]["content"]:
        return "empty chosen response"
    if not worse[-1]["content"]:
        return "empty rejected response"
    if better[:-1] != worse[:-1]:
        return "prompts differ"
    if len(better) == 1:
        return "no prompt"
    if better[-1] == worse[-1]:
        return "identical responses"
    return better[:-1], better[-1]["content"], worse[-1]["content"]


def load(name: str, part: str | None, *, split: str = "test", source: str | None = None) -> Items:
    """Items of one part, or of all the parts that the source has.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        One of ``PARTS``; ``None`` for all, in the order of the hub's default split.
    split
        ``"train"`` or ``"test"``.
    source
        A folder with ``part/split.jsonl.gz``; the hub when ``None``.

    Raises
    ------
    DataError
        For an unknown split, or a part asked for by name that the source lacks.
    """
    builder = Builder(name)
    for _ in _steps(builder, part, split, source):
        pass
    return builder.build(ABOUT)


def stream(
    name: str, part: str | None, *, size: int, split: str = "test", source: str | None = None
) -> Iterator[Items]:
    """The same items, at most ``size`` at a time."""
    builder = Builder(name)
    return in_chunks(builder, _steps(builder, part, split, source), size, ABOUT)


def _steps(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[None]:
    if split not in SPLITS:
        raise unknown("split of hh-rlhf", split, SPLITS, DataError)
    for each in [part] if part else PARTS:
        rows = _rows(each, split, source, required=part is not None)
        if rows is None:
            builder.missing.append(each)
            continue
        yield from _collect(builder, each, rows)
    if len(builder.missing) == len(PARTS):
        sources.require(source, f"{PARTS[0]}/{split}")


def _rows(part: str, split: str, source: str | None, required: bool) -> Iterable[dict] | None:
    if source is None:
        return sources.from_hub(REPOSITORY, revision=REVISION, split=split, data_dir=part)
    if required:
        return sources.read_rows(sources.require(source, f"{part}/{split}"))
    path = sources.find(source, f"{part}/{split}")
    return sources.read_rows(path) if path else None


def _collect(builder: Builder, part: str, rows: Iterable[dict]) -> Iterator[None]:
    criterion = part.split("-")[0]
    for number, row in enumerate(rows):
        lacking = [key for key in ("chosen", "rejected") if not isinstance(row.get(key), str)]
        if lacking:
            raise DataError(
                f"texts under 'chosen' and 'rejected' in hh-rlhf/{part}",
                f"row {number} without a {' or '.join(lacking)} text",
                "Check that the file is hh-rlhf's own.",
            )
        parsed = parse_pair(row["chosen"], row["rejected"])
        if isinstance(parsed, str):
            builder.drop(parsed)
        else:
            prompt, chosen, rejected = parsed
            pair = (0, 1, criterion, part)
            builder.add(f"{part}/{number}", prompt, [chosen, rejected], [pair])
        yield
