"""Planted pairs: concepts that are there or not, paid for or not, opposed or orthogonal.

Every pair's difference is a concept's direction plus scatter of its own, stretched along some
features as states are. Heads are linear in the state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from lib.planted.worlds import make_run

KINDS = ("random", "paid", "length", "orthogonal", "opposed")


@dataclass(frozen=True)
class World:
    """A run, the heads' weights, and the cosine of head 0 with the direction of concept 0."""

    run: xr.Dataset
    weight: np.ndarray
    cosine: float


def concept_world(
    kind: str,
    *,
    prompts: int = 24,
    concepts: int = 6,
    heads: int = 8,
    features: int = 48,
    strength: float = 1.5,
    seed: int = 0,
) -> World:
    """Pairs of each concept, one a prompt.

    Parameters
    ----------
    kind
        ``random``: which response is better is drawn at random, so no concept has a direction
        and no head pays for one. ``paid``: concept 0 has a direction, along which head 0 reads.
        ``length``: of concept 0 the better response is longer, the states hold length, and head
        0 reads that; nothing else. ``orthogonal``: every concept has a direction, orthogonal to
        the others' with and without whitening. ``opposed``: so, but concept 1 is opposed to 0.
    strength
        Of a direction, in standard deviations of the scatter along it.
    """
    generator = np.random.default_rng(seed)
    pairs = prompts * concepts
    concept = np.repeat(np.arange(concepts), prompts)
    stretch = np.where(np.arange(features) < 4, 2.0, 1.0)
    low = generator.standard_normal((pairs, features)) * stretch
    difference = generator.standard_normal((pairs, features)) * stretch
    weight = generator.standard_normal((heads, features))
    weight[:, :concepts] = 0.0
    tokens = np.full((pairs, 2), 40)
    direction = np.zeros((concepts, features))
    if kind in ("orthogonal", "opposed"):
        direction[np.arange(concepts), np.arange(concepts)] = strength * stretch[:concepts]
        if kind == "opposed":
            direction[1] = -direction[0]
    if kind == "paid":
        direction[0, 0] = strength * stretch[0]
        weight[0, 0] = np.linalg.norm(weight[0])
    if kind == "length":
        own = concept == 0
        tokens[own, 0] = np.exp(generator.normal(4.5, 0.3, prompts)).astype(int)
        difference[:, 0] += 2 * strength * np.log(tokens[:, 0] / tokens[:, 1])
        weight[0, 0] = np.linalg.norm(weight[0])
    difference += direction[concept]
    if kind == "random":
        difference *= generator.choice([-1.0, 1.0], pairs)[:, None]
    hidden = np.stack([low + difference, low], axis=1).reshape(2 * pairs, features)
    names = [f"concept_{number}" for number in concept]
    run = make_run(
        hidden @ weight.T,
        hidden=hidden,
        criterion=names,
        subset=names,
        tokens=tokens.ravel(),
        name="planted/concepts",
    )
    size = np.linalg.norm(weight[0]) * np.linalg.norm(direction[0])
    return World(run, weight, float(weight[0] @ direction[0] / size) if size else 0.0)
