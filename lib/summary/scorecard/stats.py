"""One model over all its pages: the matrix of verdicts, a row a head, partners, the gate."""

from __future__ import annotations

import itertools
from fnmatch import fnmatchcase

import numpy as np
import pandas as pd

from lib.analyses.disentanglement.stats import THRESHOLD, beyond
from lib.analyses.labels.stats import DOUBTED, NOT_CONTRADICTED, NOT_TESTED, WRONG
from lib.data import concepts
from lib.data.asks import whole
from lib.data.concepts import CLAIMED
from lib.data.stimuli.proxies import FREE, MOVED
from lib.errors import DataError
from lib.stats import permutation
from lib.stats.winrates import ALL, FINAL, GATE, GATED, LONGER, NO_GATE, VERDICTS, distinct
from lib.summary.tables import NOT_RUN, Tables, together

WITHIN = "within"  # correlations of choices, as the disentanglement page names them
CELLS = ("head", "dataset", "subset", "n", "prompts", "win_rate", "low", "high", "p", "p_adjusted")
CELLS += ("mde", "verdict", "note", "page", "length", "relation", "trained", "part", "counted")
CELLS += ("lacks",)
SIDES = ("head", "protocol", "win_rate", "low", "high", "p")
LENGTHS = ("dataset", "subset", "n", "win_rate", "low", "high", "note", "page")
PAIRS = ("dataset", "head", "other", "r", "low", "high", "page")
GAINS = ("dataset", "rule", "chosen", "n", "win_rate", "low", "high", "gain", "gain_low")
GAINS += ("gain_high", "p_adjusted", "mde", "note", "page")
PAID = ("dataset", "head", "axis", "n", "prompts", "win_rate", "low", "high", "shift", "verdict")
PAID += ("page",)
NO_CONCEPT = "claims none"
USE, AGAINST, UNKNOWN = "use for", "not for", "not known"
USES = ("head", "claims", "use", "dataset", "subset", "n", "win_rate", "low", "high", "verdict")
USES += ("length", "relation", "trained", "part", "page")
TEXTS = ("verdict", "length", "relation", "part", "page")
REFUSING = "no more than a liking for refusals"
SEVERITY = (WRONG, DOUBTED, NOT_CONTRADICTED, NOT_TESTED)


def matrix(tables: Tables) -> pd.DataFrame:
    """Every head under every protocol, with its verdict and the page that gave it.

    Returns
    -------
    pandas.DataFrame
        One row a head, dataset and subset, ``"all"`` first; only the subsets of a dataset that
        asks no one question as a whole: ``head``, ``dataset``, ``subset``,
        ``n`` (comparisons), ``prompts``, ``win_rate``, ``low``, ``high``, ``p``, ``p_adjusted``,
        ``mde``, ``verdict``, ``note``, ``length`` and ``relation`` as ``lib.stats.validity`` gave
        them, ``page`` (its address from the site's root; empty when there is none), ``trained``
        (was the head trained on labels of this source, or on a measure that pairs written for
        its criterion must move?), and of the dataset ``part`` (which part
        of it these comparisons are; empty for all), ``lacks`` (which parts the source lacks) and
        ``counted`` (comparisons, prompts, items). A head that a
        whole dataset's table lacks, and every head on one whose table isn't there, has one row
        there with ``verdict`` ``"not run"``. No rows when no validity page was executed.
    """
    found = {
        dataset: distinct(table) if whole(dataset) else table[table["subset"] != ALL]
        for dataset, table in tables.each("validity")
    }
    heads = list(dict.fromkeys(head for table in found.values() for head in table["head"]))
    parts = []
    for dataset in tables.datasets if found else ():
        page = tables.page(dataset)
        table = found.get(dataset)
        known = set() if table is None else set(table["head"])
        if table is not None:
            parts.append(table.assign(dataset=dataset, page=page))
        missing = [head for head in heads if head not in known] if whole(dataset) else []
        empty = {"dataset": dataset, "subset": ALL, "n": 0, "prompts": 0, "verdict": NOT_RUN}
        if missing:
            parts.append(pd.DataFrame([empty | {"head": head, "page": page} for head in missing]))
    if not parts:
        return pd.DataFrame(columns=list(CELLS))
    rows = pd.concat(parts, ignore_index=True).reindex(columns=list(CELLS))
    of = {dataset: _sample(tables, dataset) for dataset in rows["dataset"].unique()}
    for column in ("part", "lacks", "counted"):
        rows[column] = rows["dataset"].map({name: known[column] for name, known in of.items()})
    trained = {dataset: tables.trained(dataset) for dataset in of}
    pairs = zip(rows["head"], rows["dataset"], strict=True)
    rows["trained"] = [head in trained[dataset] for head, dataset in pairs]
    moved = rows["dataset"].str.startswith("stimuli/") & rows["subset"].isin(MOVED)
    moved &= rows["relation"] == CLAIMED
    rows["trained"] |= moved & rows["head"].isin(tables.measured())
    words = ["length", "note", "relation"]
    rows[words] = rows[words].astype(object).fillna("")
    numbers = ["win_rate", "low", "high", "p", "p_adjusted", "mde"]
    return rows.astype(dict.fromkeys(numbers, float))


