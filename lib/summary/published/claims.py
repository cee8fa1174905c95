"""Every claim of the published audits: a row of ``claims.yaml``, filled in and judged.

The file says what its fields mean. ``evidence`` computes what they are filled with and what
verdicts hang on.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

import pandas as pd
import xarray as xr
import yaml
from pydantic import BaseModel, ConfigDict, Field

from lib.data.published import BLOCKS, OnceEach
from lib.documents import misfit
from lib.errors import DataError, unknown
from lib.summary.published import evidence
from lib.summary.published.stats import Figures
from lib.summary.published.tables import Tables
from lib.summary.published.words import VERDICTS
from lib.training.tension.kept import Study

FILE = Path(__file__).with_suffix(".yaml")
MEND = "Mend the file of claims."
INPUTS = {*BLOCKS, "heads", "names", "rates", "passing", "shares", "overlaps", "lengths", "planted"}
FACTS = {  # what rows may name
    name: made
    for name, made in inspect.getmembers(evidence, inspect.isfunction)
    if not name.startswith("_")
}

Verdict = Literal[tuple(VERDICTS)]
Text = Annotated[str, Field(min_length=1)]


class Entry(BaseModel):
    """A mapping of known keys."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Listing(Entry):
    """One text an entry of a table."""

    text: Text
    of: str = ""  # the table, where it isn't the list's own name
    between: str = "; "
    empty: str = ""


class Rule(Entry):
    """The facts that a verdict hangs on: that of the first true one, in this order."""

    fails: str = ""
    holds: str = ""
    artefact: str = ""
    otherwise: Verdict

    def verdict(self, facts: Mapping[str, Any]) -> str:
        """The verdict as the file names it."""
        given = self.model_dump(exclude={"otherwise"}).items()
        return next((name for name, fact in given if fact and named(fact, facts)), self.otherwise)


class Claim(Entry):
    """A claim as its row says it."""

    key: Text
    claim: Text
    source: str = ""
    where: str = ""
    code: list[Annotated[str, Field(pattern=r"^[^#\s]+(#L\d+(-L\d+)?)?$")]] = []
    formula: str = ""
    points: list[int] = []
    about: str = ""
    facts: str = ""
    published: Text
    recomputed: Text
    lists: dict[str, Listing] = {}
    verdict: Verdict | Rule
    evidence: Annotated[str, Field(pattern=r"[.}]$")]


class Group(Entry):
    """Claims of one system, or of one part of an audit."""

    system: Text
    part: str = ""
    source: Text
    claims: list[Claim]


class Document(Entry):
    """All of ``claims.yaml``."""

    texts: list[str] = []  # that several rows share, by anchors
    groups: list[Group]


def read(path: Path = FILE) -> list[Group]:
    """The claims, in the order of the page.

    Raises
    ------
    DataError
        When the file isn't YAML of this form, a key is there twice, or a function of evidence
        isn't known.
    """
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), OnceEach)
    except yaml.YAMLError as error:
        raise DataError(f"YAML in {path.name}", str(error), MEND) from None
    wrong = misfit(found, Document)
    if wrong:
        place, needed, value = wrong
        raise DataError(f"{needed} as {_place(found, place)} in {path.name}", value, MEND)
    groups, keys = Document(**found).groups, set()
    for row in (row for group in groups for row in group.claims):
        if row.key in keys:
            raise DataError(f"each key once in {path.name}", f"{row.key!r} twice", MEND)
        if row.facts and row.facts not in FACTS:
            raise unknown(f"evidence of {row.key}", row.facts, FACTS, DataError)
        keys.add(row.key)
    return groups


def _place(document: Any, place: Sequence[str]) -> str:
    """``hh-best.verdict``: a row goes by its key where it has one."""
    row = document
    for part in place[:4]:
        row = row[int(part)] if isinstance(row, list) else row.get(part)
    named = place[2:3] == ["claims"] and isinstance(row, Mapping) and "key" in row
    return ".".join([str(row["key"]), *place[4:]] if named else place)


