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
import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from scipy import stats

from lib import paths
from lib.data import load_items, measures
from lib.extraction import align, extract
from lib.models import backbone as backbones
from lib.models.base import Head
from lib.models.frozen import CARD, WEIGHTS, FrozenHeads, tensors
from lib.models.gating import Gate
from lib.models.prompt import PromptFormat
from lib.stats.proportions import by_cluster, wilson
from lib.training import bradley_terry, gate, ridge, split

NAME = "smol-armo"
SETS = ("hh-rlhf/helpful-base", "hh-rlhf/harmless-base", "xstest", "reward-bench-2", "llmbar")
PREFERENCES = {"hh-helpful": "hh-rlhf/helpful-base", "hh-harmless": "hh-rlhf/harmless-base"}
REMOVED = "verbosity"
OURS = "this project"


@dataclass(frozen=True)
class Recipe:
    """How one head is trained.

    Attributes
    ----------
    head
        Name, source of the name, and concept.
    kind
        ``preference``, ``rating`` or ``measure``.
    label
        A preference head's dataset; the rating column; or the measure of a text and its
        length in tokens.
    is_not
        One sentence for the card.
    """

    head: Head
    kind: str
    label: str | Callable[[str, int], float]
    is_not: str


def _head(name: str, what: str, concept: str = "") -> Head:
    return Head(name, f"{OURS}: {what}", concept)


RECIPES = (
    Recipe(
        _head("hh-helpful", "choices of hh-rlhf's helpful-base", "helpfulness"),
        "preference",
        "hh-rlhf/helpful-base",
        "Not a judge of correctness: it learned which of two dialogues crowd workers found "
        "more helpful, much of it from length, tone and refusal.",
    ),
    Recipe(
        _head("hh-harmless", "choices of hh-rlhf's harmless-base", "safety"),
        "preference",
        "hh-rlhf/harmless-base",
        "Not a detector of harm: it learned which of two replies to provocative prompts "
        "crowd workers found less harmful, much of it from evasion.",
    ),
    Recipe(
        _head("refusal", "XSTest's human refusal labels"),
        "rating",
        "refusal",
        "Not a measure of safety: refusing a harmless question scores as high as refusing a "
        "harmful one.",
    ),
    Recipe(
        _head("rb2-safety", "choices of RewardBench 2 Safety", "safety"),
        "preference",
        "reward-bench-2",
        "Not a human judgement of harm: chosen and rejected come from different models and "
        "an automatic rubric, and most chosen replies refuse.",
    ),
    Recipe(
        _head("instruction", "choices of LLMBar", "instruction-following"),
        "preference",
        "llmbar",
        "Not general instruction following: it saw some two hundred pairs, many of them "
        "adversarial, in which the fluent and longer reply is the wrong one.",
    ),
    Recipe(
        _head("verbosity", "log of the response's tokens", "verbosity"),
        "measure",
        lambda text, tokens: math.log(tokens),
        "Not wordiness at equal content: it is length, which good answers may need.",
    ),
    Recipe(
        _head("readability", "Flesch reading ease", "readability"),
        "measure",
        lambda text, tokens: max(-50.0, measures.flesch(text)),
        "Not comprehension: it is a formula of sentence and word length.",
    ),
    Recipe(
        _head("formatting", "log of one more than the Markdown marks"),
        "measure",
        lambda text, tokens: math.log1p(measures.formatting(text)),
        "Not good structure: it counts headings, list items, bold and code marks.",
    ),
    Recipe(
        _head("lexical-complexity", "mean word length", "complexity"),
        "measure",
        lambda text, tokens: measures.lexical_complexity(text),
        "Not depth of content: it is the mean length of words.",
    ),
    Recipe(
        _head("repetition", "share of repeated word 3-grams"),
        "measure",
        lambda text, tokens: measures.repetition(text),
        "Not a fault by itself: lists and refrains repeat on purpose.",
    ),
)


def bare_backbone() -> FrozenHeads:
    """The embedded backbone without heads, for extracting states to train on."""
    backbone, tokenizer = backbones.load_embedded()
    return FrozenHeads(
        name=backbones.EMBEDDED,
        heads=[],
        backbone=backbone,
        format=PromptFormat(tokenizer, backbones.EMBEDDED, backbones.END_OF_TURN),
        weight=np.zeros((0, backbone.config.hidden_size), np.float32),
        bias=np.zeros(0, np.float32),
        trained_on=frozenset(),
        card={},
    )


@dataclass(frozen=True)
class Part:
    """States of one dataset, with the side of each response.

    Attributes
    ----------
    hidden, gate_hidden
        Shapes (responses, features) and (items, features), float64.
    owner
        Item of each response; ``side`` and ``group`` are per item.
    better, worse
        Rows of the comparisons.
    rated
        Ratings and measures by head name, shape (responses,), NaN where missing.
    hashes
        Of the prompts.
    """

    hidden: np.ndarray
    gate_hidden: np.ndarray
    owner: np.ndarray
    side: np.ndarray
    group: np.ndarray
    better: np.ndarray
    worse: np.ndarray
    rated: Mapping[str, np.ndarray]
    hashes: np.ndarray

    @property
    def difference(self) -> np.ndarray:
        """Preferred state minus the other, shape (comparisons, features)."""
        return self.hidden[self.better] - self.hidden[self.worse]

    def pairs(self, per_item: np.ndarray) -> np.ndarray:
        """A per-item array at each comparison."""
        return per_item[self.owner[self.better]]


