"""LLMBar: pairs in which one output follows the instruction and the other does not.

Five subsets. In ``Natural`` the outputs are as models gave them; in the four adversarial
ones the worse output was made to look good (``Neighbor`` answers a similar instruction,
``GPTInst`` and ``GPTOut`` are written by GPT-4, ``Manual`` by the authors), so a length-only
baseline is far below one half there. ``label`` says which output is better, 1 or 2.

The files are the authors' at a pinned commit on GitHub: the hub's princeton-nlp/LLMBar is a
loading script. A source folder holds ``Natural.json`` and so on, or is a checkout of the
authors' repository.
"""

from __future__ import annotations

from collections.abc import Iterator

from lib.data import github, sources
from lib.data.items import Builder, Found
from lib.data.rows import check_columns, check_texts
from lib.errors import DataError

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


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Pairs of one subset, or of all that the source has."""

    def find(each: str, required: bool):
        path = published(each)
        stems = (each, path, path.removeprefix("Dataset/LLMBar/"))
        pin = (REPOSITORY, REVISION, f"{path}.json", SHA256.get(each, ""))
        return github.find(source, *stems, required=required, pin=pin)

    for each, path in sources.parts(part, PARTS, find, builder):
        for number, row in enumerate(sources.read_rows(path)):
            yield _item(row, number, each)


def _item(row: dict, number: int, part: str) -> Found:
    where = f"llmbar/{part}"
    check_columns(row, _COLUMNS, f"row {number}", where, "LLMBar's")
    if str(row["label"]) not in ("1", "2"):
        raise DataError(
            f"a label of 1 or 2 in {where}",
            f"{row['label']!r} in row {number}",
            "Mend or remove the row.",
        )
    check_texts(row, _COLUMNS[:3], number, where, "LLMBar's")
    outputs = [row["output_1"], row["output_2"]]
    if not row["input"].strip():
        return "empty prompt"
    if not all(output.strip() for output in outputs):
        return "empty response"
    if outputs[0] == outputs[1]:
        return "identical responses"
    better = int(row["label"]) - 1
    return f"{part}/{number}", row["input"], outputs, [(better, 1 - better, CRITERION, part)]