def claims(
    figures: Figures,
    runs: Sequence[xr.Dataset] = (),
    explained: Sequence[xr.Dataset] = (),
    *,
    study: Study | None = None,
    seed: int = 0,
    path: Path = FILE,
) -> pd.DataFrame:
    """Every claim with what was published, what it comes to, and a verdict.

    Parameters
    ----------
    figures
        From ``lib.data.published.figures``.
    runs
        Of any model: what they lack for a claim, its row says.
    explained
        Effects of models' parts (``lib.effects``), for the rows that need them.
    study
        Of alignment tension (``lib.training.tension``), likewise.
    seed
        Of the planted worlds and random subspaces.
    path
        The rows.

    Returns
    -------
    pandas.DataFrame
        ``key``, ``system``, ``part``, ``claim``, ``published``, ``recomputed``, ``verdict``
        (of ``words.VERDICTS``), ``evidence``, ``points`` (of this project's list of faults,
        joined by commas; empty for none), ``source`` (a key of the figures' ``sources``),
        ``where`` it stands there, ``code`` (files and lines, joined by spaces), ``formula`` of
        the definition that decides, and ``computed_from``.

    Raises
    ------
    DataError
        When a row names a source or a fact that isn't there.
    """
    groups, tables, rows = read(path), Tables(figures, runs, seed, explained, study), []
    every = tables.every
    for group in groups:
        for row in group.claims:
            source = row.source or group.source
            if source not in figures["sources"]:
                raise unknown(f"source of {row.key}", source, figures["sources"], DataError)
            computed = FACTS[row.facts](tables) if row.facts else {}
            try:
                filled = _filled(row, every, computed)
            except (AttributeError, LookupError, TypeError, ValueError) as error:
                needed = f"facts that fill the row {row.key!r} of {path.name}"
                raise DataError(needed, f"{type(error).__name__}: {error}", MEND) from error
            named_so = {"key": row.key, "system": group.system, "part": group.part}
            told = {"where": row.where, "code": " ".join(row.code), "formula": row.formula}
            rows.append(
                named_so | filled | {"source": source} | told | {"computed_from": _inputs(row)}
            )
    return pd.DataFrame(rows)


def _inputs(row: Claim) -> str:
    """What fills a row: published figures, tables, and the function that computes the rest."""
    lists = [text for each in row.lists.values() for text in (each.text, "{" + each.of + "}")]
    texts = [row.published, row.recomputed, row.evidence, "{" + row.about + "}", *lists]
    fields = [field for text in texts for _, field, _, _ in Formatter().parse(text) if field]
    found = {}
    for field in dict.fromkeys(fields):
        root, *keys = field.replace("]", "").split("[")
        if root in INPUTS:
            found.setdefault(root, []).extend([" ".join(keys)] if keys else [])
    told = [
        f"{'figures' if root in BLOCKS else 'table'} {root}" + f" ({', '.join(keys)})" * bool(keys)
        for root, keys in found.items()
    ]
    by = [f"function {row.facts}: {inspect.getdoc(FACTS[row.facts])}"] if row.facts else []
    return "; ".join([*told, *by])


def _filled(row: Claim, tables: Mapping[str, Any], computed: Mapping[str, Any]) -> dict[str, str]:
    facts = {**tables, **(named(row.about, tables) if row.about else {}), **computed}
    texts = {}
    for name, listing in row.lists.items():
        entries = _entries(named(listing.of or name, facts))
        filled = [listing.text.format_map(facts | entry) for entry in entries]
        texts[name] = listing.between.join(filled) or listing.empty
    verdict = row.verdict.verdict(facts) if isinstance(row.verdict, Rule) else row.verdict
    facts |= texts
    return {
        "claim": row.claim,
        "published": row.published.format_map(facts),
        "recomputed": row.recomputed.format_map(facts),
        "verdict": VERDICTS[verdict],
        "evidence": row.evidence.format_map(facts),
        "points": ", ".join(map(str, row.points)),
    }


def named(path: str, facts: Mapping[str, Any]) -> Any:
    """What a path such as ``rates[hh-rlhf][helpfulness]`` names."""
    return Formatter().get_field(path, (), facts)[0]


def _entries(table: Any) -> list[Mapping[str, Any]]:
    """The rows of a table; a mapping's have ``name`` and ``value``, a list's ``value``."""
    if isinstance(table, pd.DataFrame):
        return table.to_dict("records")
    if isinstance(table, Mapping):
        return [{"name": name, "value": value} for name, value in table.items()]
    return [each if isinstance(each, Mapping) else {"value": each} for each in table]
