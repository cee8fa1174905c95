"""Latent bases of a run's choices: how many the data support, how steady, and what to call them.

``study``      all of it for one kind of people, as tables
``new_users``  what new users gain (``few``), for several kinds of people
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.bases import naming
from lib.analyses.bases.few import COLUMNS
from lib.analyses.bases.few import few_shot as few_shot
from lib.analyses.bases.naming import AGAINST, HEADS, NEAR, PURE, STIMULI
from lib.analyses.bases.people import SIMULATED, People
from lib.analyses.bases.people import people as people
from lib.analyses.bases.people import simulated as simulated
from lib.training import bases

BOUND = 20.0  # degrees from the truth within which a span, or a basis, is meant to be
CLAIMED = 16.0  # expected degrees up to which that is said
SETTLED = 10.0  # degrees between restarts up to which corners are told from the pairs
COMPONENTS = 256
MOST = 5  # bases that are tried
RESTARTS, SPLITS = 2, 3
UNNAMED = "unnamed"
NUMBERS = ["whose", "bases", "users", "loss", "accuracy", "gain", "low", "high", "p", "seen"]
NUMBERS += ["supported"]
STEADY = ["whose", "bases", "restarts", "halves", "expected", "truth", "claimed"]
BASES = ["whose", "basis", "name", "why", "share", "near", "nearest", "points_to", "sources"]
BASES += ["head", "cosine", "n", "rate", "low", "high", "beside", "elsewhere", "p", "p_adjusted"]
BASES += ["restart", "expected"]

TESTED = ("n", "rate", "low", "high", "beside", "p", "p_adjusted")

UNSTEADY = "the bases' span isn't steady enough"
CORNERS = "other corners would do as well"
LOOSE = "this basis isn't steady enough"
NO_STIMULI = "no stimuli to test a name on"
NO_POINT = "nothing points to a concept"
FAILED = "its name didn't pass the label test"


@dataclass(frozen=True)
class Study:
    """What ``study`` found.

    Attributes
    ----------
    people, pairs
        Choices, and the same in coordinates; ``pairs`` is ``None`` where there are none.
    found
        Of as many bases as the data support.
    numbers, steady, bases
        Tables; see ``study``.
    count
        Bases that the data support; 0 where there is nothing to fit.
    claimed
        Is the span said to be within ``BOUND`` degrees of the truth?
    spread
        The penalty (``lib.training.bases``) with which held-out users are served best. Bases that
        are looked at have the default one, since a strong penalty bends them.
    note
        Why there is nothing, or "".
    """

    people: People
    pairs: bases.Pairs | None
    found: bases.Bases | None
    numbers: pd.DataFrame
    steady: pd.DataFrame
    bases: pd.DataFrame
    count: int
    claimed: bool
    spread: float
    note: str


def study(
    given: People,
    stimuli: xr.Dataset | naming.Concepts | None = None,
    *,
    most: int = MOST,
    count: int = 0,
    alpha: float = 0.05,
    seed: int = 0,
) -> Study:
    """Count, fit, try and name the bases of one kind of people.

    Parameters
    ----------
    given
        From ``people`` or ``simulated``.
    stimuli
        The run of ``stimuli/controlled`` that names are chosen and tested on; none are given
        without.
    most
        Bases that are tried.
    count
        Fit so many, whatever the data support; 0 for what they support.
    alpha
        Level of a step to more bases, and of all names of these people together.
    seed
        Of folds, splits and starts.

    Returns
    -------
    Study
        ``numbers``, a row a number of bases: ``loss`` and ``accuracy`` on held-out items of
        held-out ``users`` (``lib.training.bases.ranks``), ``gain`` in loss over one basis less
        with ``low`` and ``high`` (95%, t over users) and its one-sided ``p``, ``seen``: the loss
        on the same items for users that were fitted, and whether it is ``supported``.

        ``steady``, one row: the largest principal angle in degrees between fits begun anew
        (``restarts``, the largest) and between halves of the items (``halves``, the mean),
        ``expected``: the angle to the truth that halves speak of
        (``lib.training.bases.spans.expected_angle``), ``truth``: that angle for simulated users,
        and ``claimed``.

        ``bases``, a row a basis: ``name`` and ``why`` it has none; ``share``, its mean weight;
        ``near``, how many users give it ``PURE`` or more, and who is ``nearest``; what evidence
        ``points_to`` and which ``sources`` agree; the audited ``head`` that agrees most, with the
        ``cosine`` of their rewards; the label test on stimuli that didn't choose the name
        (``naming.tested``), and its own angles.

    Notes
    -----
    A span is claimed where ``expected`` ≤ ``CLAIMED``. A basis is named where the span is
    claimed, restarts lead to the same basis (≤ ``SETTLED`` degrees) and halves too
    (``expected`` ≤ ``CLAIMED``), evidence points to a concept, and the name passes its test.
    Heads are no evidence for users who were made from them.
    """
    empty = [pd.DataFrame(columns=columns) for columns in (NUMBERS, STEADY, BASES)]
    if given.note or not given.difference.any():
        note = given.note or "all responses have the same state"
        return Study(given, None, None, *empty, 0, False, bases.SPREAD, note)
    pairs = bases.grouped(
        given.difference, given.user, given.prompt, components=COMPONENTS, seed=seed
    )
    spread = bases.choose(pairs, seed=seed)
    held = bases.ranks(pairs, most, spread=spread, seed=seed) if pairs.users > 1 else None
    supported = bases.supported(held["loss"], alpha) if held else 1
    numbers = _numbers(given.kind, held, supported) if held else empty[0]
    found = bases.fit(pairs, min(count, pairs.users) or supported, seed=seed)
    stable = bases.stability(pairs, found, restarts=RESTARTS, splits=SPLITS, seed=seed)
    claimed = bool(stable.expected <= CLAIMED)
    steady = {
        "whose": given.kind,
        "bases": found.count,
        "restarts": stable.restart.max(),
        "halves": stable.half.mean(),
        "expected": stable.expected,
        "truth": _truth(given, pairs, found),
        "claimed": claimed,
    }
    named = _named(given, pairs, found, stable, stimuli, alpha, seed)
    steady = pd.DataFrame([steady])[STEADY]
    return Study(given, pairs, found, numbers, steady, named, supported, claimed, spread, "")


def new_users(studies: list[Study], *, seed: int = 0) -> pd.DataFrame:
    """``few.few_shot`` of each study, with as many bases as its data support, but two at least.

    Columns ``whose`` and those of ``few.COLUMNS``.
    """
    tables = [
        few_shot(each.people, each.pairs, max(2, each.count), spread=each.spread, seed=seed).assign(
            whose=each.people.kind
        )
        for each in studies
        if not each.note
    ]
    tables = [table for table in tables if len(table)]
    if not tables:
        return pd.DataFrame(columns=["whose", *COLUMNS])
    return pd.concat(tables, ignore_index=True)[["whose", *COLUMNS]]


def tables(studies: list[Study], name: str) -> pd.DataFrame:
    """A table of every study (``numbers``, ``steady`` or ``bases``), one below the other."""
    parts = [getattr(each, name) for each in studies]
    filled = [part for part in parts if len(part)]
    return pd.concat(filled, ignore_index=True) if filled else parts[0]


def _numbers(kind: str, held: dict[str, np.ndarray], supported: int) -> pd.DataFrame:
    loss, right, seen = held["loss"], held["right"], held["seen"]
    known = np.isfinite(loss).all(axis=0)
    rows = []
    for place in range(len(loss)):
        before = loss[max(place - 1, 0), known]
        told = bases.gains(before, loss[place, known]) if place else (np.nan,) * 4
        rows.append(
            {
                "whose": kind,
                "bases": place + 1,
                "users": int(known.sum()),
                "loss": _mean(loss[place]),
                "accuracy": _mean(right[place]),
                **dict(zip(("gain", "low", "high", "p"), told, strict=True)),
                "seen": _mean(seen[place]),
                "supported": place < supported,
            }
        )
    return pd.DataFrame(rows)[NUMBERS]


def _mean(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else np.nan


def truth(given: People, pairs: bases.Pairs) -> np.ndarray:
    """Rewards that simulated users mix, in the coordinates of the pairs, (components, heads)."""
    gaps = given.gaps[pairs.row][:, list(given.truth)]
    return np.linalg.lstsq(np.asarray(pairs.z, float), gaps, rcond=None)[0]


def _truth(given: People, pairs: bases.Pairs, found: bases.Bases) -> float:
    if not given.truth or found.count != len(given.truth):
        return np.nan
    return float(bases.angles(found.coefficients, truth(given, pairs), pairs.variance)[-1])


def _named(given, pairs, found, stable, stimuli, alpha: float, seed: int) -> pd.DataFrame:
    if isinstance(stimuli, xr.Dataset):
        stimuli = naming.of_run(stimuli)
    count = found.count
    cosine = _cosines(given, pairs, found)
    closest, claim, head_sign = naming.heads_say(cosine, given.claims)
    points, sources = [("", 1)] * count, [[] for _ in range(count)]
    tests = [{"n": 0} for _ in range(count)]
    told = "" if len(given.users) < 2 else NO_POINT
    if stimuli is not None and len(stimuli.names) > 1:
        choosing, testing = stimuli.split(seed)
        vectors = found.vectors(pairs)
        concepts = choosing.names
        wins = naming.won(choosing, vectors)
        best, sign, margin = naming.stimuli_say(naming.rates(wins, choosing))
        near = naming.users_say(found.weights, _asked(given, pairs))
        for basis in range(count):
            votes = {}
            if margin[basis] > 0:
                votes.setdefault((concepts[best[basis]], int(sign[basis])), []).append(STIMULI)
            if given.kind != SIMULATED and claim[basis] in concepts:
                vote = (claim[basis], int(head_sign[basis]))
                votes.setdefault(vote, []).append(HEADS)
            if near[basis] in concepts:
                votes.setdefault((near[basis], 1), []).append(NEAR)
            if votes:
                points[basis] = max(votes, key=lambda vote: len(votes[vote]))
                sources[basis] = votes[points[basis]]
        tests = naming.tested(testing, naming.won(testing, vectors), points)
    rows = []
    for basis in range(count):
        test = tests[basis]
        concept, sign = points[basis]
        name = concept if sign > 0 else AGAINST + concept
        why = _why_not(stable, basis, stimuli, concept, test, alpha) or told * (not concept)
        order = np.argsort(-found.weights[:, basis], kind="stable")[:3]
        rows.append(
            {
                "whose": given.kind,
                "basis": basis + 1,
                "name": UNNAMED if why else name,
                "why": why,
                "share": found.weights[:, basis].mean(),
                "near": int((found.weights[:, basis] >= PURE).sum()),
                "nearest": "; ".join(pairs.names[user] for user in order),
                "points_to": name if concept else "",
                "sources": ", ".join(sources[basis]),
                "head": given.heads[closest[basis]] if closest[basis] >= 0 else "",
                "cosine": cosine[basis, closest[basis]] if closest[basis] >= 0 else np.nan,
                "restart": stable.restart_basis[:, basis].max(),
                "expected": stable.expected_basis[basis],
                **{key: test.get(key, np.nan) for key in TESTED},
                "elsewhere": test.get("elsewhere", ""),
            }
        )
    return pd.DataFrame(rows)[BASES]


def _why_not(stable, basis: int, stimuli, concept: str, test: dict, alpha: float) -> str:
    """Why a basis has no name; "" where it has one."""
    if stable.expected > CLAIMED:
        return UNSTEADY
    if stable.restart_basis[:, basis].max() > SETTLED:
        return CORNERS
    if stable.expected_basis[basis] > CLAIMED:
        return LOOSE
    if stimuli is None:
        return NO_STIMULI
    if not concept:
        return NO_POINT
    return "" if test["p_adjusted"] < alpha else FAILED


def _cosines(given: People, pairs: bases.Pairs, found: bases.Bases) -> np.ndarray:
    """Of the rewards of bases and audited heads, on the pairs, (bases, heads)."""
    margin = np.asarray(pairs.z @ found.coefficients.astype(pairs.z.dtype), float)
    gaps = given.gaps[pairs.row]
    lengths = [np.sqrt(np.maximum((each**2).sum(axis=0), 1e-300)) for each in (margin, gaps)]
    return margin.T @ gaps / np.outer(*lengths)


def _asked(given: People, pairs: bases.Pairs) -> list[str]:
    """The concept that most of each user's comparisons are about, or ""."""
    concept = given.concept[pairs.row]
    out = []
    for user in range(pairs.users):
        names, counts = np.unique(concept[pairs.user == user], return_counts=True)
        out.append(str(names[counts.argmax()]) if counts.max() > counts.sum() / 2 else "")
    return out
