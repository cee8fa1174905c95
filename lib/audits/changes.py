"""Two audits side by side: which verdicts changed, and whether more changed than noise.

A verdict can change because one number crossed a line. So each head, and the one score, is also
compared with itself: on the comparisons that both audits have, by hashed id, who won then is
paired with who won now, by the test with which two models are compared (``lib.summary.compare``).
All questions are one family, whether a verdict changed there or not, but those on which no
outcome differs: what no test could find is no chance of a false finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from lib.audits import outcomes
from lib.audits.document import CHECK, COMPARE, name_of
from lib.audits.outcomes import Outcomes
from lib.data.asks import whole
from lib.errors import DataError
from lib.models.identity import differences
from lib.stats.winrates import ALL, FINAL, GATED
from lib.summary.compare.stats import judged, paired

HIGHER, LOWER, ALIKE = "higher", "lower", "not told apart"
SAME, UNPAIRED = "same outcomes", "not paired"
CHANGED, NEW, GONE = "changed", "new", "gone"
MOVED = ("model", "dataset", "judged", "part", "n", "prompts", "rate", "new_rate", "difference")
MOVED += ("low", "high", "p", "p_adjusted", "mde", "disagree", "verdict", "note")
VERDICTS = ("model", "of", "dataset", "judged", "part", "change", "before", "after", "moved")
VERDICTS += ("difference", "low", "high", "p_adjusted")
NO_NUMBERS = "scores that are not numbers"
NO_COMMON = "no comparison in common"
SEVERAL = (CHECK, COMPARE)  # verdicts that rest on more than one rule's outcomes


@dataclass(frozen=True)
class Changes:
    """What differs between two audits.

    Attributes
    ----------
    verdicts
        One row a verdict that is another now, or is in one audit alone: ``model``, ``of``,
        ``dataset``, ``judged``, ``part``, ``change`` (``changed``, ``new``, ``gone``),
        ``before``, ``after``, and what the paired test of that head says there: ``moved`` (as
        ``verdict`` of ``moved``, or ``not paired``), ``difference``, ``low``, ``high``,
        ``p_adjusted``.
    moved
        One row a head or one score and question of both: ``model``, ``dataset``, ``judged``,
        ``part``, ``n``, ``prompts``, ``rate`` (then), ``new_rate``, ``difference`` (now less
        then) with ``low`` and ``high``, ``p``, ``p_adjusted`` (Holm over the table), ``mde``,
        ``disagree``, ``verdict`` (``higher``, ``lower``, ``not told apart``,
        ``same outcomes``, ``not paired``) and ``note``.
    notes
        What made the two, where that differs, and what one of them alone has.
    """

    verdicts: pd.DataFrame
    moved: pd.DataFrame
    notes: list[str]

    @property
    def found(self) -> pd.DataFrame:
        """Rows of ``moved`` beyond noise."""
        return self.moved[self.moved["verdict"].isin([HIGHER, LOWER])]

    @property
    def empty(self) -> bool:
        """Does nothing differ?"""
        return self.verdicts.empty and self.found.empty and not self.notes


def changes(old: Mapping[str, Any], new: Mapping[str, Any], alpha: float = 0.05) -> Changes:
    """What differs between two audits, as ``lib.audits.document.load`` reads them.

    Models are paired by name; where each audit has one, these two are. Datasets are paired by
    name, and what is left by the digest of what was scored.

    Raises
    ------
    DataError
        When the two have no model, or no dataset, in common.
    """
    pairs, notes = _models(old, new)
    sets = {name: _datasets(one, other) for name, (one, other) in pairs.items()}
    if not any(sets.values()):
        raise DataError(
            "a dataset that both audits have",
            f"{_named(old)}; and {_named(new)}",
            "Audit the models on the same data.",
        )
    made = [
        f"{name} {old['made_with'].get(name, 'not there')} then and {version} now"
        for name, version in new["made_with"].items()
        if old["made_with"].get(name) != version
    ]
    notes += [f"Made with other versions: {', '.join(made)}."] if made else []
    rows, verdicts = [], []
    for name, (one, other) in pairs.items():
        notes += _provenance(name, one, other, sets[name])
        for before, after in sets[name]:
            rows += [{"model": name} | row for row in _tested(before, after, alpha)]
    moved = _judged(pd.DataFrame(rows).reindex(columns=[*MOVED, "flips"]), alpha)
    for name, (one, other) in pairs.items():
        renamed = {after["name"]: before["name"] for before, after in sets[name]}
        verdicts += [{"model": name} | row for row in _changed(one, other, renamed)]
    return Changes(_beside(pd.DataFrame(verdicts), moved), moved, notes)


def _models(old: Mapping, new: Mapping) -> tuple[dict[str, tuple], list[str]]:
    """Name → a model's part of both audits; and which are in one alone."""
    before, after = ({model["name"]: model for model in each["models"]} for each in (old, new))
    if len(before) == len(after) == 1:
        (one,), (other,) = before.values(), after.values()
        name = one["name"]
        if name == other["name"]:
            return {name: (one, other)}, []
        return {name: (one, other)}, [f"{name} then, {other['name']} now."]
    common = [name for name in before if name in after]
    if not common:
        raise DataError(
            "a model that both audits have",
            f"{', '.join(before)}; and {', '.join(after)}",
            "Give audits of the same models, or of one each.",
        )
    alone = ((GONE, set(before) - set(after)), (NEW, set(after) - set(before)))
    notes = [
        f"Models that are {kind}: {', '.join(sorted(names))}." for kind, names in alone if names
    ]
    return {name: (before[name], after[name]) for name in common}, notes


