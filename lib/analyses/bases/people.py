"""Whose choices comparisons are: users, parts of data that stand for users, simulated users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import xarray as xr

from lib.data import concepts
from lib.data.rm_bench import SET as STYLED
from lib.data.rm_bench import STYLES
from lib.errors import DataError
from lib.run import align
from lib.training.bases import LEAST, SPREAD

NAMED_ON = "stimuli/controlled"
USERS, STAND_INS, SIMULATED = "users", "stand-ins for users", "simulated users"
NO_STATE, FEW, NOBODY = "states not kept", f"of users with fewer than {LEAST} pairs", "of no user"
MIXED = 3  # heads that simulated users mix
MANY, PAIRS = 60, 300  # simulated users, and the pairs of each
ALPHA = 0.3  # of their Dirichlet distribution: most stand near one head


@dataclass(frozen=True)
class People:
    """Choices by user.

    Attributes
    ----------
    kind
        ``USERS``, ``STAND_INS`` or ``SIMULATED``.
    difference
        State of the chosen response minus the rejected one's, shape (pairs, features).
    user, prompt
        Name of each pair's user, and an integer for its prompt.
    concept
        What each comparison is about (``lib.data.concepts``), or "".
    gaps
        What each usable head scores the chosen response above the rejected, (pairs, heads).
    heads, claims
        Names of those heads, and the concepts that they claim or "".
    left_out
        Comparisons that are not here, by reason.
    truth
        Of simulated users: the columns of ``gaps`` that they mix.
    note
        Why there are none, or "".
    """

    kind: str
    difference: np.ndarray
    user: np.ndarray
    prompt: np.ndarray
    concept: np.ndarray
    gaps: np.ndarray
    heads: tuple[str, ...]
    claims: tuple[str, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    truth: tuple[int, ...] = ()
    note: str = ""

    def __len__(self) -> int:
        return len(self.user)

    @property
    def users(self) -> list[str]:
        """Their names, in order."""
        return sorted(set(self.user.tolist()))


def people(runs: Sequence[xr.Dataset], judged: pd.DataFrame | None = None) -> People:
    """Choices of runs by user; those of ``stimuli/controlled`` are kept for names.

    Parameters
    ----------
    runs
        Of one model.
    judged
        Comparisons of the only run with a column ``user``, as in ``items.comparisons``; without
        one, parts of the data stand for users: a subset each, and of RM-Bench a domain and the
        styles of the two responses.

    Returns
    -------
    People
        Comparisons whose states weren't kept, and of users with a single one, are left out and
        counted.
    """
    runs = [run for run in runs if run.attrs["dataset"] != NAMED_ON]
    real = judged is not None and "user" in judged and len(runs) == 1
    parts = [_part(run, judged if real else None) for run in runs]
    left_out = Counter()
    for _, lost in parts:
        left_out.update(lost)
    whole = [part for part, _ in parts if len(part["user"])]
    if not whole:
        note = "no comparison whose states were kept" if parts else f"no data but {NAMED_ON}"
        return _nobody(USERS if real else STAND_INS, left_out, note)
    joined = {
        name: np.concatenate([part[name] for part in whole])
        for name in ("difference", "user", "hash", "concept", "gaps")
    }
    _, code, counts = np.unique(joined["user"], return_inverse=True, return_counts=True)
    kept = counts[code] >= LEAST
    if (~kept).any():
        left_out[FEW] = int((~kept).sum())
    if not kept.any():
        return _nobody(USERS if real else STAND_INS, left_out, "no user with two comparisons")
    run = runs[0]
    usable = np.isfinite(joined["gaps"]).all(axis=0) & (joined["gaps"][kept].std(axis=0) > 0)
    return People(
        USERS if real else STAND_INS,
        joined["difference"][kept],
        joined["user"][kept],
        np.unique(joined["hash"][kept], return_inverse=True)[1],
        joined["concept"][kept],
        joined["gaps"][kept][:, usable],
        tuple(map(str, run["head"].values[usable])),
        tuple(map(str, run["head_concept"].values[usable])),
        dict(left_out),
    )


def _nobody(kind: str, left_out: Mapping[str, int], note: str) -> People:
    none, text = np.zeros((0, 1)), np.asarray([], str)
    empty = np.zeros(0, int)
    return People(kind, none, text, empty, text, none[:, :0], (), (), dict(left_out), (), note)


def _part(run: xr.Dataset, judged: pd.DataFrame | None) -> tuple[dict, Counter]:
    """Choices of a run, and what it leaves out."""
    aligned = align(run, judged)
    hidden = run["hidden"].values
    known = np.isfinite(hidden).all(axis=1)
    kept = known[aligned.better] & known[aligned.worse]
    lost = Counter({NO_STATE: int((~kept).sum())}) if (~kept).any() else Counter()
    user = stand_ins(run, aligned) if judged is None else _named(run, judged)
    if judged is not None and (nobody := user == "").any():
        lost[NOBODY] = int((nobody & kept).sum())
        kept &= ~nobody
    better, worse = aligned.better[kept], aligned.worse[kept]
    owner = run["item_of_response"].values[better]
    dataset = run.attrs["dataset"]
    told = zip(aligned.criterion[kept].tolist(), aligned.subset[kept].tolist(), strict=True)
    found = {
        "difference": hidden[better].astype(np.float32) - hidden[worse].astype(np.float32),
        "user": user[kept].astype(str),
        "hash": run["prompt_hash"].values[owner].astype(str),
        "concept": np.asarray([_concept(dataset, *each) for each in told], str),
        "gaps": run["score"].values[better].astype(float) - run["score"].values[worse],
    }
    return found, lost


def _named(run: xr.Dataset, judged: pd.DataFrame) -> np.ndarray:
    """The user of each comparison that ``align`` keeps, "" for none."""
    index = run.indexes["response"]
    kept = np.asarray([judged[side].isin(index).to_numpy() for side in ("better", "worse")])
    return judged["user"].fillna("").astype(str).str.strip().to_numpy(str)[kept.all(axis=0)]


def stand_ins(run: xr.Dataset, aligned) -> np.ndarray:
    """Which part of the data stands for each comparison's user."""
    dataset = run.attrs["dataset"]
    subset = aligned.subset
    one = len(np.unique(subset)) <= 1
    names = np.asarray([dataset if one else f"{dataset}/{each}" for each in subset], str)
    if dataset.split("/")[0] == STYLED:
        slot = run["slot"].values
        better, worse = slot[aligned.better], slot[aligned.worse] - len(STYLES)
        styles = [
            f": {STYLES[b]} over {STYLES[w]}" if max(b, w) < len(STYLES) and w >= 0 else ""
            for b, w in zip(better, worse, strict=True)
        ]
        names = np.char.add(names, np.asarray(styles, str))
    return names


