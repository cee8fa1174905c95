"""SARM's layout: a reward that reads a sparse autoencoder's latents at a middle layer.

As released: ``sae.pre_bias`` (features,), ``sae.latent_bias`` (latents,), ``sae.encoder.weight``
(latents, features), ``sae.decoder.weight`` (features, latents), ``score.weight`` (1, latents),
and the backbone under ``model.*`` with the layers up to the source layer alone; a final norm
may lie there, and is not read. Sizes and the layer are those of the weights, k is the
configuration's, and a file's name says nothing.

A flag decides what the reward is (``FLAGS``, at the top of config.json or in its
``sarm_param``): with it r = w·z over the k largest latents; without it, which is the class's
default and the published training's setting, r = w·pre over all of them, and that is a linear
head on the normalised state (``lib.models.sae``). The card says which.

The score is that of the text's last token, by position. The released class looks for the first
pad id, and reads the token before it, or the last one where there is none: a pad id inside a
text moves it. ``own_scores`` reads as it does, so that the check of the score tells.

Read in the released code (Zhang et al. 2025, "Interpretable Reward Model via Sparse
Autoencoder"); checked against an independent NumPy computation in ``tests/models/test_sarm.py``.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib import documents
from lib.errors import ModelError
from lib.models import checkpoint as checkpoints
from lib.models import files, names, sparse
from lib.models.armorm import trained_prompts
from lib.models.base import Head
from lib.models.checkpoint import Checkpoint
from lib.models.cut import cut, shorten
from lib.models.cut import names as places
from lib.models.linear import Released
from lib.models.prompt import EXAMPLE, EXAMPLE_RESPONSE
from lib.models.sae import SAE, Reward

PREFIX, SCORE = "sae.", "score.weight"
TENSORS = {
    "pre_bias": "sae.pre_bias",
    "latent_bias": "sae.latent_bias",
    "encoder": "sae.encoder.weight",
    "decoder": "sae.decoder.weight",
    "weight": SCORE,
}
FLAGS = ("sarm_use_topk", "sae4rm_use_topk", "sarm_use_activation", "sarm_activation")
LAYERS = ("sae_source_layer", "sae_hidden_state_source_layer")
GROUP = "sarm_param"  # where the class that is on the hub keeps them
LAYER = re.compile(r"(?:.*\.)?(?:layers|h)\.(\d+)\..*")
NAME = Head("reward", "the one score of SARM's layout")
CHECK = "Check config.json against the release of the model."


class SARM(sparse.SparseHead, Released):
    """A checkpoint of SARM's layout."""

    pad_inside = False  # does the pad token stand in texts, so that the class reads elsewhere?
    KIND = "reward of a sparse autoencoder's latents (SARM's layout)"

    @staticmethod
    def fits(checkpoint: Checkpoint) -> bool:
        """Has the checkpoint an autoencoder's tensors?"""
        return any(key.startswith(PREFIX) for key in checkpoint.files)

    @staticmethod
    def head(checkpoint: Checkpoint, config, given: Sequence[str] | None) -> tuple[dict, set[str]]:
        """The autoencoder and the reward's weights, checked against each other."""
        found = sparse.fields(reward(checkpoint))
        return found | {"trained_on": trained_prompts(checkpoint.folder)}, set(TENSORS.values())

    @staticmethod
    def named(
        fields: Mapping, checkpoint: Checkpoint, given: Sequence[str] | None
    ) -> Sequence[Head]:
        """``reward``, unless the user has another name."""
        return [NAME] if given is None else names.named(1, model=checkpoint.name, given=given)

    @staticmethod
    def width(fields: Mapping) -> int:
        """Features of the states that the encoder reads."""
        return fields["reward"].sae.features

    @staticmethod
    def transformer(checkpoint: Checkpoint, config, keys: set[str], **options) -> torch.nn.Module:
        """The layers up to the source layer, with the normalisation behind them."""
        config = copy.deepcopy(config)
        layers = source_layer(checkpoint)
        shorten(config, layers)
        unread = {f"{norm}.{part}" for norm in ("norm", "ln_f") for part in ("weight", "bias")}
        module = checkpoints.load_backbone(checkpoint, config, keys, unread=unread, **options)
        return cut(module, layers)

    def completed(self, config) -> None:
        """Which reward is it, of which layer and token?"""
        found, flag = topk(self.name, json.loads((self.folder / files.CONFIG).read_text()))
        sae = self.reward.sae
        self.card["sarm"] = {
            "topk": found,
            "flag": flag or "none; off is the class's default",
            "layer": len(getattr(self.backbone, places(self.backbone)[0])),
            "latents": sae.latents,
            "k": sae.k,
        }
        ids = self.format.encode(EXAMPLE, [EXAMPLE_RESPONSE]).sequences[0]
        at = self._own_place(ids)
        self.card["reads"] = self.format.reads
        self.pad_inside = at != len(ids) - 1
        if self.pad_inside:
            token = repr(self.format.tokenizer.decode([int(ids[at])]))
            self.card["reads"] += (
                f"; the pad token stands in the text, before which the released class reads, here "
                f"{token} (token {at + 1} of {len(ids)})"
            )

    def _own_place(self, ids: np.ndarray) -> int:
        """The token that the released class reads of a text without padding."""
        pads = np.flatnonzero(ids == self.backbone.config.get_text_config().pad_token_id)
        return (int(pads[0]) - 1) % len(ids) if len(pads) else len(ids) - 1


def settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration says of the autoencoder, at its top or in ``sarm_param``."""
    group = config.get(GROUP)
    return {**config, **(group if isinstance(group, Mapping) else {})}


def topk(name: str, config: Mapping[str, Any]) -> tuple[bool, str]:
    """Is the reward of the k largest latents? And the flag that says so, if one does.

    A ``ModelError`` for a flag that isn't true or false, or two that differ.
    """
    said = settings(config)
    found = {flag: said[flag] for flag in FLAGS if said.get(flag) is not None}
    wrong = [flag for flag, value in found.items() if type(value) is not bool]
    if wrong or len(set(found.values())) > 1:
        shown = ", ".join(f"{flag}: {documents.shown(value)}" for flag, value in found.items())
        raise ModelError(f"one flag, true or false, in {files.CONFIG} of {name}", shown, CHECK)
    return next(iter(found.values()), False), next(iter(found), "")


def source_layer(checkpoint: Checkpoint) -> int:
    """How many layers the weights have, which the configuration mustn't contradict."""
    numbers = [int(m[1]) for key in checkpoint.files if (m := LAYER.fullmatch(key))]
    held = max(numbers, default=-1) + 1
    said = settings(checkpoint.config)
    for key in LAYERS:
        if said.get(key) not in (None, held):
            raise ModelError(
                f"{key} {documents.shown(said[key])} in the weights of {checkpoint.name}, as in "
                f"{files.CONFIG}",
                f"{held} layers",
                "Check that config.json belongs to these weights.",
            )
    return held


def reward(checkpoint: Checkpoint) -> Reward:
    """The autoencoder and the weights that read it, checked against each other.

    A ``ModelError`` names what is missing, unexpected, or of another size.
    """
    name, config = checkpoint.name, checkpoint.config
    found = {key for key in checkpoint.files if key.startswith((PREFIX, "score."))}
    needed = set(TENSORS.values())
    for kind, wrong in (("missing", needed - found), ("unexpected", found - needed)):
        if wrong:
            raise ModelError(
                f"the head weights of SARM's layout in the checkpoint of {name}",
                f"{kind}: {', '.join(sorted(key[:80] for key in wrong))}",
                "Download it again, with every shard; a variant of the layout needs a class of "
                "its own.",
            )
    arrays = {field: checkpoint.array(key) for field, key in TENSORS.items()}
    flag, _ = topk(name, config)
    return made(arrays, settings(config).get("sae_k"), flag, f"the checkpoint of {name}")


def made(arrays: Mapping[str, np.ndarray], k: Any, flag: bool, where: str) -> Reward:
    """A reward of arrays by the names of ``TENSORS``; a ``ModelError`` where they don't fit."""
    encoder, weight = arrays["encoder"], arrays["weight"]
    latents, features = encoder.shape if encoder.ndim == 2 else (0, 0)
    shapes = {
        "pre_bias": (features,),
        "latent_bias": (latents,),
        "encoder": (latents, features),
        "decoder": (features, latents),
        "weight": (1, latents),
    }
    wrong = [n for n, shape in shapes.items() if arrays[n].shape != shape or not latents]
    if wrong:
        raise ModelError(
            f"an autoencoder and one head that fit each other in {where}",
            ", ".join(f"{TENSORS[n]} {arrays[n].shape}" for n in TENSORS),
            "Check that the tensors belong together.",
        )
    if k is None and not flag:
        k = latents  # nothing that is read depends on it
    if type(k) is not int or not 0 < k <= latents:
        raise ModelError(
            f"sae_k from 1 to {latents} for {where}",
            "none" if k is None else documents.shown(k),
            CHECK,
        )
    parts = {n: arrays[n] for n in ("encoder", "decoder", "pre_bias", "latent_bias")}
    return Reward(SAE(**parts, k=k), weight[0], flag)


def save_sarm(
    folder: str | Path,
    *,
    backbone: torch.nn.Module,
    tokenizer,
    reward: Reward,
    max_shard_size: str = "5GB",
) -> Path:
    """Write a checkpoint in the released layout, which ``load_model`` reads; returns its folder.

    ``backbone`` is one that ``lib.models.cut`` has cut; the head is written in its dtype. Other
    parameters as of ``lib.models.armorm.save_armorm``.
    """
    from huggingface_hub import save_torch_state_dict

    folder = Path(folder)
    layers, norm = places(backbone)
    dtype = next(backbone.parameters()).dtype
    sae = reward.sae
    head = {name: getattr(sae, name) for name in TENSORS if name != "weight"}
    head["weight"] = reward.weight[None]
    own_norm = f"{norm}."
    tensors = {
        f"model.{key}": tensor
        for key, tensor in backbone.state_dict().items()
        if not key.startswith(own_norm)
    }
    tensors |= {
        TENSORS[name]: torch.from_numpy(np.ascontiguousarray(array)).to(dtype)
        for name, array in head.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_torch_state_dict(tensors, folder, max_shard_size=max_shard_size)
    tokenizer.save_pretrained(folder)
    architecture = type(backbone).__name__.removesuffix("Model")
    document = json.loads(backbone.config.to_json_string(use_diff=False)) | {
        "architectures": [f"{architecture}SARM"],
        "dtype": str(dtype).removeprefix("torch."),
        GROUP: {
            "sae_source_layer": len(getattr(backbone, layers)),
            "sae_latent_size": sae.latents,
            "sae_k": sae.k,
            "sae_use_sequence_level": False,
            "sarm_use_topk": reward.topk,
        },
    }
    (folder / files.CONFIG).write_text(json.dumps(document, indent=2) + "\n")
    return folder
