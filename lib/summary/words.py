"""What the scorecard and the comparison of models say, written from their tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lib import words
from lib.analyses.disentanglement.stats import THRESHOLD
from lib.stats.winrates import ALL, CHANCE, STRONG, VERDICTS
from lib.summary.scorecard.stats import DOUBTED, NO_CONCEPT, NOT_TESTED, WRONG, compared
from lib.summary.tables import NOT_RUN
from lib.words import longer

MOST = 3  # sentences of one sort


def scorecard(
    card: pd.DataFrame,
    matrix: pd.DataFrame,
    entangled: pd.DataFrame,
    sides: pd.DataFrame | None = None,
) -> list[str]:
    """Takeaways of a model: verdicts, heads that change sides, names, partners, what is missing.

    Parameters
    ----------
    card, matrix, entangled, sides
        As ``lib.summary``'s ``scorecard``, ``matrix``, ``entanglement`` and ``sides`` return them.
    """
    told = [*_verdicts(card, matrix), *_sides(card, matrix, sides), *_names(card)]
    told += [*_partners(card, entangled), *_readout(card)]
    return [*told, *_missing(card, matrix)]


def _verdicts(card: pd.DataFrame, matrix: pd.DataFrame) -> list[str]:
    overall = matrix[(matrix["subset"] == ALL) & (matrix["verdict"] != NOT_RUN)]
    if overall.empty:
        return []
    counts = overall["verdict"].value_counts()
    said = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if name in counts)
    places = words.count(overall["dataset"].nunique(), "protocol")
    told = f"{len(card)} heads on {places} give {words.count(len(overall), 'verdict')}: {said}."
    if len(card) == 1:
        told = f"The model's one head, {card['head'].iloc[0]}, on {places}: {said}."
    return [" ".join([told, *longer.verdicts(overall)])]


def _sides(
    card: pd.DataFrame, matrix: pd.DataFrame, sides: pd.DataFrame | None = None
) -> list[str]:
    """Heads that change sides; nothing where no table corrects over protocols."""
    if sides is None:
        return []
    told = [
        f"{head} goes with the labels of {best['dataset']} ({words.rate(best)}) and against those "
        f"of {worst['dataset']} ({words.rate(worst)})."
        for head, best, worst in _changing(sides)
    ]
    if told:
        found = "That heads change sides is corrected over all protocols at once."
        return [*_few(told, "further heads change sides too."), found]
    if (card["protocols"] > 1).any():
        return [
            "No head is shown to go with the labels of one protocol and against those of another, "
            "corrected over all protocols at once."
        ]
    return []


def _changing(sides: pd.DataFrame) -> list[tuple[str, pd.Series, pd.Series]]:
    """Heads shown above one half and below it, with their highest and lowest such cell."""
    cells = sides.rename(columns={"protocol": "dataset"})
    side = np.sign(cells["win_rate"] - 0.5).where(cells["p_adjusted"] < 0.05, 0)
    found = []
    for head, own in cells.assign(side=side).groupby("head", sort=False):
        above, below = own[own["side"] > 0], own[own["side"] < 0]
        if len(above) and len(below):
            best, worst = above["win_rate"].idxmax(), below["win_rate"].idxmin()
            found.append((head, above.loc[best], below.loc[worst]))
    return found


def _names(card: pd.DataFrame) -> list[str]:
    if (card["label"] == NOT_RUN).all():
        return []
    wrong, doubted = card[card["label"] == WRONG], card[card["label"] == DOUBTED]
    tested = card[~card["label"].isin([NOT_RUN, NOT_TESTED])]
    told = _few(
        [
            f"{row.head} is called wrong about {row.claims} on {row.label_on}: it "
            f"{row.label_why} (it wins {row.own:.2f} [{row.own_low:.2f}, {row.own_high:.2f}] of "
            "what it claims)."
            for row in wrong.itertuples()
        ],
        "further names are called wrong.",
    )
    told += _few(
        [
            f"The name of {row.head}, {row.claims}, is in doubt on {row.label_on}: it "
            f"{row.label_why}."
            for row in doubted.itertuples()
        ],
        "further names are in doubt.",
    )
    if tested.empty:
        return ["No head's name could be tested against what the head does."]
    if not told:
        told = [
            "The one name that was tested is not contradicted."
            if len(tested) == 1
            else f"None of the {len(tested)} names that were tested is called wrong."
        ]
    told.append(_unproven(tested))
    silent = int((card["label"] == NOT_TESTED).sum())
    if silent:
        none = card[(card["label"] == NOT_TESTED) & (card["claims"] == NO_CONCEPT)]
        why = ", since it claims none of the concepts" if len(none) == silent == 1 else ""
        told.append(f"The name of {words.count(silent, 'head')} was not tested{why}.")
    return told


def _unproven(tested: pd.DataFrame) -> str:
    """How many heads don't win on the criterion that they claim: silence is no support."""
    silent = int((tested["own_low"].astype(float) <= 0.5).sum())
    if not silent:
        return "Each tested head wins its own criterion beyond its interval."
    verb, own = ("doesn't", "its") if silent == 1 else ("don't", "their")
    return (
        f"{silent} of {words.count(len(tested), 'tested head')} {verb} win {own} own criterion "
        f"beyond {own} interval."
    )