def _datasets(one: Mapping, other: Mapping) -> list[tuple[Mapping, Mapping]]:
    """Datasets of both, by name, then by digest of what was scored."""
    left = {each["name"]: each for each in other["datasets"]}
    pairs, rest = [], []
    for each in one["datasets"]:
        match = left.pop(each["name"], None)
        (pairs if match else rest).append((each, match))
    digests = {each["items"]: each for each in left.values() if each["items"]}
    for each, _ in rest:
        match = digests.pop(each["items"], None)
        if match:
            pairs.append((each, match))
    return pairs


def _named(audit: Mapping) -> str:
    names = {each["name"]: None for model in audit["models"] for each in model["datasets"]}
    return ", ".join(names) or "none"


def _provenance(
    name: str, one: Mapping, other: Mapping, sets: list[tuple[Mapping, Mapping]]
) -> list[str]:
    """What made one model's parts, where the two differ."""
    notes = []
    if one["fingerprint"] and other["fingerprint"]:
        parts = differences(one["fingerprint"], other["fingerprint"])
        if parts:
            notes.append(f"{name}: {', '.join(parts)} are others.")
    for before, after in sets:
        if before["items"] != after["items"]:
            notes.append(f"{name} on {before['name']}: other items were scored.")
    paired = {id(each) for pair in sets for each in pair}
    for kind, side in ((GONE, one), (NEW, other)):
        names = [each["name"] for each in side["datasets"] if id(each) not in paired]
        if names:
            notes.append(f"{name}: datasets that are {kind}: {', '.join(names)}.")
    return notes


def _tested(before: Mapping, after: Mapping, alpha: float) -> Iterator[dict]:
    """Each head and one score of both on each question of a dataset: the paired difference."""
    one, other = (outcomes.unpack(each["outcomes"]) for each in (before, after))
    _, mine, theirs = np.intersect1d(one.ids, other.ids, return_indices=True)
    order = np.argsort(mine)
    mine, theirs = mine[order], theirs[order]
    for rule in one.rules:
        if rule not in other.rules or (rule == FINAL and _repeats(one) and _repeats(other)):
            continue
        then, now = one.rules[rule][mine], other.rules[rule][theirs]
        for part, rows in _parts(before["name"], one, mine):
            row = {"dataset": before["name"], "judged": rule, "part": part}
            yield row | _pair(then[rows], now[rows], one.prompt[mine][rows], alpha)


