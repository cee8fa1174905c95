"""What the labels of each dataset ask: the one declaration that every page reads.

``of``         what a dataset's labels ask, and of which kind its comparisons are
``of_subset``  what the labels of one of its subsets ask
``kind``       holistic (whole responses chosen), structured (a benchmark's), targeted (one thing
               varies)
``whole``      do all of its comparisons ask one question?
``rated``      which of its ratings speaks for the whole response
``parts``      what a run holds of a dataset and what it lacks, as a label shows it

A dataset in which each criterion varies a thing of its own is targeted: nobody chose between its
responses as wholes, so a mean over its criteria answers no question, and none is tested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

KINDS = ("holistic", "structured", "targeted", "")
NAMED = 2  # lacking subsets that a label names; of more it has the number
MAIN = 0.9  # share of comparisons from which on one subset speaks for the others


class Asks(NamedTuple):
    """The kind of a dataset's comparisons, and what its labels ask."""

    kind: str
    question: str


# The first name that fits holds: the full one, then the family's.
DECLARED: Mapping[str, Asks] = {
    "hh-rlhf/harmless-base": Asks("holistic", "which dialogue people found less harmful"),
    "hh-rlhf/helpful-base": Asks("holistic", "which dialogue people found more helpful"),
    "hh-rlhf": Asks("holistic", "which dialogue people chose"),
    "stimuli/holistic": Asks("holistic", "which response is better in several ways at once"),
    "stimuli/concepts": Asks("targeted", "which response has more of the criterion"),
    "stimuli/controlled": Asks("targeted", "which response has more of the criterion"),
    "stimuli/probes": Asks("targeted", "which response has more of the criterion"),
    "stimuli/exploits": Asks("targeted", "which response has more of the criterion"),
    "stimuli/cascade": Asks("targeted", "which response is the aligned one"),
    "ultrafeedback": Asks("holistic", "which response a model rated higher"),
    "beavertails": Asks("holistic", "which response people judged safe"),
    "reward-bench": Asks("structured", "which response the benchmark marks as better"),
    "reward-bench-2": Asks("structured", "which response the benchmark marks as right"),
    "rm-bench": Asks("structured", "which response is right, whatever its style"),
    "llmbar": Asks("structured", "which response follows the instruction"),
    "xstest": Asks("structured", "does a safe prompt get an answer, an unsafe one a refusal"),
    "helpsteer2": Asks("targeted", "which response people rated higher on the criterion"),
}

# Of datasets with several ratings a response.
RATED: Mapping[str, str] = {
    "ultrafeedback": "overall_score",
    "helpsteer2": "helpfulness",
    "beavertails": "is_safe",
}

# Subsets whose labels ask another thing than their dataset as a whole, or one narrower.
OF_SUBSETS: Mapping[str, Mapping[str, str]] = {
    "xstest": {
        "should-refuse": "unsafe prompts: the refusal is right",
        "should-respond": "safe prompts that sound unsafe: the answer is right",
    },
    "reward-bench": {
        "refusals-dangerous": "dangerous requests: the refusal is right",
        "refusals-offensive": "offensive requests: the refusal is right",
        "donotanswer": "requests that no one should answer: the refusal is right",
        "xstest-should-refuse": "unsafe prompts: the refusal is right",
        "xstest-should-respond": "safe prompts that sound unsafe: the answer is right",
        "math-prm": "which solution is right",
    },
    "rm-bench": {
        "chat": "which answer is right, whatever its style",
        "code": "which program is right, whatever its style",
        "math": "which solution is right, whatever its style",
        "safety-refuse": "prompts to refuse: the refusal is right",
        "safety-response": "prompts to answer: the answer is right",
    },
    "llmbar": {
        "Natural": "which response follows the instruction, as pairs came",
        "Neighbor": "the wrong response answers a similar instruction, and looks good",
        "GPTInst": "the wrong response answers an instruction that a model wrote nearby",
        "GPTOut": "the wrong response is a model's that was told to miss the instruction",
        "Manual": "the wrong response was written by hand to look good",
    },
}


def of(dataset: str) -> Asks:
    """What a dataset's labels ask; both fields empty for one that is not declared."""
    return DECLARED.get(dataset) or DECLARED.get(dataset.split("/")[0]) or Asks("", "")


def of_subset(dataset: str, subset: str) -> str:
    """What the labels of a subset ask; of a targeted dataset's, its question of that criterion.

    Empty for a subset that isn't declared.
    """
    if not whole(dataset):
        return of(dataset).question.replace("the criterion", subset)
    return OF_SUBSETS.get(dataset.split("/")[0], {}).get(subset, "")


def kind(dataset: str) -> str:
    """``holistic``, ``structured`` or ``targeted``; empty for a dataset not declared."""
    return of(dataset).kind


def whole(dataset: str) -> bool:
    """Does a dataset ask one question with all of its comparisons?

    Not where it is declared targeted: there the criteria are judged one by one, and their mean is
    no verdict.
    """
    return kind(dataset) != "targeted"


def rated(dataset: str) -> str:
    """The rating that speaks for a whole response; empty for a dataset that declares none."""
    return RATED.get(dataset.split("/")[0], "")


def parts(sizes: Mapping[str, int], lacks: Sequence[str]) -> str:
    """Which part of a dataset its comparisons are: a label's second line.

    Parameters
    ----------
    sizes
        Comparisons of each subset that is there.
    lacks
        Subsets that the source lacks.

    Returns
    -------
    str
        ``Safety only``, ``without code, math`` or ``without 3 parts`` where subsets are lacking,
        and ``34 of 35 should-respond`` where one of several holds nine tenths or more; empty
        for all of a dataset. Several pieces are joined by ``"; "``.
    """
    found = {name: size for name, size in sizes.items() if size}
    told = []
    if lacks and len(found) == 1:
        told.append(f"{next(iter(found))} only")
    elif lacks:
        told.append(f"without {', '.join(lacks) if len(lacks) <= NAMED else f'{len(lacks)} parts'}")
    total = sum(found.values())
    if len(found) > 1:
        main = max(found, key=found.get)
        if found[main] >= MAIN * total:
            told.append(f"{found[main]} of {total} {main}")
    return "; ".join(told)
