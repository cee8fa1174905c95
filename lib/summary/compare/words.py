"""What the comparison of models says, written from its tables."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.analyses.lens.orders import EARLIER, LATER, NEITHER
from lib.summary.compare.agreement import APART, NOT_SHOWN, UNDEFINED
from lib.summary.compare.agreement import TOGETHER as FAIL_TOGETHER
from lib.summary.compare.learned import MARK, marks
from lib.summary.tables import TOGETHER

SHOWN = 3  # data sets that tell two models apart
NAMED = 6  # models and data sets that win no more than length


def takeaways(scores: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """Each pair of models, then what can't be compared."""
    models = scores["model"].unique()
    if len(models) < 2:
        one = models[0] if len(models) else "none"
        return [f"One model was audited here ({one}), so there is nothing to compare it with."]
    if pairs.empty:
        return ["No two models were audited on the same dataset, so none are compared."]
    sentences = []
    for (model, other), rows in pairs.groupby(["model", "other"], sort=False):
        sentences += [*_pair(model, other, _marked(rows)), *learned(rows)]
    sentences += _family(pairs)
    undefined = pairs[pairs["verdict"] == "undefined"]
    for (model, other, note), rows in undefined.groupby(["model", "other", "note"], sort=False):
        where = ", ".join(rows["dataset"].unique())
        sentences.append(f"{model} and {other} are not paired on {where}: {note}.")
    return sentences


def _pair(model: str, other: str, rows: pd.DataFrame) -> list[str]:
    apart = []
    for verdict, winner, loser in (("higher", model, other), ("lower", other, model)):
        apart += words.each(
            rows[rows["verdict"] == verdict],
            "{winner} ranks more comparisons of {dataset} as that data set marks them than "
            "{loser}: {model} {rate:.3f}, {other} {other_rate:.3f}, difference {difference:+.3f} "
            "[{low:+.3f}, {high:+.3f}] on {n} in common, adjusted p = {p_adjusted:.2g}.",
            winner=winner,
            loser=loser,
        )
    sentences = words.first(apart, SHOWN, f"further datasets tell {model} from {other}.")
    alike = rows[rows["verdict"] == "not told apart"]
    if len(alike):
        sizes = [words.found(mde, nothing="no difference") for mde in alike["mde"]]
        where = words.each(
            alike.assign(size=sizes),
            "{dataset} ({difference:+.3f}, {size} with power .8)",
        )
        sentences.append(f"{model} and {other} are not told apart on {', '.join(where)}.")
    known = rows[rows["disagree"].notna()]
    if len(known):
        share = words.span(known["disagree"], ".1%")
        end = "" if len(known) == 1 else ", depending on the data set"
        sentences.append(f"{model} and {other} choose differently on {share} of comparisons{end}.")
    return sentences


def _family(pairs: pd.DataFrame) -> list[str]:
    """How verdicts and intervals are corrected, and where they seem to disagree for it."""
    family = int(pairs["p"].notna().sum())
    if not family:
        return []
    told = (
        f"Verdicts are by Holm's correction over {words.count(family, 'comparison')} of two models"
    )
    alike = pairs[pairs["verdict"] == "not told apart"]
    apart = alike[(alike["low"] > 0) | (alike["high"] < 0)]
    if apart.empty:
        return [f"{told}; intervals are uncorrected."]
    where = words.each(apart, "{model} and {other} on {dataset} (adjusted p = {p_adjusted:.2g})")
    return [
        f"{told}; intervals are uncorrected, and exclude 0 though the two are not told apart for "
        f"{', '.join(where)}."
    ]


def answer(pairs: pd.DataFrame) -> str:
    """In short: on which datasets one model ranks more as the data mark it than another."""
    kinds = {
        "higher": "ranks more comparisons as the data set marks them on",
        "lower": "ranks fewer on",
        "not told apart": "is not told apart from it on",
        "undefined": "can't be compared on",
    }
    sentences = []
    for (model, other), rows in pairs.groupby(["model", "other"], sort=False):
        rows = _marked(rows)
        by_kind = {text: rows[rows["verdict"] == verdict] for verdict, text in kinds.items()}
        sentences.append(f"Beside {other}, {model} {words.cases(by_kind, _difference)}.")
    if not sentences:
        return "No two models were audited on the same dataset."
    return " ".join([*sentences, *learned(pairs), *_family(pairs)])


