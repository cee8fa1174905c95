"""A reward that reads the latents of a sparse autoencoder, on a backbone cut at its layer.

What ``lib.models.sarm`` (released checkpoints) and ``lib.models.frozen`` (the embedded model)
share. The state that is read, and that runs keep, is x of ``lib.models.cut``; so the latents of
a run's responses need no second pass::

    z = model.latents(run["hidden"].values)     # sparse: the k largest of each response
    model.labelled(run)                         # the same with the run's labels
    model.reward.sae.pre(x)                     # all of them, as they are with the flag off
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

from lib.models import own
from lib.models.base import Readout
from lib.models.cut import names as places
from lib.models.linear import LinearHeads
from lib.models.sae import Latents, Reward


@dataclass
class SparseHead(LinearHeads):
    """One reward, ``reward``; ``weight`` and ``bias`` only where it is a linear head on x."""

    reward: Reward | None = None

    def read(self, hidden: np.ndarray, gate_hidden: np.ndarray | None = None) -> Readout:
        """The reward, which is the final score too."""
        score = self.reward.read(np.asarray(hidden, np.float32))
        return Readout(score[:, None], score)

    def latents(self, hidden: np.ndarray) -> Latents:
        """Z of states (n, features), whether the reward reads z or all pre-activations."""
        return self.reward.sae.encode(np.asarray(hidden, np.float32))

    def labelled(self, run: xr.Dataset) -> xr.Dataset:
        """The latents of a run's responses whose states it keeps, largest first.

        Returns
        -------
        xarray.Dataset
            ``latent`` (int64) and ``activation`` (float32), both (response, rank); and where the
            reward reads z, ``part``, w_i z_i, which adds up to the score.
        """
        kept = np.isfinite(run["hidden"].values).all(axis=1)
        found = self.latents(run["hidden"].values[kept])
        dims = ("response", "rank")
        variables = {"latent": (dims, found.index), "activation": (dims, found.value)}
        if self.reward.topk:
            variables["part"] = (dims, found.parts(self.reward.weight))
        return xr.Dataset(variables, {"response": run["response"].values[kept]})

    def _own_place(self, ids: np.ndarray) -> int:
        """The token that is read."""
        return len(ids) - 1

    def own_scores(self, sequences: Sequence[np.ndarray]) -> np.ndarray:
        """See ``lib.models.base.RewardModel``: as the released class has it, with torch."""
        layers = len(getattr(self.backbone, places(self.backbone)[0]))
        states = own.layer_states(*self._source(), sequences, layers)
        at = [self._own_place(ids) for ids in sequences]
        h = torch.from_numpy(np.stack([s[i] for s, i in zip(states, at, strict=True)]))
        x = (h - h.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + 1e-6)
        sae = self.reward.sae
        part = {
            n: torch.from_numpy(getattr(sae, n)) for n in ("encoder", "pre_bias", "latent_bias")
        }
        latents = torch.nn.functional.linear(x - part["pre_bias"], part["encoder"])
        latents = latents + part["latent_bias"]
        if self.reward.topk:
            value, index = latents.topk(sae.k, dim=-1)
            latents = torch.zeros_like(latents).scatter_(-1, index, value)
        return (latents @ torch.from_numpy(self.reward.weight))[:, None].numpy()

    def _digested(self) -> Iterator[bytes]:
        reward, sae = self.reward, self.reward.sae
        yield f"{list(self.heads)!r} {reward.topk} {sae.k} {sae.rectified}".encode()
        for array in (reward.weight, sae.encoder, sae.decoder, sae.pre_bias, sae.latent_bias):
            yield f"{array.shape}".encode() + np.ascontiguousarray(array).tobytes()


def fields(reward: Reward) -> dict:
    """Of ``SparseHead``: the reward, and the linear head that it is with its flag off."""
    if reward.topk:
        return {"weight": None, "bias": None, "reward": reward}
    direction, constant = reward.collapsed()
    return {
        "weight": direction[None].astype(np.float32),
        "bias": np.asarray([constant], np.float32),
        "reward": reward,
    }
