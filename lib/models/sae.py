"""Sparse autoencoders that keep the k largest latents, and rewards that read them; no torch.

On the state x of a token, normalised over its features (``lib.models.cut``)::

    pre = W_enc (x − b_pre) + b_lat
    z   = pre where it is among the k largest of its token, 0 elsewhere   (no ReLU)
    x̂   = W_dec z + b_pre

A reward reads w·z, or w·pre over all latents, which is no sparse reading at all but a linear
head on x (``Reward.collapsed``)::

    w·pre = (W_encᵀ w)·x + w·(b_lat − W_enc b_pre)

so that w can change along the null space of W_encᵀ, which has latents − features dimensions,
without changing one score (``Reward.same_scores``).

As the code that SARM was released with does it (Zhang et al. 2025, "Interpretable Reward Model
via Sparse Autoencoder"); checked against an independent NumPy computation in
``tests/models/test_sarm.py``. SAELens and sparsify put a ReLU after the k largest: ``rectified``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

EPS = 1e-6
CHUNK = 1 << 26  # pre-activations that are in memory at a time


def normalise(states: np.ndarray) -> np.ndarray:
    """X = (h − mean)/(std + 1e-6) over the last axis; std divides by features − 1."""
    centred = states - states.mean(axis=-1, keepdims=True)
    return centred / (states.std(axis=-1, ddof=1, keepdims=True) + EPS)


@dataclass(frozen=True)
class Latents:
    """Sparse latents of n tokens: ``index`` and ``value``, both (n, k), out of ``size``.

    Largest first, and of equal ones the earlier first.
    """

    index: np.ndarray
    value: np.ndarray
    size: int

    def dense(self) -> np.ndarray:
        """z, (n, latents), float32."""
        found = np.zeros((len(self.index), self.size), np.float32)
        np.put_along_axis(found, self.index, self.value, axis=1)
        return found

    def parts(self, weight: np.ndarray) -> np.ndarray:
        """w_i z_i of each kept latent, (n, k): they add up to w·z."""
        return weight[self.index] * self.value

    def times(self, matrix: np.ndarray) -> np.ndarray:
        """Z times a matrix (latents, columns), (n, columns)."""
        return np.stack(
            [row @ matrix[at] for at, row in zip(self.index, self.value, strict=True)]
        ).reshape(len(self.index), -1)

    def of(self, latent: int) -> np.ndarray:
        """One latent's z, (n,)."""
        return np.where(self.index == latent, self.value, 0).sum(axis=1)


@dataclass(frozen=True)
class SAE:
    """A sparse autoencoder.

    Attributes
    ----------
    encoder, decoder
        W_enc, (latents, features), and W_dec, (features, latents); float32.
    pre_bias, latent_bias
        b_pre, (features,), and b_lat, (latents,).
    k
        Latents that are kept of each token.
    rectified
        Is z cut off below at 0, as SAELens and sparsify do it? It differs only for tokens with
        fewer than k positive pre-activations.
    """

    encoder: np.ndarray
    decoder: np.ndarray
    pre_bias: np.ndarray
    latent_bias: np.ndarray
    k: int
    rectified: bool = False

    @property
    def latents(self) -> int:
        """How many there are."""
        return len(self.encoder)

    @property
    def features(self) -> int:
        """Of the states that are read."""
        return self.encoder.shape[1]

    def pre(self, x: np.ndarray) -> np.ndarray:
        """Pre-activations of all latents, (n, latents), float32."""
        return (np.asarray(x, np.float32) - self.pre_bias) @ self.encoder.T + self.latent_bias

    def encode(self, x: np.ndarray) -> Latents:
        """Z of states (n, features), a part of them in memory at a time."""
        step = max(1, CHUNK // self.latents)
        parts = [self.top(self.pre(x[at : at + step])) for at in range(0, len(x), step)]
        none = np.zeros((0, self.k))
        index = np.concatenate([none.astype(np.int64), *(part.index for part in parts)])
        value = np.concatenate([none.astype(np.float32), *(part.value for part in parts)])
        return Latents(index, value, self.latents)

    def top(self, pre: np.ndarray) -> Latents:
        """The k largest of pre-activations (n, latents)."""
        index = np.argpartition(-pre, self.k - 1, axis=1)[:, : self.k]
        value = np.take_along_axis(pre, index, axis=1)
        order = np.lexsort((index, -value), axis=1)
        index, value = (np.take_along_axis(a, order, axis=1) for a in (index, value))
        if self.rectified:
            value = np.maximum(value, 0)
        return Latents(index, value.astype(np.float32), self.latents)

    def below_zero(self, x: np.ndarray) -> float:
        """Share of states with fewer than k positive pre-activations: there a ReLU moves z."""
        found = replace(self, rectified=False).encode(x).value
        return float((found < 0).any(axis=1).mean())

    def decode(self, z: Latents) -> np.ndarray:
        """x̂, (n, features)."""
        return z.times(np.ascontiguousarray(self.decoder.T)) + self.pre_bias

    def reconstruct(self, x: np.ndarray) -> np.ndarray:
        """x̂ of states (n, features)."""
        return self.decode(self.encode(x))


@dataclass(frozen=True)
class Reward:
    """r = w·z where ``topk``, else w·pre; ``weight`` is w, (latents,)."""

    sae: SAE
    weight: np.ndarray
    topk: bool

    def read(self, x: np.ndarray) -> np.ndarray:
        """R of states (n, features), (n,), float32."""
        if self.topk:
            return self.sae.encode(x).parts(self.weight).sum(axis=1, dtype=np.float32)
        step = max(1, CHUNK // self.sae.latents)
        parts = [self.sae.pre(x[at : at + step]) @ self.weight for at in range(0, len(x), step)]
        return np.concatenate([np.zeros(0, np.float32), *parts])

    def collapsed(self) -> tuple[np.ndarray, float]:
        """Direction v and constant c of the linear head that w·pre is: v·x + c.

        With ``topk`` it is the head that there would be without; r isn't it.
        """
        weight = self.weight.astype(np.float64)
        direction = weight @ self.sae.encoder
        constant = weight @ self.sae.latent_bias - direction @ self.sae.pre_bias
        return direction, float(constant)

    def same_scores(self, wanted: np.ndarray) -> np.ndarray:
        """The weights nearest to those wanted that give every state the same w·pre.

        Parameters
        ----------
        wanted
            Any weights, shape (latents,).

        Returns
        -------
        numpy.ndarray
            w + P(wanted − w), float64, with P the projection onto what both W_encᵀ and b_lat
            map to 0.
        """
        kept = np.column_stack([self.sae.encoder, self.sae.latent_bias]).astype(np.float64)
        basis, triangle = np.linalg.qr(kept)
        # A bias that is zero, or an encoder of less than full rank, gives no direction to keep.
        basis = basis[:, np.abs(np.diag(triangle)) > 1e-10 * np.abs(triangle).max()]
        change = wanted - self.weight.astype(np.float64)
        return self.weight + change - basis @ (basis.T @ change)