def _partners(card: pd.DataFrame, entangled: pd.DataFrame) -> list[str]:
    if len(card) == 1 or (card["partners"] == NOT_RUN).all():
        return []
    if entangled.empty:
        return [
            f"No two heads' choices correlate beyond ±{THRESHOLD:g} for sure, wherever that was "
            "looked at."
        ]
    pairs = entangled.drop_duplicates(["head", "other"])
    told = [
        f"{row.head} and {row.other} are entangled: their choices correlate at {row.r:.2f} "
        f"[{row.low:.2f}, {row.high:.2f}] on {row.dataset}."
        for row in pairs.itertuples()
    ]
    return [
        *_few(told, "further pairs are entangled."),
        f"Two heads count as entangled where the whole interval lies beyond ±{THRESHOLD:g}; of "
        "several datasets the largest correlation is told.",
    ]


def _readout(card: pd.DataFrame) -> list[str]:
    told = []
    for row in card.itertuples():
        if ": not read out" in row.readout:
            told.append(f"Probes find in the state what {row.head} doesn't read out.")
    return _few(told, "further heads lose what the state holds.")


def gate(gates: pd.DataFrame) -> list[str]:
    """What the gate is worth beside each rule; one sentence where there is no gate to judge.

    Parameters
    ----------
    gates
        As ``lib.summary.gates`` returns it.
    """
    told = []
    for rule, rows in compared(gates).groupby("rule", sort=False):
        found = rows[rows["p_adjusted"] < 0.05]
        parts = [
            f"{says} on {', '.join(map(_gain, some.itertuples()))}"
            for says, some in (
                ("gains", found[found["gain"] > 0]),
                ("loses", found[found["gain"] < 0]),
            )
            if len(some)
        ]
        silent = len(rows) - len(found)
        if silent:
            parts.append(f"is not told apart on {silent} of {words.count(len(rows), 'dataset')}")
        told.append(f"Beside {rule} the gate {'; '.join(parts)}.")
    return told or ["The model has no gate, or no page judged it."]


def _gain(row: Any) -> str:
    return f"{row.dataset} ({row.gain:+.3f} [{row.gain_low:+.3f}, {row.gain_high:+.3f}])"


def _missing(card: pd.DataFrame, matrix: pd.DataFrame) -> list[str]:
    absent = {
        "validity": matrix.empty,
        "labels": (card["label"] == NOT_RUN).all(),
        "disentanglement": (card["partners"] == NOT_RUN).all(),
        "probes": (card["readout"] == NOT_RUN).all(),
    }
    names = [name for name, missing in absent.items() if missing]
    told = [f"Not run for this model: {', '.join(names)}."] if names else []
    holes = matrix.loc[matrix["verdict"] == NOT_RUN, "dataset"].unique()
    if len(holes):
        told.append(f"Validity was not run for every head on {', '.join(holes)}.")
    return told


