"""What the validity page says, written from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import xarray as xr

from lib import words
from lib.data.concepts import CLAIMED, OPPOSED
from lib.markup import READ
from lib.run import TRAINED
from lib.stats.winrates import ALL, CHANCE, LONGER, STRONG, distinct, judged, tied
from lib.words import longer

FEW = 6  # heads with a sentence each; of more only the first and the last have one
NAMED = 6  # heads named with their share of ties
ROUGH = ("bfloat16", "float16")  # number types whose rounding makes ties
NOTHING = ("inconclusive", "chance")
_VERDICT = {
    "strong": "{head} strongly tracks what the data set marks as better",
    "tracks": "{head} tracks what the data set marks as better",
    "inverted": "{head} goes against these labels",
    "chance": "{head} is at chance",
    "inconclusive": "{head} is inconclusive",
    "undefined": "{head} gives no verdict: {note}.",
}


def verdict(row: Any) -> str:
    """A head's verdict as a sentence with its numbers, and with what it may owe to length."""
    text = _VERDICT[row.verdict].format(head=row.head, note=row.note)
    if row.verdict == "undefined":
        return text
    numbers = words.RATE.format(**row._asdict())
    parts = [f"{text} (win rate {numbers}, adjusted p = {row.p_adjusted:.2g})"]
    if row.verdict in NOTHING:
        parts.append(words.departures(pd.Series([row.mde])))
    if owed := longer.head(row):
        parts.append(owed)
    return f"{'; '.join(parts)}."


def takeaways(table: pd.DataFrame, baselines: pd.DataFrame, run: xr.Dataset) -> list[str]:
    """What names claim, the heads on all comparisons, their family, length, who was left out.

    Of a dataset that asks no one question as a whole, its criteria in place of all comparisons.
    """
    overall = judged(table)
    mean = not (overall["subset"] == ALL).any()
    if mean:
        overall = overall.assign(head=overall["head"] + " on " + overall["subset"])
    each = [verdict(row) for row in overall.itertuples()]
    sentences = each if len(overall) <= FEW else _many(overall, table)
    sentences = [*claims(table), *sentences, *family(table)]
    rows = distinct(baselines)
    rows = rows[(rows["subset"] == ALL) & (rows["baseline"] == LONGER)]
    sentences += words.each(
        rows.head(1).dropna(subset=["win_rate"]),
        "The longer response alone wins " + words.RATE + " of the comparisons.",
    )
    if (overall["verdict"] != "undefined").any() and not _can_be_chance(overall):
        sentences.append(
            "These are too few comparisons to call any head at chance: that takes an interval "
            f"within {CHANCE[0]:.2f} to {CHANCE[1]:.2f} and a test that would find a win rate at "
            "either end."
        )
    held_back = run.attrs["dropped"].get(TRAINED, 0)
    if held_back:
        sentences.append(
            f"{words.count(held_back, 'item')} {'was' if held_back == 1 else 'were'} held back "
            f"because the prompt trained a head; {run.sizes['item']} are audited."
        )
    return sentences


