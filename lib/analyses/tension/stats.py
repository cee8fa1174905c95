"""Alignment tension: what silencing neurons and mixing data do to models of several seeds.

``accuracy``   one row a model and task: ``ACCURACY``
``silenced``   one row an objective, task and set of silenced neurons: ``SILENCED``
``shrinkage``  one row an objective, task and set of silenced neurons: ``SHRINKAGE``
``margins``    one row an objective, held-out set and set of silenced neurons: ``MARGINS``
``overlaps``   one row a pair of sets of neurons: ``OVERLAPS``
``kept``       one row a share of abilities or neurons that mixing keeps: ``KEPT``
``layers``     one row an objective, set and third of the depth: ``LAYERS``
``lengths``    one row an objective and task: ``LENGTHS``
``helps``      one row a model of both sources: ``HELPS``
``against``    one row a figure of an earlier run: ``AGAINST``

A *task* is a test set or a part of it. A comparison is ranked right where the better response
scores higher; ties count half. Intervals are over prompts and seeds together (``crossed``),
except where a column says otherwise. What can't be computed is NaN.

Columns of ``ACCURACY``: ``model``; ``task``; ``n`` comparisons, ``prompts``, ``seeds``;
``accuracy``, ``low``, ``high``; ``published``; ``predicted_low``, ``predicted_high``, where
another seed's accuracy is to be expected; ``shortest``, the accuracy of the shorter response.

Columns of ``SILENCED``: ``model``; ``task``; ``set``; ``put``, zero or the mean activation;
``neurons``, how many on average; ``n``, ``seeds``; ``accuracy`` with them silenced; ``change``
from that of the whole model, ``low``, ``high``. Then against random neurons as many (for ``own``
also as many in each layer, ``by layer``), which were tried on ``few`` of the comparisons;
``random``, the mean change with these; ``more``, change less that, ``more_low``, ``more_high``,
``p`` and ``p_adjusted`` (Holm, over the rows of a study that have one); ``beaten``, share of
random sets that cost as much or more, all seeds together; ``verdict``, is accuracy ``lower`` or
``higher`` than with random neurons silenced, ``not told apart``, or ``not measured``, without any?

Columns of ``SHRINKAGE``: ``model``, ``task``, ``set``; ``n``, comparisons right before and
after, a seed; ``margin``, mean before, and ``left``, the share of it after, with ``low`` and
``high`` (Fieller, over seeds); ``smaller``, share of margins that are smaller after.

Columns of ``MARGINS``: ``model``, ``task``, ``set`` (``none`` for the whole model); ``low``,
``median`` and ``high``, of all seeds' margins their tenth, fiftieth and ninetieth percentile.

Columns of ``OVERLAPS``: ``kind`` of importance; ``pair``; ``jaccard``, its mean over seeds, with
``least`` and ``most``; ``seeds`` or pairs of them; ``null``, that of two seeds of one objective;
``by_chance``, of random sets; ``published``.

Columns of ``KEPT``: ``what``; ``share``, mean over seeds, with ``least``, ``most``; ``seeds``;
``null``, the same with another seed of the same objective in the mixed model's place;
``published``.

Columns of ``LAYERS``: ``model``, ``set``, ``third``; ``share`` of the set there, ``base`` that of
the base's set; ``by_chance``.

Columns of ``LENGTHS``: ``model``, ``task``; ``n``; ``accuracy``; ``shortest``, that of the shorter
response; ``more``, the difference, ``low``, ``high``; ``chooses_shorter``, how often the model
does, of comparisons of unequal length; ``at_equal``, the mean margin at equal length in standard
deviations of margins, from a line in the difference of lengths, ``at_equal_low``,
``at_equal_high``.

Columns of ``HELPS``: ``model``; ``seeds``; ``helpful`` and ``harmless``, accuracies on the held-out
pairs; ``worse``, the smaller of them; ``gain_helpful`` and ``gain_harmless`` over ``mixed`` of the
same seeds, with ``_low`` and ``_high``; ``gain``, their mean, ``gain_low``, ``gain_high``.

Columns of ``AGAINST``: ``what``, ``earlier``, its ``least`` and ``most`` where it is a range,
``seeds`` of it; ``ours``, ``predicted_low``, ``predicted_high``; ``within``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from lib.analyses.tension import crossed
from lib.analyses.tension.published import figures
from lib.stats import permutation, ratios
from lib.training.tension.kept import (
    BASE,
    BY_LAYER,
    CHANGED,
    GRADIENT,
    HARMLESS,
    HELPFUL,
    MIXED,
    NONE,
    OBJECTIVES,
    ONLY_HARMLESS,
    ONLY_HELPFUL,
    OWN,
    PUT,
    RAISED,
    SETS,
    SHARED,
    SOURCES,
    WAYS,
    Study,
)
from lib.training.tension.kept import (
    HELPS as WAYS_TO_HELP,
)

ACCURACY = (
    *("model", "task", "n", "prompts", "seeds", "accuracy", "low", "high", "published"),
    *("predicted_low", "predicted_high", "shortest"),
)
SILENCED = (
    *("model", "task", "set", "put", "neurons", "n", "seeds", "accuracy", "change", "low", "high"),
    *("few", "random", "more", "more_low", "more_high", "p", "p_adjusted", "beaten", "verdict"),
)
SHRINKAGE = ("model", "task", "set", "n", "margin", "left", "low", "high", "smaller")
MARGINS = ("model", "task", "set", "low", "median", "high")
OVERLAPS = (
    *("kind", "pair", "jaccard", "least", "most", "seeds", "null", "by_chance", "published"),
)
KEPT = ("what", "share", "least", "most", "seeds", "null", "published")
LAYERS = ("model", "set", "third", "share", "base", "by_chance")
LENGTHS = (
    *("model", "task", "n", "accuracy", "shortest", "more", "low", "high", "chooses_shorter"),
    *("at_equal", "at_equal_low", "at_equal_high"),
)
HELPS = (
    *("model", "seeds", "helpful", "harmless", "worse", "gain", "gain_low", "gain_high"),
    *("gain_helpful", "gain_helpful_low", "gain_helpful_high"),
    *("gain_harmless", "gain_harmless_low", "gain_harmless_high"),
)
AGAINST = (
    *("what", "earlier", "least", "most", "seeds", "ours", "predicted_low", "predicted_high"),
    "within",
)
LOWER, HIGHER, ALIKE, NOT_MEASURED = "lower", "higher", "not told apart", "not measured"
VERDICTS = (LOWER, HIGHER, ALIKE, NOT_MEASURED)
THIRDS = ("first", "middle", "last")
PAIRS = {
    "helpful and harmless": (HELPFUL, HARMLESS),
    "mixed and helpful": (MIXED, HELPFUL),
    "mixed and harmless": (MIXED, HARMLESS),
}
KINDS = (OWN, RAISED, CHANGED, GRADIENT)  # sets that every model has of its own
STYLES = 3  # responses of RM-Bench on each side, in the same order of styles
RM_BENCH, BEST = "rm-bench", ("reward-bench-2",)
ALIKE_IN_STYLE, BEST_OF_ALL = "alike in style", "best of all"
LENGTH_TASKS = ("llmbar Neighbor", "rm-bench safety-refuse, alike in style")
LENGTH_TASKS += ("rm-bench safety-response, alike in style",)


@dataclass(frozen=True)
class Task:
    """A test set or a part of it; ``best`` where a response must beat all others of its item."""

    name: str
    set: str
    rows: np.ndarray
    best: bool = False


def tasks(study: Study) -> Iterator[Task]:
    """Every test set's parts: the two held-out sets first."""
    for name, own in study.sets.items():
        subsets = np.unique(own.subset)
        if name in SOURCES.values():
            yield Task(name, name, np.arange(len(own.better)))
            continue
        for subset in subsets:
            rows = np.flatnonzero(own.subset == subset)
            yield Task(f"{name} {subset}", name, rows)
            if name == RM_BENCH:
                alike = rows[own.worse[rows] - own.better[rows] == STYLES]
                if len(alike):
                    yield Task(f"{name} {subset}, {ALIKE_IN_STYLE}", name, alike)
            if name in BEST:
                yield Task(f"{name} {subset}, {BEST_OF_ALL}", name, rows, best=True)


