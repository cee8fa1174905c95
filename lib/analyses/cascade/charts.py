"""Cascade: preferences by dimension as colours, correlations as rows of intervals."""

from __future__ import annotations

import pandas as pd

from lib.analyses.cascade.stats import DIMENSION_COLUMNS, PAIR_COLUMNS, TOGETHER_COLUMNS
from lib.charts.heatmap import preferences
from lib.charts.intervals import intervals
from lib.charts.render import Chart, nothing, plain, require
from lib.charts.rows import score_first, toned

TONES = {"together": "better", "opposed": "worse"}


def dimensions(table: pd.DataFrame) -> Chart:
    """Heat map of rules and dimensions. ``table`` is as ``stats.dimensions`` returns it."""
    if table.empty:
        return nothing("No comparison of a dimension: nothing to draw.", table, "dimensions")
    require(table, DIMENSION_COLUMNS, "preferences by dimension")
    return preferences(table, "dimension", "aligned response", "dimensions")


def together(table: pd.DataFrame) -> Chart:
    """Mean correlations, a row a rule. ``table`` is ``stats.Correlations.together``."""
    require(table, TOGETHER_COLUMNS, "mean correlations")
    rows = table.rename(columns={"head": "name", "r": "value"}).assign(
        group="every rule", tone=toned(table["verdict"], TONES)
    )
    return intervals(
        rows,
        title="mean correlation of two dimensions",
        reference=0.0,
        domain=(-0.2, 1.0),
        data=table,
        name="together",
        what="Mean correlations",
        caption="Mean over all pairs of dimensions of the rank correlation of margins across "
        "scenarios, with a 95% interval, uncorrected. In grey: not shown to differ from 0 by "
        "Holm's correction over all rows.",
    )


def pairs(table: pd.DataFrame) -> Chart:
    """Correlations of two dimensions; a menu chooses the rule.

    ``table`` is ``stats.Correlations.pairs``.
    """
    if table.empty:
        return nothing("Fewer than two dimensions: there is no pair to correlate.", table, "pairs")
    require(table, PAIR_COLUMNS, "correlations of dimensions")
    rows = table.assign(
        name=[f"{plain(row.one)} · {plain(row.other)}" for row in table.itertuples()],
        group=table["head"],
        value=table["r"],
        beside=table["published"],
        tone=toned(table["verdict"], TONES),
    )
    return intervals(
        score_first(rows),
        title="correlation across scenarios",
        reference=0.0,
        domain=(-1.0, 1.0),
        data=table,
        name="pairs",
        what="Correlations of dimensions",
        beside="first two scenarios alone",
        menu_name="Rule",
        caption="Rank correlation of the margins in two dimensions across scenarios, with a 95% "
        "interval, uncorrected; in grey: not shown to differ from 0 by Holm's correction over all "
        "rules and pairs. Grey tick: the correlation of the first two scenarios alone, as "
        "published, which is 1 or −1 whatever the model.",
    )
