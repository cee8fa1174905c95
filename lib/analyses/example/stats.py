"""One comparison, followed from the scores of its responses to the cell that it counts in.

``follow``  which comparison, which head, which cell
``tokens``  how long prompt and responses are
``scores``  what every head gives to both responses, and its verdict in the cell
``cell``    the cell's numbers as they are, and as they would be without this comparison
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from lib.data import concepts
from lib.errors import DataError, unknown
from lib.run import Aligned, align, comparisons
from lib.stats import validity
from lib.stats.winrates import ALL, FINAL, by_subset, distinct

OUTCOMES = {1.0: "win", 0.0: "tie", -1.0: "loss"}
WITH, WITHOUT = "as it is", "without this comparison"
SHOWN = ["win_rate", "low", "high", "p_adjusted", "verdict"]
CELL = ["n", "prompts", "wins", "ties", "losses", "win_rate", "low", "high", "p"]


@dataclass(frozen=True)
class Followed:
    """A comparison of a run, the head that is followed, and the cell that both count in.

    Attributes
    ----------
    row
        Of the run's comparisons; −1 where it has none.
    item, criterion
        The dataset's id of the item, and what the choice was made by.
    better, worse
        Places of the two responses within the item.
    head
        Name of the head.
    claims
        Does the head's name claim what the choice was made by?
    subset
        The subset of ``lib.stats.validity``'s table that holds this comparison.
    """

    row: int
    item: str
    criterion: str
    better: int
    worse: int
    head: str
    claims: bool
    subset: str


def follow(run: xr.Dataset, item: str = "", head: str = "", seed: int = 0) -> Followed:
    """Which comparison is followed, for which head.

    Parameters
    ----------
    run
        A Run.
    item
        The dataset's id of an item, whose first comparison it is. Empty: one is drawn at random
        from those that ask what the head's name claims, from all where none does.
    head
        A head's name. Empty: the first whose name claims what is asked, else the first.
    seed
        Of the draw.

    Raises
    ------
    ParameterError
        When the run has no such head, or no comparison of such an item.
    """
    table, names = comparisons(run), run["head"].values.astype(str).tolist()
    if head and head not in names:
        raise unknown("head", head, names)
    if table.empty:
        return Followed(-1, "", "", 0, 0, (head, *names)[0], False, ALL)
    owners = table["item"].astype(str)
    if item and item not in set(owners):
        raise unknown("item with a comparison", item, sorted(set(owners))[:10])
    kinds = zip(table["criterion"], table["subset"], strict=True)
    about = np.asarray([_asked(run.attrs["dataset"], *kind) for kind in kinds])
    claims = dict(zip(names, run["head_concept"].values.astype(str), strict=True))
    rows = np.flatnonzero(owners == item)[:1] if item else np.arange(len(table))
    able = [name for name in names if claims[name] and claims[name] in about[rows]]
    chosen = head or (able or names)[0]
    own = [row for row in rows if about[row] == claims[chosen] != ""]
    row = int(np.random.default_rng(seed).choice(own or rows))
    aligned = align(run)
    places = run["slot"].values[[aligned.better[row], aligned.worse[row]]]
    return Followed(
        row,
        owners[row],
        str(table["criterion"][row]),
        *map(int, places),
        chosen,
        bool(own),
        _cell_of(aligned, row),
    )


def _asked(dataset: str, criterion: str, subset: str) -> str:
    """The concept that a comparison asks for; empty where none is known."""
    try:
        return concepts.of_comparison(dataset, str(criterion), str(subset))
    except DataError:
        return ""


def _cell_of(aligned: Aligned, row: int) -> str:
    """The subset that holds a comparison, ``all`` where there is only one."""
    named = [subset for subset, mask in by_subset(aligned)[1:] if mask[row] and not mask.all()]
    return named[0] if named else ALL


def tokens(run: xr.Dataset, followed: Followed) -> pd.DataFrame:
    """Lengths of both responses: ``response``, ``prompt_tokens``, ``response_tokens``,
    ``characters``.
    """
    pair = _pair(run, followed)
    owner = run["item_of_response"].values[pair]
    return pd.DataFrame(
        {
            "response": ["better", "worse"][: len(pair)],
            "prompt_tokens": run["n_prompt_tokens"].values[owner],
            "response_tokens": run["n_response_tokens"].values[pair],
            "characters": run["n_chars"].values[pair],
        }
    )


def _pair(run: xr.Dataset, followed: Followed) -> list[int]:
    """Positions of the better and the worse response; none where there is no comparison."""
    aligned = align(run)
    return [int(side[followed.row]) for side in (aligned.better, aligned.worse) if len(side)]


def scores(run: xr.Dataset, followed: Followed, table: pd.DataFrame) -> pd.DataFrame:
    """What each head gives to both responses, and the model's one score where it has one.

    Parameters
    ----------
    run, followed
        A Run, and what ``follow`` chose of it.
    table
        From ``lib.stats.validity``.

    Returns
    -------
    pandas.DataFrame
        One row a head: ``head``, ``better`` and ``worse`` (scores), ``margin`` (their
        difference), ``outcome`` (``win``, ``tie``, ``loss``; ``none`` where a score is no number),
        and of its cell ``win_rate``, ``low``, ``high``, ``p_adjusted``, ``verdict``; missing for
        the model's one score, which is in no cell.
    """
    cells = table[table["subset"] == followed.subset].set_index("head")[SHOWN]
    names, given = run["head"].values.astype(str).tolist(), run["score"].values.astype(float)
    if "final" in run:
        names, given = [*names, FINAL], np.column_stack([given, run["final"].values])
    pair = _pair(run, followed)
    better, worse = given[pair] if pair else np.empty((2, 0))
    rows = pd.DataFrame({"head": names[: len(better)], "better": better, "worse": worse})
    rows["margin"] = rows["better"] - rows["worse"]
    finite = rows["margin"].where(np.isfinite(rows["margin"]))
    rows["outcome"] = np.sign(finite).map(OUTCOMES).fillna("none")
    return rows.join(cells, on="head")


def cell(run: xr.Dataset, followed: Followed, table: pd.DataFrame) -> pd.DataFrame:
    """The followed head's cell as it is, and as it would be without this comparison.

    Returns
    -------
    pandas.DataFrame
        Rows ``as it is`` and ``without this comparison`` (missing where it is the only one):
        ``cell``, the columns of ``lib.stats.validity`` up to ``p``, then ``tests`` (how many p
        the page's family has), ``rank`` (of this p among them, the smallest first), ``factor``
        (``tests`` − ``rank`` + 1, with which Holm multiplies), ``p_adjusted`` (the largest such
        product of this p and the smaller ones, at most 1), ``verdict`` and ``note``.
    """
    kept = comparisons(run)
    tables = {WITH: table}
    if len(kept) > 1:
        kept = kept.drop(index=followed.row)
        tables[WITHOUT] = validity(run, kept)
    rows = [_cell(name, each, followed) for name, each in tables.items()]
    return pd.concat(rows, ignore_index=True)


def _cell(name: str, table: pd.DataFrame, followed: Followed) -> pd.DataFrame:
    family = distinct(table)
    family = family[family["p"].notna()]
    known = (table["head"] == followed.head) & (table["subset"] == followed.subset)
    row = table[known].assign(cell=name, tests=len(family))
    row["rank"] = row["p"].map(lambda p: (family["p"] < p).sum() + 1 if pd.notna(p) else np.nan)
    row["factor"] = row["tests"] - row["rank"] + 1
    columns = ["cell", *CELL, "tests", "rank", "factor", "p_adjusted", "verdict", "note"]
    return row[columns]
