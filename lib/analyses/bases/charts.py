"""Latent bases: accuracy for new users as lines over their number of pairs."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lib.analyses.bases.few import ALONE, AUDITED, BASES, COLUMNS, METHODS, ONE, PRINCIPAL
from lib.charts.lines import Look, lines
from lib.charts.render import Chart, frame, layer, menu, nothing, plain, require

LOOKS = dict(
    zip(
        METHODS,
        (
            Look("better", (1, 0), "circle"),
            Look("text", (1, 0), "diamond"),
            Look("baseline", (6, 3), "square"),
            Look("baseline", (2, 2), "triangle-up"),
            Look("worse", (1, 0), "cross"),
            Look("muted", (4, 4), "triangle-down"),
        ),
        strict=True,
    )
)
HEIGHT = 280
NOTHING = "No users were new to anything: there is nothing to draw."


def few_shot(table: pd.DataFrame) -> Chart:
    """Accuracy by number of pairs, a line a method; a menu chooses the users.

    ``table`` is ``stats.new_users``.
    """
    if table.empty:
        return nothing(NOTHING, table, "bases-few-shot")
    require(table, ["whose", *COLUMNS], "new users")
    groups = list(dict.fromkeys(table["whose"]))
    drawn = table[["whose", *COLUMNS[:6]]].round(4)
    drawn["whose"] = drawn["whose"].map(groups.index)  # as the menu has them
    return Chart(
        frame(
            layer(*_layers(drawn)),
            menu("whose", "Whose", [plain(group) for group in groups]),
            height=HEIGHT,
        ),
        alternative=_in_words(table[table["whose"] == groups[0]], groups),
        data=table,
        name="bases-few-shot",
        caption="Share of a new user's held-out pairs that are ranked as the user chose, by how "
        "many other pairs were given, mean over users; the band is the 95% interval of latent "
        "bases over users. The other methods' intervals are in the table.",
        height=HEIGHT + 180,
    )


def _layers(drawn: pd.DataFrame) -> list[alt.Chart]:
    ticks = sorted({int(k) for k in drawn["pairs"]})
    x = alt.X(
        "pairs:Q",
        axis=alt.Axis(title="pairs of the new user", format="d", grid=False, values=ticks),
        scale=alt.Scale(type="log", base=2, domain=[ticks[0], max(ticks[-1], 2 * ticks[0])]),
    )
    y = alt.Y(
        "accuracy:Q",
        scale=alt.Scale(zero=False, nice=True),
        axis=alt.Axis(title="ranked as the user chose", tickCount=6, grid=False),
    )
    return lines(
        drawn,
        LOOKS,
        kind="method",
        x=x,
        y=y,
        where="datum.whose === whose",
        band=BASES,
        told={
            "method": "",
            "pairs:Q": "pairs",
            "users:Q": "users",
            "accuracy": ("accuracy", ".3f"),
            "low": ("from", ".3f"),
            "high": ("to", ".3f"),
        },
        legend=alt.Legend(
            title=None, orient="bottom", direction="horizontal", columns=1, labelLimit=300
        ),
    )


def _in_words(rows: pd.DataFrame, groups: list[str]) -> str:
    told = []
    for method in (BASES, ONE, ALONE, PRINCIPAL, AUDITED):
        own = rows[rows["method"] == method]
        if len(own):
            ends = own.iloc[sorted({0, len(own) - 1})]
            said = ", ".join(f"{row.accuracy:.3f} from {row.pairs}" for row in ends.itertuples())
            told.append(f"{method}: {said}")
    others = f" A menu chooses among {len(groups)} kinds of users." if len(groups) > 1 else ""
    return f"Accuracy for new {plain(groups[0])} by number of pairs. {'; '.join(told)}.{others}"
