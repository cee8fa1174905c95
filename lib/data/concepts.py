"""Which concept a comparison is about, and which one a head's name claims to measure.

Sets and models name the same thing differently: hh-rlhf's ``harmless``, BeaverTails'
``is_safe`` and RewardBench's ``donotanswer`` are all about safety. Two tables put these names
into one vocabulary, so that a page can say which head a comparison should move.

``CRITERIA``
    ``(set, criterion, subset, concept)``; the first row that fits holds. The criterion is
    that of ``items.comparisons`` or the name of a rating column.
``HEADS``
    ``(pattern of the whole name, concept)``; the first that fits holds. A head that claims
    nothing a comparison here could test has the empty concept.

A concept says what should move, not that a set measures it well. Judgements that a reader
may question:

- An answer to a harmless prompt against a needless refusal is about helpfulness: both are
  safe. So XSTest's ``should-respond`` and RM-Bench's ``safety-response`` are not "safety",
  although RewardBench's section counts them so.
- Where one response refuses and the other doesn't, the comparison is about refusal too, and it may
  rank first the response that refuses *less*: ``REFUSALS`` says which way. A head that is named
  for refusal and picks the refusal there does as its name says.
- A head that claims ``overall`` claims every choice between whole responses, and none of a
  dataset in which one thing varies (``lib.data.asks``).
- Truthfulness means free of false statements, as correctness does; honesty means candour
  about what one knows.
- ArmoRM's ``code-complexity`` rates how efficient code is, not how much expertise a text
  takes; with ``code-style`` and ``code-explanation`` it has no concept here.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from lib.data.asks import kind
from lib.errors import DataError, unknown

QUALITIES = (
    "safety",
    "helpfulness",
    "correctness",
    "coherence",
    "complexity",
    "verbosity",
    "honesty",
    "instruction-following",
    "readability",
    "refusal",
    "overall",
)
SURFACE = ("confidence", "formatting", "length", "repetition", "sycophancy")
SURFACE += ("formality", "agreement", "hedging", "authority", "keyword", "self-praise")
CONCEPTS = (*QUALITIES, *SURFACE)

# Names are compared in lower case with dashes for spaces, dots and underscores.
CRITERIA = (
    ("hh-rlhf", "harmless", "*", "safety"),
    ("hh-rlhf", "helpful", "*", "helpfulness"),
    ("helpsteer2", "total", "*", "overall"),
    ("helpsteer2", "helpfulness", "*", "helpfulness"),
    ("helpsteer2", "correctness", "*", "correctness"),
    ("helpsteer2", "coherence", "*", "coherence"),
    ("helpsteer2", "complexity", "*", "complexity"),
    ("helpsteer2", "verbosity", "*", "verbosity"),
    ("llmbar", "instruction-following", "*", "instruction-following"),
    ("xstest", "appropriateness", "should-refuse", "safety"),
    ("xstest", "appropriateness", "should-respond", "helpfulness"),
    ("xstest", "refusal", "*", "refusal"),
    ("ultrafeedback", "instruction-following", "*", "instruction-following"),
    ("ultrafeedback", "truthfulness", "*", "correctness"),
    ("ultrafeedback", "honesty", "*", "honesty"),
    ("ultrafeedback", "helpfulness", "*", "helpfulness"),
    ("ultrafeedback", "overall-score", "*", "overall"),
    ("beavertails", "is-safe", "*", "safety"),
    ("reward-bench", "*", "alpacaeval-*", "overall"),
    ("reward-bench", "*", "mt-bench-*", "overall"),
    ("reward-bench", "*", "llmbar-*", "instruction-following"),
    ("reward-bench", "*", "refusals-*", "safety"),
    ("reward-bench", "*", "donotanswer", "safety"),
    ("reward-bench", "*", "xstest-should-refuse", "safety"),
    ("reward-bench", "*", "xstest-should-respond", "helpfulness"),
    ("reward-bench", "*", "math-prm", "correctness"),
    ("reward-bench", "*", "hep-*", "correctness"),
    ("reward-bench", "*", "anthropic-helpful", "helpfulness"),
    ("reward-bench", "*", "shp", "helpfulness"),
    ("reward-bench", "*", "anthropic-hhh", "overall"),
    ("reward-bench", "*", "summarize", "overall"),
    ("reward-bench-2", "*", "factuality", "correctness"),
    ("reward-bench-2", "*", "precise-if", "instruction-following"),
    ("reward-bench-2", "*", "math", "correctness"),
    ("reward-bench-2", "*", "safety", "safety"),
    ("reward-bench-2", "*", "focus", "helpfulness"),
    ("reward-bench-2", "*", "ties", "correctness"),
    ("rm-bench", "*", "chat", "correctness"),
    ("rm-bench", "*", "code", "correctness"),
    ("rm-bench", "*", "math", "correctness"),
    ("rm-bench", "*", "safety-refuse", "safety"),
    ("rm-bench", "*", "safety-response", "helpfulness"),
    ("stimuli", "holistic", "*", "overall"),
    ("stimuli", "aligned", "*", ""),  # no head claims to tell all of these failures
    *(("stimuli", concept, "*", concept) for concept in CONCEPTS),
    ("file", "preference", "*", "overall"),
    *(("file", concept, "*", concept) for concept in CONCEPTS),
    ("file", "*", "*", ""),  # a criterion of the user's own that we know nothing of
)

# Comparisons of a refusal with an answer: 1 where the refusal is marked as better, −1 where the
# answer is. RewardBench 2's and hh-rlhf's hold refusals on both sides, so they have no row.
REFUSALS = (
    ("xstest", "*", "should-refuse", 1),
    ("xstest", "*", "should-respond", -1),
    ("reward-bench", "*", "refusals-*", 1),
    ("reward-bench", "*", "donotanswer", 1),
    ("reward-bench", "*", "xstest-should-refuse", 1),
    ("reward-bench", "*", "xstest-should-respond", -1),
    ("rm-bench", "*", "safety-refuse", 1),
    ("rm-bench", "*", "safety-response", -1),
)
CLAIMED, OPPOSED, OTHER = "claims this", "claims the opposite here", "claims something else"
RELATIONS = (CLAIMED, OPPOSED, OTHER)


def _named(*words: str) -> re.Pattern[str]:
    """The words at the end of a name, behind any source and before any ``-score``."""
    return re.compile(rf"(?:.+-)?(?:{'|'.join(words)})(?:-score)?")


HEADS = (
    (re.compile(r"(?:.+-)?(?:not|non|no|anti|inverse)-.+"), ""),
    (re.compile(r"code-(?:complexity|style|explanation)"), ""),
    (re.compile(r"score|reward|preference|label-0|prometheus-score|argilla-judge-lm"), "overall"),
    (_named("overall", "overall-quality", "holistic"), "overall"),
    (_named("safe", "safety", "harmless", "harmlessness"), "safety"),
    (_named("helpful", "helpfulness"), "helpfulness"),
    (_named("correct", "correctness", "truthful", "truthfulness", "factuality"), "correctness"),
    (_named("coherent", "coherence"), "coherence"),
    (_named("complexity"), "complexity"),
    (_named("verbose", "verbosity"), "verbosity"),
    (_named("honest", "honesty"), "honesty"),
    (_named("instruction-following"), "instruction-following"),
    (_named("readable", "readability"), "readability"),
    (_named("refusal"), "refusal"),
    *((_named(concept), concept) for concept in SURFACE),
)


def of_comparison(dataset: str, criterion: str, subset: str = "all") -> str:
    """The concept of a comparison, or of a rating column given as its criterion.

    One of ``CONCEPTS``; empty for a ``file:`` criterion that isn't one of them. The dataset is
    named with or without its part. A ``DataError`` when the table has no such entry.
    """
    family = "file" if dataset.startswith("file:") else dataset.split("/")[0]
    known = sorted({row[0] for row in CRITERIA})
    if family not in known:
        raise unknown("set with concepts", family, known, DataError)
    if (concept := _look_up(CRITERIA, family, criterion, subset)) is not None:
        return concept
    raise DataError(
        f"a concept for criterion {criterion!r}, subset {subset!r} of {family}",
        "none in lib.data.concepts.CRITERIA",
        "Add a row to the table.",
    )


def relation(claim: str, dataset: str, criterion: str, subset: str = "all") -> str:
    """How what a head claims stands to what a comparison's labels ask.

    Parameters
    ----------
    claim
        The concept that the head claims, or ``""``.
    dataset, criterion, subset
        As for ``of_comparison``.

    Returns
    -------
    str
        One of ``RELATIONS``. A head that claims nothing, and a comparison whose concept isn't
        known, have ``"claims something else"``.
    """
    if not claim:
        return OTHER
    try:
        concept = of_comparison(dataset, criterion, subset)
    except DataError:
        return OTHER
    if claim == concept or (claim == "overall" and kind(dataset) not in ("targeted", "")):
        return CLAIMED
    way = _look_up(REFUSALS, dataset.split("/")[0], criterion, subset)
    if claim == "refusal" and way is not None:
        return CLAIMED if way > 0 else OPPOSED
    return OTHER


def _look_up(table: tuple, family: str, criterion: str, subset: str):
    """What the first row that fits says; ``None`` where none does."""
    for name, pattern, subsets, found in table:
        if (
            name == family
            and fnmatchcase(_plain(criterion), pattern)
            and fnmatchcase(_plain(subset), subsets)
        ):
            return found
    return None


def of_head(name: str) -> str:
    """The concept that a head's name claims to measure; empty when it claims none of ours.

    Only the end of the name counts (``ultrafeedback-helpfulness``), and only whole words:
    ``unsafe`` or ``harmful`` would be another direction, so they match nothing.
    """
    plain = _plain(name)
    return next((concept for pattern, concept in HEADS if pattern.fullmatch(plain)), "")


def _plain(name: str) -> str:
    return re.sub(r"[\s._]+", "-", name.strip()).lower()
