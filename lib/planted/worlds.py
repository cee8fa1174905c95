"""Planted worlds: data made so that the right answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from scipy.special import ndtri

from lib.run import check


def from_gaps(gaps: np.ndarray, **given) -> xr.Dataset:
    """A Run whose better responses score these gaps and whose worse ones score 0.

    Parameters
    ----------
    gaps
        Shape (pairs, heads).
    given
        As for ``make_run``.
    """
    score = np.zeros((2 * len(gaps), gaps.shape[1]))
    score[::2] = gaps
    return make_run(score, **given)


def make_run(
    score: np.ndarray,
    *,
    prompt: np.ndarray | None = None,
    heads: Sequence[str] | None = None,
    subset: Sequence[str] | None = None,
    criterion: Sequence[str] | None = None,
    hidden: np.ndarray | None = None,
    tokens: np.ndarray | None = None,
    final: np.ndarray | None = None,
    concepts: Sequence[str] | None = None,
    name: str = "planted",
) -> xr.Dataset:
    """A Run of pairs: rows 2i and 2i + 1 of ``score`` are the better and worse response.

    Parameters
    ----------
    score
        Shape (2·pairs, heads).
    prompt
        An integer for the prompt of each pair, shape (pairs,); each its own by default.
    heads, concepts
        Names, and what they claim.
    subset, criterion
        Of each pair.
    hidden
        States, shape (2·pairs, features); one feature of zeros by default.
    tokens
        Response lengths, shape (2·pairs,); 10 by default.
    final
        The model's one score, shape (2·pairs,).
    """
    score = np.asarray(score, np.float32)
    n_responses, n_heads = score.shape
    n = n_responses // 2
    prompt = np.arange(n) if prompt is None else np.asarray(prompt)
    names = list(heads) if heads is not None else [f"head_{k}" for k in range(n_heads)]
    hidden = np.zeros((n_responses, 1)) if hidden is None else hidden
    tokens = np.full(n_responses, 10) if tokens is None else np.asarray(tokens, np.int64)
    pairs = np.arange(n, dtype=np.int64)
    variables = {
        "score": (("response", "head"), score),
        "hidden": (("response", "feature"), np.asarray(hidden, np.float32)),
        "gate_hidden": (("item", "feature"), np.zeros((n, hidden.shape[1]), np.float32)),
        "item_of_response": ("response", np.repeat(pairs, 2)),
        "slot": ("response", np.tile(np.asarray([0, 1], np.int64), n)),
        "prompt_hash": ("item", np.asarray([f"{p:016x}" for p in prompt], np.str_)),
        "n_prompt_tokens": ("item", np.full(n, 10, np.int64)),
        "n_response_tokens": ("response", tokens),
        "n_chars": ("response", tokens * 4),
        "better": ("comparison", 2 * pairs),
        "worse": ("comparison", 2 * pairs + 1),
        "criterion": ("comparison", np.asarray(criterion or ["preference"] * n, np.str_)),
        "subset": ("comparison", np.asarray(subset or ["all"] * n, np.str_)),
        "head_source": ("head", np.asarray(["planted"] * n_heads, np.str_)),
        "head_concept": ("head", np.asarray(concepts or [""] * n_heads, np.str_)),
    }
    if final is not None:
        variables["final"] = ("response", np.asarray(final, np.float32))
    attrs = {
        "model": "planted",
        "dataset": name,
        "items": "0" * 16,
        "fingerprint": {},
        "dropped": {},
        "missing": [],
        "about": {},
        "extraction": {"dtype": "float32", "packing": "none", "device": "cpu"},
        "versions": {},
        "template_example": "",
    }
    coords = {
        "head": np.asarray(names, np.str_),
        "item": np.asarray([str(i) for i in pairs], np.str_),
        "response": np.arange(n_responses, dtype=np.int64),
    }
    return check(xr.Dataset(variables, coords, attrs))


def wins(
    generator: np.random.Generator,
    shape: tuple[int, ...],
    per_prompt: int,
    win_rate: float,
    icc: float = 0.0,
) -> np.ndarray:
    """Wins of each prompt out of ``per_prompt`` comparisons, beta-binomial.

    Parameters
    ----------
    shape
        Of the result; each entry is one prompt.
    win_rate
        The true win rate.
    icc
        Intra-class correlation of two comparisons of a prompt, below 1; 0 makes them
        independent. With a = p(1 − icc)/icc and b = (1 − p)(1 − icc)/icc the prompt's own
        rate is Beta(a, b), whose mean is p and whose intra-class correlation is icc.
    """
    if icc == 0:
        return generator.binomial(per_prompt, win_rate, shape)
    scale = (1 - icc) / icc
    rate = generator.beta(win_rate * scale, (1 - win_rate) * scale, shape)
    return generator.binomial(per_prompt, rate)


def skewed_gaps(
    generator: np.random.Generator,
    draws: int,
    prompts: int,
    per_prompt: int,
    heads: int,
    win_rate: float = 0.5,
    icc: float = 0.5,
) -> np.ndarray:
    """Gaps whose size depends on who won, shape (draws, prompts · per_prompt, heads).

    Outcomes are those of ``wins``; a win is worth ten times a loss, so that means and ranks
    move while win rates don't. Rows of a prompt are neighbours.
    """
    won = wins(generator, (draws, prompts, heads), per_prompt, win_rate, icc)
    order = generator.random((draws, prompts, per_prompt, heads)).argsort(axis=2)
    sign = np.where(order < won[:, :, None], 10.0, -1.0)
    gaps = sign * generator.exponential(1, sign.shape)
    return gaps.reshape(draws, prompts * per_prompt, heads)


def length_wins(
    generator: np.random.Generator,
    draws: int,
    prompts: int,
    per_prompt: int,
    heads: int,
    agreement: float = 0.9,
    alike: float = 0.7,
) -> np.ndarray:
    """Wins by prompt of heads that all read length, which people don't heed.

    Parameters
    ----------
    agreement
        Correlation of two heads' gaps, which is what they owe to length.
    alike
        Correlation of two gaps of a prompt, in length and in each head's own part.

    Returns
    -------
    numpy.ndarray
        Shape (draws, prompts, heads). Each head wins half of the comparisons, in truth.
    """

    def gaps(many: int) -> np.ndarray:
        shape = (draws, prompts, 1, many), (draws, prompts, per_prompt, many)
        prompt, row = (generator.standard_normal(s, dtype=np.float32) for s in shape)
        return np.sqrt(np.float32(alike)) * prompt + np.sqrt(np.float32(1 - alike)) * row

    length, own = gaps(1), gaps(heads)
    gap = np.sqrt(np.float32(agreement)) * length + np.sqrt(np.float32(1 - agreement)) * own
    return (gap > 0).sum(axis=2)


def model_wins(
    generator: np.random.Generator,
    prompts: int,
    per_prompt: int,
    rates: Sequence[float],
    agreement: float = 0.5,
    alike: float = 0.5,
) -> np.ndarray:
    """Outcomes of several models on the same comparisons, each of a known win rate.

    A model wins where a unit normal lies below the quantile of its rate.

    Parameters
    ----------
    rates
        True win rate of each model.
    agreement
        Correlation of two models' normals.
    alike
        Correlation of two normals of a prompt.

    Returns
    -------
    numpy.ndarray
        0 or 1, shape (prompts · per_prompt, models); rows of a prompt are neighbours.
    """

    def luck(many: int) -> np.ndarray:
        prompt = generator.standard_normal((prompts, 1, many))
        row = generator.standard_normal((prompts, per_prompt, many))
        return np.sqrt(alike) * prompt + np.sqrt(1 - alike) * row

    drawn = np.sqrt(agreement) * luck(1) + np.sqrt(1 - agreement) * luck(len(rates))
    return (drawn < ndtri(rates)).astype(float).reshape(-1, len(rates))


def validity_world(pairs: int = 600, strength: float = 0.8, seed: int = 0) -> xr.Dataset:
    """Heads of known validity: ``follows``, ``inverted``, ``shuffled``, ``length``, ``constant``.

    The label shifts the better response of ``follows`` by ``strength`` standard deviations
    of its noise, so its true win rate is Φ(strength/√2); ``length`` reads a length that is
    drawn without regard to the label.
    """
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((2 * pairs, 3))
    label = np.tile([1.0, 0.0], pairs)
    tokens = generator.integers(20, 400, 2 * pairs)
    score = np.column_stack(
        [
            noise[:, 0] + strength * label,
            noise[:, 1] - strength * label,
            noise[:, 2],
            np.log(tokens),
            np.zeros(2 * pairs),
        ]
    )
    heads = ["follows", "inverted", "shuffled", "length", "constant"]
    hidden = generator.standard_normal((2 * pairs, 8))
    return make_run(score, heads=heads, tokens=tokens, hidden=hidden, name="planted/validity")