def accuracy(study: Study) -> pd.DataFrame:
    """How often each model ranks right, task by task, beside the published figures."""
    published = figures()["paper"]["accuracy"]
    rows = []
    for model in [name for name in (*OBJECTIVES, *WAYS_TO_HELP) if _seeds(study, name)]:
        for task in tasks(study):
            right, prompt = _right(study, model, task)
            found = crossed.mean(crossed.by_prompt(right, prompt))
            low, high = np.clip(crossed.predicted(right.mean(axis=1)), 0, 1)
            place = OBJECTIVES.index(model) if model in OBJECTIVES else None
            theirs = published.get(task.name, [None] * 3)[place] if place is not None else None
            rows.append(
                {
                    "model": model,
                    "task": task.name,
                    "n": right.shape[1],
                    "prompts": len(np.unique(prompt)),
                    "seeds": len(right),
                    "accuracy": found.estimate,
                    "low": np.maximum(found.low, 0),
                    "high": np.minimum(found.high, 1),
                    "published": np.nan if theirs is None else theirs,
                    "predicted_low": low,
                    "predicted_high": high,
                    "shortest": _shortest(study, task).mean(),
                }
            )
    return _frame(rows, ACCURACY)


def silenced(study: Study) -> pd.DataFrame:
    """What silencing a set of neurons costs, and whether random neurons cost as much."""
    rows = []
    for model in OBJECTIVES:
        seeds = [s for s in _seeds(study, model) if "margin" in study.models[s, model]]
        if not seeds:
            continue
        arrays = [study.models[seed, model] for seed in seeds]
        margins = np.stack([of["margin"] for of in arrays]).astype(float)
        sizes = _sizes(study, arrays)
        for task, places, prompt in _probed(study):
            before = _ranked(margins[:, 0, places])
            for name, put in [(name, put) for name in SETS for put in PUT]:
                after = _ranked(margins[:, WAYS.index(f"{name}, {put}"), places])
                change = crossed.mean(crossed.by_prompt(after - before, prompt))
                row = {
                    "model": model,
                    "task": task,
                    "set": name,
                    "put": put,
                    "neurons": sizes[SETS.index(name)],
                    "n": len(places),
                    "seeds": len(seeds),
                    "accuracy": after.mean(),
                    "change": change.estimate,
                    "low": change.low,
                    "high": change.high,
                }
                drawn = {OWN: [OWN, BY_LAYER]}.get(name, [_like(name)])
                if put != PUT[0]:
                    drawn = []
                found = [_beside(study, model, name, like, places, prompt) for like in drawn]
                for like, beside in zip(drawn, found, strict=True):
                    label = f"{name}, {like}" if like == BY_LAYER else name
                    rows.append(row | {"set": label} | beside)
                if not drawn:
                    rows.append(row | {"verdict": NOT_MEASURED})
    table = _frame(rows, SILENCED)
    tested = table["p"].notna()
    table["p_adjusted"] = np.nan
    table.loc[tested, "p_adjusted"] = permutation.holm(table.loc[tested, "p"].to_numpy(float))
    shown = table["p_adjusted"] <= 0.05
    table.loc[table["p"].notna(), "verdict"] = ALIKE
    table.loc[shown & (table["more"] < 0), "verdict"] = LOWER
    table.loc[shown & (table["more"] > 0), "verdict"] = HIGHER
    table["verdict"] = table["verdict"].fillna(NOT_MEASURED)
    return table


