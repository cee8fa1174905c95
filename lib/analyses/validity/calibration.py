"""Validity: false verdicts, coverage, and whether power is what the page says it is.

``judge``            win rates by prompt to p, interval and verdict, for all draws at once
``judge_published``  the published rule on gaps
``checks``           the rows

``judge`` is ``lib.stats.winrates`` on arrays: the same interval, test, correction and
verdicts (a test compares the two on the same data).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from lib.planted.checks import COVERAGE, FALSE, POWER, check, generator, many, parts
from lib.planted.worlds import length_wins, skewed_gaps, wins
from lib.stats import permutation, proportions, winrates

ALPHA = 0.05
HEADS = 19
FOUND = ("strong", "tracks", "inverted")
WITHIN = 0.05  # of the power that the page tells
DESIGNS = ((1, 0.0), (6, 0.5))  # rows a prompt and their intra-class correlation
ENOUGH = ((1_051, 1, 0.0), (613, 6, 0.5))  # prompts, rows, correlation: 1,051 and 3,678 rows
JUST_BELOW, CLEAR = winrates.STRONG - 0.001, 0.74  # win rates: hardly not strong, clearly strong
FLIPPED = (  # prompts by what is won less lost at each, and the family
    ("30 prompts", [1] * 30, 1),
    ("12 prompts", [1] * 12, 40),
    ("100 prompts of 6, 30 of them level", [0] * 30 + [2] * 30 + [4] * 20 + [6] * 20, HEADS),
    ("5 prompts", [1] * 5, 1),
)
MARGIN = (
    0.02  # below .8, which the power is at an MDE: an interval that reached it would be undecided
)
STEP = 4_000_000  # cells of an array


@dataclass(frozen=True)
class Judged:
    """What ``judge`` found, each of shape (draws, heads)."""

    verdict: np.ndarray
    win_rate: np.ndarray
    low: np.ndarray
    high: np.ndarray


def judge(won: np.ndarray, per_prompt: int) -> Judged:
    """Verdicts of a family of heads in many worlds.

    Parameters
    ----------
    won
        Wins of each prompt out of ``per_prompt``, shape (draws, prompts, heads).
    """
    totals = np.moveaxis(np.asarray(won, float), 1, 0)
    sizes = np.full(len(totals), float(per_prompt))
    interval = proportions.wilson(totals, sizes, 1 - ALPHA)
    net = 2 * totals - per_prompt
    p = permutation.sign_flips(net)
    fields = {
        "p": p,
        "p_adjusted": permutation.holm(p),
        "win_rate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
    }
    table = pd.DataFrame({name: values.ravel() for name, values in fields.items()})
    # the MDE enters no other verdict, and there are many draws
    short = np.flatnonzero(
        table["low"].ge(winrates.CHANCE[0]) & table["high"].le(winrates.CHANCE[1])
    )
    table["mde"] = np.nan
    table.loc[short, "mde"] = stated(net.reshape(len(net), -1)[:, short], per_prompt, p.shape[-1])
    return Judged(
        winrates.verdicts(table, ALPHA).reshape(p.shape),
        interval.estimate,
        interval.low,
        interval.high,
    )


def stated(net: np.ndarray, per_prompt: int, family: int) -> np.ndarray:
    """The MDE that the page states of each column of wins less losses, shape (prompts, columns)."""
    rows = len(net) * per_prompt
    return permutation.departures(permutation.flips(net), rows, ALPHA / family, winrates.POWER)


def judge_published(gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The published rule: p of the one-sided Wilcoxon test, and whether a head is valid.

    Parameters
    ----------
    gaps
        Without zeros, shape (draws, rows, heads).
    """
    p = stats.wilcoxon(gaps, alternative="greater", axis=1).pvalue
    return p, ((gaps > 0).mean(axis=1) >= winrates.STRONG) & (p < ALPHA)


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on validity."""
    return [
        *_false_verdicts(draws, seed),
        *_coverage(draws, seed),
        *_power(draws, seed),
        *_detectable(draws, seed),
        *_strong(draws, seed),
        *_chance(draws, seed),
    ]


def _false_verdicts(draws: int, seed: int) -> list[dict]:
    prompts, per_prompt, icc = 100, 6, 0.5
    claim = f"any of {HEADS} heads has a verdict"
    skewed = f"none knows anything; skewed gaps, {prompts} prompts of {per_prompt}, ICC .5"
    length = f"all read length, which says nothing; {prompts} prompts of {per_prompt}"
    step = max(1, STEP // (prompts * HEADS))
    source = generator(seed, "validity/skewed")
    found = [
        _any_found(wins(source, (part, prompts, HEADS), per_prompt, 0.5, icc), per_prompt)
        for part in parts(many(draws, 10_000), step)
    ]
    source = generator(seed, "validity/length")
    lengths = [
        _any_found(length_wins(source, part, prompts, per_prompt, HEADS), per_prompt)
        for part in parts(many(draws, 5_000), max(1, step // per_prompt))
    ]
    source = generator(seed, "validity/published")
    published = [
        (judge_published(skewed_gaps(source, part, prompts, per_prompt, HEADS))[0] < ALPHA).any(1)
        for part in parts(many(draws, 400), 50)
    ]
    measure = "false-positive rate"
    return [
        check(claim, skewed, measure, np.concatenate(found), at_most=FALSE),
        check(claim, length, measure, np.concatenate(lengths), at_most=FALSE),
        check(
            "any of 19 heads is above chance",
            skewed,
            measure,
            np.concatenate(published),
            at_most=FALSE,
            form="as published",
            note="one-sided Wilcoxon test of each head, uncorrected",
        ),
    ]


def _any_found(won: np.ndarray, per_prompt: int) -> np.ndarray:
    return np.isin(judge(won, per_prompt).verdict, FOUND).any(axis=1)


def _coverage(draws: int, seed: int) -> list[dict]:
    rows = []
    for per_prompt, icc in DESIGNS:
        for prompts in (10, 30, 100):
            for rate in (0.02, 0.1, 0.3, 0.5):
                source = generator(seed, f"validity/coverage/{prompts}/{per_prompt}/{rate}")
                won = wins(source, (prompts, many(draws, 10_000)), per_prompt, rate, icc)
                found = proportions.wilson(won, np.full(prompts, float(per_prompt)))
                strict = prompts >= 30 and rate >= 0.1
                rows.append(
                    check(
                        "the interval holds the win rate",
                        f"win rate {rate}; {_design(prompts, per_prompt)}",
                        "coverage",
                        (found.low <= rate) & (rate <= found.high),
                        at_least=COVERAGE[0],
                        at_most=COVERAGE[1] if strict else 1.0,
                    )
                )
    return rows


def _design(prompts: int, per_prompt: int) -> str:
    return f"{prompts} prompts" if per_prompt == 1 else f"{prompts} prompts of {per_prompt}, ICC .5"


def _power(draws: int, seed: int) -> list[dict]:
    """One head that knows something among others that don't."""
    rows = []
    for (per_prompt, icc), prompts in zip(DESIGNS, (400, 200), strict=True):
        world = f"1 of {HEADS} heads; {_design(prompts, per_prompt)}"
        name = f"validity/power/{per_prompt}"
        _, mde = _tracked(draws, seed, name, prompts, per_prompt, icc, 0.5)
        near = {"at_least": POWER - WITHIN, "at_most": POWER + WITHIN}
        cases = [
            ("tracks, at the stated MDE", 0.5 + mde, f".5 + {mde:.3f}", ("strong", "tracks"), near),
            ("is inverted, at the stated MDE", 0.5 - mde, f".5 − {mde:.3f}", ("inverted",), near),
            ("is strong (.65 or more)", CLEAR, CLEAR, ("strong",), {"at_least": POWER}),
        ]
        for what, rate, told, verdicts, target in cases:
            found, _ = _tracked(draws, seed, name, prompts, per_prompt, icc, rate, verdicts)
            in_world = f"win rate {told} in {world}"
            rows.append(check(f"a head {what}", in_world, "power", found, **target))
    return rows


