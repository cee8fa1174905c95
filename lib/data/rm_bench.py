"""RM-Bench: 1,327 prompts, each with three chosen and three rejected responses by style.

Slots 0–2 are the chosen responses and 3–5 the rejected ones, both as concise, detailed plain
text, detailed Markdown (``STYLES``). All nine pairs are comparisons; the styles of a pair are
``slot[better]`` and ``slot[worse] − 3``. ``subset`` is the domain, ``criterion`` the domain
with both halves of safety together. Ids repeat across domains, so an item is ``domain/id``.
The official scores are ``lib.analyses.validity.official.rm_bench``.

Known defects: some lists hold one text under two styles. They stay, since the official score
counts every cell of the 3×3 matrix, and ``about["identical styles"]`` says how many there
are (47 of 1,140 lists in chat and safety). A pair that ties is a loss there: its rule is a
strict ``>``.

The files come from the authors' repository on GitHub at a pinned commit: for the hub's copy,
one file with a ``domain`` column, no revision could be pinned. A source folder holds
``chat_filtered.json`` and its like or ``total_dataset.json``, directly or under ``data``. The
hub calls these rows "train"; they are for evaluation only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lib.data import github, sources
from lib.data.items import Builder, Found
from lib.data.rows import BENCHMARK, Row, crossed, is_blank, labelled
from lib.errors import DataError

SET = "rm-bench"
REPOSITORY = "THU-KEG/RM-Bench"
REVISION = "73c52d7b27b361621361ec959ac6c0eb9bb7a689"
STYLES = ("concise", "detailed plain", "detailed markdown")
# Items of each domain: 1,327 in all.
COUNTS = {
    "chat": 129,
    "code": 228,
    "math": 529,
    "safety-refuse": 284,
    "safety-response": 157,
}
PARTS = tuple(COUNTS)
WHOLE = True
SPLITS = ("test",)
ABOUT = {
    "licence": "ODC-BY",
    "origin": f"github.com/{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Liu et al. (2024), RM-Bench: Benchmarking Reward Models of Language Models "
    "with Subtlety and Style",
    "cite": "liu2024rmbench",
}


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Items of one domain, or of all that the source has."""
    wanted = [part] if part else list(PARTS)
    asked = ("domain", part, part) if part else None
    files = _files(wanted, source)
    lists = identical = 0
    for domain, row in labelled(builder, files, "domain", COUNTS, wanted, SET, asked):
        sides = row.texts("chosen"), row.texts("rejected")
        found = _item(row, domain, *sides)
        if not isinstance(found, str):
            lists += 2
            identical += sum(len(set(side)) < len(side) for side in sides)
        yield found
    note = f"{identical} of {lists} lists of three hold one text under two styles"
    builder.about["identical styles"] = note


def _files(wanted: list[str], source: str | None) -> list[tuple[str, Iterable[dict]]]:
    """Domain (empty where the rows tell it) and rows of each file."""
    total = sources.find(source, "total_dataset", "data/total_dataset") if source else None
    if total:
        return [("", sources.read_rows(total))]

    def find(domain: str, required: bool):
        stem = f"{domain}_filtered"
        pin = (REPOSITORY, REVISION, f"data/{stem}.json")
        return github.find(source, stem, f"data/{stem}", required=required, pin=pin)

    paths = {domain: find(domain, required=False) for domain in wanted}
    if not any(paths.values()):
        find(wanted[0], required=True)
    return [(domain, sources.read_rows(path)) for domain, path in paths.items() if path]


def _item(row: Row, domain: str, chosen: list[str], rejected: list[str]) -> Found:
    styles = len(STYLES)
    if not len(chosen) == len(rejected) == styles:
        raise DataError(
            f"{styles} chosen and {styles} rejected responses in row {row.number} of {row.where}",
            f"{len(chosen)} and {len(rejected)}",
            BENCHMARK,
        )
    turns, responses = row.prompt(), chosen + rejected
    if is_blank(turns):
        return "empty prompt"
    if not all(each.strip() for each in responses):
        return "an empty response"
    pairs = crossed(styles, styles, domain.partition("-")[0], domain)
    return f"{domain}/{row.field('id')}", turns, responses, pairs
