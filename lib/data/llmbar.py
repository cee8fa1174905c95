"""LLMBar: pairs in which one output follows the instruction and the other does not.

Five subsets. In ``Natural`` the outputs are as models gave them; in the four adversarial
ones the worse output was made to look good (``Neighbor`` answers a similar instruction,
``GPTInst`` and ``GPTOut`` are written by GPT-4, ``Manual`` by the authors), so a length-only
baseline is far below one half there. ``label`` says which output is better, 1 or 2.

The files are the authors' at a pinned commit on GitHub: the hub's princeton-nlp/LLMBar is a
loading script.
"""

from __future__ import annotations

from pathlib import Path

from lib.data import github, sources
from lib.data.items import Builder, Items
from lib.errors import DataError, unknown

REPOSITORY = "princeton-nlp/LLMBar"
REVISION = "900616bff90b6c6c8e1681f7d079250637c55992"
PARTS = ("Natural", "Neighbor", "GPTInst", "GPTOut", "Manual")
# Of the published files; GPTInst's could not be had.
SHA256 = {
    "Natural": "f7127b7aa78104cb8e03a2b1b3ac0077e95b125714dd441a8ee63666145a3375",
    "Neighbor": "6712c7eda6342602e0bc7c06c282fa95e2110d4e741a284026a62d937f9780a0",
    "GPTOut": "1ff56e520d7607750a9866a3be0f5b850392ca4477a1f69d80f32bd3e310f561",
    "Manual": "0d9598769a39cdbbd265778c37e49939d41d5f76dcfb17bd75dcfa07516d3837",
}
WHOLE = True
SPLITS = ("test",)
CRITERION = "instruction-following"
ABOUT = {
    "licence": "MIT",
    "origin": f"github.com/{REPOSITORY} at {REVISION[:8]}, or its files in a folder",
    "citation": "Zeng et al. (2024), Evaluating Large Language Models at Evaluating "
    "Instruction Following",
    "cite": "zeng2024llmbar",
}

_COLUMNS = ("input", "output_1", "output_2", "label")


def published(part: str) -> str:
    """Path of a subset's file in the authors' repository, without its suffix."""
    return f"Dataset/LLMBar/{'' if part == 'Natural' else 'Adversarial/'}{part}/dataset"


def load(name: str, part: str | None, *, split: str = "test", source: str | None = None) -> Items:
    """Items of one subset, or of all the subsets that the source has.

    Parameters
    ----------
    name
        The dataset's full name, kept on the items.
    part
        One of ``PARTS``; ``None`` for all.
    split
        ``"test"``: the set has no other.
    source
        A folder with ``Natural.json`` and so on, or a checkout of the authors' repository;
        the pinned commit when ``None``.

    Raises
    ------
    DataError
        For an unknown split, a subset asked for by name that the source lacks, or a label
        other than 1 and 2.
    """
    if split not in SPLITS:
        raise unknown("split of llmbar", split, SPLITS, DataError)
    builder = Builder(name)
    for each in [part] if part else PARTS:
        path = _path(each, source, required=part is not None)
        if path is None:
            builder.missing.append(each)
            continue
        _collect(builder, each, path)
    if len(builder.missing) == len(PARTS):
        sources.require(source, PARTS[0])
    return builder.build(ABOUT)


def _path(part: str, source: str | None, required: bool) -> Path | None:
    if source is None:
        path = f"{published(part)}.json"
        return github.fetch(REPOSITORY, REVISION, path, SHA256.get(part, ""))
    look = sources.require if required else sources.find
    return look(source, part, published(part), published(part).removeprefix("Dataset/LLMBar/"))


def _collect(builder: Builder, part: str, path: Path) -> None:
    for number, row in enumerate(sources.read_rows(path)):
        absent = [column for column in _COLUMNS if column not in row]
        if absent:
            raise DataError(
                f"columns {', '.join(_COLUMNS)} in llmbar/{part}",
                f"row {number} without {', '.join(absent)}",
                "Check that the file is LLMBar's own.",
            )
        if str(row["label"]) not in ("1", "2"):
            raise DataError(
                f"a label of 1 or 2 in llmbar/{part}",
                f"{row['label']!r} in row {number}",
                "Mend or remove the row.",
            )
        outputs = [row["output_1"], row["output_2"]]
        if not row["input"].strip():
            builder.drop("empty prompt")
        elif not all(output.strip() for output in outputs):
            builder.drop("empty response")
        elif outputs[0] == outputs[1]:
            builder.drop("identical responses")
        else:
            better = int(row["label"]) - 1
            pair = (better, 1 - better, CRITERION, part)
            builder.add(f"{part}/{number}", row["input"], outputs, [pair])
