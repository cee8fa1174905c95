"""Anthropic's hh-rlhf: pairs of dialogues that differ in the last assistant turn.

A source folder holds ``part/split.jsonl.gz``. Known defects of the published files, each
handled and counted (see ``parse_pair``): empty responses, pairs whose prompts differ, literal
``Human:`` inside a turn. The default split of the hub's copy is harmless-base first, so "the
first 800 rows" holds harmlessness pairs alone; here a ``limit`` samples across all parts
unless ``order="head"`` asks for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lib.data import sources
from lib.data.items import Builder, Found
from lib.data.rows import check_texts

REPOSITORY = "Anthropic/hh-rlhf"
REVISION = "09be8c5bbc57cb3887f3a9732ad6aa7ec602a1fa"
PARTS = ("harmless-base", "helpful-base", "helpful-online", "helpful-rejection-sampled")
WHOLE = LARGE = True
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

    Contents are stripped of surrounding space. Consecutive turns of one role stay apart. A
    ``ValueError`` says that text precedes the first marker, or that there is none.
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


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Pairs of one part, or of all in the order of the hub's default split."""

    def find(each: str, required: bool):
        hub = {"repository": REPOSITORY, "revision": REVISION, "split": split, "data_dir": each}
        return sources.rows(source, f"{each}/{split}", required=required, **hub)

    for each, rows in sources.parts(part, PARTS, find, builder):
        for number, row in enumerate(rows):
            check_texts(row, ("chosen", "rejected"), number, f"hh-rlhf/{each}", "hh-rlhf's")
            found = parse_pair(row["chosen"], row["rejected"])
            if not isinstance(found, str):
                prompt, *responses = found
                pair = (0, 1, each.split("-")[0], each)
                found = f"{each}/{number}", prompt, responses, [pair]
            yield found