def _sample(tables: Tables, dataset: str) -> dict[str, str]:
    """Which part of a dataset was audited and how much that is; empty where no page tells."""
    table = tables.read("sample", dataset)
    if table is None or table.empty:
        return dict.fromkeys(("part", "lacks", "counted"), "")
    row = table.iloc[0]
    counted = [f"{row['comparisons']:,} comparisons"]
    if row["compared"] < row["items"]:
        counted.append(f"{row['compared']:,} of {row['items']:,} items")
    elif row["prompts"] != row["comparisons"]:
        counted.append(f"{row['prompts']:,} prompts")
    return {"part": row["part"], "lacks": row["lacks"], "counted": ", ".join(counted)}


def claimed(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells whose labels ask what the head's name claims, none of them twice.

    Where all of a dataset asks it that is one cell; elsewhere each of its subsets that do.
    """
    own = cells[cells["relation"] == CLAIMED]
    overall = own["subset"] == ALL
    judged = set(zip(own.loc[overall, "head"], own.loc[overall, "dataset"], strict=True))
    repeats = [pair in judged for pair in zip(own["head"], own["dataset"], strict=True)]
    return own[overall | ~np.asarray(repeats, dtype=bool)]


def uses(cells: pd.DataFrame, card: pd.DataFrame) -> pd.DataFrame:
    """What each head may be used for, what not, and what isn't known: the cells that say so.

    Only labels that ask what the name claims say ``"use for"``: where the verdict is strong or
    tracks and owes nothing to length or to a liking for refusals, unless that is the claim. A head
    that goes with refusals marked as better and, in the same dataset, against answers marked as
    better may read nothing but who refuses; so may the reverse. A false ``"use for"`` is thus a
    false verdict of its page. ``"not for"`` is said by labels that the head goes against, whatever
    they ask (of a dataset whose whole doesn't say it, by its parts; of one that asks no one
    question, by the claimed criterion), and where it is at chance on what it claims. The other
    cells that ask what the name claims say ``"not known"``, and so does a row without dataset of a
    head that no labels ask.

    Parameters
    ----------
    cells, card
        As ``matrix`` and ``scorecard`` return them.

    Returns
    -------
    pandas.DataFrame
        One row a head and cell, in the order of ``cells``: ``head``, ``claims``, ``use``, and of
        the cell ``dataset``, ``subset``, ``n``, ``win_rate``, ``low``, ``high``, ``verdict``,
        ``length`` (what it may owe to length, or to refusals), ``relation``, ``trained``, ``part``
        and ``page``. No rows where no table has relations.
    """
    if not cells["relation"].isin(concepts.RELATIONS).any():
        return pd.DataFrame(columns=list(USES))
    cells = cells.reset_index(drop=True)
    claims = cells["head"].map(card.set_index("head")["claims"])
    refusing = _only_refusals(cells) & (claims != "refusal")
    cells["length"] = np.where(refusing, REFUSING, cells["length"])
    asked = pd.Series(cells.index.isin(claimed(cells).index), cells.index)
    overall, verdict = cells["subset"] == ALL, cells["verdict"]
    against = verdict == "inverted"
    said = set(
        zip(*(cells.loc[overall & against, key] for key in ("head", "dataset")), strict=True)
    )
    repeats = [pair in said for pair in zip(cells["head"], cells["dataset"], strict=True)]
    part = cells["dataset"].map(whole).astype(bool) & ~np.asarray(repeats, dtype=bool)
    earned = (cells["length"] == "") | (claims.isin(FREE["length"]) & ~refusing)
    shown = asked & verdict.isin(("strong", "tracks")) & earned
    wrong = (asked & verdict.isin(("inverted", "chance"))) | (against & (overall | part))
    use = np.select([shown, wrong, asked], [USE, AGAINST, UNKNOWN], "")
    rows = cells.assign(use=use, claims=claims)
    silent = card.loc[~card["head"].isin(cells.loc[asked, "head"]), ["head", "claims"]]
    empty = {"use": UNKNOWN, "dataset": "", "subset": "", "n": 0, "trained": False}
    silent = silent.assign(**empty, **dict.fromkeys(TEXTS, ""))
    rows = pd.concat([rows[rows["use"] != ""], silent], ignore_index=True).reindex(columns=USES)
    numbers = dict.fromkeys(("win_rate", "low", "high"), float)
    return rows.astype(numbers)


def _only_refusals(cells: pd.DataFrame) -> np.ndarray:
    """Cells whose head wins one kind of refusals and answers by losing the other kind."""
    pairs = zip(cells["dataset"], cells["subset"], strict=True)
    way = np.asarray([_refusals(*pair) for pair in pairs], dtype=int)
    won = cells["verdict"].isin(("strong", "tracks")).to_numpy()
    lost = cells["verdict"].eq("inverted").to_numpy()
    key = pd.MultiIndex.from_frame(cells[["head", "dataset"]])
    both = [key.isin(key[lost & (way == -sign)]) & won & (way == sign) for sign in (1, -1)]
    return np.logical_or(*both)


def _refusals(dataset: str, subset: str) -> int:
    """1 where refusals are marked as better than answers, −1 where answers are, else 0."""
    family = dataset.split("/")[0]
    found = (
        way
        for name, _, pattern, way in concepts.REFUSALS
        if name == family and fnmatchcase(subset, pattern)
    )
    return next(found, 0)


def longer(tables: Tables) -> pd.DataFrame:
    """What the longer response alone wins, on the datasets and subsets of ``matrix``.

    A head that wins where the longer response wins, and loses where it loses, may read nothing
    but length. The baseline is no head: it has no verdict and is in no family.

    Returns
    -------
    pandas.DataFrame
        One row a dataset and subset: ``dataset``, ``subset``, ``n``, ``win_rate``, ``low``,
        ``high`` and ``note`` as ``lib.stats.baselines`` gave them, and ``page``.
    """
    return _baseline(tables, LONGER)


def one_score(tables: Tables) -> pd.DataFrame:
    """What the one score of a gated model wins, as ``longer`` has it: no head, so no verdict.

    No rows for a model whose one score is a head.
    """
    return _baseline(tables, GATED, FINAL)


def _baseline(tables: Tables, *names: str) -> pd.DataFrame:
    parts = []
    for dataset, table in itertools.chain(*map(tables.baselines, names)):
        own = distinct(table) if whole(dataset) else table[table["subset"] != ALL]
        parts.append(own.assign(dataset=dataset, page=tables.page(dataset)))
    if not parts:
        return pd.DataFrame(columns=list(LENGTHS))
    rows = pd.concat(parts, ignore_index=True)[list(LENGTHS)]
    return rows.assign(note=rows["note"].astype(object).fillna(""))


def sides(tables: Tables) -> pd.DataFrame:
    """Win rates of heads by protocol, corrected over all protocols at once.

    The table of the model's protocols page, so that both pages tell the same; where there is
    none, or it lacks a head or a whole dataset that has a verdict, the cells of ``matrix`` with
    Holm's correction over all of them.

    Returns
    -------
    pandas.DataFrame
        One row a head and protocol: at least ``head``, ``protocol``, ``win_rate``, ``low``,
        ``high``, ``p`` and ``p_adjusted``, as the protocols analysis gives them.
    """
    cells = matrix(tables)
    cells = cells[(cells["subset"] == ALL) & (cells["verdict"] != NOT_RUN)]
    table = tables.read("protocols")
    if table is not None:
        shown = set(zip(table["head"], table["protocol"], strict=True))
        if set(zip(cells["head"], cells["dataset"], strict=True)) <= shown:
            return table
    own = cells.rename(columns={"dataset": "protocol"})[list(SIDES)]
    return own.assign(p_adjusted=permutation.holm(own["p"].to_numpy()))


def entanglement(tables: Tables, threshold: float = THRESHOLD) -> pd.DataFrame:
    """Pairs of heads that choose nearly alike: r within items beyond ±``threshold`` for sure.

    A pair counts where the whole interval of r lies beyond the threshold; an r that is there by
    luck of the sample doesn't.

    Returns
    -------
    pandas.DataFrame
        One row a pair and dataset, the largest |r| first: ``dataset``, ``head``, ``other``,
        ``r``, ``low``, ``high`` as ``lib.analyses.disentanglement.stats`` gave them, and ``page``.
    """
    parts = []
    for dataset, table in tables.each("disentanglement"):
        near = table[(table["kind"] == WITHIN) & beyond(table, threshold)]
        parts.append(near.assign(dataset=dataset, page=tables.page(dataset, "disentanglement")))
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=list(PAIRS))
    rows = pd.concat(parts, ignore_index=True)[list(PAIRS)]
    return rows.sort_values("r", key=lambda r: -r.abs(), kind="stable", ignore_index=True)


def gates(tables: Tables) -> pd.DataFrame:
    """What a gate is worth on each dataset, beside rules that are the same for every prompt.

    Returns
    -------
    pandas.DataFrame
        One row a rule and dataset, on all comparisons: ``dataset``, ``rule``, ``chosen``,
        ``n``, ``win_rate``, ``low``, ``high``, ``gain`` (gate less rule), ``gain_low``,
        ``gain_high``, ``p_adjusted``, ``mde`` and ``note`` as the gating analysis gave
        them, and ``page``. No rows for a model without a gate, or when no page was executed.
        Datasets that a page pools come from that page, together and one by one, so that a
        comparison is corrected once.
    """
    parts, pooled = [], tables.pooled()
    if pooled:
        own = tables.read("rules")
        named = {ALL: together(pooled)} | dict(zip(pooled, pooled, strict=True))
        rows = own[own["subset"].isin(named)]
        parts.append(rows.assign(dataset=rows["subset"].map(named), page=tables.page("", "gating")))
    for dataset, table in tables.each("rules"):
        if dataset not in pooled:
            rows = table[table["subset"] == ALL]
            parts.append(rows.assign(dataset=dataset, page=tables.page(dataset, "gating")))
    parts = [kept for part in parts if len(kept := part[part["note"] != NO_GATE])]
    if not parts:
        return pd.DataFrame(columns=list(GAINS))
    return pd.concat(parts, ignore_index=True)[list(GAINS)]


def exploits(tables: Tables) -> pd.DataFrame:
    """What the model's one score, or its head, pays for and penalises by its exploits pages.

    Returns
    -------
    pandas.DataFrame
        One row an axis and dataset: ``dataset``, ``head`` (the rule), ``axis``, ``n``,
        ``prompts``, ``win_rate``, ``low``, ``high``, ``shift`` and ``verdict`` as the exploits
        analysis gave them, and ``page``. No rows when no page was executed.
    """
    parts = []
    for dataset, table in tables.each("exploits"):
        own = table[table["head"] == table["head"].iloc[-1]]
        parts.append(own.assign(dataset=dataset, page=tables.page(dataset, "exploits")))
    if not parts:
        return pd.DataFrame(columns=list(PAID))
    return pd.concat(parts, ignore_index=True)[list(PAID)]


def scorecard(tables: Tables) -> pd.DataFrame:
    """One row a head, from all pages of its model.

    Returns
    -------
    pandas.DataFrame
        ``head``; ``claims`` (the concept, or ``"claims none"``); ``protocols`` (datasets on
        which it has a verdict) and how many of each verdict, on all comparisons of a dataset;
        one whose criteria vary things of their own counts for none of these
        (``strong``, ``tracks``, ``inverted``, ``chance``, ``inconclusive``, ``undefined``);
        ``best`` and ``worst`` (the datasets of its highest and lowest win rate) with
        ``best_rate``, ``best_low``, ``best_high``, ``best_longer`` (what the longer response
        alone wins there) and the same of ``worst``; ``from_length`` (how far its win rate lies
        from that of the longer response, the mean over these datasets); ``asked`` (cells whose
        labels ask what its name claims, ``claimed``), of which it ``goes_with`` and
        ``goes_against`` so many beyond chance; ``label``
        (the gravest verdict on its name of any labels page: ``wrong``, ``doubted``, ``not
        contradicted``, ``not tested``) with ``label_why``, ``own`` (win rate on the claimed
        criterion), ``own_low``, ``own_high`` and ``label_on`` (the dataset); ``partners`` (heads
        whose r within items lies beyond ±.7 with its whole interval, with the largest r and
        where) and ``readout`` (verdicts of the probes of the concept that it claims). A column
        of words says ``"not run"`` where no page
        tells; numbers are missing.

    Raises
    ------
    DataError
        When no table names a head.
    """
    cells = matrix(tables)
    claims = _claims(tables)
    heads = list(dict.fromkeys([*cells["head"], *claims]))
    if not heads:
        raise DataError(
            f"a table of {tables.model!r} that names its heads",
            "none",
            "Execute its validity, labels or model page with tables=….",
        )
    labels, partners, readout = _labels(tables), _partners(tables), _readout(tables)
    length = longer(tables)
    length = length[length["subset"] == ALL].set_index("dataset")["win_rate"]
    rows = []
    whole_of, asked_of = (
        dict(iter(some.groupby("head", sort=False)))
        for some in (cells[cells["subset"] == ALL], claimed(cells))
    )
    none = cells.iloc[:0]
    for head in heads:
        rows.append(
            {"head": head, "claims": claims.get(head, NOT_RUN)}
            | _verdicts(whole_of.get(head, none), length)
            | _asked(asked_of.get(head, none))
            | labels.get(head, _label(labels))
            | {"partners": _told(partners, head, "none")}
            | {"readout": _told(readout, head, "none")}
        )
    return pd.DataFrame(rows)


def _verdicts(own: pd.DataFrame, length: pd.Series) -> dict:
    counts = own["verdict"].value_counts()
    row = {"protocols": int((own["verdict"] != NOT_RUN).sum())}
    row |= {verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS}
    known = own[own["win_rate"].notna() & (own["verdict"] != "undefined")]
    for name, which in (("best", "idxmax"), ("worst", "idxmin")):
        place = known.loc[known["win_rate"].agg(which)] if len(known) else None
        row[name] = NOT_RUN if not row["protocols"] else "none"
        row |= {f"{name}_{part}": np.nan for part in ("rate", "low", "high", "longer")}
        if place is not None:
            row[name] = place["dataset"]
            row |= {f"{name}_rate": place["win_rate"]}
            row |= {f"{name}_{part}": place[part] for part in ("low", "high")}
            row |= {f"{name}_longer": length.get(place["dataset"], np.nan)}
    away = known["win_rate"].astype(float) - known["dataset"].map(length).astype(float)
    return row | {"from_length": away.abs().mean()}


def _asked(own: pd.DataFrame) -> dict[str, int]:
    """How often a head is asked what its name claims, and how often it goes which way."""
    ways = {"goes_with": ("strong", "tracks"), "goes_against": ("inverted",)}
    counts = {way: int(own["verdict"].isin(verdicts).sum()) for way, verdicts in ways.items()}
    return {"asked": len(own)} | counts


def _claims(tables: Tables) -> dict[str, str]:
    """What each head claims, by the labels pages or the model's own."""
    parts = [table[["head", "claims"]] for _, table in tables.each("labels")]
    own = tables.read("heads")
    if own is not None:
        parts.append(own[["head", "concept"]].rename(columns={"concept": "claims"}))
    found: dict[str, str] = {}
    for part in parts:
        for head, concept in part.itertuples(index=False, name=None):
            found.setdefault(head, concept or concepts.of_head(head) or NO_CONCEPT)
    return found


def _label(known: dict, **found) -> dict:
    """The label columns of a head; without findings, that no page tells or that none tested it."""
    nothing = {"label": NOT_TESTED if known else NOT_RUN, "label_on": "", "label_why": ""}
    return nothing | dict.fromkeys(("own", "own_low", "own_high"), np.nan) | found


def _labels(tables: Tables) -> dict[str, dict]:
    """A head's label check where its verdict is the gravest, of several the first."""
    found: dict[str, dict] = {}
    for dataset, table in tables.each("labels"):
        for row in table.itertuples():
            before = found.get(row.head)
            if before and SEVERITY.index(before["label"]) <= SEVERITY.index(row.label):
                continue
            row_of = {"label": row.label, "label_why": row.why, "label_on": dataset}
            numbers = {"own": row.own, "own_low": row.low, "own_high": row.high}
            found[row.head] = _label(found, **row_of, **numbers)
    return found


def _partners(tables: Tables) -> dict[str, list[str]] | None:
    if not any(True for _ in tables.each("disentanglement")):
        return None
    found: dict[str, dict[str, str]] = {}
    for row in entanglement(tables).itertuples():  # the largest |r| of a pair comes first
        for one, other in ((row.head, row.other), (row.other, row.head)):
            against = "opposed, " if row.r < 0 else ""
            told = f"{other} ({against}r = {row.r:.2f} on {row.dataset})"
            found.setdefault(one, {}).setdefault(other, told)
    return {head: list(told.values()) for head, told in found.items()}


def _readout(tables: Tables) -> dict[str, list[str]] | None:
    found: dict[str, list[str]] = {}
    ran = False
    for dataset, table in tables.each("readout"):
        ran = True
        for row in table[table["head"] != ""].itertuples():
            told = f"{row.concept}: {row.verdict} (on {dataset})"
            found.setdefault(row.head, []).append(told)
    return found if ran else None


def _told(found: dict[str, list[str]] | None, head: str, nothing: str) -> str:
    if found is None:
        return NOT_RUN
    return "; ".join(found.get(head, [])) or nothing


def compared(rules: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``gates`` that compare the gate with another rule."""
    return rules[(rules["rule"] != GATE) & rules["gain"].notna()]