def load_part(model: FrozenHeads, dataset: str, source: Path) -> Part:
    """Extract a dataset's states and measure its texts."""
    items = load_items(dataset, source=source / dataset.split("/")[0])
    run = extract(model, items)
    if list(run["item"].values) != list(items.prompts["item"]):
        items = items.select(items.prompts["item"].isin(run["item"].values).to_numpy())
    aligned = align(run)
    tokens = run["n_response_tokens"].values
    rated = {}
    for recipe in RECIPES:
        if recipe.kind == "measure":
            pairs = zip(items.responses["text"], tokens.tolist(), strict=True)
            rated[recipe.head.name] = np.asarray([recipe.label(*pair) for pair in pairs])
        elif recipe.kind == "rating" and recipe.label in items.responses:
            rated[recipe.head.name] = items.responses[recipe.label].to_numpy(float)
    return Part(
        hidden=run["hidden"].values.astype(float),
        gate_hidden=run["gate_hidden"].values.astype(float),
        owner=run["item_of_response"].values,
        side=split.side(items.prompts["prompt"]),
        group=split.groups(items.prompts["prompt"]),
        better=aligned.better,
        worse=aligned.worse,
        rated=rated,
        hashes=items.prompts["prompt_hash"].to_numpy(),
    )


def train(source: str | Path, out: str | Path | None = None) -> str:
    """Train everything and write weights and card; returns a summary.

    Parameters
    ----------
    source
        Folder that holds the sets, each in its published layout.
    out
        Folder for the two files; the package's own by default.
    """
    model = bare_backbone()
    parts = {name: load_part(model, name, Path(source)) for name in SETS}
    hidden = np.concatenate([part.hidden for part in parts.values()])
    sides = np.concatenate([part.side[part.owner] for part in parts.values()])
    fitted = [_fit(recipe, parts) for recipe in RECIPES]
    weight = np.asarray([weight for weight, _, _ in fitted])
    bias = np.asarray([bias for _, bias, _ in fitted])
    scores = hidden[sides == "train"] @ weight.T + bias
    weight /= scores.std(axis=0)[:, None]
    bias = (bias - scores.mean(axis=0)) / scores.std(axis=0)
    names = [recipe.head.name for recipe in RECIPES]
    reference = hidden[sides == "train"] @ weight.T + bias
    debiasing = gate.debias(reference, names.index(REMOVED))
    network, gate_card = _gate(parts, weight, bias, debiasing.matrix, names, fitted)
    card = {
        "name": NAME,
        "backbone": backbones.EMBEDDED,
        "recipe": "ArmoRM's, corrected: see lib/training/smol_armo.py",
        "command": f"python -m lib train {NAME} --source FOLDER",
        "unit": "one standard deviation over the training responses",
        "heads": [
            _entry(recipe, found) for recipe, (_, _, found) in zip(RECIPES, fitted, strict=True)
        ],
        "debiasing": {
            "removed": REMOVED,
            "lambda": dict(zip(names, _plain(debiasing.lambdas), strict=True)),
        },
        "gate": gate_card,
        "split": _split(parts),
    }
    out = Path(out) if out else paths.EMBEDDED
    _write(out, tensors(weight, bias, debiasing.matrix, network), card)
    return "\n".join(
        f"{entry['name']}: {entry['score']} cross-validated {_shown(entry['cross_validated'])}, "
        f"held out {_shown(entry['held_out'])}"
        for entry in [*card["heads"], {"name": "gated score", **gate_card}]
    )


def _fit(recipe: Recipe, parts: Mapping[str, Part]):
    """Weight, bias and what the card says of one head."""
    if recipe.kind == "preference":
        return _fit_preference(parts[recipe.label])
    return _fit_rating(recipe, parts)


def _fit_preference(part: Part):
    difference, side, group = part.difference, part.pairs(part.side), part.pairs(part.group)
    train, seen = side == "train", side != "held_out"
    c = bradley_terry.choose(difference, train, side == "choose")
    weight = bradley_terry.fit(difference[train], c)
    found = {
        "score": "accuracy",
        "penalty": c,
        "rows": int(train.sum()),
        "cross_validated": _accuracy(
            bradley_terry.cross_validate(difference[seen], group[seen], c=c), group[seen]
        ),
        "held_out": _accuracy(bradley_terry.accuracy(weight, difference[~seen]), group[~seen]),
    }
    return weight, 0.0, found


def _fit_rating(recipe: Recipe, parts: Mapping[str, Part]):
    name = recipe.head.name
    chosen = [part for part in parts.values() if name in part.rated]
    hidden = np.concatenate([part.hidden for part in chosen])
    rating = np.concatenate([part.rated[name] for part in chosen])
    side = np.concatenate([part.side[part.owner] for part in chosen])
    group = np.concatenate([_labelled(k, part) for k, part in enumerate(chosen)])
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


