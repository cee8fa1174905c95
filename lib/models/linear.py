"""Linear heads on a backbone, with or without a gate: what every loader here makes.

A released layout is a subclass of ``Released``: which checkpoints have it (``fits``), its
head tensors (``head``) and their digest. What all layouts share, names, prompt format,
backbone and card, is loaded here.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from lib.errors import ModelError
from lib.models import backbone as backbones
from lib.models import checkpoint as checkpoints
from lib.models import names, own
from lib.models.base import Head, Readout
from lib.models.checkpoint import Checkpoint
from lib.models.gating import Gate, gated
from lib.models.prompt import PromptFormat


@dataclass
class LinearHeads:
    """Scores r = h Wᵀ + b in float32; implements ``lib.models.base.RewardModel``.

    Attributes
    ----------
    weight, bias
        W, shape (heads, features), and b, shape (heads,), or ``None``.
    transform, gate
        Of a gated model: M, shape (heads, heads), and the network.
    tree_limit
        Tokens of the longest sequence that may be packed as a tree.
    folder
        Of the checkpoint, which ``own_scores`` reads again.
    """

    name: str
    heads: Sequence[Head]
    backbone: torch.nn.Module
    format: PromptFormat
    weight: np.ndarray
    card: dict
    bias: np.ndarray | None = None
    trained_on: frozenset[str] = frozenset()
    transform: np.ndarray | None = None
    gate: Gate | None = None
    tree_limit: int = sys.maxsize
    folder: Path | None = None

    @property
    def gated(self) -> bool:
        """Has the model a gate?"""
        return self.gate is not None

    def read(self, hidden: np.ndarray, gate_hidden: np.ndarray | None = None) -> Readout:
        """Rewards, not debiased; with a gate also coefficients g Mᵀ and final Σ r · (g Mᵀ).

        Without one a single score is the final one too.
        """
        score = np.asarray(hidden, np.float32) @ self.weight.T
        if self.bias is not None:
            score = score + self.bias
        if self.gate is None:
            return Readout(score, score[:, 0] if len(self.weight) == 1 else None)
        if gate_hidden is None:
            raise ModelError(
                f"the states that the gate of {self.name} reads", "none", "Give gate_hidden."
            )
        return gated(score, self.gate, self.transform, gate_hidden)

    def own_scores(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """See ``lib.models.base.RewardModel``: its heads on a bare transformer's states."""
        gates = [[own.gate_at(self.format, ids)] if self.gated else [] for ids in sequences]
        places = [[*gate, len(ids) - 1] for gate, ids in zip(gates, sequences, strict=True)]
        states = own.states(*self._source(), sequences, places)
        return self.read(states[:, -1], states[:, 0] if self.gated else None).columns

    def _source(self) -> tuple[Path, str, torch.device]:
        """What ``own`` loads: folder, name, device."""
        if self.folder is None:
            raise ModelError(f"the folder of {self.name}", "none", "Load it by its name.")
        return self.folder, self.name, next(self.backbone.parameters()).device

    @property
    def fingerprint(self) -> dict[str, str]:
        """See ``lib.models.base.RewardModel``."""
        return {
            **backbones.fingerprint(self.backbone),
            **self.format.fingerprint,
            "heads": hashlib.sha256(b"".join(self._digested())).hexdigest()[:16],
        }

    def _digested(self) -> Iterator[bytes]:
        """Names and tensors of the heads, in the order that a layout's digests have had."""
        raise NotImplementedError


class Released(LinearHeads):
    """Heads that lie in a checkpoint of their own, with the backbone."""

    KIND: ClassVar[str]

    @staticmethod
    def fits(checkpoint: Checkpoint) -> bool:
        """Has the checkpoint this layout?"""
        raise NotImplementedError

    @staticmethod
    def head(checkpoint: Checkpoint, config, given: Sequence[str] | None) -> tuple[dict, set[str]]:
        """Fields that the head tensors make, and the tensors' keys.

        ``config`` is as transformers reads it, ``given`` the user's names. What isn't this
        layout, is missing or doesn't fit is a ``ModelError``.
        """
        raise NotImplementedError

    @staticmethod
    def check_format(format: PromptFormat) -> None:
        """Raise a ``ModelError`` for a template from which the layout can't be read."""

    @staticmethod
    def named(
        fields: Mapping, checkpoint: Checkpoint, given: Sequence[str] | None
    ) -> Sequence[Head]:
        """Names of the heads that ``head`` found."""
        return names.named(
            len(fields["weight"]),
            model=checkpoint.name,
            given=given,
            labels=checkpoint.labels,
            armorm="gate" in fields,
        )

    @staticmethod
    def transformer(checkpoint: Checkpoint, config, keys: set[str], **options) -> torch.nn.Module:
        """The backbone; ``keys`` are the heads', options those of ``load_backbone``."""
        return checkpoints.load_backbone(checkpoint, config, keys, **options)

    @staticmethod
    def width(fields: Mapping) -> int:
        """Features of the states that the heads read."""
        return fields["weight"].shape[1]

    def completed(self, config) -> None:
        """Add to the card, and check what the whole model shows; ``config`` as for ``head``."""

    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        *,
        dtype: torch.dtype,
        device_map: str | Mapping,
        heads: Sequence[str] | None = None,
        date: str | None = None,
    ):
        """A checkpoint of this layout; options as for ``lib.models.load_model``.

        Raises
        ------
        ModelError
            For head weights that are missing, unexpected, not finite or of shapes that don't
            fit, a wrong number of names, a template or a backbone that can't be used, or
            outputs that are no rewards.
        """
        name, config = checkpoint.name, checkpoints.load_config(checkpoint)
        fields, keys = cls.head(checkpoint, config, heads)
        named = cls.named(fields, checkpoint, heads)
        format = PromptFormat(checkpoints.load_tokenizer(checkpoint, config), name, date=date)
        cls.check_format(format)
        backbone = cls.transformer(checkpoint, config, keys, dtype=dtype, device_map=device_map)
        text = config.get_text_config()
        features = getattr(text, "word_embed_proj_dim", text.hidden_size)  # OPT projects states
        if (found := cls.width(fields)) != features:
            raise ModelError(
                f"a head of {features} features in {name}",
                f"{found}",
                "Check that the head belongs to this backbone.",
            )
        known = names.recognise(name)
        note = " ".join(filter(None, [known.note if known else "", checkpoint.note]))
        card = {"kind": cls.KIND, "names": named[0].source, "note": note}
        model = cls(
            name=name,
            heads=named,
            backbone=backbone,
            format=format,
            card=checkpoint.card | card,
            tree_limit=backbones.tree_limit(backbone),
            folder=checkpoint.folder,
            **fields,
        )
        model.completed(config)
        return model
