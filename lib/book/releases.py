"""The block that cites the book, and which of its numbers changed from one release to the next.

``book/releases`` holds the headline figures of each release, ``VERSION.csv``: every head's win
rate and verdict by dataset, whether its name fits, rules of combination, and verdicts on
published claims. ``python -m lib release`` writes that of the version that ``CITATION.cff``
names, from the executed pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lib import words
from lib.atomic import replacing
from lib.book.citing import CITATION, bibtex
from lib.errors import PageError
from lib.markup import Html, escape
from lib.stats.winrates import ALL

NOW = "now"
KEYS, NUMBERS = ["page", "what", "name"], ["value", "low", "high"]
COLUMNS = [*KEYS, *NUMBERS, "verdict"]
SAME = 5e-4  # numbers that differ by no more are shown alike
# Table → what its figures are, and the columns of their names, numbers and verdicts.
FIGURES = {
    "validity": ("win rate", "head", "win_rate", "verdict"),
    "labels": ("name fits", "head", "own", "label"),
    "rules": ("rule of combination", "rule", "win_rate", None),
    "published_claims": ("published claim", "key", None, "verdict"),
}


def figures(results: str | Path) -> pd.DataFrame:
    """Headline figures of the executed pages under a folder: ``page, what, name``, a number with
    its interval, a verdict; numbers are NaN and verdicts empty where a figure has none.

    Raises
    ------
    PageError
        When no page left any.
    """
    results = Path(results)
    rows = []
    for table, about in FIGURES.items():
        for path in sorted(results.rglob(f"{table}.parquet")):
            page = path.relative_to(results).parent.as_posix()
            if not any(part.startswith(".") for part in path.relative_to(results).parts):
                rows.append(_figures(pd.read_parquet(path), page, *about))
    if not rows:
        raise PageError(f"tables of executed pages under {results}", "none", "Run make book.")
    return pd.concat(rows, ignore_index=True)


def _figures(
    table: pd.DataFrame, page: str, what: str, name: str, value: str | None, verdict: str | None
) -> pd.DataFrame:
    if "subset" in table:
        table = table[table["subset"] == ALL]
    found = {"page": "" if page == "." else page, "what": what, "name": table[name].astype(str)}
    columns = dict(zip(NUMBERS, [value, "low", "high"], strict=True)) if value else {}
    numbers = {to: table[of].round(4) for to, of in columns.items()}
    told = table[verdict].fillna("").astype(str) if verdict else ""
    made = pd.DataFrame(found | numbers | {"verdict": told}, index=table.index)
    return made.reindex(columns=COLUMNS)


def keep(results: str | Path, folder: str | Path, version: str, again: bool = False) -> Path:
    """Write the figures of a release, by rename.

    Raises
    ------
    PageError
        When that release is kept already, unless ``again``.
    """
    target = Path(folder) / f"{version}.csv"
    if target.exists() and not again:
        remedy = f"Give {CITATION} and pyproject.toml another version, or say --again."
        raise PageError("a release that isn't kept yet", str(target), remedy)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as partial:
        figures(results).to_csv(partial, index=False, lineterminator="\n")
    return target


def kept(folder: str | Path) -> dict[str, pd.DataFrame]:
    """Figures of each release by its version, from the first on; damaged ones are errors."""
    found = {}
    for path in sorted(Path(folder).glob("*.csv"), key=lambda path: _order(path.stem)):
        try:
            texts = dict.fromkeys([*KEYS, "verdict"], str)
            empty = {number: [""] for number in NUMBERS}  # a head may be called NA
            table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=empty)
            if list(table) != COLUMNS:
                raise ValueError(f"columns {', '.join(map(str, table))}")
            table = table.astype(dict.fromkeys(NUMBERS, float))
        except (OSError, ValueError) as error:
            remedy = "Put the committed file back."
            raise PageError(f"figures of a release at {path}", f"{error}", remedy) from None
        found[path.stem] = table
    return found


def _order(version: str) -> list[tuple[int, int | str]]:
    """A version's parts so that 0.10 comes after 0.9."""
    return [(0, int(p)) if p.isdecimal() else (1, p) for p in version.split(".")]


def changed(releases: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Figures that differ from one release to the next: ``since, until``, the figure, ``change``
    (changed, new or gone), and both numbers and verdicts.
    """
    names = [*KEYS, "change", "before", "after", "verdict_before", "verdict_after"]
    rows = []
    for since, until in pairwise(releases):
        both = releases[since].merge(
            releases[until], on=KEYS, how="outer", suffixes=("_before", "_after"), indicator=True
        )
        moved = both["verdict_before"].fillna("") != both["verdict_after"].fillna("")
        for name in NUMBERS:
            one, other = both[f"{name}_before"], both[f"{name}_after"]
            moved |= ((one - other).abs() > SAME) | (one.isna() != other.isna())
        kind = {"left_only": "gone", "right_only": "new", "both": "changed"}
        both = both.assign(change=both["_merge"].astype(str).map(kind))
        both = both[moved | (both["change"] != "changed")]
        for when in ("before", "after"):
            both[when] = [_estimate(row, when) for _, row in both.iterrows()]
        rows.append(both.reindex(columns=names).assign(since=since, until=until))
    empty = pd.DataFrame(columns=["since", "until", *names])
    found = pd.concat(rows, ignore_index=True)[list(empty)] if rows else empty
    texts = ["verdict_before", "verdict_after"]
    return found.fillna(dict.fromkeys(texts, "")).reset_index(drop=True)


def _estimate(row: pd.Series, when: str) -> str:
    value, low, high = (row[f"{name}_{when}"] for name in NUMBERS)
    return "" if np.isnan(value) else words.estimate(value, low, high)


def takeaways(releases: dict[str, pd.DataFrame], changes: pd.DataFrame) -> list[str]:
    """How many figures are kept, and how many differ between each two releases."""
    first = next(iter(releases))
    kept_of = {name: len(table) for name, table in releases.items()}
    if first == NOW:
        return [f"No release is kept yet; this book has {kept_of[NOW]} headline figures."]
    told = [f"Headline figures are kept since version {first}, which has {kept_of[first]}."]
    for since, until in pairwise(releases):
        kinds = changes.loc[(changes["since"] == since) & (changes["until"] == until), "change"]
        found = words.tally(kinds, ("changed", "new", "gone")) or "none changed"
        told.append(f"From {since} to {until}: {found}.")
    return told


# ---- Citing ----


def cite(about: dict[str, Any]) -> Html:
    """Version, licence, repository and the BibTeX entry, as a block for a page."""
    none = f"not named yet: repository-code in {CITATION} would name it"
    rows = {
        "Version": about["version"],
        "Released": about.get("date-released", "not released"),
        "Licence": about.get("license", "none"),
        "Repository": about.get("repository-code") or none,
    }
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return Html(
        f'<table class="result mathjax_ignore"><tbody>{body}</tbody></table>'
        f'<div class="highlight"><pre>{escape(bibtex(about))}</pre></div>'
    )


def sources(about: dict[str, Any]) -> pd.DataFrame:
    """Others' work, to be cited by who reads it: ``for, title, year, address``."""
    columns = {"for": "notes", "title": "title", "year": "year", "address": "url"}
    listed: Sequence[dict[str, Any]] = about.get("references", [])
    return pd.DataFrame(
        [{to: str(each.get(of, "")) for to, of in columns.items()} for each in listed],
        columns=list(columns),
    )
