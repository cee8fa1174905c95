"""Sequence classifiers as reward models: one label, or one head for each of several.

The layout of ``AutoModelForSequenceClassification``: a backbone and a linear head, under
``score`` (decoders) or ``classifier``. The head is read from the checkpoint and applied
here, score = h Wᵀ (+ b) in float32, so a key that doesn't match is an error instead of a
head drawn at random, and the state h is kept. h is the state at the last token, found by
position: a pad token that equals another token moves nothing. Transformers' own classes take
the rightmost token that isn't the pad token, which is another one where the pad token ends
the text; the card then says so.

Checked against transformers' own classes, all of them, in
``tests/models/test_every_classifier.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from lib.errors import ModelError
from lib.models import own, pooling
from lib.models.checkpoint import Checkpoint
from lib.models.linear import Released
from lib.models.prompt import EXAMPLE, EXAMPLE_RESPONSE

KEYS = ("score", "classifier")


class Classifier(Released):
    """A linear reward head."""

    KIND = "sequence classifier read as rewards"
    passes_over_last = False  # does transformers' own class, to read an earlier token?

    @staticmethod
    def fits(checkpoint: Checkpoint) -> bool:
        """Any checkpoint may be one; ``head`` says what isn't."""
        return True

    @staticmethod
    def head(checkpoint: Checkpoint, config, given: Sequence[str] | None) -> tuple[dict, set[str]]:
        """W and b, of a classifier that passes the last token's state.

        The user's names also say that each output is a reward, which two outputs of an
        ordinary classifier aren't.
        """
        _check_kind(checkpoint)
        pooling.check(config, checkpoint.name)
        weight, bias, keys = _head(checkpoint)
        if given is None:
            _check_rewards(checkpoint, len(weight))
        return {"weight": weight, "bias": bias}, keys

    def completed(self, config) -> None:
        """Which token's states are they?"""
        *_, before, last = map(int, self.format.encode(EXAMPLE, [EXAMPLE_RESPONSE]).sequences[0])
        self.passes_over_last = last == config.get_text_config().pad_token_id
        self.card["reads"] = self.format.reads
        if self.passes_over_last:
            earlier = repr(self.format.tokenizer.decode([before]))
            self.card["reads"] += (
                "; it is the pad token, which transformers' own class passes over, to read an "
                f"earlier one, here {earlier}"
            )

    def own_scores(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """See ``lib.models.base.RewardModel``: what transformers' own class gives."""
        return own.classifier(*self._source(), sequences)

    def _digested(self) -> Iterator[bytes]:
        yield self.weight.tobytes() + self.bias.tobytes() + repr(list(self.heads)).encode()


def _check_kind(checkpoint: Checkpoint) -> None:
    """A ``ModelError`` for a class that scores each token."""
    if checkpoint.architecture.endswith("ForTokenClassification"):
        raise ModelError(
            f"one reward a text from {checkpoint.name}",
            f"a token classifier ({checkpoint.architecture}), which scores each token",
            "Load a sequence classifier. If the score at the last token is the reward, name "
            "the sequence classifier of that model in architectures of config.json.",
        )


def _head(checkpoint: Checkpoint) -> tuple[np.ndarray, np.ndarray, set[str]]:
    present = [key for key in KEYS if f"{key}.weight" in checkpoint.files]
    found, remedy = _other_head(checkpoint)
    if len(present) != 1 or found:
        outer = ", ".join(sorted({key.split(".")[0] for key in checkpoint.files}))
        raise ModelError(
            f"one reward head in the checkpoint of {checkpoint.name}: "
            + " or ".join(f"{key}.weight" for key in KEYS),
            found or f"{' and '.join(present) or 'none'}, among {outer}",
            remedy or "Load a reward model; a language model has no reward head.",
        )
    weight = checkpoint.array(f"{present[0]}.weight")
    keys = {f"{present[0]}.weight"}
    bias = np.zeros(weight.shape[:1], np.float32)
    if f"{present[0]}.bias" in checkpoint.files:
        keys.add(f"{present[0]}.bias")
        bias = checkpoint.array(f"{present[0]}.bias")
    if weight.ndim != 2 or bias.shape != weight.shape[:1]:
        raise ModelError(
            f"a linear reward head in {checkpoint.name}",
            f"weight {weight.shape} and bias {bias.shape}",
            "Check the checkpoint; another kind of head needs a class of its own.",
        )
    return weight, bias, keys


# Heads of other makers: their keys, what they are, and how they come to be read here.
OTHER_HEADS = (
    (
        r"v_head\.",
        "a value head of trl (AutoModelForCausalLMWithValueHead), a value for each token",
        "If it is the reward head, save it as score.weight, without a bias, in a sequence "
        "classifier with one label.",
    ),
    (
        r"value_head\.",
        "a value head (as OpenRLHF and others write it)",
        "If it is the reward head and linear, rename it score.weight in the checkpoint.",
    ),
    (
        r"(score|classifier)\.(\d+|dense|out_proj|fc\d+)\.",
        "a head of several layers, whose activation no file tells",
        "Only a linear head is read: load a model with one, or add a class for this head.",
    ),
    (
        r".*\.(lora_[AB]|modules_to_save|base_layer)\b",
        "an adapter (LoRA) that isn't merged into its base",
        "Merge it, which peft does: model.merge_and_unload(), then save_pretrained.",
    ),
)


def _other_head(checkpoint: Checkpoint) -> tuple[str, str]:
    """A head that isn't read here, by name, and what to do; both empty without one."""
    for pattern, what, remedy in OTHER_HEADS:
        keys = sorted(key for key in checkpoint.files if re.match(pattern, key))
        if keys:
            return f"{keys[0][:80]}: {what}", remedy
    return "", ""


def _check_rewards(checkpoint: Checkpoint, count: int) -> None:
    """Outputs that a softmax over classes was trained on are no rewards."""
    labels = checkpoint.labels
    if labels and len(labels) != count:
        raise ModelError(
            f"{len(labels)} rows in the head of {checkpoint.name}, as its id2label says",
            f"{count}",
            "Check that config.json belongs to these weights, or name them: heads=[…].",
        )
    problem = checkpoint.config.get("problem_type")
    if count == 2 or (count > 1 and problem == "single_label_classification"):
        shown = ", ".join(label[:40] for label in list(labels.values())[:4])
        raise ModelError(
            f"rewards as the outputs of {checkpoint.name}",
            f"{count} labels of a classifier ({shown or 'unnamed'})",
            "Load a reward model. If each output is a reward of its own, say so by naming "
            "them: heads=[…].",
        )
