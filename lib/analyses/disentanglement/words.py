"""Sentences of the disentanglement page, every number from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.disentanglement.stats import KINDS, PUBLISHED, THRESHOLD

MOST = 3  # pairs named
_LEVEL = {"pooled": "pooled", "between": "between items", "within": "within items"}


def disentanglement(
    overview: pd.DataFrame, pairs: pd.DataFrame, clusters: pd.DataFrame
) -> list[str]:
    """Takeaways: how alike the heads are at each level, how many factors, which go together."""
    table = overview.set_index("kind")
    told = unusable(pairs, clusters)
    if not table.loc["pooled", "heads"]:
        return [*told, "There are no two heads to compare, so nothing is said of separation."]
    told += _levels(table)
    for kind in ("pooled", "within"):
        told += _factors(table.loc[kind], kind)
    told += _groups(clusters)
    told += _reversed(pairs)
    return told


def unusable(pairs: pd.DataFrame, clusters: pd.DataFrame) -> list[str]:
    """Heads without a correlation, by name and with the reason; one sentence a reason."""
    first = clusters[clusters["kind"] == KINDS[0]]
    return [
        f"{', '.join(rows['head'])} can't be compared with any head: {note}."
        for note, rows in first[first["note"] != ""].groupby("note", sort=False)
    ]


def _levels(table: pd.DataFrame) -> list[str]:
    known = [kind for kind in KINDS if table.loc[kind, "heads"]]
    sizes = ", ".join(f"{_sized(table.loc[kind])} {_LEVEL[kind]}" for kind in known)
    told = [f"The mean size of the correlation of two heads is {sizes}."]
    for kind in known:
        row = table.loc[kind]
        if row["mean_abs_r"] - row["mean_abs_r_length"] > 0.5 * row["mean_abs_r"]:
            told.append(
                f"More than half of it {_LEVEL[kind]} goes when length is held fixed "
                f"({row['mean_abs_r']:.2f} to {row['mean_abs_r_length']:.2f})."
            )
    return told


def _sized(row: pd.Series) -> str:
    return f"{row['mean_abs_r']:.2f}{_bounds(row['mean_low'], row['mean_high'], '.2f')}"


def _bounds(low: float, high: float, form: str) -> str:
    return "" if pd.isna(low) else f" [{low:{form}}, {high:{form}}]"


def _factors(row: pd.Series, kind: str) -> list[str]:
    if pd.isna(row["factors"]):
        return []
    count = int(row["factors"])
    said = f"{count} factor{'' if count == 1 else 's'}" if count else "no factor"
    told = (
        f"{_LEVEL[kind].capitalize()}, parallel analysis finds {said} in {row['heads']} heads "
        f"(effective number {row['effective']:.1f}"
        f"{_bounds(row['effective_low'], row['effective_high'], '.1f')}; unrelated heads would "
        f"show a mean size of {row['noise']:.2f})."
    )
    told = [told]
    if pd.notna(row["next"]):
        told.append(
            f"The next component takes {row['next']:.0%} of the variance {_LEVEL[kind]} and would "
            f"count above {row['next_needed']:.0%}; a smaller factor can't be ruled out."
        )
    if not row["note"]:
        return told
    return [
        *told,
        f"{_LEVEL[kind].capitalize()}, one factor takes {row['first']:.0%} of the variance, so "
        "minor factors can't be seen: the count is a lower bound.",
    ]


def _groups(clusters: pd.DataFrame) -> list[str]:
    level = _LEVEL["within"].capitalize()
    table = clusters[(clusters["kind"] == "within") & (clusters["size"] > 1)]
    if table.empty:
        return [
            f"{level}, no two heads reach the threshold of {THRESHOLD:g} at which they would be "
            "one cluster."
        ]
    return [
        f"{level}, {', '.join(rows['head'])} go together "
        f"(stability {rows['stability'].iloc[0]:.2f})."
        for _, rows in table.groupby("cluster")
    ]


def _reversed(pairs: pd.DataFrame) -> list[str]:
    """Pairs whose intervals lie on opposite sides of 0 between and within items; no test."""
    wide = pairs.pivot(index=["head", "other"], columns="kind", values=["low", "high"])
    between, within = (
        {end: wide[(end, kind)] for end in ("low", "high")} for kind in ("between", "within")
    )
    opposite = ((between["low"] > 0) & (within["high"] < 0)) | (
        (between["high"] < 0) & (within["low"] > 0)
    )
    if not opposite.any():
        return []
    names = ["{} and {}".format(*pair) for pair in wide.index[opposite]]
    both = int((between["low"].notna() & within["low"].notna()).sum())
    return [
        f"Of {words.count(both, 'pair')} with an interval between and within items {len(names)} "
        f"{'has' if len(names) == 1 else 'have'} opposite signs in these two intervals: "
        f"{words.listed(names, MOST, '; ')}. Intervals are each pair's own and not corrected, so "
        "this is a description and no test."
    ]


def family(pairs: pd.DataFrame, factors: pd.DataFrame) -> list[str]:
    """What is tested on the page and what isn't corrected."""
    compared = pairs[(pairs["kind"] == "within") & pairs["low"].notna()]
    told = [
        f"Intervals are each pair's own: of the {len(compared)} pairs within items about "
        f"{0.05 * len(compared):.0f} would miss 0 by chance if no two heads were related."
    ]
    tested = factors["kind"].nunique()
    if tested:
        told.append(
            "Components are tested in order, each only after all before it were counted, so the "
            f"first that isn't there is counted in about 5% of samples like this; that holds for "
            f"each of {tested} kinds of correlation by itself."
        )
    return told


def published(overview: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """What the published form says, and which of its numbers answers which question."""
    rows = overview.set_index("kind")
    row = rows.loc[PUBLISHED]
    if not row["heads"]:
        return ["The published form has no two heads to compare."]
    told = [
        f"As published: {int(row['flagged'])} of {int(table['rho'].notna().sum())} pairs lie "
        f"above {THRESHOLD:g}, mean size {row['mean_abs_r']:.2f}."
    ]
    if rows.loc["within", "heads"]:
        told.append(
            "Whether two heads choose differently between responses to one prompt is answered "
            f"within items: {int(rows.loc['within', 'flagged'])} pairs, mean size "
            f"{rows.loc['within', 'mean_abs_r']:.2f}."
        )
    return told


def answer(overview: pd.DataFrame, clusters: pd.DataFrame) -> str:
    """In short: how alike the heads choose, and which go together."""
    table = overview.set_index("kind")
    if not table.loc["pooled", "heads"]:
        return "There are no two heads to compare."
    if not table.loc["within", "heads"]:
        return " ".join([*_levels(table)[:1], "Within items there are no two heads to compare."])
    row = table.loc["within"]
    told = (
        f"Between two responses to one prompt, two heads' choices correlate at "
        f"{_sized(row)} in the mean, either way; unrelated heads would show "
        f"{row['noise']:.2f}."
    )
    return " ".join([told, *_groups(clusters)])


def glued(overview: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    return {
        f"mean-r-{row.kind.replace(' ', '-')}": "none"
        if pd.isna(row.mean_abs_r)
        else f"{row.mean_abs_r:.2f}"
        for row in overview.itertuples()
    }
