"""Make ``smol-armo``: ArmoRM's recipe, corrected, on the embedded backbone and real labels.

``python -m lib train smol-armo --source FOLDER`` needs the folder that holds ``hh-rlhf``,
``xstest``, ``reward-bench-2`` and ``llmbar`` in their published layouts. Three kinds of
heads on the frozen last-token state:

preference
    linear Bradley–Terry on the comparisons of one set (``lib.training.bradley_terry``);
rating
    ridge regression on a human rating (``lib.training.ridge``);
measure
    the same on a property of the text that can be measured (``lib.data.measures``).

Prompts are split once into train, choose and hold out (``lib.training.split``): weights
come from the first, penalties from the second, and the third is only scored, once. Each
head is in units of one standard deviation over the training responses. A debiasing matrix
against verbosity and a gate over the other heads (``lib.training.gate``), trained on both hh
sets, give the final score. The card says all of it; the same files give the same weights to 1e-4.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from scipy import stats

from lib.data import load_items, measures
from lib.models import backbone as backbones
from lib.models.frozen import tensors
from lib.models.gating import Gate
from lib.training import bradley_terry, cards, gate, ridge, split
from lib.training.parts import (
    RULE,
    Part,
    bare_backbone,
    comparisons,
    grouped,
    load_part,
    sides,
)

NAME = "smol-armo"
SETS = ("hh-rlhf/helpful-base", "hh-rlhf/harmless-base", "xstest", "reward-bench-2", "llmbar")
PREFERENCES = {"hh-helpful": "hh-rlhf/helpful-base", "hh-harmless": "hh-rlhf/harmless-base"}
REMOVED = "verbosity"
OURS = "this project"
COMPONENTS, SEEDS = (32, 48, 64), 3  # of the gates that are tried


# Of a text and its length in tokens.
MEASURES: Mapping[str, Callable[[str, int], float]] = {
    "verbosity": lambda text, tokens: math.log(tokens),
    "readability": lambda text, tokens: max(-50.0, measures.flesch(text)),
    "formatting": lambda text, tokens: math.log1p(measures.formatting(text)),
    "lexical-complexity": lambda text, tokens: measures.lexical_complexity(text),
    "repetition": lambda text, tokens: measures.repetition(text),
}


@dataclass(frozen=True)
class Recipe:
    """How one head is trained: an entry of ``smol_armo.yaml``."""

    name: str
    what: str
    concept: str
    kind: str
    is_not: str
    label: str = ""

    @property
    def rated(self) -> str:
        """The rating or measure that it learns."""
        return self.label or self.name


_recipes = yaml.safe_load(Path(__file__).with_name("smol_armo.yaml").read_text(encoding="utf-8"))
RECIPES = tuple(Recipe(**entry) for entry in _recipes)


def train(source: str | Path, out: str | Path | None = None, *, model=None, limit: int = 0) -> str:
    """Train everything and write weights and card; returns a summary.

    ``source`` is the folder that holds the sets, each in its published layout; ``out`` that of
    the two files, the package's own by default, which a ``limit`` of items forbids. Without a
    ``model``, whose backbone and prompt format are used, it is the embedded backbone on the
    CPU, where the committed weights were made.

    Raises
    ------
    ParameterError
        For a limit without ``out``.
    DataError
        When the source lacks a set, or a side of the split has no comparison of one.
    """
    out = cards.folder(NAME, out, limit)
    model = model or bare_backbone("cpu")
    parts = {}
    for name in SETS:
        items = load_items(name, source=Path(source) / name.split("/")[0], limit=limit)
        parts[name] = load_part(model, items, MEASURES)
    trained = np.concatenate([part.on("train") for part in parts.values()])
    fitted = [_fit(recipe, parts) for recipe in RECIPES]
    weight = np.asarray([weight for weight, _, _ in fitted])
    bias = np.asarray([bias for _, bias, _ in fitted])
    weight, bias = cards.standardise(weight, bias, trained)
    names = [recipe.name for recipe in RECIPES]
    debiasing = gate.debias(trained @ weight.T + bias, names.index(REMOVED))
    network, gate_card = _gate(parts, weight, bias, debiasing.matrix, names, fitted)
    card = {
        "name": NAME,
        "backbone": backbones.EMBEDDED,
        "recipe": "ArmoRM's, corrected: see lib/training/smol_armo.py",
        "command": cards.command(NAME, limit),
        "unit": cards.UNIT,
        "heads": [
            _entry(recipe, found) for recipe, (_, _, found) in zip(RECIPES, fitted, strict=True)
        ],
        "debiasing": {
            "removed": REMOVED,
            "lambda": dict(zip(names, _plain(debiasing.lambdas), strict=True)),
        },
        "gate": gate_card,
        "split": {"rule": RULE, **sides(list(parts.values()))},
    }
    cards.write(out, tensors(weight, bias, debiasing.matrix, network), card)
    return "\n".join(
        f"{entry['name']}: {entry['score']} cross-validated "
        f"{cards.shown(entry['cross_validated'])}, held out {cards.shown(entry['held_out'])}"
        for entry in [*card["heads"], {"name": "gated score", **gate_card}]
    )


def _fit(recipe: Recipe, parts: Mapping[str, Part]):
    """Weight, bias and what the card says of one head."""
    if recipe.kind != "preference":
        return _fit_rating(recipe, parts)
    part = parts[recipe.label]
    weight, found = cards.fit_preference(
        part.difference, part.pairs(part.side), part.pairs(part.group)
    )
    return weight, 0.0, found


def _fit_rating(recipe: Recipe, parts: Mapping[str, Part]):
    chosen = [part for part in parts.values() if recipe.rated in part.rated]
    hidden = np.concatenate([part.hidden for part in chosen])
    rating = np.concatenate([part.rated[recipe.rated] for part in chosen])
    side = np.concatenate([part.side[part.owner] for part in chosen])
    group = np.concatenate([group[part.owner] for part, group in grouped(chosen)])
    known = np.isfinite(rating)
    hidden, rating, side, group = hidden[known], rating[known], side[known], group[known]
    heads = ridge.fit(hidden, rating[:, None], side == "train", side == "choose")
    seen = side != "held_out"
    predicted = ridge.cross_validate(hidden[seen], rating[seen], group[seen], heads.alpha[0])
    held_out = hidden[~seen] @ heads.weight[0] + heads.bias[0]
    measure = _agreement if recipe.kind == "rating" else _spearman
    found = {
        "score": "accuracy" if recipe.kind == "rating" else "spearman",
        "penalty": float(heads.alpha[0]),
        "rows": int(heads.rows[0]),
        "cross_validated": measure(predicted, rating[seen], group[seen]),
        "held_out": measure(held_out, rating[~seen], group[~seen]),
    }
    return heads.weight[0], float(heads.bias[0]), found


def _gate(parts, weight, bias, matrix, names, fitted):
    """A gate over all heads but the removed one, trained on both hh sets; its card."""
    columns = [k for k, name in enumerate(names) if name != REMOVED]
    own = [names.index(name) for name in PREFERENCES]
    used = [parts[dataset] for dataset in PREFERENCES.values()]
    states, pairs, side, group = comparisons(used)
    scores = pairs @ weight.T + bias
    train, choose, out = (side == name for name in split.SIDES)
    unseen = _unseen_scores(scores, pairs, used, weight, own, fitted, train)
    network, chosen = _best_gate(states, scores, unseen, matrix, columns, train, choose)

    def correct(coefficients, rows):
        return cards.accuracy(gate.correct(coefficients, scores)[rows], group[rows])

    undebiased = network(states)
    coefficients = undebiased @ matrix.T
    difference = pairs[:, 0] - pairs[:, 1]
    mixed = bradley_terry.fit(difference[train], bradley_terry.C)
    mixed_correct = bradley_terry.accuracy(mixed, difference[out])
    single = {name: correct(np.eye(len(names))[[k]], out) for k, name in enumerate(names)}
    return network, {
        "score": "accuracy",
        "gated": [names[k] for k in columns],
        "trained_on": " and ".join(PREFERENCES.values()),
        **chosen,
        "cross_validated": correct(coefficients, choose),
        "held_out": correct(coefficients, out),
        "held_out_without_debiasing": correct(undebiased, out),
        "held_out_uniform": correct(np.isin(np.arange(len(names)), columns)[None] / 2, out),
        "held_out_mixed_one_head": cards.accuracy(mixed_correct, group[out]),
        "held_out_single_heads": single,
    }


def _unseen_scores(scores, pairs, used, weight, columns, fitted, train):
    """Scores of training pairs by hh heads that were fitted without them."""
    unseen, start = scores.copy(), 0
    for column, part in zip(columns, used, strict=True):
        rows = np.flatnonzero(train[start : start + len(part.better)]) + start
        own = part.pairs(part.side) == "train"
        cross = bradley_terry.cross_scores(
            part.difference[own],
            pairs[rows],
            part.pairs(part.group)[own],
            fitted[column][2]["penalty"],
        )
        spread = fitted[column][0]
        unit = np.linalg.norm(weight[column]) / np.linalg.norm(spread)
        unseen[rows, :, column] = cross * unit
        start += len(part.better)
    return unseen


def _best_gate(states, scores, unseen, matrix, columns, train, choose):
    """Gates on principal components of the prompt state; the best on the choosing prompts."""
    centre = states[train].mean(axis=0)
    _, size, axes = np.linalg.svd(states[train] - centre, full_matrices=False)
    transform = matrix[:, columns]
    best = None
    for components, seed in itertools.product(COMPONENTS, range(SEEDS)):
        project = axes[:components] / (size[:components, None] / math.sqrt(train.sum()))
        x = (states - centre) @ project.T
        small, _ = gate.train_gate(
            x[train],
            unseen[train, 0] @ transform,
            unseen[train, 1] @ transform,
            np.eye(len(columns)),
            hidden=(8,),
            temperature=1.0,
            steps=300,
            batch=512,
            rate=3e-3,
            decay=0.1,
            seed=seed,
        )
        network = _widened(small, project, centre, columns, len(matrix))
        margin = gate.margin(network(states) @ matrix.T, scores)
        loss = bradley_terry.loss(margin[choose])
        if best is None or loss < best[0]:
            best = loss, network, {"components": components, "hidden": [8], "seed": seed}
    return best[1], best[2]


def _widened(small: Gate, project, centre, columns, heads: int) -> Gate:
    """The same gate on raw states and over all heads; those outside ``columns`` get 0."""
    (first, first_bias), *middle, (last, last_bias) = small.layers
    matrix = first @ project
    weight = np.zeros((heads, last.shape[1]))
    bias = np.full(heads, -1e4)  # far below any logit: exactly 0 after the softmax
    weight[columns], bias[columns] = last, last_bias
    layers = [(matrix, first_bias - matrix @ centre), *middle, (weight, bias)]
    return Gate(
        [(w.astype(np.float32), b.astype(np.float32)) for w, b in layers],
        small.logit_scale,
        small.temperature,
    )


def _agreement(predicted: np.ndarray, rating: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy at ½ on the ratings that are 0 or 1."""
    clear = rating != 0.5
    correct = ((predicted > 0.5) == (rating == 1))[clear].astype(float)
    return cards.accuracy(correct, group[clear])


def _spearman(predicted: np.ndarray, rating: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Spearman's ρ with the interval of Bonett & Wright (2000), n counted in openings."""
    rho = float(stats.spearmanr(predicted, rating).statistic)
    n = len(np.unique(group))
    half = stats.norm.ppf(0.975) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    low, high = np.tanh(np.arctanh(rho) + np.array([-half, half]))
    return cards.rounded(rho, low, high, len(rating))


def _entry(recipe: Recipe, found: Mapping) -> dict:
    trained_on = {"preference": recipe.label, "rating": "xstest"}
    return {
        "name": recipe.name,
        "source": f"{OURS}: {recipe.what}",
        "concept": recipe.concept,
        "kind": recipe.kind,
        "trained_on": trained_on.get(recipe.kind, "every set that has it"),
        **found,
        "is_not": recipe.is_not,
    }


def _plain(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 4) for value in values]
