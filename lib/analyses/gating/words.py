"""Sentences of the gating page, written from its tables; none holds a typed number."""

from __future__ import annotations

from typing import Any

import pandas as pd

from lib import words
from lib.stats.winrates import ALL, GATE, NO_GATE, distinct

MOST = 6  # sentences of one sort
TAKEN = 0.005  # share of the removed head, of either sign, from which it counts as taken out


def takeaways(
    identity: pd.DataFrame,
    coefficients: pd.DataFrame,
    entropy: pd.DataFrame,
    rules: pd.DataFrame,
    debiasing: pd.DataFrame,
) -> list[str]:
    """All of the page's findings in order; one sentence for a model without a gate."""
    if identity["note"].iloc[0] == NO_GATE:
        return ["This model has no gate, so there is nothing to say about how it weighs its heads."]
    told = [*_identity(identity.iloc[0]), *_weighs(coefficients), *_spreads(entropy)]
    return [*told, *gains(rules), *parts(rules), *verbosity(debiasing)]


def _identity(row: Any) -> list[str]:
    if row["note"]:
        return [f"The score can't be rebuilt from its coefficients: {row['note']}."]
    says = "is" if row["holds"] else "is not"
    return [
        f"The score {says} the sum of undebiased rewards times their coefficients: the largest "
        f"difference over {row['n']} responses is {row['largest']:.2g}, of {row['tolerance']:g} "
        "allowed."
    ]


def _weighs(table: pd.DataFrame) -> list[str]:
    overall = table[(table["subset"] == ALL) & table["mean"].notna()]
    if overall.empty:
        return [f"Coefficients can't be told: {words.reasons(table['note'])}."]
    most = overall.loc[overall["mean"].idxmax()]
    told = [
        f"The head with the largest mean coefficient is {most['head']} ({most['mean']:.3f}, "
        f"between {most['low']:.3f} and {most['high']:.3f} for the middle of the prompts)."
    ]
    least = overall.loc[overall["mean"].idxmin()]
    if least["mean"] < 0:
        told.append(f"{least['head']} counts against a response ({least['mean']:.3f} on average).")
    return told


def _spreads(table: pd.DataFrame) -> list[str]:
    overall = table[table["subset"] == ALL].iloc[0]
    if overall["note"]:
        return [f"The gate's entropy can't be told: {overall['note']}."]
    if overall["heads"] < 2:
        return ["The gate weighs a single head, so its entropy is zero."]
    return [
        f"The gate spreads over {overall['effective']:.1f} of {overall['heads']:.0f} heads "
        f"({overall['share']:.0%} of the largest possible entropy); {overall['between']:.3f} nats "
        "of it depend on the prompt."
    ]


def gains(rules: pd.DataFrame) -> list[str]:
    """The gate beside each fixed rule, on all comparisons."""
    overall = rules[rules["subset"] == ALL].set_index("rule")
    gate = overall.loc[GATE]
    if gate["note"]:
        return [f"The gate can't be compared with fixed rules: {gate['note']}."]
    told = [
        f"The gate ranks {words.rate(gate)} of {gate['n']} comparisons as the data set marks them."
    ]
    for rule, row in overall.drop(GATE).iterrows():
        named = f"{rule} ({row['chosen']})" if row["chosen"] else rule
        if row["gain_low"] == row["gain_high"] == 0:
            told.append(f"It wins as often as {named} on every prompt, {row['win_rate']:.3f}.")
            continue
        found = row["p_adjusted"] < 0.05
        says = ("gains on" if row["gain"] > 0 else "loses to") if found else "is not told from"
        told.append(
            f"It {says} {named}, {row['win_rate']:.3f}: {row['gain']:+.3f} "
            f"[{row['gain_low']:+.3f}, {row['gain_high']:+.3f}], adjusted p = "
            f"{row['p_adjusted']:.2g}"
            + (f"; this page finds {row['mde']:.3f} or more." if not found else ".")
        )
    return told


