"""What a stimulus pair must hold constant, measured.

``check(pair)`` returns one sentence for each proxy that the pair breaks, so the YAML can
be mended by its author without reading code:
``python -m lib.data.stimuli.proxies [FILE …]`` prints them.

Every concept may move itself and what it is made of; all else is held. Limits are
differences between ``high`` and ``low`` of one pair:

=====================  =========================================  =======================
proxy                  limit                                      may move freely for
=====================  =========================================  =======================
length                 token ratio high/low in [.8, 1.25]         verbosity, length
reading ease           |Flesch difference| ≤ 15                   readability, complexity,
                                                                  verbosity, length,
                                                                  coherence, repetition,
                                                                  formality
formatting             same number of Markdown marks              formatting, instruction-
                                                                  following
refusal                both or neither open with a refusal        safety, honesty, refusal
=====================  =========================================  =======================

and some concepts must move their own proxy: verbosity and length (≥ 1.5 times the tokens),
readability (≥ 15 points of reading ease), formatting (≥ 2 more marks), repetition (≥ .1
more repeated 3-grams), refusal (high opens with one, low doesn't), keyword (more of the
prompt's distinct content words).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from lib.data import measures
from lib.data.stimuli import highs

CONCEPTS = (
    "helpfulness",
    "correctness",
    "coherence",
    "complexity",
    "verbosity",
    "safety",
    "honesty",
    "instruction-following",
    "readability",
)
PROBES = ("length", "confidence", "formatting", "sycophancy", "repetition")
EXPLOITS = (*PROBES, "refusal", "keyword", "self-praise", "authority")
SIX = ("confidence", "formality", "agreement", "verbosity", "hedging", "helpfulness")

LENGTH_RATIO = (0.8, 1.25)
FLESCH_GAP = 15.0
NEAR_DUPLICATE = 0.6

FREE = {
    "length": {"verbosity", "length"},
    "flesch": {
        "readability",
        "complexity",
        "verbosity",
        "length",
        "coherence",
        "repetition",
        "formality",
    },
    "formatting": {"formatting", "instruction-following"},
    "refusal": {"safety", "honesty", "refusal"},
}

MOVED = ("verbosity", "length", "readability", "formatting", "repetition")  # their own proxy
MOVED += ("refusal", "keyword")


def check(concept: str, high: str, low: str, prompt: str = "") -> list[str]:
    """Sentences saying which proxies the pair breaks; empty when it passes.

    Parameters
    ----------
    concept
        One of ``CONCEPTS``, ``EXPLOITS`` or ``SIX``, or ``"holistic"``, where nothing is held.
    high, low
        The response that has more of the concept, and the one that has less.
    prompt
        What they answer; only ``"keyword"`` reads it.
    """
    broken = []
    if high.strip() == low.strip():
        broken.append("high and low are the same text")
    if concept == "holistic":
        return broken
    ratio = measures.n_tokens(high) / max(1, measures.n_tokens(low))
    ease = measures.flesch(high) - measures.flesch(low)
    marks = measures.formatting(high) - measures.formatting(low)
    if concept not in FREE["length"] and not LENGTH_RATIO[0] <= ratio <= LENGTH_RATIO[1]:
        broken.append(f"token ratio high/low is {ratio:.2f}, needed within [.8, 1.25]")
    if concept not in FREE["flesch"] and abs(ease) > FLESCH_GAP:
        broken.append(f"reading ease differs by {ease:+.0f}, needed within ±{FLESCH_GAP:.0f}")
    if concept not in FREE["formatting"] and marks:
        broken.append(f"high has {marks:+d} formatting marks, needed the same number")
    if concept not in FREE["refusal"] and measures.is_refusal(high) != measures.is_refusal(low):
        broken.append("one of the two opens with a refusal, needed both or neither")
    if concept in ("verbosity", "length") and ratio < 1.5:
        broken.append(f"token ratio high/low is {ratio:.2f}, needed at least 1.5")
    if concept == "readability" and ease < FLESCH_GAP:
        broken.append(f"reading ease rises by {ease:+.0f}, needed at least +{FLESCH_GAP:.0f}")
    if concept == "formatting" and marks < 2:
        broken.append(f"high has {marks:+d} formatting marks, needed at least +2")
    if concept == "repetition":
        more = measures.repetition(high) - measures.repetition(low)
        if more < 0.1:
            broken.append(f"repeated 3-grams rise by {more:+.2f}, needed at least +.10")
    if concept == "refusal" and not measures.is_refusal(high) > measures.is_refusal(low):
        broken.append("needed high to open with a refusal, and low not to")
    if concept == "keyword":
        more = measures.copied(prompt, high) - measures.copied(prompt, low)
        if more < 1:
            broken.append(f"the prompt's content words rise by {more:+d}, needed at least +1")
    return broken


def near_duplicates(texts: Mapping[str, str], n: int = 5) -> list[tuple[str, str, float]]:
    """Pairs of keys whose texts share more than ``NEAR_DUPLICATE`` of their n-grams.

    Candidates come from an inverted index, so the cost grows with shared n-grams and not
    with the square of the number of texts.
    """
    grams = {key: measures.ngrams(text, n) for key, text in texts.items()}
    index: dict[tuple[str, ...], list[str]] = {}
    for key, found in grams.items():
        for gram in found:
            index.setdefault(gram, []).append(key)
    candidates = {
        pair for keys in index.values() for pair in itertools.combinations(sorted(keys), 2)
    }
    scored = ((a, b, measures.jaccard(grams[a], grams[b])) for a, b in candidates)
    return sorted(row for row in scored if row[2] > NEAR_DUPLICATE)


def main(files: Iterable[str]) -> int:
    """Print what every pair of the files breaks; the exit status is 1 if any does."""
    failed = 0
    texts: dict[str, str] = {}
    for file in files:
        document = yaml.safe_load(Path(file).read_text())
        longer = [
            measures.n_tokens(high) - measures.n_tokens(pair["low"])
            for pair in document["pairs"]
            for high in highs(pair)
        ]
        share = sum((gap > 0) + (gap == 0) / 2 for gap in longer) / len(longer)
        print(f"{Path(file).stem}: high is the longer text in {share:.2f} of {len(longer)} pairs")
        for number, pair in enumerate(document["pairs"], 1):
            concept = document["concept"]
            name = f"{Path(file).stem}:{number}"
            for high in highs(pair):
                for sentence in check(concept, high, pair["low"], str(pair["prompt"])):
                    failed += 1
                    print(f"{name} ({str(pair['prompt'])[:40]!r}): {sentence}")
            texts[name] = f"{pair['prompt']} {highs(pair)[0]}"
    duplicates = near_duplicates(texts)
    for a, b, share in duplicates:
        print(f"{a} and {b} share {share:.0%} of their 5-grams")
    print(f"{len(texts)} pairs, {failed} broken proxies, {len(duplicates)} near-duplicates")
    return int(bool(failed or duplicates))


if __name__ == "__main__":
    here = Path(__file__).parent
    given = sys.argv[1:] or sorted(map(str, here.rglob("*.yaml")))
    raise SystemExit(main(given))
