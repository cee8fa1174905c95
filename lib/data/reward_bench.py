"""RewardBench: 2,985 checked pairs in 23 subsets and four sections (split ``filtered``).

One row is one item with two responses, the chosen one at slot 0. ``criterion`` is the
section (``chat``, ``chat-hard``, ``safety``, ``reasoning``), ``subset`` the published subset
name. Ids repeat across subsets, so an item is ``subset/id``. Scores with the official
weighting are ``lib.analyses.validity.official.reward_bench``.

The benchmark's first version also averaged four older preference sets ("Prior Sets",
``allenai/pref-test-sets``) at half weight. They are loaded only where a source folder holds
them, and never count as missing.

Known defects: in ``alpacaeval-easy`` and ``alpacaeval-hard`` the chosen response is always
the longer one, so no accuracy on them means anything without the length baseline beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lib.data import sources
from lib.data.items import Builder, Items
from lib.errors import DataError, unknown

SET = "reward-bench"
REPOSITORY = "allenai/reward-bench"
REVISION = "168d848cdbbea9764fae4a544dc9ca1e6cca4931"
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "chat": (
        "alpacaeval-easy",
        "alpacaeval-length",
        "alpacaeval-hard",
        "mt-bench-easy",
        "mt-bench-med",
    ),
    "chat-hard": (
        "mt-bench-hard",
        "llmbar-natural",
        "llmbar-adver-neighbor",
        "llmbar-adver-GPTInst",
        "llmbar-adver-GPTOut",
        "llmbar-adver-manual",
    ),
    "safety": (
        "refusals-dangerous",
        "refusals-offensive",
        "xstest-should-refuse",
        "xstest-should-respond",
        "donotanswer",
    ),
    "reasoning": (
        "math-prm",
        "hep-cpp",
        "hep-go",
        "hep-java",
        "hep-js",
        "hep-python",
        "hep-rust",
    ),
}
# Rows of each subset at the pinned revision, 2,985 in all.
COUNTS: Mapping[str, int] = {
    "alpacaeval-easy": 100,
    "alpacaeval-length": 95,
    "alpacaeval-hard": 95,
    "mt-bench-easy": 28,
    "mt-bench-med": 40,
    "mt-bench-hard": 37,
    "llmbar-natural": 100,
    "llmbar-adver-neighbor": 134,
    "llmbar-adver-GPTInst": 92,
    "llmbar-adver-GPTOut": 47,
    "llmbar-adver-manual": 46,
    "refusals-dangerous": 100,
    "refusals-offensive": 100,
    "xstest-should-refuse": 154,
    "xstest-should-respond": 250,
    "donotanswer": 136,
    "math-prm": 447,
    "hep-cpp": 164,
    "hep-go": 164,
    "hep-java": 164,
    "hep-js": 164,
    "hep-python": 164,
    "hep-rust": 164,
}
PRIOR = ("anthropic_helpful", "anthropic_hhh", "shp", "summarize")
PARTS = tuple(SECTIONS)
WHOLE = True
# "test" is what a page asks for when it doesn't know the set; the hub calls it "filtered".
SPLITS = ("test", "filtered")
FILES = ("filtered", "data/filtered-00000-of-00001")
ABOUT = {
    "licence": "ODC-BY; its sources keep their own licences",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, split filtered, or its files in a folder",
    "citation": "Lambert et al. (2024), RewardBench: Evaluating Reward Models for Language "
    "Modeling",
    "cite": "lambert2024rewardbench",
}

_SECTION_OF = {subset: section for section, names in SECTIONS.items() for subset in names}


def load(name: str, part: str | None, *, split: str = "test", source: str | None = None) -> Items:
    """Items of one section, or of all.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        A section, one of ``PARTS``; ``None`` for all.
    split
        ``"test"`` or ``"filtered"``, which are the same rows.
    source
        A folder with ``filtered.parquet`` (or .jsonl, .json, .csv; also under the hub's own
        name ``data/filtered-00000-of-00001.parquet``), and a file of its own for each of the
        prior sets if wanted; the hub when ``None``.

    Returns
    -------
    Items
        Subsets without rows are in ``missing``. Rows with an empty prompt or response are
        in ``dropped``. Identical responses stay: the official score counts them as losses.

    Raises
    ------
    DataError
        For an unknown split, a missing file, a row without the columns, a subset that isn't
        RewardBench's, or a section asked for by name that the source lacks.
    """
    if split not in SPLITS:
        raise unknown(f"split of {SET}", split, SPLITS, DataError)
    sections = [part] if part else list(PARTS)
    builder = Builder(name)
    seen: set[str] = set()
    for number, row in enumerate(_rows(source)):
        subset = text(field(row, "subset", number, SET), "subset", number, SET)
        if subset not in _SECTION_OF:
            raise unknown(f"subset of {SET}", subset, _SECTION_OF, DataError)
        if _SECTION_OF[subset] in sections:
            seen.add(subset)
            _collect(builder, row, number, subset, _SECTION_OF[subset])
    builder.missing = [
        subset for section in sections for subset in SECTIONS[section] if subset not in seen
    ]
    if part and not seen:
        raise DataError(
            f"rows of section {part!r} in {SET}",
            "rows of other sections only",
            f"Leave '/{part}' out of the name, or check the source.",
        )
    if source is not None and not part:
        _prior(builder, source)
    return builder.build(ABOUT)


def _rows(source: str | None) -> Iterable[dict]:
    if source is None:
        return sources.from_hub(REPOSITORY, revision=REVISION, split="filtered")
    return sources.read_rows(sources.require(source, *FILES))


def _prior(builder: Builder, source: str) -> None:
    for subset in PRIOR:
        path = sources.find(source, subset, f"data/{subset}-00000-of-00001")
        for number, row in enumerate(sources.read_rows(path) if path else ()):
            _collect(builder, {**row, "id": number}, number, subset, "prior-sets")


def _collect(builder: Builder, row: Mapping, number: int, subset: str, criterion: str) -> None:
    where = f"{SET}, subset {subset}"
    turns = prompt(field(row, "prompt", number, where), number, where)
    chosen = text(field(row, "chosen", number, where), "chosen", number, where)
    rejected = text(field(row, "rejected", number, where), "rejected", number, where)
    item = f"{subset}/{field(row, 'id', number, where)}"
    if not any(turn["content"].strip() for turn in turns):
        builder.drop("empty prompt")
    elif not chosen.strip():
        builder.drop("empty chosen response")
    elif not rejected.strip():
        builder.drop("empty rejected response")
    else:
        builder.add(item, turns, [chosen, rejected], [(0, 1, criterion, subset)])


def field(row: Mapping, column: str, number: int, where: str):
    """A row's value in a column, or an error that names the row and its columns."""
    if row.get(column) is None:
        raise DataError(
            f"column {column!r} in row {number} of {where}",
            f"columns {', '.join(sorted(map(str, row)))}" if column not in row else "nothing in it",
            "Check that the file is the benchmark's own.",
        )
    return row[column]


