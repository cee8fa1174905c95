"""Selection: share of the possible gain as rows of intervals, expected gold as lines over n."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lib.analyses.selection.stats import (
    BASELINE,
    BETTER,
    CURVE_COLUMNS,
    GOLD,
    LONGEST,
    PICK_COLUMNS,
    RANDOM,
    SHORTEST,
    WORSE,
)
from lib.charts.intervals import intervals
from lib.charts.lines import Look, lines
from lib.charts.render import Chart, frame, layer, menu, nothing, plain, require
from lib.charts.rows import toned
from lib.stats.winrates import ALL

CHOSEN = "the rule"
LOOKS = {
    CHOSEN: Look("better", (1, 0), "circle"),
    GOLD: Look("text", (1, 0), "diamond"),
    LONGEST: Look("worse", (6, 3), "square"),
    SHORTEST: Look("worse", (2, 2), "triangle-up"),
    RANDOM: Look("baseline", (4, 4), "cross"),
}
HEIGHT = 280
NOTHING = "No item has several responses whose gold is known: there is nothing to pick from."


def picks(table: pd.DataFrame) -> Chart:
    """Share of the gain over random picks that is possible; a menu chooses the subset.

    ``table`` is ``stats.Selection.picks``.
    """
    if table.empty:
        return nothing(NOTHING, table, "selection-picks")
    require(table, PICK_COLUMNS, "picks")
    rows = table[~table["rule"].isin([RANDOM, GOLD]) | (table["kind"] != BASELINE)]
    tone = {BETTER: "better", WORSE: "worse"}
    drawn = rows.assign(
        name=rows["rule"],
        group=rows["subset"],
        value=rows["share"],
        low=rows["share_low"],
        high=rows["share_high"],
        tone=toned(rows["verdict"], tone),
    )
    n = int(table["n"].max())
    return intervals(
        drawn,
        title="share of the possible gain",
        reference=0.0,
        domain=(-0.2, 1.0),
        data=table,
        name="selection-picks",
        what=f"Share of the possible gain over random picks, best of {n}",
        caption=f"What the best of {n} by each rule has more gold than a random response, as a "
        "share of what the gold's own pick has more: 0 is random, 1 is the best there is, with a "
        "95% interval over prompts, uncorrected. In grey: not told from random by Holm's "
        "correction over all heads and subsets, and rules of length, which aren't tested.",
    )


def curve(table: pd.DataFrame) -> Chart:
    """Expected gold by number of candidates, beside the baselines; a menu chooses the rule.

    ``table`` is ``stats.Selection.curve``.
    """
    if table.empty:
        return nothing(NOTHING, table, "selection-curve")
    require(table, CURVE_COLUMNS, "expected gold")
    own = table[(table["subset"] == ALL) & table["gold"].notna()]
    heads = own[own["kind"] != BASELINE]
    if heads.empty:
        sentence = "No rule's scores are numbers: there is nothing to draw."
        return nothing(sentence, table, "selection-curve")
    rules = list(dict.fromkeys(heads["rule"]))
    rules = [rules[-1], *rules[:-1]]  # the one score first, where there is one
    beside = own[own["kind"] == BASELINE].assign(form=lambda rows: rows["rule"], rule=-1)
    drawn = pd.concat([heads.assign(form=CHOSEN, rule=heads["rule"].map(rules.index)), beside])
    drawn = drawn[["rule", "form", "n", "gold", "low", "high", "length"]].round(4)
    return Chart(
        frame(
            layer(*_layers(drawn, int(own["n"].max()))),
            menu("rule", "Rule", [plain(rule) for rule in rules]),
            height=HEIGHT,
        ),
        alternative=_in_words(own, rules),
        data=table,
        name="selection-curve",
        caption="Expected gold of the response that each rule picks from n candidates of an item, "
        "exact over all subsets; the band is the rule's 95% interval over prompts. The gold's own "
        "pick is the most there can be; random, longest and shortest need no model.",
        height=HEIGHT + 110,
    )


def _layers(drawn: pd.DataFrame, most: int) -> list[alt.Chart]:
    x = alt.X(
        "n:Q",
        axis=alt.Axis(title="candidates", format="d", grid=False, tickMinStep=1, labelFlush=False),
        scale=alt.Scale(domain=[1, most], nice=False, padding=8),
    )
    y = alt.Y(
        "gold:Q",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(title="expected gold", tickCount=6, grid=False),
    )
    return lines(
        drawn,
        LOOKS,
        kind="form",
        x=x,
        y=y,
        where="datum.rule === rule || datum.rule < 0",
        band=CHOSEN,
        told={
            "form": "",
            "n:Q": "candidates",
            "gold": ("expected gold", ".3f"),
            "low": ("from", ".3f"),
            "high": ("to", ".3f"),
            "length": ("expected tokens", ".0f"),
        },
        legend=alt.Legend(title=None, orient="bottom", direction="horizontal", columns=3),
    )


def _in_words(own: pd.DataFrame, rules: list[str]) -> str:
    first = own[(own["rule"] == rules[0]) & (own["kind"] != BASELINE)]
    told = [f"{plain(rules[0])}: {_line(first)}"]
    for rule, rows in own[own["kind"] == BASELINE].groupby("rule", sort=False):
        told.append(f"{rule}: {_line(rows)}")
    others = f" A menu chooses among {len(rules)} rules." if len(rules) > 1 else ""
    return f"Expected gold by number of candidates. {'; '.join(told)}.{others}"


def _line(rows: pd.DataFrame) -> str:
    rows = rows.iloc[sorted({0, len(rows) // 2, len(rows) - 1})]
    return ", ".join(f"{row.gold:.3f} of {row.n}" for row in rows.itertuples())