def _tracked(
    draws, seed, name, prompts, per_prompt, icc, rate, verdicts=("strong", "tracks")
) -> tuple[np.ndarray, float]:
    """Whether the one head has one of the verdicts, and the median MDE stated for it."""
    source = generator(seed, f"{name}/{rate}")
    found, mde = [], []
    for part in parts(many(draws, 1_000), max(1, STEP // (prompts * HEADS))):
        own = wins(source, (part, prompts, 1), per_prompt, rate, icc)
        others = wins(source, (part, prompts, HEADS - 1), per_prompt, 0.5, icc)
        judged = judge(np.concatenate([own, others], axis=2), per_prompt)
        found.append(np.isin(judged.verdict[:, 0], verdicts))
        mde.append(stated(2 * own[:, :, 0].T - per_prompt, per_prompt, HEADS))
    return np.concatenate(found), float(np.median(np.concatenate(mde)))


def _detectable(draws: int, seed: int) -> list[dict]:
    """Prompts go one way as often as the MDE says, sizes and ties as they are; none finds none.

    The test is that of the table's smallest p, at α/m: Holm's later steps only find more.
    """
    rows = []
    for name, sizes, family in FLIPPED:
        sizes = np.asarray(sizes)
        per_prompt = int(sizes.max())
        (mde,) = stated(sizes[:, None], per_prompt, family)
        said = 0.5 if np.isnan(mde) else mde
        share = 0.5 + said * len(sizes) * per_prompt / sizes.sum()
        source = generator(seed, f"validity/detectable/{name}")
        sign = np.where(source.random((len(sizes), many(draws, 10_000))) < share, 1, -1)
        found = permutation.sign_flips(sizes[:, None] * sign) < ALPHA / family
        world = f"{name}, in a family of {family}"
        if np.isnan(mde):
            claim, target = "a head is found though no MDE is stated", {"at_most": 0.0}
            world += "; all go one way"
        else:
            claim, target = "a head is found at the stated MDE", {"at_least": POWER - MARGIN}
            world = f"win rate .5 + {mde:.3f}; {world}"
        rows.append(check(claim, world, "power", found, **target))
    return rows


def _strong(draws: int, seed: int) -> list[dict]:
    """A win rate just below .65, and two rules that say it is at least that."""
    prompts, rate = 100, JUST_BELOW
    world = f"win rate {rate}; {prompts} prompts"
    source = generator(seed, "validity/strong")
    ours, published = [], []
    for part in parts(many(draws, 10_000), STEP // (10 * prompts)):
        gaps = source.normal(stats.norm.ppf(rate), 1, (part, prompts, 1))
        ours.append(judge(gaps > 0, 1).verdict[:, 0] == "strong")
        published.append(judge_published(gaps)[1][:, 0])
    measure = "false-positive rate"
    return [
        check(
            "a head is strong (.65 or more)", world, measure, np.concatenate(ours), at_most=FALSE
        ),
        check(
            "a head is valid (.65 or more)",
            world,
            measure,
            np.concatenate(published),
            at_most=FALSE,
            form="as published",
            note="share of .65 without an interval, and p of the Wilcoxon test",
        ),
    ]


def _chance(draws: int, seed: int) -> list[dict]:
    """Chance is said where the interval lies inside a band of half-width .05, which can be found.

    With a standard error of .05/(z.₉₇₅ + z.₉) that happens to .8 of heads that win one half:
    ``ENOUGH`` prompts of one row, fewer of six.
    """
    claim, false = "a head is at chance (.45 to .55)", "false-positive rate"
    cases = [
        (1500, 1, 0.0, 0.55, false, {"at_most": FALSE}),
        *((n, k, icc, 0.5, "power", {"at_least": POWER}) for n, k, icc in ENOUGH),
    ]
    rows = []
    for prompts, per_prompt, icc, rate, measure, target in cases:
        source = generator(seed, f"validity/chance/{prompts}/{rate}")
        said = [
            judge(wins(source, (part, prompts, 1), per_prompt, rate, icc), per_prompt).verdict[:, 0]
            for part in parts(many(draws, 10_000), max(1, STEP // prompts))
        ]
        world = f"win rate {rate}; {_design(prompts, per_prompt)}"
        rows.append(check(claim, world, measure, np.concatenate(said) == "chance", **target))
    prompts, told = 2000, 3  # ties all but a few: a short interval that no test stands behind
    won = np.full((many(draws, 1_000), prompts, 1), 0.5)
    won[:, :told, 0] = generator(seed, "validity/chance/ties").integers(0, 2, (len(won), told))
    said = judge(won, 1).verdict[:, 0] == "chance"
    world = f"{prompts - told} of {prompts} prompts tie"
    return [*rows, check(f"{claim} among ties", world, false, said, at_most=0.0)]
