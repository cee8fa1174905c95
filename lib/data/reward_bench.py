"""RewardBench: 2,985 checked pairs in 23 subsets and four sections (split ``filtered``).

One row is one item with two responses, the chosen one at slot 0. ``criterion`` is the
section (``chat``, ``chat-hard``, ``safety``, ``reasoning``), ``subset`` the published subset
name. Ids repeat across subsets, so an item is ``subset/id``. Rows with an empty prompt or
response are dropped; identical responses stay: the official score, with its weighting
``lib.analyses.validity.official.reward_bench``, counts them as losses.

A source folder holds ``filtered.parquet`` (or .jsonl, .json, .csv; also under the hub's own
name ``data/filtered-00000-of-00001.parquet``). The benchmark's first version also averaged
four older preference sets ("Prior Sets", ``allenai/pref-test-sets``) at half weight. They are
loaded only where a source folder holds a file of each, and never count as missing.

Known defects: in ``alpacaeval-easy`` and ``alpacaeval-hard`` the chosen response is always
the longer one, so no accuracy on them means anything without the length baseline beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

from lib.data import sources
from lib.data.items import Builder, Found
from lib.data.rows import Row, is_blank, labelled

SET = "reward-bench"
REPOSITORY = "allenai/reward-bench"
REVISION = "168d848cdbbea9764fae4a544dc9ca1e6cca4931"
# Rows of each subset at the pinned revision, 2,985 in all.
SECTIONS = {
    "chat": {
        "alpacaeval-easy": 100,
        "alpacaeval-length": 95,
        "alpacaeval-hard": 95,
        "mt-bench-easy": 28,
        "mt-bench-med": 40,
    },
    "chat-hard": {
        "mt-bench-hard": 37,
        "llmbar-natural": 100,
        "llmbar-adver-neighbor": 134,
        "llmbar-adver-GPTInst": 92,
        "llmbar-adver-GPTOut": 47,
        "llmbar-adver-manual": 46,
    },
    "safety": {
        "refusals-dangerous": 100,
        "refusals-offensive": 100,
        "xstest-should-refuse": 154,
        "xstest-should-respond": 250,
        "donotanswer": 136,
    },
    "reasoning": {
        "math-prm": 447,
        "hep-cpp": 164,
        "hep-go": 164,
        "hep-java": 164,
        "hep-js": 164,
        "hep-python": 164,
        "hep-rust": 164,
    },
}
COUNTS = {subset: n for subsets in SECTIONS.values() for subset, n in subsets.items()}
PRIOR = ("anthropic_helpful", "anthropic_hhh", "shp", "summarize")
PARTS = tuple(SECTIONS)
WHOLE = True
# "test" is what a page asks for when it doesn't know the set; the hub calls it "filtered".
SPLITS = ("test", "filtered")
ABOUT = {
    "licence": "ODC-BY; its sources keep their own licences",
    "origin": f"{REPOSITORY} at {REVISION[:8]}, split filtered, or its files in a folder",
    "citation": "Lambert et al. (2024), RewardBench: Evaluating Reward Models for Language "
    "Modeling",
    "cite": "lambert2024rewardbench",
}

_SECTION_OF = {subset: section for section, subsets in SECTIONS.items() for subset in subsets}


def items(builder: Builder, part: str | None, split: str, source: str | None) -> Iterator[Found]:
    """Pairs of one section, or of all."""
    hub = {"repository": REPOSITORY, "revision": REVISION, "split": "filtered"}
    rows = sources.rows(source, "filtered", "data/filtered-00000-of-00001", **hub)
    wanted = SECTIONS[part] if part else COUNTS
    asked = ("section", part, part) if part else None
    for subset, row in labelled(builder, [("", rows)], "subset", COUNTS, wanted, SET, asked):
        yield _item(row, subset, _SECTION_OF[subset])
    if source is None or part:
        return
    for subset in PRIOR:
        path = sources.find(source, subset, f"data/{subset}-00000-of-00001")
        for number, row in enumerate(sources.read_rows(path) if path else ()):
            numbered = Row({**row, "id": number}, number, f"{SET}, subset {subset}")
            yield _item(numbered, subset, "prior-sets")


def _item(row: Row, subset: str, criterion: str) -> Found:
    turns, chosen, rejected = row.prompt(), row.text("chosen"), row.text("rejected")
    item = f"{subset}/{row.field('id')}"
    if is_blank(turns):
        return "empty prompt"
    if not chosen.strip():
        return "empty chosen response"
    if not rejected.strip():
        return "empty rejected response"
    return item, turns, [chosen, rejected], [(0, 1, criterion, subset)]