def shrinkage(study: Study) -> pd.DataFrame:
    """How far margins shrink on comparisons that stay right: when silenced, and when mixed."""
    rows = []
    for model in OBJECTIVES:
        seeds = [s for s in _seeds(study, model) if "margin" in study.models[s, model]]
        if not seeds:
            continue
        margins = np.stack([study.models[s, model]["margin"] for s in seeds]).astype(float)
        for task, places, _ in _probed(study):
            if task not in SOURCES.values():
                continue
            for name in SETS:
                after = margins[:, WAYS.index(f"{name}, zero"), places]
                rows.append(_shrunk(model, task, name, margins[:, 0, places], after))
    for side, task in SOURCES.items():
        seeds = [s for s in _seeds(study, side) if (s, MIXED) in study.models]
        if task in study.sets and seeds:
            one, mixed = (
                np.stack([_margins(study, seed, model, task) for seed in seeds])
                for model in (side, MIXED)
            )
            rows.append(_shrunk(side, task, "mixed in its place", one, mixed))
    return _frame(rows, SHRINKAGE)


def margins(study: Study) -> pd.DataFrame:
    """How margins are spread, before and after sets are silenced."""
    rows = []
    for model in OBJECTIVES:
        seeds = [s for s in _seeds(study, model) if "margin" in study.models[s, model]]
        for task, places, _ in _probed(study) if seeds else ():
            if task not in SOURCES.values():
                continue
            for name in (NONE, *SETS):
                way = WAYS.index(NONE if name == NONE else f"{name}, {PUT[0]}")
                found = [study.models[seed, model]["margin"][way, places] for seed in seeds]
                ends = np.quantile(np.concatenate(found).astype(float), [0.1, 0.5, 0.9])
                row = {"model": model, "task": task, "set": name}
                rows.append(row | dict(zip(("low", "median", "high"), ends, strict=True)))
    return _frame(rows, MARGINS)