def compare(scores: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """Takeaways of the comparison: each pair of models, then what can't be compared.

    Parameters
    ----------
    scores, pairs
        As ``lib.summary``'s ``scores`` and ``compare`` return them.
    """
    models = list(dict.fromkeys(scores["model"]))
    if len(models) < 2:
        one = models[0] if models else "none"
        return [f"One model was audited here ({one}), so there is nothing to compare it with."]
    if pairs.empty:
        return ["No two models were audited on the same dataset, so none are compared."]
    told = []
    for (model, other), rows in pairs.groupby(["model", "other"], sort=False):
        told += _pair(model, other, rows)
    family = int(pairs["p"].notna().sum())
    if family:
        told.append(f"Corrected by Holm over {words.count(family, 'comparison')} of two models.")
    silent = pairs[pairs["verdict"] == "undefined"]
    for (model, other, note), rows in silent.groupby(["model", "other", "note"], sort=False):
        where = ", ".join(dict.fromkeys(rows["dataset"]))
        told.append(f"{model} and {other} are not paired on {where}: {note}.")
    return told


def _pair(model: str, other: str, rows: pd.DataFrame) -> list[str]:
    told = []
    for verdict, winner, loser in (("higher", model, other), ("lower", other, model)):
        for row in rows[rows["verdict"] == verdict].itertuples():
            told.append(
                f"{winner} ranks more comparisons of {row.dataset} as that data set marks them "
                f"than {loser}: {model} {row.rate:.3f}, {other} {row.other_rate:.3f}, difference "
                f"{row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}] on {row.n} in common, "
                f"adjusted p = {row.p_adjusted:.2g}."
            )
    told = _few(told, f"further datasets tell {model} from {other}.")
    alike = rows[rows["verdict"] == "not told apart"]
    if len(alike):
        where = ", ".join(
            f"{row.dataset} ({row.difference:+.3f}, {words.size(row.mde)} would have been found "
            "with power .8)"
            for row in alike.itertuples()
        )
        told.append(f"{model} and {other} are not told apart on {where}.")
    return told


def answer(card: pd.DataFrame, matrix: pd.DataFrame, sides: pd.DataFrame | None = None) -> str:
    """In short: the verdicts, and how many heads change sides from protocol to protocol.

    That number is told where ``sides`` is at hand, as ``lib.summary.sides`` returns it: a
    verdict of each page's own correction would change sides too often by luck.
    """
    told = _verdicts(card, matrix) or [_no_verdict(matrix)]
    changing = 0 if sides is None else len(_changing(sides))
    if changing:
        told.append(
            f"{changing} of {words.count(len(card), 'head')} "
            f"{'goes' if changing == 1 else 'go'} with the labels of one protocol and against "
            "those of another, corrected over all protocols at once: what such a head is worth "
            "depends on what was asked."
        )
    return " ".join([*told, *([] if changing else _sides(card, matrix, sides))])


def _no_verdict(matrix: pd.DataFrame) -> str:
    if matrix.empty:
        return "No validity page was executed."
    return "No dataset that asks one question as a whole was judged, only criteria one by one."


def legend() -> pd.DataFrame:
    """What each ``verdict`` of a head means, in words; its ``meaning`` names the thresholds."""
    low, high = CHANCE
    meanings = {
        "strong": f"as tracks, and the whole interval of its win rate lies above {STRONG:g}",
        "tracks": "ranks first what the data set marks as better, more often than not, beyond "
        "chance; it may do so by length alone, which its sentence then says",
        "inverted": "prefers what it marks as worse, beyond chance",
        "chance": f"its whole interval lies within {low:g} to {high:g}, and its test would have "
        f"found {high - 0.5:.2f} from one half",
        "inconclusive": "none of these can be said with the data at hand",
        "undefined": "gives no numbers, or nothing but ties",
    }
    return pd.DataFrame({"verdict": list(meanings), "meaning": list(meanings.values())})


def difference(pairs: pd.DataFrame) -> str:
    """In short: on which datasets one model ranks more as the data mark it than another.

    Parameters
    ----------
    pairs
        As ``lib.summary.compare`` returns it.
    """
    told = []
    for (model, other), rows in pairs.groupby(["model", "other"], sort=False):
        parts = [
            f"{says} on {', '.join(map(_by, some.itertuples()))}"
            for verdict, says in (
                ("higher", "ranks more comparisons as the data set marks them"),
                ("lower", "ranks fewer"),
                ("not told apart", "is not told from it"),
                ("undefined", "can't be compared"),
            )
            if len(some := rows[rows["verdict"] == verdict])
        ]
        told.append(f"Beside {other}, {model} {'; '.join(parts)}.")
    return " ".join(told) or "No two models were audited on the same dataset."


def _by(row: Any) -> str:
    if pd.isna(row.difference):
        return row.dataset
    return f"{row.dataset} ({row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}])"


def glued(card: pd.DataFrame, matrix: pd.DataFrame) -> dict[str, str]:
    """Values of the scorecard for other pages: how many heads and protocols, the verdicts."""
    overall = matrix[(matrix["subset"] == ALL) & (matrix["verdict"] != NOT_RUN)]
    said = " ".join(_verdicts(card, matrix)) or _no_verdict(matrix)
    return {
        "heads": str(len(card)),
        "protocols": str(overall["dataset"].nunique()),
        "verdicts": said,
    }


def _few(told: Sequence[str], more: str) -> list[str]:
    return words.first(told, MOST, more)