def _marked(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(dataset=rows["dataset"] + marks(rows))


def learned(pairs: pd.DataFrame) -> list[str]:
    """Where one of two models learned from other prompts of the source, and the other didn't."""
    if "learned" not in pairs:
        return []
    judged = pairs[pairs["verdict"] != "undefined"]
    found = []
    for (model, other), rows in judged.groupby(["model", "other"], sort=False):
        for one, without in ((model, other), (other, model)):
            where = rows.loc[rows["learned"] == one, "dataset"].tolist()
            if where:
                found.append(
                    f"{one} learned from other prompts of {', '.join(where)}, and {without} "
                    f"didn't: differences there may come from that alone ({MARK})."
                )
    return found


def together(pairs: pd.DataFrame) -> str:
    """Models on data sets that a gating page pools; empty where none are compared there."""
    family = int(pairs["p"].notna().sum())
    pooled = pairs[pairs["dataset"].str.contains(TOGETHER, regex=False) & pairs["p"].notna()]
    sentences = []
    for row in pooled.itertuples():
        missed = f", where {words.found(row.mde, nothing='no difference')}"
        sentences.append(
            f"On {row.dataset} {row.model} ranks {row.rate:.3f} and {row.other} "
            f"{row.other_rate:.3f} of {row.n} in common: a difference of "
            f"{words.estimate(row.difference, row.low, row.high, '+.3f')}, {row.verdict} (adjusted "
            f"p = {row.p_adjusted:.2g}, Holm over {family}"
            f"{missed if row.verdict == 'not told apart' else ''})."
        )
    return " ".join(sentences)


def _difference(row: Any) -> str:
    if pd.isna(row.difference):
        return row.dataset
    return f"{row.dataset} ({words.estimate(row.difference, row.low, row.high, '+.3f')})"


def longer(scores: pd.DataFrame) -> list[str]:
    """Which models' scores win no more than the longer response does, and where."""
    known = scores[scores["win_rate"].notna() & scores["longer"].notna()]
    if known.empty:
        return []
    where = words.each(
        known[known["win_rate"] <= known["longer"]],
        "{model} on {dataset} ({win_rate:.3f}, length {longer:.3f})",
    )
    if where:
        return [
            "The longer response alone wins as much as the score of "
            f"{words.listed(where, NAMED)}, or more."
        ]
    left = len(scores) - len(known)
    return [
        "Each model's score wins more than the longer response alone on each data set"
        + (f" where both are known; not so for {left} more." if left else ".")
    ]


def agreement(table: pd.DataFrame) -> list[str]:
    """Which models fail on the same comparisons, and where that isn't shown."""
    sentences = []
    tested = table[table["verdict"] != UNDEFINED]
    family = words.count(len(tested), "row")
    for (model, other), rows in tested.groupby(["model", "other"], sort=False):
        kinds = {
            "fail on the same comparisons more often than independent errors would on": rows[
                rows["verdict"] == FAIL_TOGETHER
            ],
            "fail on different comparisons more often than independent errors would on": rows[
                rows["verdict"] == APART
            ],
            "are not shown to share failures on": rows[rows["verdict"] == NOT_SHOWN],
        }
        told = words.cases(kinds, _agreement)
        sentences.append(f"{model} and {other} {told} (Holm over {family}).")
    return sentences


def _agreement(row: Any) -> str:
    missed = f"; {words.found(row.mde, 'κ {:.2f}')}" if row.verdict == NOT_SHOWN else ""
    return f"{row.dataset} (κ {words.estimate(row.kappa, row.low, row.high, '.2f')}{missed})"


def depths(profiles: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """Which model's ranking is settled at a later part of its layers, and where neither is."""
    tested = table[table["verdict"] != UNDEFINED]
    family = words.count(len(tested), "row")
    sentences = []
    for (model, other), rows in tested.groupby(["model", "other"], sort=False):
        kinds = {
            f"are made later than those of {other} on": rows[rows["verdict"] == LATER],
            f"are made earlier than those of {other} on": rows[rows["verdict"] == EARLIER],
            f"are not told to be made later or earlier than those of {other} on": rows[
                rows["verdict"] == NEITHER
            ],
        }
        told = words.cases(kinds, _depth)
        sentences.append(
            f"As a share of its layers, margins of {model} {told} (Holm over {family})."
        )
    if tested.empty and len(profiles):
        alone = words.listed(
            [f"{row.model} on {row.dataset}" for row in profiles.itertuples()], NAMED
        )
        sentences.append(f"Depths are known of {alone}, and no two models share one.")
    return sentences


def _depth(row: Any) -> str:
    missed = f"; {words.found(row.mde, '{:.0%}')}" if row.verdict == NEITHER else ""
    gap = words.estimate(row.difference, row.low, row.high, "+.0%")
    return f"{row.dataset} ({row.depth:.0%} and {row.other_depth:.0%}: {gap}{missed})"
