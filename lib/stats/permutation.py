"""The exact sign-flip test on prompts, what it can find, and Holm's correction.

If a head knows nothing of the labels, each prompt's wins minus losses is as
likely as its negative. The null distribution of their sum over all 2^G sign patterns is
found exactly by convolution, without draws.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import stats
from scipy.optimize import elementwise
from scipy.special import ndtri

CHUNK = 2_000_000
Flips = tuple[tuple[int, int], ...]  # what a test flips: (|wins − losses|, how many prompts)


@lru_cache(maxsize=4096)
def _null(counts: Flips) -> np.ndarray:
    """P(Σ ±d = s) for s = −S…S, where ``counts`` lists (|d|, how many prompts)."""
    distribution = np.ones(1)
    for size, many in counts:
        steps = np.zeros(2 * size * many + 1)
        steps[:: 2 * size] = stats.binom.pmf(np.arange(many + 1), many, 0.5)
        distribution = np.convolve(distribution, steps)
    return distribution


def sign_flip(net: np.ndarray, tests: Sequence[Flips] | None = None) -> np.ndarray:
    """Two-sided exact p of each column's sum under random signs of its rows.

    Parameters
    ----------
    net
        Wins minus losses of each prompt, whole numbers, shape (prompts, columns).
    tests
        Their ``flips``, where those are known.

    Returns
    -------
    numpy.ndarray
        Shape (columns,): P(|S| ≥ |observed|); 1 for a column of zeros.

    Notes
    -----
    With one comparison a prompt this is the two-sided sign test, checked against
    ``scipy.stats.binomtest``; in general against enumeration of all sign patterns.
    """
    net = np.asarray(np.rint(net), dtype=np.int64)
    out = np.ones(net.shape[1])
    sums = np.abs(net.sum(axis=0)).tolist()
    for column, counts in enumerate(flips(net) if tests is None else tests):
        observed = sums[column]
        if counts and observed:
            distribution = _null(counts)
            centre = len(distribution) // 2
            out[column] = min(1.0, 2 * distribution[centre + observed :].sum())
    return out


def flips(net: np.ndarray) -> list[Flips]:
    """What the test of each column flips: the sizes of its rows, those of 0 left out.

    Parameters
    ----------
    net
        As in ``sign_flip``.
    """
    size = np.abs(np.asarray(np.rint(net), dtype=np.int64))
    return [_sizes(column) for column in size.T]


def _sizes(column: np.ndarray) -> Flips:
    """Sizes above 0 with how many there are of each."""
    if column.max(initial=0) < 4 * len(column):  # counting beats sorting
        many = np.bincount(column)
        sizes = np.flatnonzero(many)
        many = many[sizes]
    else:
        sizes, many = np.unique(column, return_counts=True)
    some = slice(int(len(sizes) > 0 and sizes[0] == 0), None)
    return tuple(zip(sizes[some].tolist(), many[some].tolist(), strict=True))


def departures(
    tests: Sequence[Flips], rows: np.ndarray, level: float, power: float = 0.8
) -> np.ndarray:
    """Smallest distance of a win rate from ½ that each test finds: its minimum detectable effect.

    Parameters
    ----------
    tests
        As ``flips`` gives them.
    rows
        Comparisons behind each, ties and all, shape (tests,) or one number.
    level
        Two-sided level of the tests, α/m in a family of m.
    power
        How often the distance is found.

    Returns
    -------
    numpy.ndarray
        Shape (tests,); NaN, for none, where the smallest possible p is not below the level.

    Notes
    -----
    With sizes d_c kept as they are, each prompt goes one way with probability q, so

        distance = (q − ½) · Σ d_c / rows,

    and prompts that tie, within themselves or all along, dilute it. q is the smallest with
    P_q(B ≥ b) ≥ ``power``, where B = Σ d_c · Bernoulli(q) and b is the smallest value with
    2 P_½(B ≥ b) < ``level``. Both are exact, by the discrete Fourier transform of
    Π (1 − q + q e^(iωd)); a window of 8 √Σd² holds all but 1e-13 of B (Hoeffding 1963). With
    one comparison a prompt q is the quantile ``power`` of Beta(b, G − b + 1). Checked against
    ``scipy.stats.binom`` and enumeration.
    """
    share = _shares(tests, level, power)
    flipped = np.asarray([sum(size * many for size, many in test) for test in tests], float)
    return (share - 0.5) * flipped / np.where(np.asarray(rows) > 0, rows, np.nan)


def _shares(tests: Sequence[Flips], level: float, power: float) -> np.ndarray:
    """The q of ``departures``; each distinct test is solved once, those of a window together."""
    units = [math.gcd(*(size for size, _ in test)) for test in tests]
    keys = [
        tuple((size // unit, many) for size, many in test)
        for test, unit in zip(tests, units, strict=True)
    ]
    found = dict.fromkeys(keys, np.nan)
    windows = defaultdict(list)
    for key in found:
        if 2.0 ** (1 - sum(many for _, many in key)) < level:
            most = sum(size * many for size, many in key)
            wide = 8 * math.sqrt(sum(size**2 * many for size, many in key)) + 2
            windows[_even(min(most + 1, wide))].append(key)
    for window, some in windows.items():
        step = max(1, CHUNK // window)
        for start in range(0, len(some), step):
            part = some[start : start + step]
            found |= zip(part, _solved(part, window, level, power), strict=True)
    return np.asarray([found[key] for key in keys])


def _even(size: float) -> int:
    """The next 2ᵏ or 3·2ᵏ: few windows, so that many tests share one."""
    whole = 1 << max(1, math.ceil(math.log2(size)))
    return whole * 3 // 4 if whole > 2 and size <= whole * 3 / 4 else whole


def _solved(tests: Sequence[Flips], window: int, level: float, power: float) -> np.ndarray:
    sizes = sorted({size for test in tests for size, _ in test})
    many = np.asarray([[dict(test).get(size, 0) for size in sizes] for test in tests], float)
    most = many @ np.asarray(sizes, float)
    place = np.arange(window)
    turn = 2 * np.pi * np.arange(window // 2 + 1) / window
    steps = [np.exp(-1j * turn * size) for size in sizes]

    def masses(q: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First value of the window of B, and the mass at each."""
        last = np.maximum(most[row] + 1 - window, 0)
        first = np.clip(np.floor(q * most[row]) - window // 2, 0, last)
        share = q[:, None]
        transform = np.exp(1j * turn * first[:, None])
        for step, times in zip(steps, many[row].T, strict=True):
            transform *= (1 - share + share * step) ** times[:, None]
        return first, np.fft.irfft(transform, window, axis=1)

    def short(q: np.ndarray, row: np.ndarray) -> np.ndarray:
        first, mass = masses(q, row)
        reached = (mass * (place >= (least[row] - first)[:, None])).sum(axis=1)
        # in probits, where power is nearly a line, the root takes half of the steps
        return ndtri(np.clip(reached, 1e-12, 1 - 1e-12)) - ndtri(power)

    rows = np.arange(len(tests))
    first, mass = masses(np.full(len(tests), 0.5), rows)
    tail = mass[:, ::-1].cumsum(axis=1)[:, ::-1]
    least = np.minimum(first + (2 * tail >= level).sum(axis=1), most)
    found = elementwise.find_root(
        lambda q, row: short(q, row.astype(int)),
        (np.full(len(tests), 0.5), np.ones(len(tests))),
        args=(rows.astype(float),),
        tolerances={"xatol": 1e-7},
    )
    return found.x


def sign_flips(net: np.ndarray) -> np.ndarray:
    """``sign_flip`` of many columns at once, to within rounding (about 1e-13).

    Parameters
    ----------
    net
        Wins minus losses of each prompt, whole numbers, shape (prompts, …).

    Returns
    -------
    numpy.ndarray
        p, of the trailing shape.

    Notes
    -----
    The characteristic function of Σ ±d is Π cos(d ω). On a grid of 2M + 1 frequencies, M the
    largest possible sum, its discrete Fourier transform is the null distribution exactly, and
    P(|S| < c) is a sum of it against Dirichlet's kernel. Checked against ``sign_flip``.
    """
    net = np.asarray(np.rint(net), dtype=np.int64)
    shape = net.shape[1:]
    net = net.reshape(len(net), -1)
    distinct = np.unique(np.abs(net))
    distinct = distinct[distinct > 0]
    if not len(distinct):
        return np.ones(shape)
    unit = np.gcd.reduce(distinct)
    sizes, net = distinct // unit, net // unit
    many = np.stack([(np.abs(net) == size).sum(axis=0) for size in sizes])
    observed = np.abs(net.sum(axis=0))
    (*many, observed), place = np.unique(np.vstack([many, observed]), axis=1, return_inverse=True)
    most = int((sizes[:, None] * np.stack(many)).sum(axis=0).max())
    frequency = 2 * np.pi * np.arange(most + 1) / (2 * most + 1)
    weight = np.where(frequency == 0, 1.0, 2.0) / (2 * most + 1)
    cosines = np.cos(np.arange(most)[:, None] * frequency)
    # Row c holds the weights of P(|S| < c).
    inside = np.vstack([np.zeros(most + 1), (2 * cosines.cumsum(axis=0) - 1) * weight])
    powers = [
        np.cos(size * frequency) ** np.arange(count.max() + 1)[:, None]
        for size, count in zip(sizes, many, strict=True)
    ]
    out = np.empty(len(observed))
    step = max(1, CHUNK // (most + 1))
    for start in range(0, len(out), step):
        some = slice(start, start + step)
        product = inside[observed[some]]
        for power, count in zip(powers, many, strict=True):
            product *= power[count[some]]
        out[some] = 1 - product.sum(axis=1)
    return np.clip(out, 0, 1)[place.ravel()].reshape(shape)


def holm(p: np.ndarray) -> np.ndarray:
    """Holm (1979) adjusted p-values along the last axis; NaN is not part of the family.

    Checked against ``statsmodels.stats.multitest.multipletests(method="holm")``.
    """
    p = np.asarray(p, float)
    order = np.argsort(p, axis=-1)  # NaN sorts last
    ranked = np.take_along_axis(p, order, axis=-1)
    m = np.isfinite(p).sum(axis=-1, keepdims=True)
    factor = m - np.arange(p.shape[-1])
    stepped = np.maximum.accumulate(np.where(np.isfinite(ranked), ranked * factor, -np.inf), -1)
    adjusted = np.where(np.isfinite(ranked), np.minimum(stepped, 1), np.nan)
    out = np.empty_like(p)
    np.put_along_axis(out, order, adjusted, axis=-1)
    return out
