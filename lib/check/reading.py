"""*Reading*: our scores of token ids against those of the checkpoint's own class, text by text."""

from __future__ import annotations

from lib.check.lines import READING, RIGHT, WRONG, Row, untold, wrong
from lib.check.subject import Subject
from lib.errors import ModelError
from lib.models.classifier import Classifier
from lib.models.own import DrawnError
from lib.models.sarm import SARM

TOLERANCE = 1e-4  # standard deviations of a score, in float32; rounding is about 1e-6


def rows(subject: Subject) -> list[Row]:
    """Which token is read, and by how much scores differ."""
    return [token(subject.model), *scores(subject)]


def token(model) -> Row:
    """Do both read the same token? Transformers' classes pass over a pad token at the end.

    Then the last token is followed here; a model that was trained by its own class was trained
    on the other.
    """
    reads = model.card.get("reads") or model.format.reads
    expected = "the token that its own class reads"
    if isinstance(model, SARM) and model.pad_inside:
        remedy = "Give config.json a pad_token_id that stands in no text, as in training."
    elif isinstance(model, Classifier) and model.passes_over_last:
        remedy = (
            "Find out which token it was trained on. For the last, give config.json a "
            "pad_token_id that ends no text; for the other, give a template that doesn't end "
            "with the pad token."
        )
    else:
        return Row(READING, "token", reads, expected, RIGHT)
    return Row(READING, "token", f"{reads}; the last one is followed", expected, WRONG, remedy)


def scores(subject: Subject) -> list[Row]:
    """The largest difference over the few items."""
    sequences = [ids for item in subject.few for ids in item.sequences]
    expected = f"at most {TOLERANCE:g} sd from the scores of its own class"
    try:
        own = subject.model.own_scores(sequences)
    except DrawnError as error:
        return [wrong(READING, "scores", error)]
    except ModelError as error:
        return [untold(READING, "scores", error)]
    shift = subject.shift(subject.alone, own)
    if not shift.size:
        return [Row(READING, "scores", "no score that varies", expected, RIGHT)]
    largest = shift.max()
    found = f"at most {largest:.1e} sd over {len(sequences)} texts"
    if largest <= TOLERANCE:
        return [Row(READING, "scores", found, expected, RIGHT)]
    return [
        Row(
            READING,
            "scores",
            found,
            expected,
            WRONG,
            "Don't use these scores: the loader reads other keys, tokens or layers than the "
            "model's class.",
        )
    ]