def parts(rules: pd.DataFrame) -> list[str]:
    """The gate on each part of the comparisons, where there are several."""
    names = [name for name in rules["subset"].unique() if name != ALL]
    if len(names) < 2:
        return []
    told = [_part(name, rules[rules["subset"] == name].set_index("rule")) for name in names]
    return words.first(told, MOST, "further parts are in the table.")


def _part(name: str, rows: pd.DataFrame) -> str:
    gate, others = rows.loc[GATE], rows.drop(GATE)
    if gate["note"]:
        return f"On {name}: {gate['note']}."
    return f"On {name} the gate ranks {words.rate(gate)} of {gate['n']}. It {_compared(others)}."


def _compared(others: pd.DataFrame) -> str:
    """Which rules the gate gains on, loses to, or isn't told from."""
    found = others["p_adjusted"] < 0.05
    said = [
        f"{says} {', '.join(map(_beside, rows.itertuples()))}"
        for says, rows in (
            ("gains on", others[found & (others["gain"] > 0)]),
            ("loses to", others[found & (others["gain"] < 0)]),
            ("is not told from", others[~found]),
        )
        if len(rows)
    ]
    return "; it ".join(said)


def verbosity(table: pd.DataFrame) -> list[str]:
    """What the debiasing matrix does to correlations with the removed head."""
    known = table.dropna(subset=["lambda"])
    if known.empty:
        return [f"Nothing can be said of a debiasing matrix: {words.reasons(table['note'])}."]
    removed = known["removed"].iloc[0]
    others = known[known["head"] != removed].dropna(subset=["before", "after"])
    if others.empty:
        return [f"{removed} is taken out, and no other head varies."]
    sizes = others[["before", "after"]].abs()
    most, mean = others.loc[sizes["before"].idxmax()], sizes.mean()
    taken = int((others["lambda"].abs() > TAKEN).sum())
    return [
        f"{removed} is taken out of {taken} of {words.count(len(others), 'other head')}. "
        f"{most['head']}, the most correlated with it, goes from {most['before']:.2f} to "
        f"{most['after']:.2f}; the mean size goes from {mean['before']:.2f} to {mean['after']:.2f}."
    ]


def family(rules: pd.DataFrame) -> list[str]:
    """How many comparisons the correction of the page covers."""
    count = int(distinct(rules)["p"].notna().sum())
    return [f"Gains are corrected by Holm over {count} comparisons of the gate with a rule."]


def answer(rules: pd.DataFrame) -> str:
    """In short: what the gate ranks, and beside which fixed rules it gains, loses or neither."""
    overall = rules[rules["subset"] == ALL].set_index("rule")
    gate, others = overall.loc[GATE], overall.drop(GATE)
    if gate["note"]:
        return f"The gate can't be compared with fixed rules: {gate['note']}."
    return (
        f"The gate ranks {words.rate(gate)} of "
        f"{gate['n']} comparisons as the data set marks them. It {_compared(others)}."
    )


def _beside(row: Any) -> str:
    named = f"{row.Index} ({row.chosen})" if row.chosen else row.Index
    told = f"{named} ({row.gain:+.3f} [{row.gain_low:+.3f}, {row.gain_high:+.3f}]"
    missed = not row.p_adjusted < 0.05 and row.mde > 0
    return told + (f"; {row.mde:.3f} would be found)" if missed else ")")


def glued(rules: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: win rate and gain of each rule."""
    overall = rules[rules["subset"] == ALL]
    told = {f"rule-{row.rule}": _number(row.win_rate, ".3f") for row in overall.itertuples()}
    return told | {
        f"gain-{row.rule}": _number(row.gain, "+.3f")
        for row in overall.itertuples()
        if row.rule != GATE
    }


def _number(value: float, form: str) -> str:
    return "–" if pd.isna(value) else format(value, form)
