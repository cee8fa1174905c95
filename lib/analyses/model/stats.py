"""What a model's weights and card say, as tables.

``heads``       each head with the source of its name and the size of its weights
``cosines``     of each two heads' weights
``transform``   what a debiasing matrix takes from what
``scores``, ``combined``, ``sides``   a card's held-out scores, those of rules, its split

Cosines are in the coordinates of the stored state: scaling a feature and its weights
inversely changes them, and no score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib.data.concepts import of_head
from lib.errors import ModelError
from lib.stats.winrates import NO_GATE

INTERVALS = ("cross_validated", "held_out")
NO_CARD = "this model carries no card of scores"
NO_ROW = "no row of weights on the state: the reward reads the latents of an autoencoder"


def norms(weight: np.ndarray | None, names: Sequence[str]) -> pd.DataFrame:
    """Euclidean norm of each head's weights.

    Parameters
    ----------
    weight
        W, shape (heads, features); ``None`` where no head is linear on the state.
    names
        Of the heads.

    Returns
    -------
    pandas.DataFrame
        ``head``, ``norm``, ``relative`` (to the mean of the norms) and ``note``.

    Raises
    ------
    ModelError
        For a matrix that doesn't fit the names, or isn't finite.
    """
    if weight is None:
        empty = {"head": list(names), "norm": np.nan, "relative": np.nan, "note": NO_ROW}
        return pd.DataFrame(empty)
    weight = _checked(weight, names)
    norm = np.linalg.norm(weight, axis=1)
    mean = norm.mean()
    return pd.DataFrame(
        {
            "head": list(names),
            "norm": norm,
            "relative": norm / mean if mean > 0 else np.nan,
            "note": np.where(norm == 0, "all weights are zero", ""),
        }
    )


def cosines(weight: np.ndarray | None, names: Sequence[str]) -> pd.DataFrame:
    """Cosine of each two heads' weights, both ways round and with itself.

    Returns
    -------
    pandas.DataFrame
        ``head``, ``other`` and ``cosine``; heads² rows in the order of the matrix, NaN for a
        head whose weights are zero, or without a matrix.
    """
    weight = _checked(np.zeros((len(names), 1)) if weight is None else weight, names)
    norm = np.linalg.norm(weight, axis=1)
    unit = weight / np.where(norm > 0, norm, np.nan)[:, None]
    product = np.clip(unit @ unit.T, -1, 1)
    product[np.diag_indices(len(names))] = np.where(norm > 0, 1.0, np.nan)
    one, other = np.divmod(np.arange(len(names) ** 2), len(names))
    named = np.asarray(list(names), dtype=object)
    return pd.DataFrame({"head": named[one], "other": named[other], "cosine": product.reshape(-1)})


def _checked(weight: np.ndarray, names: Sequence[str]) -> np.ndarray:
    weight = np.asarray(weight, float)
    if weight.ndim != 2 or len(weight) != len(names) or not len(names):
        raise ModelError(
            "a head matrix with one row for each of its names",
            f"shape {weight.shape} and {len(names)} names",
            "Give W (heads, features) and its names.",
        )
    if not np.isfinite(weight).all():
        raise ModelError("finite head weights", "NaN or infinity", "Check the checkpoint.")
    return weight


def heads(model: Any) -> pd.DataFrame:
    """Heads of a model: ``head``, ``source`` of its name, ``concept``, ``norm``, ``note``.

    ``concept`` is as the model declares it; where it declares none, as the name says: what the
    validity pages judge by.
    """
    names = [head.name for head in model.heads]
    table = norms(model.weight, names)
    table.insert(1, "source", [head.source for head in model.heads])
    table.insert(2, "concept", [head.concept or of_head(head.name) for head in model.heads])
    return table


def transform(model: Any) -> pd.DataFrame:
    """What the debiasing matrix takes from what.

    Returns
    -------
    pandas.DataFrame
        ``head``, ``other``, ``entry``: the debiased score of ``head`` holds ``entry`` times
        the raw score of ``other``; entries of the identity are left out. One row with a
        ``note`` where there is no such matrix, or it is the identity.
    """
    columns = ["head", "other", "entry", "note"]
    matrix = getattr(model, "transform", None)
    if matrix is None:
        return pd.DataFrame([{"note": "this model has no debiasing matrix"}], columns=columns)
    names = [head.name for head in model.heads]
    rows, others = np.nonzero(np.abs(matrix.T - np.eye(len(names))) > 0)
    if not len(rows):
        note = "the debiasing matrix is the identity"
        return pd.DataFrame([{"note": note}], columns=columns)
    found = [
        (names[k], names[j], float(matrix[j, k]), "") for k, j in zip(rows, others, strict=True)
    ]
    return pd.DataFrame(found, columns=columns)


def gate(model: Any) -> pd.DataFrame:
    """The gating network: ``layer``, ``inputs``, ``outputs``, then its two numbers.

    Returns
    -------
    pandas.DataFrame
        ``part`` and ``value``, as text.
    """
    network = getattr(model, "gate", None)
    if network is None:
        return pd.DataFrame([("gate", "none")], columns=["part", "value"])
    rows = [
        (f"layer {number}", f"{matrix.shape[1]} → {matrix.shape[0]}")
        for number, (matrix, _) in enumerate(network.layers, 1)
    ]
    rows += [("temperature", f"{network.temperature:g}"), ("sums to", f"{network.logit_scale:.4g}")]
    return pd.DataFrame(rows, columns=["part", "value"])


def scores(card: Mapping) -> pd.DataFrame:
    """A card's scores of each head, cross-validated and held out.

    Returns
    -------
    pandas.DataFrame
        One row a head: ``head``, ``kind``, ``trained_on``, ``rows``, ``score`` (what is
        measured), then ``cross_validated`` and ``held_out`` each with ``_low``, ``_high`` and
        ``_rows``, ``is_not`` and ``note``; one row with a note where the card has none.
    """
    columns = ["head", "kind", "trained_on", "rows", "score"]
    columns += [f"{which}{part}" for which in INTERVALS for part in ("", "_low", "_high", "_rows")]
    entries = [
        {"head": entry["name"], **entry, **_interval(entry), "note": ""}
        for entry in card.get("heads", ())
        if isinstance(entry, Mapping) and "held_out" in entry
    ]
    return pd.DataFrame(entries or [{"note": NO_CARD}]).reindex(
        columns=[*columns, "is_not", "note"]
    )


def _interval(entry: Mapping) -> dict[str, float]:
    found = {}
    for which in INTERVALS:
        held = entry.get(which, {})
        parts = {"": "value", "_low": "low", "_high": "high", "_rows": "rows"}
        found |= {f"{which}{end}": held.get(part, np.nan) for end, part in parts.items()}
    return found


def combined(card: Mapping) -> pd.DataFrame:
    """A card's held-out scores of the gate and of the rules beside it.

    Returns
    -------
    pandas.DataFrame
        ``rule``, ``score``, ``low``, ``high``, ``rows`` and ``note``; the gate first.
    """
    columns = ["rule", "score", "low", "high", "rows", "note"]
    entry = card.get("gate", {})
    if "held_out" not in entry:
        note = NO_GATE if card.get("heads") else NO_CARD
        return pd.DataFrame([{"note": note}], columns=columns)
    named = {
        "gate": "held_out",
        "undebiased gate": "held_out_without_debiasing",
        "undebiased uniform": "held_out_uniform",
        "one head trained on the mixture": "held_out_mixed_one_head",
    }
    found = {rule: entry[key] for rule, key in named.items() if key in entry}
    found |= {
        f"{name} alone": held for name, held in entry.get("held_out_single_heads", {}).items()
    }
    rows = [
        (rule, held["value"], held["low"], held["high"], held["rows"], "")
        for rule, held in found.items()
    ]
    return pd.DataFrame(rows, columns=columns)


def sides(card: Mapping) -> pd.DataFrame:
    """How many prompts are on each side of a card's split: ``side``, ``prompts``, ``note``."""
    split = card.get("split", {})
    rows = [(side, len(found), "") for side, found in split.items() if not isinstance(found, str)]
    columns = ["side", "prompts", "note"]
    return pd.DataFrame(rows or [("", 0, "this model's card names no split")], columns=columns)
