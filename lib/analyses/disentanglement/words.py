"""Sentences of the disentanglement page, every number from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.disentanglement.stats import KINDS, PUBLISHED, THRESHOLD

SHOWN = 3  # pairs named
_LEVEL = {"pooled": "pooled", "between": "between items", "within": "within items"}


def takeaways(overview: pd.DataFrame, pairs: pd.DataFrame, clusters: pd.DataFrame) -> list[str]:
    """How alike the heads are at each level, which go together or against, how many factors."""
    table = overview.set_index("kind")
    sentences = unusable(clusters)
    if not table.loc["pooled", "heads"]:
        return [*sentences, "There are no two heads to compare, so nothing is said of separation."]
    sentences += [*_levels(table), *groups(clusters, pairs), *reversals(pairs)]
    for kind in ("within", "pooled"):
        sentences += _factors(table.loc[kind], _LEVEL[kind])
    return sentences


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


def groups(clusters: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """Clusters within items: heads that choose alike, and those that they are opposed to.

    Clusters are by the size of correlations; the sign with the first head says on which side.
    """
    table = clusters[(clusters["kind"] == "within") & (clusters["size"] > 1)]
    within = pairs[pairs["kind"] == "within"]
    return [_group(rows, within) for _, rows in table.groupby("cluster")] or [
        f"Within items, no two heads reach the threshold of {THRESHOLD:g} at which they would be "
        "one cluster."
    ]


def _group(rows: pd.DataFrame, within: pd.DataFrame) -> str:
    first, *others = rows["head"]
    r = {other: _between(within, first, other) for other in others}
    alike = [first, *(head for head in others if r[head]["r"] >= 0)]
    against = [head for head in others if r[head]["r"] < 0]
    text = ", ".join(alike) + (" go together" if len(alike) > 1 else "")
    if against:
        verb = "are" if len(alike) > 1 else "is"
        text += f"{' and' if len(alike) > 1 else ''} {verb} opposed to {', '.join(against)}"
    told = f"stability {rows['stability'].iloc[0]:.2f}"
    if len(others) == 1:
        one = r[others[0]]
        told = f"r = {words.estimate(one['r'], one['low'], one['high'], '.2f')}, {told}"
    return f"Within items, {text} ({told})."


def _between(within: pd.DataFrame, one: str, other: str) -> pd.Series:
    """The row of two heads, whichever stands first."""
    same = (within["head"] == one) & (within["other"] == other)
    turned = (within["head"] == other) & (within["other"] == one)
    return within[same | turned].iloc[0]


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
    opposed = int((table["flagged"] & (table["rho"] < 0)).sum())
    sentences = [
        f"As published: {int(row['flagged'])} of {int(table['rho'].notna().sum())} pairs lie "
        f"beyond ±{THRESHOLD:g}{f', {opposed} of them opposed' if opposed else ''}, mean size "
        f"{row['mean_abs_r']:.2f}."
    ]
    if within["heads"]:
        sentences.append(
            "Whether two heads choose differently between responses to one prompt is answered "
            f"within items: {int(within['flagged'])} pairs, mean size {within['mean_abs_r']:.2f}."
        )
    return sentences


def answer(overview: pd.DataFrame, clusters: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """In short: how alike the heads choose, and which go together or are opposed."""
    table = overview.set_index("kind")
    row = table.loc["within"]
    if not table.loc["pooled", "heads"]:
        return "There are no two heads to compare."
    if not row["heads"]:
        return f"{_levels(table)[0]} Within items there are no two heads to compare."
    alike = (
        "Between two responses to one prompt, the correlation of two heads' choices, whether they "
        f"go together or are opposed, has a mean size of {_size(row)}; unrelated heads would show "
        f"{row['noise']:.2f}."
    )
    return " ".join([alike, *groups(clusters, pairs)])


def glued(overview: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages."""
    return {
        f"mean-r-{row.kind.replace(' ', '-')}": words.number(row.mean_abs_r, ".2f", "none")
        for row in overview.itertuples()
    }
