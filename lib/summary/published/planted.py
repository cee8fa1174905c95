"""Published methods on planted worlds: what they say where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats as scipy_stats

from lib.analyses.concepts import coverage
from lib.analyses.concepts.pairs import pairs
from lib.analyses.concepts.worlds import concept_world
from lib.analyses.disentanglement import stats
from lib.analyses.disentanglement.worlds import levels_world
from lib.analyses.geometry.stats import cosines as cosine_matrix
from lib.analyses.geometry.stats import rms
from lib.analyses.geometry.worlds import heads_world
from lib.analyses.sarm.stats import collapse
from lib.analyses.separability import stats as separability
from lib.analyses.separability.worlds import separability_world
from lib.analyses.steering.stats import corrections
from lib.models.sae import SAE, Reward
from lib.planted.latents import latent_world
from lib.planted.worlds import make_run
from lib.stats.latents import sparse
from lib.summary.published.stats import Figures


def planted_evidence(figures: Figures, *, seed: int = 0) -> dict[str, Any]:
    """What the published methods say where the truth is known.

    Returns
    -------
    dict
        ``probe`` and ``probe_predicted``: accuracy of the published probe on a head that
        claims a concept which the states don't hold, and what the kept variance predicts.
        ``skewed``: share of draws in which the one-sided Wilcoxon test rejects for heads that
        win exactly half of skewed gaps. ``family``: chance of one false rejection or more
        among as many independent heads as the model has. ``pooled``, ``between`` and
        ``within``: correlation of two heads that agree on prompts and disagree on responses.
        ``gap`` and ``gap_again``: RMS cosine of the same scores in two gauges, with
        ``moved``, the largest difference of a score over the scores' standard deviation.
        ``cascade``: smallest |r| of ``cascade_draws`` draws of as many points as the cascade
        correlates. ``distortion``: share of ``distortion_draws`` draws of normal differences
        about nothing in which some dimension's published index is high. ``separability``: the
        published one of a concept that was planted (``paid``) and of one that wasn't
        (``random``). ``collapse``: of a reward of an autoencoder with its flag off, the row of
        ``lib.analyses.sarm.stats.collapse``. ``steering``: over ``worlds`` in which no latent
        differs, the share of wrong comparisons that one of ``latents`` corrects.
    """
    audit = figures["audit"]
    heads, n = len(audit["names"]), audit["hh"]["n"]
    generator = np.random.default_rng(seed)
    world = separability_world("absent", seed=seed)
    components = (6,)
    probe = separability.separability_as_published(world, components=components, seed=seed)
    kept = separability.ceiling(world, components=components)
    gaps = generator.exponential(size=(100, n)) - math.log(2)
    test = scipy_stats.wilcoxon(gaps, alternative="greater", axis=1)
    parts = stats.components(stats.prepare(levels_world(seed=seed)))
    r = {kind: stats.correlation(parts[kind])[0][0, 1] for kind in parts}
    one = heads_world(seed=seed)
    other = heads_world(seed=seed, regauged=True)
    before, after = (w.run["score"].values.astype(float) for w in (one, other))
    points = generator.standard_normal((100, 2, figures["reward_lens"]["cascade_points"]))
    cascade = [abs(np.corrcoef(draw)[0, 1]) for draw in points]
    distortion = _high(figures["reward_lens"]["distortion"], generator)
    return {
        "probe": float(probe["accuracy"].iloc[0]),
        "probe_predicted": float(kept["predicted"].iloc[0]),
        "skewed": float((test.pvalue < audit["rule"]["alpha"]).mean()),
        "family": 1 - (1 - audit["rule"]["alpha"]) ** heads,
        **r,
        "gap": rms(cosine_matrix(one.weight)),
        "gap_again": rms(cosine_matrix(other.weight)),
        "moved": float(np.abs(before - after).max() / before.std()),
        "cascade": float(min(cascade)),
        "cascade_draws": len(cascade),
        "distortion": float(distortion.mean()),
        "distortion_draws": len(distortion),
        "separability": {kind: _separability(kind, seed) for kind in ("paid", "random")},
        "collapse": _collapse(seed),
        "steering": _steering(seed),
    }


def _high(given: Mapping, generator: np.random.Generator, draws: int = 1_000) -> np.ndarray:
    """Of normal differences about nothing: is some dimension at high risk? Shape (draws,)."""
    margins = [generator.standard_normal((many, draws)) for many in given["probes"].values()]
    return (coverage.index(margins) > given["high"]).any(axis=0)


def _collapse(seed: int, features: int = 16, latents: int = 128) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    shapes = (latents, features), (features, latents), features, latents, latents
    *parts, weight = (generator.standard_normal(s).astype(np.float32) for s in shapes)
    reward = Reward(SAE(*parts, k=8), weight, False)
    states = generator.standard_normal((200, features)).astype(np.float32)
    found = sparse(make_run(reward.read(states)[:, None], hidden=states), reward)
    return collapse(found, seed=seed).iloc[0].to_dict()


def _steering(seed: int, worlds: int = 20) -> dict[str, Any]:
    drawn = [latent_world(seed=seed + number) for number in range(worlds)]
    found = [corrections(world).set_index("criterion").loc["all"] for world in drawn]
    wrong = np.asarray([row["wrong"] for row in found])
    corrected = np.asarray([row["correctable"] for row in found])
    return {
        "worlds": worlds,
        "latents": drawn[0].reward.sae.latents,
        "correctable": float((wrong * corrected).sum() / wrong.sum()),
    }


def _separability(kind: str, seed: int) -> float:
    direction = pairs(concept_world(kind, seed=seed).run)[0].difference.mean(axis=0)
    return min(1.0, float(np.linalg.norm(direction / np.linalg.norm(direction))))