def _many(overall: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    counts = words.tally(overall["verdict"], overall["verdict"].value_counts().index)
    sentences = [f"Of {len(overall)} heads: {counts}.", *longer.verdicts(overall)]
    if len(overall) > (heads := table["head"].nunique()):
        criteria = table["subset"].nunique() - 1
        sentences[0] = (
            "Each criterion asks its own question, so a mean over all is not tested: "
            f"{words.count(heads, 'head')} on {criteria} criteria give {counts}."
        )
    defined = overall[overall["verdict"] != "undefined"]
    if defined.empty:
        return [*sentences, f"No head gives a verdict: {words.reasons(overall['note'])}."]
    best, worst = (
        next(rows.itertuples())
        for rows in (defined.nlargest(1, "win_rate"), defined.nsmallest(1, "win_rate"))
    )
    return [*sentences, f"Highest: {verdict(best)}", f"Lowest: {verdict(worst)}"]


def claims(table: pd.DataFrame) -> list[str]:
    """What heads do where the labels ask what their names claim, or the opposite.

    As a whole, then in parts that ask a head something else than the whole does.
    """
    if "relation" not in table:
        return []
    overall = judged(table)
    parts = distinct(table).drop(index=overall.index, errors="ignore")
    if len(parts):  # each head has one row in all
        parts = parts[parts["relation"] != parts["head"].map(overall.set_index("head")["relation"])]
        parts = parts[parts["mde"].notna()]  # where a test could find something
    asks = {CLAIMED: "what their names claim", OPPOSED: "the opposite"}
    found = [
        f"Asked {what}: {', '.join(map(_rated, rows.itertuples()))}."
        for relation, what in asks.items()
        if len(rows := overall[overall["relation"] == relation])
    ]
    some = [
        f"Parts of the data ask {what}: {', '.join(map(_rated_on, rows.itertuples()))}."
        for relation, what in asks.items()
        if len(rows := parts[parts["relation"] == relation])
    ]
    if not found:
        whole = "As a whole the labels ask" if some else "The labels ask"
        found = [f"{whole} something else than the name of any head claims."]
    return [*found, *some]


def _rated(row: Any) -> str:
    rate = "" if pd.isna(row.win_rate) else f"{row.win_rate:.2f}, "
    return f"{row.head} ({rate}{READ.get(row.verdict, row.verdict)})"


def _rated_on(row: Any) -> str:
    return _rated(row._replace(head=f"{row.head} on {row.subset}"))


def _can_be_chance(overall: pd.DataFrame) -> bool:
    short = (overall["high"] - overall["low"]) <= CHANCE[1] - CHANCE[0]
    return bool((short & (overall["mde"] <= CHANCE[1] - 0.5)).any())


def family(table: pd.DataFrame) -> list[str]:
    """How many verdicts are corrected together, and what those that found nothing could find."""
    tests = distinct(table).dropna(subset=["p"])
    if tests.empty:
        return []
    text = f"Verdicts are one family of {words.count(len(tests), 'test')}, corrected by Holm"
    missed = tests.loc[tests["verdict"].isin(NOTHING), "mde"]
    if missed.empty:
        return [f"{text}."]
    those = "one" if len(missed) == 1 else f"{len(missed)}"
    return [f"{text}; for the {those} that found nothing, {words.departures(missed)}."]


def ties(table: pd.DataFrame, extraction: Mapping[str, str] | None = None) -> list[str]:
    """One sentence where a head ties on any comparison; none where no head does.

    ``extraction`` is how the run was made, as its ``attrs`` have it: a rough number type is named.
    """
    overall = table[table["subset"] == ALL].assign(share=tied)
    some = overall[overall["share"] > 0].sort_values("share", ascending=False, kind="stable")
    if some.empty:
        return []
    named = words.each(some, "{head} on {share:.1%} ({ties:.0f} of {n})")
    text = (
        f"{len(some)} of {words.count(len(overall), 'head')} {'ties' if len(some) == 1 else 'tie'} "
        f"on some comparisons, each counted half: {words.listed(named, NAMED)}."
    )
    dtype = (extraction or {}).get("dtype", "")
    if dtype in ROUGH and (some["share"] < 1).any():
        text += f" The run's states were computed in {dtype}, and rounding can make ties."
    return [text]


def published(table: pd.DataFrame, rule: pd.DataFrame) -> list[str]:
    """What the published rule calls valid, and what it rejects for which reason.

    The tables are those of ``lib.stats``'s ``validity`` and ``validity_as_published``.
    """
    found = rule[["head", "subset", "accuracy", "p", "valid"]].rename(columns={"p": "rule_p"})
    merged = table.merge(found, on=["head", "subset"])
    overall = judged(merged)
    if not (overall["subset"] == ALL).any():
        overall = overall.assign(head=overall["head"] + " on " + overall["subset"])
    valid, missed = overall.loc[overall["valid"], "head"], overall[~overall["valid"]]
    names = f": {words.listed(list(valid), NAMED)}" if len(valid) else ""
    tracks = missed["verdict"].isin(["strong", "tracks"])
    few, unsure = missed["accuracy"] < STRONG, ~(missed["rule_p"] < 0.05)
    gaps, tracking = (
        "gaps that the rule's test doesn't find above 0",
        "though tracking what the data set marks as better",
    )
    rejected = {
        "Counted as if at chance, though going against the labels beyond chance": (
            missed["verdict"] == "inverted"
        ),
        f"Rejected for too few wins, {tracking}": tracks & few & ~unsure,
        f"Rejected for {gaps}, {tracking}": tracks & unsure & ~few,
        f"Rejected for too few wins and for {gaps}, {tracking}": tracks & few & unsure,
    }
    of = "heads" if len(overall) == table["head"].nunique() else "heads on criteria"
    are = "is" if len(valid) == 1 else "are"
    counted = f"{len(valid)} of {len(overall)} {of} {are} valid{names}"
    if len(overall) == 1:
        counted = f"{overall['head'].iloc[0]} is {'' if len(valid) else 'not '}valid"
    return [
        f"By the published rule {counted}.",
        *(
            f"{why}: {words.listed(list(missed.loc[rows, 'head']), NAMED)}."
            for why, rows in rejected.items()
            if rows.any()
        ),
    ]


def glued(table: pd.DataFrame) -> dict[str, str]:
    """Values of the validity page for other pages: one sentence a head, and the count."""
    overall = table[table["subset"] == ALL]
    kept = {f"verdict-{row.head}": verdict(row) for row in overall.itertuples()}
    return kept | {"comparisons": str(int(overall["n"].iloc[0]))}