def _concept(dataset: str, criterion: str, subset: str) -> str:
    try:
        return concepts.of_comparison(dataset, criterion, subset)
    except DataError:
        return ""


def simulated(
    given: People,
    *,
    users: int = MANY,
    pairs: int = PAIRS,
    alpha: float = ALPHA,
    seed: int = 0,
) -> People:
    """Users who choose between the same responses by mixtures of the model's own heads.

    Parameters
    ----------
    given
        Whose pairs are chosen from.
    users, pairs
        How many, and of how many pairs each, or of as many as there are.
    alpha
        Weights are Dirichlet(alpha, …): below 1 most users stand near one head.

    Returns
    -------
    People
        Each chooses with probability σ(Σ_k π_k g_k), where g_k is the gap of a head in units in
        which its root mean square is ``SPREAD``. Heads are those that agree least with one
        another, the first of them the one that agrees least with the rest.
    """
    if given.note or len(given.heads) < 2:
        note = given.note or "fewer than two heads, so that simulated users would be all alike"
        return _nobody(SIMULATED, {}, note)
    generator = np.random.default_rng(seed)
    scaled = given.gaps / np.sqrt((given.gaps**2).mean(axis=0)) * SPREAD
    chosen = _apart(scaled, MIXED)
    weight = generator.dirichlet([alpha] * len(chosen), users)
    rows = [generator.permutation(len(given))[:pairs] for _ in range(users)]
    user = np.repeat(np.arange(users), [len(each) for each in rows])
    row = np.concatenate(rows)
    margin = np.einsum("ij,ij->i", scaled[row][:, chosen], weight[user])
    won = generator.random(len(row)) < 1 / (1 + np.exp(-margin))
    sign = np.where(won, 1, -1)[:, None]
    width = len(str(users - 1))
    return replace(
        given,
        kind=SIMULATED,
        difference=(given.difference[row] * sign).astype(np.float32),
        user=np.asarray([f"simulated {each:0{width}d}" for each in user], str),
        prompt=given.prompt[row],
        concept=np.full(len(row), "", "U1"),
        gaps=given.gaps[row] * sign,
        left_out={},
        truth=tuple(chosen),
    )


def _apart(gaps: np.ndarray, many: int) -> list[int]:
    """Columns that agree least: the first agrees least with all, each next with those chosen."""
    length = np.sqrt((gaps**2).sum(axis=0))
    cosine = np.abs(gaps.T @ gaps / np.outer(length, length))
    chosen = [int(cosine.sum(axis=0).argmin())]
    while len(chosen) < min(many, len(cosine)):
        most = cosine[:, chosen].max(axis=1)
        most[chosen] = np.inf
        chosen.append(int(most.argmin()))
    return chosen
