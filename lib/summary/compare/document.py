"""``compare.json``: what a comparison of models found, for programs; ``compare.schema.json`` says
what each field means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lib.atomic import replacing
from lib.check.lines import finite
from lib.models.identity import versions
from lib.summary.compare.agreement import AGREEMENT
from lib.summary.compare.contested import CONTESTED
from lib.summary.compare.lens import DEPTHS, PROFILES
from lib.summary.compare.measure import Compared
from lib.summary.compare.stats import DIFFERENCES, SCORES

FORMAT = 1
SCHEMA = Path(__file__).with_name("compare.schema.json")


def document(found: Compared, texts: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What ``compare.json`` holds; ``texts`` are of contested items, in the order of those."""
    contested = _records(found, found.contested, CONTESTED)
    for record, text in zip(contested, texts, strict=False):
        record |= {"text": dict(text)} if text else {}
    shown = [
        name for name in SCORES if name not in ("page", "heads", "note") and "best" not in name
    ]
    return {
        "format": FORMAT,
        "models": [
            {"name": side.name, "given": side.given, "fingerprint": dict(side.fingerprint)}
            for side in found.sides
        ],
        "head": found.head,
        "alpha": found.alpha,
        "family": int(found.differences["p"].notna().sum()),
        "warnings": found.warnings,
        "runs": found.sources.to_dict("records"),
        "scores": _records(found, found.scores, [*shown, "note"]),
        "differences": _records(found, found.differences, DIFFERENCES),
        "agreement": _records(found, found.agreement, AGREEMENT),
        "contested": contested,
        "lens": {
            "profiles": found.profiles[list(PROFILES)].to_dict("records"),
            "depths": found.depths[list(DEPTHS)].to_dict("records"),
        },
        "versions": versions(),
    }


def save(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write ``compare.json``, by rename; what isn't a number is written as null."""
    with replacing(path) as partial:
        text = json.dumps(finite(content), ensure_ascii=False, indent=1)
        partial.write_text(text + "\n", encoding="utf-8")


def _records(found: Compared, table: pd.DataFrame, columns: Sequence[str]) -> list[dict]:
    """Rows, with the dataset and the subset of the question that each is of."""
    records = []
    for row in table.reindex(columns=list(columns)).to_dict("records"):
        dataset, subset = found.questions[row["dataset"]]
        told = {"dataset": dataset, "question": subset}
        records.append({**row, **told})
    return records