def overlaps(study: Study) -> pd.DataFrame:
    """Jaccard of sets of neurons, beside that of two seeds and that with the base's own."""
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
    return _frame(rows, OVERLAPS)


def kept(study: Study) -> pd.DataFrame:
    """What the mixed model keeps: of what the others rank right, and of their neurons."""
    paper = figures()["paper"]
    seeds = [s for s in study.seeds if all((s, model) in study.models for model in OBJECTIVES)]
    right = {
        (seed, model): np.concatenate(
            [_margins(study, seed, model, task) > 0 for task in SOURCES.values()]
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
    return _frame(rows, KEPT)


def layers(study: Study) -> pd.DataFrame:
    """Where sets lie: their shares in each third of the depth."""
    depth = study.document["shape"][0]
    parts = np.array_split(np.arange(depth), len(THIRDS))
    rows = []
    for model in OBJECTIVES:
        keys = [(seed, model) for seed in _seeds(study, model)]
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
    return _frame(rows, LAYERS)


def lengths(study: Study) -> pd.DataFrame:
    """Is an ability more than a taste for short responses?"""
    rows = []
    wanted = (*SOURCES.values(), *LENGTH_TASKS)
    for model in [m for m in OBJECTIVES if _seeds(study, m)]:
        for task in tasks(study):
            if task.name not in wanted:
                continue
            own = study.sets[task.set]
            right, prompt = _right(study, model, task)
            short = _shortest(study, task)
            more = crossed.mean(crossed.by_prompt(right - short, prompt))
            longer = (own.tokens[own.better] - own.tokens[own.worse])[task.rows].astype(float)
            unequal = longer != 0
            shorter = np.where(longer < 0, right, 1 - right)[:, unequal]
            at_equal = _at_equal(study, model, task, longer, prompt)
            rows.append(
                {
                    "model": model,
                    "task": task.name,
                    "n": right.shape[1],
                    "accuracy": right.mean(),
                    "shortest": short.mean(),
                    "more": more.estimate,
                    "low": more.low,
                    "high": more.high,
                    "chooses_shorter": shorter.mean() if unequal.any() else np.nan,
                    "at_equal": at_equal.estimate,
                    "at_equal_low": at_equal.low,
                    "at_equal_high": at_equal.high,
                }
            )
    return _frame(rows, LENGTHS)


def helps(study: Study) -> pd.DataFrame:
    """Who keeps both abilities: models of both sources beside ``mixed`` of the same seeds."""
    sides = {
        side: Task(task, task, np.arange(len(study.sets[task].better)))
        for side, task in SOURCES.items()
    }
    rows = []
    for model in (*OBJECTIVES, *WAYS_TO_HELP):
        seeds = [seed for seed in _seeds(study, model) if (seed, MIXED) in study.models]
        if not seeds:
            continue
        row: dict = {"model": model, "seeds": len(seeds)}
        gains = []
        for side, task in sides.items():
            right, prompt = _right(study, model, task, seeds)
            mixed, _ = _right(study, MIXED, task, seeds)
            gain = crossed.by_prompt(right - mixed, prompt)
            gains.append(gain)
            found = crossed.mean(gain)
            row |= {side: right.mean(), f"gain_{side}": found.estimate}
            row |= {f"gain_{side}_low": found.low, f"gain_{side}_high": found.high}
        # The mean of both sides: each prompt counts as its share of its own side's.
        n = [gain.shape[1] for gain in gains]
        both = np.concatenate([g * (sum(n) / 2 / k) for g, k in zip(gains, n, strict=True)], axis=1)
        found = crossed.mean(both)
        row |= {"worse": min(row[HELPFUL], row[HARMLESS]), "gain": found.estimate}
        rows.append(row | {"gain_low": found.low, "gain_high": found.high})
    return _frame(rows, HELPS)


def against(study: Study) -> pd.DataFrame:
    """Figures of an earlier run beside where ours would expect them.

    A figure lies within where it lies in the 95% prediction interval of as many further seeds as
    it is a mean of; a range of figures where it meets the interval of one.
    """
    earlier = figures()["earlier"]
    rows = []
    for task, values in earlier["accuracy"].items():
        place = {each.name: each for each in tasks(study)}.get(task)
        for model, value in zip(OBJECTIVES, values, strict=True):
            if place is None or not _seeds(study, model):
                continue
            ours = _right(study, model, place)[0].mean(axis=1)
            rows.append(
                _expected(f"{model}, {task}", value, value, earlier["seeds"]["accuracy"], ours)
            )
    for model, sets in earlier["silenced"].items():
        for name, values in sets.items():
            for task, value in zip(SOURCES.values(), values, strict=True):
                ours = _accuracies(study, model, task, name)
                if ours is not None:
                    label = (
                        f"{model}, {name} silenced, {task}" if name != NONE else f"{model}, {task}"
                    )
                    rows.append(_expected(label, value, value, earlier["seeds"]["silenced"], ours))
    masks = {key: mask(study, *key, OWN) for key in study.models if key[1] in OBJECTIVES}
    found = {
        "own and base's": [jaccard(m, mask(study, *key, BASE)) for key, m in masks.items()],
        "helpful and harmless": [
            jaccard(masks[s, HELPFUL], masks[s, HARMLESS])
            for s in study.seeds
            if (s, HELPFUL) in masks and (s, HARMLESS) in masks
        ],
        "two seeds of one objective": [
            jaccard(masks[a], masks[b]) for a, b in combinations(masks, 2) if a[1] == b[1]
        ],
    }
    for what, (least, most) in earlier["overlap"].items():
        if found[what]:
            rows.append(_expected(f"Jaccard, {what}", least, most, 1, np.asarray(found[what])))
    return _frame(rows, AGAINST)


def jaccard(one: np.ndarray, other: np.ndarray) -> float:
    """|A ∩ B| / |A ∪ B|; NaN for two empty sets."""
    union = (one | other).sum()
    return float((one & other).sum() / union) if union else np.nan


# ---- Of a study ----


def _seeds(study: Study, model: str) -> list[int]:
    return [seed for seed, name in study.models if name == model]


def _margins(study: Study, seed: int, model: str, task: str) -> np.ndarray:
    own, score = study.sets[task], study.models[seed, model][f"score {task}"]
    return score[own.better].astype(float) - score[own.worse]


def _ranked(margins: np.ndarray) -> np.ndarray:
    return (np.sign(margins) + 1) / 2


def _right(study: Study, model: str, task: Task, seeds=None) -> tuple[np.ndarray, np.ndarray]:
    """Of each seed what is right, (seeds, comparisons or items), and the prompt of each."""
    own = study.sets[task.set]
    right = np.stack(
        [
            _ranked(_margins(study, seed, model, task.set)[task.rows])
            for seed in (_seeds(study, model) if seeds is None else seeds)
        ]
    )
    return _items(own, task, right)


def _items(own, task: Task, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    prompt = own.opening[task.rows]
    if not task.best:
        return right, prompt
    better = own.better[task.rows]
    first = np.unique(better, return_index=True)[1]
    won = [(right[:, better == better[i]] == 1).all(axis=1).astype(float) for i in first]
    return np.stack(won, axis=1), prompt[first]


def _shortest(study: Study, task: Task) -> np.ndarray:
    own = study.sets[task.set]
    shorter = _ranked((own.tokens[own.worse] - own.tokens[own.better])[task.rows].astype(float))
    return _items(own, task, shorter[None])[0][0]


def mask(study: Study, seed: int, model: str, name: str) -> np.ndarray:
    """The neurons of a set of a model, (layers, neurons)."""
    shape = tuple(study.document["shape"])
    packed = study.models[seed, model]["mask"][SETS.index(name)]
    return np.unpackbits(packed, count=int(np.prod(shape))).astype(bool).reshape(shape)


def _sizes(study: Study, arrays) -> np.ndarray:
    """How many neurons each set has, on average over seeds."""
    n = int(np.prod(study.document["shape"]))
    return np.stack(
        [np.unpackbits(of["mask"], axis=-1, count=n).sum(axis=1) for of in arrays]
    ).mean(axis=0)


def _probed(study: Study) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Of each task in the probe: its name, places among margins, and prompts."""
    start = 0
    for name, rows in study.probe:
        own = study.sets[name]
        subset = own.subset[rows]
        for each in np.unique(subset):
            places = np.flatnonzero(subset == each)
            task = name if name in SOURCES.values() else f"{name} {each}"
            yield task, start + places, own.opening[rows[places]]
        start += len(rows)


def _like(name: str) -> str:
    """Which random sets are as many as a set's neurons."""
    return name if name in (SHARED, ONLY_HELPFUL, ONLY_HARMLESS) else OWN


def _beside(study: Study, model: str, name: str, like: str, places, prompt) -> dict:
    """What silencing a set costs, less what random ones cost on the fewer prompts of theirs.

    A comparison's value is its change, less, where random sets were tried on it, their mean
    change times how many comparisons there are for each of these: the mean is the difference of
    both means, and the interval counts that they share prompts.
    """
    key = f"random {like}"
    seeds = [s for s in _seeds(study, model) if key in study.models[s, model]]
    few = np.flatnonzero(np.isin(study.few, places))
    if not seeds or not len(few):
        return {}
    arrays = [study.models[seed, model] for seed in seeds]
    where = np.searchsorted(places, study.few[few])
    margins = np.stack([of["margin"][:, places] for of in arrays]).astype(float)
    before = _ranked(margins[:, 0])
    after = _ranked(margins[:, WAYS.index(f"{name}, {PUT[0]}")])
    drawn = np.stack([_ranked(of[key][:, few].astype(float)) for of in arrays])
    random = drawn.mean(axis=1) - before[:, where]
    values = after - before
    values[:, where] -= random * len(places) / len(few)
    more = crossed.mean(crossed.by_prompt(values, prompt))
    # Random sets of each seed are set beside their own seed's, on the same prompts.
    own = after[:, where].mean(axis=1)[:, None]
    return {
        "few": len(few),
        "random": random.mean(),
        "more": more.estimate,
        "more_low": more.low,
        "more_high": more.high,
        "p": more.p,
        "beaten": (drawn.mean(axis=2) <= own).mean(),
    }


def _shrunk(model: str, task: str, name: str, before: np.ndarray, after: np.ndarray) -> dict:
    both = (before > 0) & (after > 0)
    n = both.sum(axis=1)
    row = {"model": model, "task": task, "set": name, "n": float(n.mean())}
    if not n.all():
        return row
    first, second = (
        np.asarray([x[b].mean() for x, b in zip(margins, both, strict=True)])
        for margins in (before, after)
    )
    found = ratios.share(second, first)
    return row | {
        "margin": first.mean(),
        "left": second.mean() / first.mean(),
        "low": float(found.low),
        "high": float(found.high),
        "smaller": float((after < before)[both].mean()),
    }


def _at_equal(study: Study, model: str, task: Task, longer, prompt) -> crossed.Mean:
    """Mean margin at equal length, in standard deviations of margins.

    Of each seed the intercept of a least-squares line of margins over the difference of lengths;
    its interval is that of the mean of its influence values, a comparison each.
    """
    values = []
    for seed in _seeds(study, model):
        margin = _margins(study, seed, model, task.set)[task.rows]
        spread = margin.std()
        if not spread:
            return crossed.Mean(np.nan, np.nan, np.nan, np.nan)
        margin, x = margin / spread, longer - longer.mean()
        slope = (x @ margin) / (x @ x) if x.any() else 0.0
        left = margin - margin.mean() - slope * x
        intercept = margin.mean() - slope * longer.mean()
        weight = 1 - longer.mean() * x / x.var() if x.any() else 1.0
        values.append(intercept + weight * left)
    return crossed.mean(crossed.by_prompt(np.stack(values), prompt))


def _accuracies(study: Study, model: str, task: str, name: str) -> np.ndarray | None:
    """Of each seed how much of a held-out set is right with a set silenced; None where unknown."""
    seeds = [s for s in _seeds(study, model) if "margin" in study.models[s, model]]
    found = {each: places for each, places, _ in _probed(study)}
    if not seeds or task not in found:
        return None
    arrays = [study.models[seed, model] for seed in seeds]
    if name.startswith("random "):
        few = np.flatnonzero(np.isin(study.few, found[task]))
        arrays = [of for of in arrays if name in of]
        if not arrays or not len(few):
            return None
        # What random sets change on fewer prompts, from what is right of all.
        return np.asarray(
            [
                _ranked(of["margin"][0, found[task]].astype(float)).mean()
                + _ranked(of[name][:, few].astype(float)).mean()
                - _ranked(of["margin"][0, study.few[few]].astype(float)).mean()
                for of in arrays
            ]
        )
    way = WAYS.index(NONE if name == NONE else f"{name}, {PUT[0]}")
    return np.asarray(
        [_ranked(of["margin"][way, found[task]].astype(float)).mean() for of in arrays]
    )


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


def _expected(what: str, least: float, most: float, seeds: int, ours: np.ndarray) -> dict:
    low, high = np.clip(crossed.predicted(ours, seeds), 0, 1)  # all of them are shares
    known = np.isfinite(low)
    return {
        "what": what,
        "earlier": (least + most) / 2,
        "least": least,
        "most": most,
        "seeds": seeds,
        "ours": float(np.mean(ours)),
        "predicted_low": low,
        "predicted_high": high,
        # published with two digits, so half of the last one is nobody's
        "within": bool(low - 0.005 <= most and least <= high + 0.005) if known else None,
    }


def _frame(rows: list[dict], columns: tuple[str, ...]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(columns))