def _repeats(found: Outcomes) -> bool:
    """Is the one score that of the only head?"""
    heads = [won for rule, won in found.rules.items() if rule != FINAL]
    same = len(heads) == 1 and np.array_equal(heads[0], found.rules[FINAL], equal_nan=True)
    return bool(same)


def _parts(dataset: str, found: Outcomes, rows: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Questions on which verdicts are given: all of a dataset, and its subsets."""
    subset = found.subset[rows]
    names = list(dict.fromkeys(subset.tolist()))
    if whole(dataset) or len(names) < 2:
        yield ALL, np.ones(len(rows), bool)
    if len(names) > 1:
        for name in names:
            yield name, subset == name


def _pair(then: np.ndarray, now: np.ndarray, prompt: np.ndarray, alpha: float) -> dict:
    row: dict[str, Any] = {"n": len(then), "flips": ()}
    if not len(then):
        return row | {"verdict": UNPAIRED, "note": NO_COMMON}
    prompt = np.unique(prompt, return_inverse=True)[1]
    row |= {"prompts": int(prompt.max()) + 1}
    both = np.isnan(then) == np.isnan(now)
    if np.isnan(then).any() or np.isnan(now).any():
        same = both.all() and (np.nan_to_num(then) == np.nan_to_num(now)).all()
        return row | {"verdict": SAME if same else UNPAIRED, "note": NO_NUMBERS}
    row |= {"rate": then.mean(), "new_rate": now.mean(), "disagree": (then != now).mean()}
    if (then == now).all():
        return row | {"difference": 0.0, "verdict": SAME, "note": ""}
    return row | paired(now, then, prompt, alpha)


def _judged(table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """The table with ``p_adjusted``, ``mde`` and ``verdict``, one family."""
    given = table["verdict"].copy()
    told = judged(table, alpha)
    told["verdict"] = given.where(given.notna(), told["verdict"])
    told["note"] = told["note"].fillna("")
    return told[list(MOVED)]


def _changed(one: Mapping, other: Mapping, renamed: Mapping[str, str]) -> Iterator[dict]:
    """Verdicts that are others, or in one audit alone, in the order of the audits."""
    before = {name_of(row): row["verdict"] for row in one["verdicts"]}
    after = {}
    for row in other["verdicts"]:
        of, dataset, *rest = name_of(row)
        after[of, renamed.get(dataset, dataset), *rest] = row["verdict"]
    for key in dict.fromkeys([*before, *after]):
        then, now = before.get(key), after.get(key)
        if then == now:
            continue
        kind = NEW if then is None else GONE if now is None else CHANGED
        names = dict(zip(("of", "dataset", "judged", "part"), key, strict=True))
        yield names | {"change": kind, "before": then or "", "after": now or ""}


def _beside(verdicts: pd.DataFrame, moved: pd.DataFrame) -> pd.DataFrame:
    """Changed verdicts with what the test of that head says on that question."""
    if verdicts.empty:
        return pd.DataFrame(columns=list(VERDICTS))
    key = ["model", "dataset", "judged", "part"]
    numbers = ["difference", "low", "high", "p_adjusted"]
    told = moved[[*key, "verdict", *numbers]].rename(columns={"verdict": "moved"})
    named = verdicts["judged"].replace(GATED, FINAL)  # outcomes have one name for either
    found = verdicts.assign(judged=named).merge(told, on=key, how="left")
    found["judged"] = verdicts["judged"].to_numpy()
    single = ~found["of"].isin(SEVERAL)
    found["moved"] = found["moved"].where(single).fillna(UNPAIRED)
    found[numbers] = found[numbers].where(single, axis=0)
    return found.reindex(columns=list(VERDICTS))
