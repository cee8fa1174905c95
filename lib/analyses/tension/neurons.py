"""Sets of neurons: how they overlap, what mixing keeps of them, where they lie.

Columns of ``OVERLAPS``: ``kind`` of importance; ``pair``; ``jaccard``, its mean over seeds, with
``least`` and ``most``; ``seeds`` or pairs of them; ``null``, that of two seeds of one objective;
``by_chance``, of random sets; ``published``.

Columns of ``KEPT``: ``what``; ``share``, mean over seeds, with ``least``, ``most``; ``seeds``;
``null``, the same with another seed of the same objective in the mixed model's place;
``published``.

Columns of ``LAYERS``: ``model``, ``set``, ``third``; ``share`` of the set there, ``base`` that of
the base's set; ``by_chance``.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd

from lib.analyses.tension.published import figures
from lib.analyses.tension.tasks import margins_of, seeds_of
from lib.training.tension.kept import (
    BASE,
    CHANGED,
    GRADIENT,
    HARMLESS,
    HELPFUL,
    MIXED,
    OBJECTIVES,
    ONLY_HARMLESS,
    ONLY_HELPFUL,
    OWN,
    RAISED,
    SETS,
    SHARED,
    SOURCES,
    Study,
)

OVERLAPS = (
    *("kind", "pair", "jaccard", "least", "most", "seeds", "null", "by_chance", "published"),
)
KEPT = ("what", "share", "least", "most", "seeds", "null", "published")
LAYERS = ("model", "set", "third", "share", "base", "by_chance")
THIRDS = ("first", "middle", "last")
PAIRS = {
    "helpful and harmless": (HELPFUL, HARMLESS),
    "mixed and helpful": (MIXED, HELPFUL),
    "mixed and harmless": (MIXED, HARMLESS),
}
KINDS = (OWN, RAISED, CHANGED, GRADIENT)  # sets that every model has of its own


def overlaps(study: Study) -> pd.DataFrame:
    """Jaccard of sets of neurons, beside that of two seeds and that with the base's own.

    Returns
    -------
    DataFrame
        Columns ``OVERLAPS``, a row a kind and pair that the study has.
    """
    share = study.document["settings"]["share"]
    published = figures()["paper"]["overlap"]
    rows = []
    for kind in KINDS:
        masks = {key: mask(study, *key, kind) for key in study.models if key[1] in OBJECTIVES}
        null = [
            jaccard(masks[one], masks[other])
            for one, other in combinations(masks, 2)
            if one[1] == other[1]
        ]
        pairs = {
            pair: [
                jaccard(masks[seed, one], masks[seed, other])
                for seed in study.seeds
                if (seed, one) in masks and (seed, other) in masks
            ]
            for pair, (one, other) in PAIRS.items()
        }
        pairs["two seeds of one objective"] = null
        for model in OBJECTIVES:
            pairs[f"{model} and the base's"] = [
                jaccard(top, mask(study, *key, BASE))
                for key, top in masks.items()
                if key[1] == model
            ]
        for pair, found in pairs.items():
            if not found:
                continue
            rows.append(
                {
                    "kind": kind,
                    "pair": pair,
                    "jaccard": np.mean(found),
                    "least": min(found),
                    "most": max(found),
                    "seeds": len(found),
                    "null": np.mean(null) if null and pair in PAIRS else np.nan,
                    "by_chance": share / (2 - share),
                    "published": published.get(pair, np.nan) if kind == OWN else np.nan,
                }
            )
    return pd.DataFrame(rows, columns=OVERLAPS)


def kept(study: Study) -> pd.DataFrame:
    """What the mixed model keeps: of what the others rank right, and of their neurons.

    Returns
    -------
    DataFrame
        Columns ``KEPT``, a row a share.
    """
    paper = figures()["paper"]
    seeds = [s for s in study.seeds if all((s, model) in study.models for model in OBJECTIVES)]
    right = {
        (seed, model): np.concatenate(
            [margins_of(study, seed, model, task) > 0 for task in SOURCES.values()]
        )
        for seed in seeds
        for model in OBJECTIVES
    }
    side = np.repeat([0, 1], [len(study.sets[task].better) for task in SOURCES.values()])
    rows = []
    for place, (name, task) in enumerate(SOURCES.items()):
        on = side == place

        def retained(before, after, on=on):
            return (before & after)[on].sum() / before[on].sum() if before[on].any() else np.nan

        union = {s: right[s, HELPFUL] | right[s, HARMLESS] for s in seeds}
        rows.append(
            _share(
                f"right on {task}, of either model's",
                [retained(union[s], right[s, MIXED]) for s in seeds],
                [
                    retained(union[s], right[t, HELPFUL] | right[t, HARMLESS])
                    for s, t in _two(seeds)
                ],
                paper["retention"][name],
            )
        )
        rows.append(
            _share(
                f"right on {task}, of the {name} model's",
                [retained(right[s, name], right[s, MIXED]) for s in seeds],
                [retained(right[s, name], right[t, name]) for s, t in _two(seeds)],
            )
        )
    for kind in (OWN, GRADIENT):
        masks = {(s, m): mask(study, s, m, kind) for s in seeds for m in OBJECTIVES}
        union = {s: masks[s, HELPFUL] | masks[s, HARMLESS] for s in seeds}

        def neuron(of, mixed, all_three):
            below = of | mixed if all_three else of
            return (of & mixed).sum() / below.sum()

        for all_three, text in ((True, "as published"), (False, "of either model's")):
            rows.append(
                _share(
                    f"{kind} neurons, {text}",
                    [neuron(union[s], masks[s, MIXED], all_three) for s in seeds],
                    [neuron(union[s], masks[t, HELPFUL], all_three) for s, t in _two(seeds)],
                    paper["neuron_retention"] if kind == OWN and all_three else np.nan,
                )
            )
    for model in OBJECTIVES:
        found = [study.models[s, model]["rmsd"].item() for s in seeds]
        rows.append(
            _share(f"RMSD of better and worse, {model}", found, [], paper["rmsd"].get(model))
        )
    return pd.DataFrame(rows, columns=KEPT)


def _two(seeds: list[int]) -> list[tuple[int, int]]:
    return [(one, other) for one in seeds for other in seeds if one != other]


def _share(what: str, found: list[float], null: list[float], published=np.nan) -> dict:
    if not found:
        return {"what": what, "seeds": 0}
    return {
        "what": what,
        "share": np.mean(found),
        "least": min(found),
        "most": max(found),
        "seeds": len(found),
        "null": np.mean(null) if null else np.nan,
        "published": np.nan if published is None else published,
    }


def layers(study: Study) -> pd.DataFrame:
    """Where sets lie: their shares in each third of the depth.

    Returns
    -------
    DataFrame
        Columns ``LAYERS``, a row a model, set and third.
    """
    depth = study.document["shape"][0]
    parts = np.array_split(np.arange(depth), len(THIRDS))
    rows = []
    for model in OBJECTIVES:
        keys = [(seed, model) for seed in seeds_of(study, model)]
        for name in (*KINDS, SHARED, ONLY_HELPFUL, ONLY_HARMLESS):
            masks = [mask(study, *key, name) for key in keys]
            base = [mask(study, *key, BASE) for key in keys]
            for third, part in zip(THIRDS, parts, strict=True):
                if not masks or not len(part):
                    continue
                rows.append(
                    {
                        "model": model,
                        "set": name,
                        "third": third,
                        "share": np.mean([m[part].sum() / max(1, m.sum()) for m in masks]),
                        "base": np.mean([m[part].sum() / max(1, m.sum()) for m in base]),
                        "by_chance": len(part) / depth,
                    }
                )
    return pd.DataFrame(rows, columns=LAYERS)


def mask(study: Study, seed: int, model: str, name: str) -> np.ndarray:
    """The neurons of a set of a model, (layers, neurons)."""
    shape = tuple(study.document["shape"])
    packed = study.models[seed, model]["mask"][SETS.index(name)]
    return np.unpackbits(packed, count=int(np.prod(shape))).astype(bool).reshape(shape)


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """|A ∩ B| / |A ∪ B|; NaN for two empty sets."""
    union = (one | other).sum()
    return float((one & other).sum() / union) if union else np.nan
