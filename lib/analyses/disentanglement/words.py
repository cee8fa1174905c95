"""Sentences of the disentanglement page, every number from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.disentanglement.stats import KINDS, PUBLISHED, THRESHOLD

SHOWN = 3  # pairs named
_LEVEL = {"pooled": "pooled", "between": "between items", "within": "within items"}


def takeaways(overview: pd.DataFrame, pairs: pd.DataFrame, clusters: pd.DataFrame) -> list[str]:
    """How alike the heads are at each level, how many factors, which go together."""
    table = overview.set_index("kind")
    sentences = unusable(clusters)
    if not table.loc["pooled", "heads"]:
        return [*sentences, "There are no two heads to compare, so nothing is said of separation."]
    sentences += _levels(table)
    for kind in ("pooled", "within"):
        sentences += _factors(table.loc[kind], _LEVEL[kind])
    return [*sentences, *_groups(clusters), *reversals(pairs)]


def unusable(clusters: pd.DataFrame) -> list[str]:
    """Heads without a correlation, by name and with the reason; one sentence a reason."""
    first = clusters[clusters["kind"] == KINDS[0]]
    return words.by_note(first, "{heads} can't be compared with any head: {note}.")


def _levels(table: pd.DataFrame) -> list[str]:
    known = table.loc[[kind for kind in KINDS if table.loc[kind, "heads"]]]
    sizes = ", ".join(f"{_size(row)} {_LEVEL[kind]}" for kind, row in known.iterrows())
    by_length = known[known["mean_abs_r"] - known["mean_abs_r_length"] > known["mean_abs_r"] / 2]
    return [
        f"The mean size of the correlation of two heads is {sizes}.",
        *words.each(
            by_length.assign(level=by_length.index.map(_LEVEL)),
            "More than half of it {level} goes when length is held fixed ({mean_abs_r:.2f} to "
            "{mean_abs_r_length:.2f}).",
        ),
    ]


def _size(row: pd.Series) -> str:
    return words.estimate(row["mean_abs_r"], row["mean_low"], row["mean_high"], ".2f")


def _factors(row: pd.Series, level: str) -> list[str]:
    if pd.isna(row["factors"]):
        return []
    found = words.count(int(row["factors"]), "factor") if row["factors"] else "no factor"
    effective = words.estimate(row["effective"], row["effective_low"], row["effective_high"], ".1f")
    sentences = [
        f"{level.capitalize()}, parallel analysis finds {found} in {row['heads']} heads "
        f"(effective number {effective}; unrelated heads would show a mean size of "
        f"{row['noise']:.2f})."
    ]
    if pd.notna(row["next"]):
        sentences.append(
            f"The next component takes {row['next']:.0%} of the variance {level} and would "
            f"count above {row['next_needed']:.0%}; a smaller factor can't be ruled out."
        )
    if row["note"]:
        sentences.append(
            f"{level.capitalize()}, one factor takes {row['first']:.0%} of the variance, so "
            "minor factors can't be seen: the count is a lower bound."
        )
    return sentences


def _groups(clusters: pd.DataFrame) -> list[str]:
    table = clusters[(clusters["kind"] == "within") & (clusters["size"] > 1)]
    return [
        f"Within items, {', '.join(rows['head'])} go together "
        f"(stability {rows['stability'].iloc[0]:.2f})."
        for _, rows in table.groupby("cluster")
    ] or [
        f"Within items, no two heads reach the threshold of {THRESHOLD:g} at which they would be "
        "one cluster."
    ]


def reversals(pairs: pd.DataFrame) -> list[str]:
    """Pairs whose intervals lie on opposite sides of 0 between and within items; no test."""
    wide = pairs.pivot(index=["head", "other"], columns="kind", values=["low", "high"])
    low, high = wide["low"], wide["high"]
    opposite = ((low["between"] > 0) & (high["within"] < 0)) | (
        (high["between"] < 0) & (low["within"] > 0)
    )
    if not opposite.any():
        return []
    names = ["{} and {}".format(*pair) for pair in wide.index[opposite]]
    both = int(low[["between", "within"]].notna().all(axis=1).sum())
    return [
        f"Of {words.count(both, 'pair')} with an interval between and within items {len(names)} "
        f"{'has' if len(names) == 1 else 'have'} opposite signs in these two intervals: "
        f"{words.listed(names, SHOWN, '; ')}. Intervals are each pair's own and not corrected, so "
        "this is a description and no test."
    ]


def family(pairs: pd.DataFrame, factors: pd.DataFrame) -> list[str]:
    """What is tested on the page and what isn't corrected."""
    compared = int(pairs.loc[pairs["kind"] == "within", "low"].notna().sum())
    sentences = [
        f"Intervals are each pair's own: of the {compared} pairs within items about "
        f"{0.05 * compared:.0f} would miss 0 by chance if no two heads were related."
    ]
    tested = factors["kind"].nunique()
    if tested:
        sentences.append(
            "Components are tested in order, each only after all before it were counted, so the "
            f"first that isn't there is counted in about 5% of samples like this; that holds for "
            f"each of {tested} kinds of correlation by itself."
        )
    return sentences


def published(overview: pd.DataFrame, table: pd.DataFrame) -> list[str]:
    """What the published form says, and which of its numbers answers which question."""
    rows = overview.set_index("kind")
    row, within = rows.loc[PUBLISHED], rows.loc["within"]
    if not row["heads"]:
        return ["The published form has no two heads to compare."]
    sentences = [
        f"As published: {int(row['flagged'])} of {int(table['rho'].notna().sum())} pairs lie "
        f"above {THRESHOLD:g}, mean size {row['mean_abs_r']:.2f}."
    ]
    if within["heads"]:
        sentences.append(
            "Whether two heads choose differently between responses to one prompt is answered "
            f"within items: {int(within['flagged'])} pairs, mean size {within['mean_abs_r']:.2f}."
        )
    return sentences


def answer(overview: pd.DataFrame, clusters: pd.DataFrame) -> str:
    """In short: how alike the heads choose, and which go together."""
    table = overview.set_index("kind")
    row = table.loc["within"]
    if not table.loc["pooled", "heads"]:
        return "There are no two heads to compare."
    if not row["heads"]:
        return f"{_levels(table)[0]} Within items there are no two heads to compare."
    alike = (
        f"Between two responses to one prompt, two heads' choices correlate at {_size(row)} in "
        f"the mean, either way; unrelated heads would show {row['noise']:.2f}."
    )
    return " ".join([alike, *_groups(clusters)])


def glued(overview: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    return {
        f"mean-r-{row.kind.replace(' ', '-')}": words.number(row.mean_abs_r, ".2f", "none")
        for row in overview.itertuples()
    }