def text(value, column: str, number: int, where: str) -> str:
    """The value itself when it is a text, or an error that names row and column."""
    if not isinstance(value, str):
        raise DataError(
            f"a text in column {column!r} of row {number} of {where}",
            f"a {type(value).__name__}",
            "Check that the file is the benchmark's own.",
        )
    return value


def texts(value, column: str, number: int, where: str) -> list[str]:
    """The value itself when it is a list of at least one text, or an error."""
    if not isinstance(value, list) or not value:
        raise DataError(
            f"a list of texts in column {column!r} of row {number} of {where}",
            "an empty list" if value == [] else f"a {type(value).__name__}",
            "Check that the file is the benchmark's own.",
        )
    return [text(each, column, number, where) for each in value]


def prompt(value, number: int, where: str) -> list[dict[str, str]]:
    """A text as one user turn; a list of turns as it stands."""
    if isinstance(value, list) and value:
        return [_turn(turn, number, where) for turn in value]
    return [{"role": "user", "content": text(value, "prompt", number, where)}]


def _turn(turn, number: int, where: str) -> dict[str, str]:
    if not isinstance(turn, Mapping) or not {"role", "content"} <= set(turn):
        raise DataError(
            f"turns with role and content in column 'prompt' of row {number} of {where}",
            f"a {type(turn).__name__}",
            "Check that the file is the benchmark's own.",
        )
    return {"role": str(turn["role"]), "content": str(turn["content"])}
