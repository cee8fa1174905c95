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
one file with a ``domain`` column, no revision could be pinned. A folder may hold either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lib.data import github, sources
from lib.data.items import Builder, Items
from lib.data.reward_bench import field, prompt, text, texts
from lib.errors import DataError, unknown

SET = "rm-bench"
REPOSITORY = "THU-KEG/RM-Bench"
REVISION = "73c52d7b27b361621361ec959ac6c0eb9bb7a689"
STYLES = ("concise", "detailed plain", "detailed markdown")
# Items of each domain: 1,327 in all.
COUNTS: Mapping[str, int] = {
    "chat": 129,
    "code": 228,
    "math": 529,
    "safety-refuse": 284,
    "safety-response": 157,
}
PARTS = tuple(COUNTS)
WHOLE = True
SPLITS = ("test",)
TOTAL = ("total_dataset", "data/total_dataset")
ABOUT = {
    "licence": "ODC-BY",
    "origin": f"github.com/{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Liu et al. (2024), RM-Bench: Benchmarking Reward Models of Language Models "
    "with Subtlety and Style",
    "cite": "liu2024rmbench",
}


def load(name: str, part: str | None, *, split: str = "test", source: str | None = None) -> Items:
    """Items of one domain, or of all that the source has.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        A domain, one of ``PARTS``; ``None`` for all.
    split
        ``"test"``. The hub calls these rows "train"; they are for evaluation only.
    source
        A folder with ``chat_filtered.json`` and its like, or with ``total_dataset.json``,
        either directly or under ``data``; the pinned commit when ``None``.

    Returns
    -------
    Items
        Domains that the source lacks are in ``missing``. Items with an empty prompt or
        response are in ``dropped``.

    Raises
    ------
    DataError
        For an unknown split, a missing file, a row without the columns or without three
        responses on each side, or a domain asked for by name that the source lacks.
    """
    if split not in SPLITS:
        raise unknown(f"split of {SET}", split, SPLITS, DataError)
    wanted = [part] if part else list(PARTS)
    builder = Builder(name)
    seen: set[str] = set()
    lists = identical = 0
    for file_domain, rows in _files(wanted, source):
        for number, row in enumerate(rows):
            domain = file_domain or text(field(row, "domain", number, SET), "domain", number, SET)
            if domain not in COUNTS:
                raise unknown(f"domain of {SET}", domain, PARTS, DataError)
            if domain not in wanted:
                continue
            seen.add(domain)
            sides = _sides(row, number, domain)
            if _collect(builder, row, number, domain, *sides):
                lists += 2
                identical += sum(len(set(side)) < len(side) for side in sides)
    builder.missing = [domain for domain in wanted if domain not in seen]
    if part and not seen:
        raise DataError(
            f"rows of domain {part!r} in {SET}",
            "rows of other domains only",
            f"Leave '/{part}' out of the name, or check the source.",
        )
    note = f"{identical} of {lists} lists of three hold one text under two styles"
    return builder.build({**ABOUT, "identical styles": note})


def _files(wanted: list[str], source: str | None) -> list[tuple[str | None, Iterable[dict]]]:
    """Domain (``None`` when the rows tell it) and rows of each file."""
    if source is None:
        names = {domain: f"data/{domain}_filtered.json" for domain in wanted}
        return [
            (domain, sources.read_rows(github.fetch(REPOSITORY, REVISION, name)))
            for domain, name in names.items()
        ]
    total = sources.find(source, *TOTAL)
    if total:
        return [(None, sources.read_rows(total))]
    stems = {domain: (f"{domain}_filtered", f"data/{domain}_filtered") for domain in wanted}
    paths = {domain: sources.find(source, *names) for domain, names in stems.items()}
    if not any(paths.values()):
        sources.require(source, *stems[wanted[0]])
    return [(domain, sources.read_rows(path)) for domain, path in paths.items() if path]


def _sides(row: Mapping, number: int, domain: str) -> tuple[list[str], list[str]]:
    where = f"{SET}, domain {domain}"
    sides = tuple(
        texts(field(row, column, number, where), column, number, where)
        for column in ("chosen", "rejected")
    )
    if {len(side) for side in sides} != {len(STYLES)}:
        raise DataError(
            f"{len(STYLES)} chosen and {len(STYLES)} rejected responses in row {number} of {where}",
            " and ".join(str(len(side)) for side in sides),
            "Check that the file is the benchmark's own.",
        )
    return sides


def _collect(
    builder: Builder,
    row: Mapping,
    number: int,
    domain: str,
    chosen: list[str],
    rejected: list[str],
) -> bool:
    where = f"{SET}, domain {domain}"
    turns = prompt(field(row, "prompt", number, where), number, where)
    if not any(turn["content"].strip() for turn in turns):
        builder.drop("empty prompt")
        return False
    if not all(each.strip() for each in chosen + rejected):
        builder.drop("an empty response")
        return False
    criterion = domain.partition("-")[0]
    pairs = [
        (better, len(STYLES) + worse, criterion, domain)
        for better in range(len(STYLES))
        for worse in range(len(STYLES))
    ]
    identity = field(row, "id", number, where)
    builder.add(f"{domain}/{identity}", turns, chosen + rejected, pairs)
    return True
