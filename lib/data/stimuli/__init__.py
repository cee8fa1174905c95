"""Stimuli: pairs written for this project in which one thing varies.

``stimuli/controlled`` varies one concept and holds the rest, ``stimuli/holistic`` moves
several qualities together as natural data does, ``stimuli/probes`` varies a surface feature
with content held equal, ``stimuli/concepts`` six ways to put an answer, of which a model's
states may have a direction, ``stimuli/cascade`` crosses scenarios with the ways in which an
assistant can fail, ``stimuli/exploits`` varies a surface as the probes do, each pair in two
paraphrases. Each YAML file of a set holds one concept::

    concept: correctness
    criterion: what high is marked as better by; the concept unless given
    what: One sentence saying what varies.
    pairs:
      - kind: science
        prompt: a text, or a list of {role, content} turns
        high: the response with more of the concept, or a list of its paraphrases
        low: the response with less

In ``stimuli/cascade`` all files have the same prompts in the same order, one a scenario (``kind``);
``high`` is the aligned response, so the criterion is ``aligned`` and the subset is the dimension.

What each pair must hold constant is measured by ``lib.data.stimuli.proxies``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from lib.data.items import Builder, Found
from lib.errors import DataError
from lib.paths import STIMULI

PARTS = ("cascade", "concepts", "controlled", "exploits", "holistic", "probes")
WHOLE = False
SPLITS = ()  # any: there is nothing to choose
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same documents, ten times as fast
ABOUT = {
    "licence": "MIT",
    "origin": "written for this project",
    "citation": "this project",
}


def documents(name: str) -> dict[str, dict]:
    """The parsed YAML files of a set, by file stem."""
    return {path.stem: read(path) for path in sorted((STIMULI / name).glob("*.yaml"))}


def read(path: Path) -> dict:
    """One YAML file, checked for its keys.

    Raises
    ------
    DataError
        For YAML that doesn't parse, or a pair without prompt, high or low.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except yaml.YAMLError as error:
        raise DataError(f"YAML in {path.name}", str(error), "Mend the file.") from None
    if not isinstance(document, dict) or not {"concept", "pairs"} <= set(document):
        raise DataError(f"keys concept and pairs in {path.name}", "others", "Mend the file.")
    for number, pair in enumerate(document["pairs"], 1):
        lacking = [key for key in ("prompt", "high", "low") if not pair.get(key)]
        if lacking:
            raise DataError(
                f"prompt, high and low in pair {number} of {path.name}",
                f"no {', '.join(lacking)}",
                "Mend the pair.",
            )
    return document


def highs(pair: dict) -> list[str]:
    """The responses of a pair that have more of the concept: one, or several paraphrases."""
    return [pair["high"]] if isinstance(pair["high"], str) else list(pair["high"])


def items(builder: Builder, part: str, split: str, source: str | None) -> Iterator[Found]:
    """Pairs of a set; the subset is the concept of each, and so is a criterion not named."""
    for stem, document in documents(part).items():
        concept = document["concept"]
        criterion = document.get("criterion", concept)
        for number, pair in enumerate(document["pairs"], 1):
            more = highs(pair)
            comparisons = [(k, len(more), criterion, concept) for k in range(len(more))]
            yield f"{stem}/{number}", pair["prompt"], [*more, pair["low"]], comparisons
