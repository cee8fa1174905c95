"""What a basis may be called: evidence for a name, and the test that the name must pass.

A name is a concept of ``stimuli/controlled``, or against one. It is chosen on one half of each
concept's prompts, with what else points to a concept, and tested on the other half.

``evidence``  what three sources say of each basis
``tested``    does the name hold on stimuli that didn't choose it?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import stats

from lib.run import align
from lib.stats import permutation, proportions

PURE = 0.8  # weight from which a user is near one basis
ALIKE = 0.5  # |cosine| from which a head points to what it claims
AGAINST = "against "
NUMBERS = ("rate", "low", "high", "beside", "p")
STIMULI, HEADS, NEAR = "stimuli", "audited heads", "users near it"


@dataclass(frozen=True)
class Concepts:
    """Stimuli of several concepts: differences of states, concept and prompt of each pair."""

    difference: np.ndarray
    concept: np.ndarray
    prompt: np.ndarray

    @property
    def names(self) -> list[str]:
        """The concepts."""
        return sorted(set(self.concept.tolist()))

    def split(self, seed: int) -> tuple[Concepts, Concepts]:
        """Two halves of each concept's prompts."""
        generator = np.random.default_rng(seed)
        first = np.zeros(len(self.concept), bool)
        for name in self.names:
            there = self.concept == name
            prompts = generator.permutation(np.unique(self.prompt[there]))
            first |= there & np.isin(self.prompt, prompts[: len(prompts) // 2])
        return tuple(
            Concepts(self.difference[m], self.concept[m], self.prompt[m]) for m in (first, ~first)
        )


def of_run(run: xr.Dataset | None) -> Concepts | None:
    """Stimuli of a run, with states; ``None`` where there are none."""
    if run is None:
        return None
    aligned = align(run)
    hidden = run["hidden"].values
    known = np.isfinite(hidden).all(axis=1)
    kept = known[aligned.better] & known[aligned.worse]
    if not kept.any():
        return None
    return Concepts(
        hidden[aligned.better[kept]].astype(float) - hidden[aligned.worse[kept]],
        aligned.criterion[kept],
        aligned.prompt[kept],
    )


def won(stimuli: Concepts, vectors: np.ndarray) -> np.ndarray:
    """1 where a basis prefers what has more of the concept, ½ at a tie, shape (pairs, bases)."""
    return (np.sign(stimuli.difference @ vectors) + 1) / 2


def rates(wins: np.ndarray, stimuli: Concepts) -> np.ndarray:
    """Win rate of each basis on each concept, shape (bases, concepts)."""
    return np.column_stack([wins[stimuli.concept == name].mean(axis=0) for name in stimuli.names])


def stimuli_say(rate: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Concept and sign that set each basis apart most, and by how much.

    What counts is the least of its distance from one half and of its lead over each other basis,
    in the direction of the sign.
    """
    signed = np.stack([rate - 0.5, 0.5 - rate])  # for and against
    lead = np.full_like(signed, np.inf)
    for basis in range(len(rate)):
        others = np.delete(rate, basis, axis=0)
        if len(others):
            lead[0, basis] = rate[basis] - others.max(axis=0)
            lead[1, basis] = others.min(axis=0) - rate[basis]
    least = np.minimum(signed, lead)
    flat = least.transpose(1, 0, 2).reshape(len(rate), -1)
    best = flat.argmax(axis=1)
    concepts = rate.shape[1]
    return best % concepts, np.where(best < concepts, 1, -1), flat.max(axis=1)


def heads_say(cosine: np.ndarray, claims) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The head that agrees most with each basis, what that points to, and its sign.

    ``cosine`` has shape (bases, heads). Points to nothing ("") below ``ALIKE`` and where the head
    claims nothing.
    """
    if not cosine.shape[1]:
        bases = len(cosine)
        return np.full(bases, -1), np.full(bases, "", object), np.ones(bases, int)
    best = np.abs(cosine).argmax(axis=1)
    most = cosine[np.arange(len(cosine)), best]
    claimed = np.asarray(claims, object)[best]
    return best, np.where(np.abs(most) >= ALIKE, claimed, ""), np.where(most < 0, -1, 1)


def users_say(weights: np.ndarray, concept: list[str]) -> list[str]:
    """What the users near each basis were asked about, where most of them agree; else ""."""
    out = []
    for own in weights.T:
        near = [concept[u] for u in np.flatnonzero(own >= PURE)]
        told = max(set(near), key=near.count) if near else ""
        out.append(told if near.count(told) > len(near) / 2 else "")
    return out


def tested(stimuli: Concepts, wins: np.ndarray, name: list[tuple[str, int]]) -> list[dict]:
    """The label test of each basis' name, on stimuli that didn't choose it.

    Parameters
    ----------
    stimuli, wins
        The half that is tested on, and ``won`` there.
    name
        Concept and sign of each basis; an empty concept isn't tested.

    Returns
    -------
    list of dict
        Of each basis ``n``, ``rate`` in the name's direction with ``low`` and ``high``
        (Wilson's interval over prompts), ``beside`` (the largest of another basis that isn't
        named so), ``elsewhere`` (the concept that it follows most after its own), ``p`` and
        ``p_adjusted``.

    Notes
    -----
    Three things must be so, and ``p`` is the largest of their one-sided tests: it wins more than
    one half in the name's direction, and more than each other basis that isn't named so (exact
    sign flips over prompts, as for the names of heads); and it follows no other concept as much,
    in whichever direction: its win rate there is nearer to one half, or to the mean of all bases
    (Welch's tests). Corrected by Holm over bases.
    """
    rows = []
    for basis, (concept, sign) in enumerate(name):
        there = stimuli.concept == concept
        if not concept or not there.any():
            rows.append({"n": 0, "elsewhere": ""} | dict.fromkeys(NUMBERS, np.nan))
            continue
        toward = wins[there] if sign > 0 else 1 - wins[there]
        prompt = stimuli.prompt[there]
        found = proportions.wilson(*proportions.by_prompt(toward[:, basis], prompt))
        others = [b for b in range(wins.shape[1]) if b != basis and name[b] != (concept, sign)]
        nets = [2 * toward[:, basis] - 1, *(2 * (toward[:, basis] - toward[:, b]) for b in others)]
        beside = max((toward[:, b].mean() for b in others), default=np.nan)
        elsewhere, apart = _apart(stimuli, wins, basis, concept, sign)
        p = max(_beyond(np.column_stack(nets), prompt).max(), apart)
        numbers = (found.estimate, found.low, found.high, beside, p)
        told = dict(zip(NUMBERS, map(float, numbers), strict=True))
        rows.append({"n": int(there.sum()), "elsewhere": elsewhere} | told)
    adjusted = permutation.holm(np.asarray([row["p"] for row in rows], float))
    return [row | {"p_adjusted": p} for row, p in zip(rows, adjusted, strict=True)]


def _apart(
    stimuli: Concepts, wins: np.ndarray, basis: int, concept: str, sign: int
) -> tuple[str, float]:
    """The other concept that is followed most, and p that it is followed as much as the own.

    Followed as much means by itself and beside all bases; one of the two refuted is enough, at
    half of the level each.
    """
    forms = [wins[:, basis] - 0.5]
    if wins.shape[1] > 1:
        forms.append(wins[:, basis] - wins.mean(axis=1))
    own = [sign * form[stimuli.concept == concept] for form in forms]
    most, highest, largest = "", -np.inf, 0.0
    for name in stimuli.names:
        if name == concept:
            continue
        there = stimuli.concept == name
        way = np.sign(forms[0][there].mean()) or 1
        rest = [way * form[there] for form in forms]
        if rest[0].mean() > highest:
            most, highest = name, rest[0].mean()
        p = [_exceeds(one, other) for one, other in zip(own, rest, strict=True)]
        largest = max(largest, min(1.0, len(p) * min(p)))
    return most, largest


def _exceeds(one: np.ndarray, other: np.ndarray) -> float:
    """One-sided p of Welch's test that the first mean isn't above the second.

    Checked against ``scipy.stats.ttest_ind(..., equal_var=False)``.
    """
    gap, sizes = one.mean() - other.mean(), (len(one), len(other))
    if gap <= 0 or min(sizes) < 2:
        return 1.0
    parts = np.asarray([one.var(ddof=1) / sizes[0], other.var(ddof=1) / sizes[1]])
    if parts.sum() < 1e-12:
        return 0.0
    df = parts.sum() ** 2 / (parts**2 / (np.asarray(sizes) - 1)).sum()
    return float(stats.t.sf(gap / np.sqrt(parts.sum()), df))


def _beyond(net: np.ndarray, prompt: np.ndarray) -> np.ndarray:
    """One-sided exact p that each column's sum is no more than 0."""
    totals, _ = proportions.by_prompt(net, prompt)
    two = permutation.sign_flip(totals)
    return np.where(totals.sum(axis=0) > 0, two / 2, 1.0)