def _labelled(number: int, part: Part) -> np.ndarray:
    """Group of each response, distinct from those of other sets."""
    return part.group[part.owner] + number * 1_000_000


def _gate(parts, weight, bias, matrix, names, fitted):
    """A gate over all heads but the removed one, trained on both hh sets; its card."""
    columns = [k for k, name in enumerate(names) if name != REMOVED]
    own = [names.index(name) for name in PREFERENCES]
    used = [parts[dataset] for dataset in PREFERENCES.values()]
    states = np.concatenate([part.pairs(part.gate_hidden) for part in used])
    side = np.concatenate([part.pairs(part.side) for part in used])
    group = np.concatenate([part.pairs(part.group) + k * 10**6 for k, part in enumerate(used)])
    pairs = np.concatenate(
        [np.stack([part.hidden[part.better], part.hidden[part.worse]], 1) for part in used]
    )
    scores = pairs @ weight.T + bias
    train, choose, out = (side == name for name in split.SIDES)
    unseen = _unseen_scores(scores, pairs, used, weight, own, fitted, train)
    network, chosen = _best_gate(states, scores, unseen, matrix, columns, train, choose)

    def correct(coefficients, rows):
        margin = ((scores[:, 0] - scores[:, 1]) * coefficients)[rows].sum(axis=1)
        return _accuracy((margin > 0) + (margin == 0) / 2, group[rows])

    coefficients = network(states) @ matrix.T
    undebiased = network(states)
    mixed = bradley_terry.fit((pairs[:, 0] - pairs[:, 1])[train], bradley_terry.C)
    mixed_correct = bradley_terry.accuracy(mixed, (pairs[:, 0] - pairs[:, 1])[out])
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
        "held_out_mixed_one_head": _accuracy(mixed_correct, group[out]),
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
    for components, seed in itertools.product((32, 48, 64), range(3)):
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
        margin = ((scores[:, 0] - scores[:, 1]) * (network(states) @ matrix.T)).sum(axis=1)
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


def _accuracy(correct: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy with its interval, prompts with one opening as one."""
    found = wilson(*by_cluster(correct, np.unique(group, return_inverse=True)[1]))
    return _rounded(found.estimate, found.low, found.high, len(correct))


def _agreement(predicted: np.ndarray, rating: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Accuracy at ½ on the ratings that are 0 or 1."""
    clear = rating != 0.5
    correct = ((predicted > 0.5) == (rating == 1))[clear].astype(float)
    return _accuracy(correct, group[clear])


def _spearman(predicted: np.ndarray, rating: np.ndarray, group: np.ndarray) -> dict[str, float]:
    """Spearman's ρ with the interval of Bonett & Wright (2000), n counted in openings."""
    rho = float(stats.spearmanr(predicted, rating).statistic)
    n = len(np.unique(group))
    half = stats.norm.ppf(0.975) * math.sqrt((1 + rho**2 / 2) / (n - 3))
    low, high = np.tanh(np.arctanh(rho) + np.array([-half, half]))
    return _rounded(rho, low, high, len(rating))


def _rounded(value, low, high, rows: int) -> dict[str, float]:
    numbers = {"value": value, "low": low, "high": high}
    return {key: round(float(number), 4) for key, number in numbers.items()} | {"rows": rows}


def _entry(recipe: Recipe, found: Mapping) -> dict:
    label = recipe.label if recipe.kind == "preference" else "every set that has it"
    head = recipe.head
    return {
        "name": head.name,
        "source": head.source,
        "concept": head.concept,
        "kind": recipe.kind,
        "trained_on": "xstest" if recipe.kind == "rating" else label,
        **found,
        "is_not": recipe.is_not,
    }


def _split(parts: Mapping[str, Part]) -> dict:
    """Prompt hashes by side; a prompt on two sides would be a fault of the split."""
    sides = {
        side: sorted(set(np.concatenate([p.hashes[p.side == side] for p in parts.values()])))
        for side in split.SIDES
    }
    if sum(map(len, sides.values())) != len(set().union(*sides.values())):
        raise AssertionError("a prompt is on two sides of the split")
    return {
        "rule": f"by the digest of the first user turn: below {split.HELD_OUT_SHARE} held out, "
        f"the next {split.CHOOSE_SHARE} for choosing penalties, the rest for training",
        **sides,
    }


def _plain(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 4) for value in values]


def _shown(score: Mapping[str, float]) -> str:
    return f"{score['value']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"


def _write(out: Path, arrays: Mapping[str, np.ndarray], card: dict) -> None:
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(card, indent=1, ensure_ascii=False)
    # Thousands of hashes, a line each, would hide the card: wrap them instead.
    text = re.sub(r'(?<=[0-9a-f]{16}"),\n\s+(?=")', ", ", text)
    writers = {
        WEIGHTS: lambda path: save_file(dict(arrays), path),
        CARD: lambda path: path.write_text(text + "\n"),
    }
    for name, write in writers.items():
        partial = out / f"{name}.partial-{os.getpid()}"
        write(partial)
        os.chmod(partial, 0o644)
        os.replace(partial, out / name)
