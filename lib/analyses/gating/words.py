"""Sentences of the gating page, written from its tables; none holds a typed number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from lib import words
from lib.analyses.gating.stats import RAW
from lib.stats.winrates import ALL, GATE, LONGER, NO_GATE, distinct

SHOWN = 6  # sentences of one sort
TAKEN = 0.005  # share of the removed head, of either sign, from which it counts as taken out
GAIN = "{gain:+.3f} [{gain_low:+.3f}, {gain_high:+.3f}]"
WITHOUT = "{raw_gain:+.3f} [{raw_low:+.3f}, {raw_high:+.3f}]"
GAINS, LOSES, NEITHER = "gains on", "loses to", "is not told from"
BEFORE = "differs before correction, and not after, from"


def takeaways(
    identity: pd.DataFrame,
    coefficients: pd.DataFrame,
    entropy: pd.DataFrame,
    rules: pd.DataFrame,
    debiasing: pd.DataFrame,
) -> list[str]:
    """Whether the gate is worth it, then how it weighs; one sentence for a model without one."""
    if identity["note"].iloc[0] == NO_GATE:
        return ["This model has no gate, so there is nothing to say about how it weighs its heads."]
    sentences = [answer(rules), *longer(rules), *parts(rules)]
    sentences += [*verbosity(debiasing), *_weighs(coefficients)]
    sentences += words.each(_untold(rules), "{rule}: {note}.")
    return [*sentences, _spreads(entropy), _identity(identity.iloc[0])]


def _identity(row: Any) -> str:
    if row["note"]:
        return f"The score can't be rebuilt from its coefficients: {row['note']}."
    return (
        f"The score {'is' if row['holds'] else 'is not'} the sum of undebiased rewards times their "
        f"coefficients: the largest difference over {row['n']} responses is {row['largest']:.2g}, "
        f"of {row['tolerance']:g} allowed."
    )


def _weighs(table: pd.DataFrame) -> list[str]:
    overall = table[(table["subset"] == ALL) & table["mean"].notna()]
    if overall.empty:
        return [f"Coefficients can't be told: {words.reasons(table['note'])}."]
    most, least = (overall.loc[[overall["mean"].agg(end)]] for end in ("idxmax", "idxmin"))
    return [
        *words.each(
            most,
            "The head with the largest mean coefficient is {head} ({mean:.3f}, between {low:.3f} "
            "and {high:.3f} for the middle of the prompts).",
        ),
        *words.each(
            least[least["mean"] < 0],
            "{head} counts against a response ({mean:.3f} on average).",
        ),
    ]


def _spreads(table: pd.DataFrame) -> str:
    overall = table[table["subset"] == ALL].iloc[0]
    if overall["note"]:
        return f"The gate's entropy can't be told: {overall['note']}."
    if overall["heads"] < 2:
        return "The gate weighs a single head, so its entropy is zero."
    return (
        f"The gate spreads over {overall['effective']:.1f} of {overall['heads']:.0f} heads "
        f"({overall['share']:.0%} of the largest possible entropy); {overall['between']:.3f} nats "
        "of it depend on the prompt."
    )


def _untold(rules: pd.DataFrame) -> pd.DataFrame:
    """Rules that the run doesn't tell, of all comparisons; none where the gate itself is untold."""
    own = rules[(rules["subset"] == ALL) & (rules["rule"] != LONGER)]
    return own[(own["note"] != "") & (own.loc[own["rule"] == GATE, "note"] == "").all()]


def debiased(rules: pd.DataFrame, subset: str = ALL) -> list[str]:
    """What the gate's losses to fixed rules would be without debiasing, where that is shown to
    cost something.
    """
    return _debiased(_beside(rules, subset)[1])


def _debiased(others: pd.DataFrame) -> list[str]:
    lost = others[others["outcome"] == LOSES]
    own = lost["rule"] == RAW
    if not own.any():
        return []
    gain, low, high = lost.loc[own, ["gain", "gain_low", "gain_high"]].iloc[0]
    text = f"Debiasing costs it {words.estimate(-gain, -high, -low)}"
    rest = words.each(lost[~own], WITHOUT + " on {name}")
    return [
        f"{text}; without it the gate would gain {', '.join(rest)} (not tested)."
        if rest
        else f"{text}."
    ]


def _beside(rules: pd.DataFrame, subset: str) -> tuple[pd.Series, pd.DataFrame]:
    """The gate's row of one subset, and the other rules with their name and their outcome."""
    rows = rules[rules["subset"] == subset].set_index("rule", drop=False)
    others = rows.drop([GATE, LONGER], errors="ignore")
    others = others[others["gain"].notna()].copy()
    chosen = " (" + others["chosen"].astype(str) + ")"
    others["name"] = others["rule"] + chosen.where(others["chosen"].astype(bool), "")
    outside = (others["gain_low"] > 0) | (others["gain_high"] < 0)
    others["outcome"] = np.select(
        [
            (others["p_adjusted"] < 0.05) & (others["gain"] > 0),
            others["p_adjusted"] < 0.05,
            outside,
        ],
        [GAINS, LOSES, BEFORE],
        NEITHER,
    )
    return rows.loc[GATE], others


def _worth(rules: pd.DataFrame, subset: str, others: pd.DataFrame) -> str:
    """Whether the gate earns its place beside fixed rules and beside length."""
    fixed = others[others["rule"] != RAW]
    lost = [_rated(row) for row in fixed[fixed["outcome"] == LOSES].itertuples()]
    if lost:
        return f"not worth it as it stands: it ranks fewer than {', '.join(lost)}"
    length = rules[(rules["subset"] == subset) & (rules["rule"] == LONGER)].dropna(subset=["gain"])
    level = pd.concat([fixed[fixed["outcome"] != GAINS], length[length["gain_low"] <= 0]])
    if len(level):
        above = ", ".join(map(_rated, level.itertuples()))
        return f"not shown to be worth it: no gain is shown on {above}"
    return f"worth it: it gains on every fixed rule{' and on length' * len(length)}"


def _rated(row: Any) -> str:
    name = "the longer response alone" if row.rule == LONGER else row.rule
    return f"{name} ({row.win_rate:.3f})"


def _beaten(others: pd.DataFrame) -> str:
    """The fixed rules that the gate gains on, and whether they are more than chance."""
    gains = others[(others["outcome"] == GAINS) & (others["rule"] != RAW)]
    if gains.empty:
        return "it gains on no fixed rule"
    weak = ", none of which is shown above one half" if (gains["low"] <= 0.5).all() else ""
    return f"it gains on {', '.join(map(_rated, gains.itertuples()))}{weak}"


def _itself(others: pd.DataFrame) -> str:
    """What debiasing does to the gate, where the run tells it."""
    raw = others[others["rule"] == RAW]
    told = {GAINS: "ranks more than", LOSES: "ranks fewer than"}
    return "".join(
        f" It {told.get(row.outcome, NEITHER)} itself without debiasing ({row.win_rate:.3f})."
        for row in raw.itertuples()
    )


def _ranks(gate: pd.Series) -> str:
    return (
        f"The gate ranks {words.rate(gate)} of {gate['n']} comparisons as the data set marks them."
    )


def _compared(rules: pd.DataFrame, others: pd.DataFrame) -> str:
    """Which rules the gate gains on, loses to, or isn't told from, and after which correction."""
    kinds = {kind: others[others["outcome"] == kind] for kind in (GAINS, LOSES, BEFORE, NEITHER)}
    told = words.cases(kinds, _gain, "; it ")
    return f"After Holm over {_tests(rules)} it {told}{_missed(kinds[NEITHER]['mde'])}."


def _gain(row: Any) -> str:
    if row.outcome == NEITHER:
        return f"{row.name} ({row.gain:+.3f})"
    text = GAIN.format(**row._asdict())
    if row.outcome == BEFORE:
        text += f", adjusted p = {row.p_adjusted:.2g}"
    return f"{row.name} ({text})"


def _missed(mde: pd.Series) -> str:
    """Which gains would have been found on rules that the gate isn't told from."""
    sizes, blind = mde[mde > 0], int(mde.isna().sum())
    if blind and sizes.empty:
        return f", where {words.found(np.nan)}"
    some = f" ({blind} could show none that can occur)" if blind else ""
    return f", where {words.span(sizes, '.3f')} would have been found{some}" if len(sizes) else ""


def parts(rules: pd.DataFrame) -> list[str]:
    """The gate on each part of the comparisons, where there are several."""
    names = [name for name in rules["subset"].unique() if name != ALL]
    if len(names) < 2:
        return []
    sentences = [_part(rules, name) for name in names]
    return words.first(sentences, SHOWN, "further parts are in the table.")


def _part(rules: pd.DataFrame, name: str) -> str:
    gate, others = _beside(rules, name)
    if gate["note"]:
        return f"On {name}: {gate['note']}."
    text = f"On {name} the gate ranks {words.rate(gate)} of {gate['n']}."
    return " ".join([text, _compared(rules, others), *_debiased(others)])


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
    return [
        f"Gains are corrected by Holm over {_tests(rules)} comparisons of the gate with a rule."
    ]


def _tests(rules: pd.DataFrame) -> int:
    return int(distinct(rules)["p"].notna().sum())


def longer(rules: pd.DataFrame) -> list[str]:
    """The gate beside the longer response, on all comparisons, of ``stats.with_length``."""
    overall = rules[rules["subset"] == ALL].set_index("rule")
    if LONGER not in overall.index:
        return []
    row = overall.loc[LONGER]
    if row[["win_rate", "gain"]].isna().any() or overall.loc[GATE, "note"]:
        return []
    return [
        f"The longer response alone wins {words.rate(row)}; the gate gains {GAIN.format(**row)} "
        "on it, outside of the corrected family."
    ]


def answer(rules: pd.DataFrame, subset: str = ALL) -> str:
    """Whether the gate is worth it, what it ranks, beside which rules it gains, loses or neither,
    and whether that is debiasing.

    ``rules`` is of ``stats.rules``, or of ``stats.with_length`` to judge it beside length too.
    """
    gate, others = _beside(rules, subset)
    if gate["note"]:
        return f"The gate can't be compared with fixed rules: {gate['note']}."
    worth = f"The gate is {_worth(rules, subset, others)}."
    return " ".join([worth, _ranks(gate), _compared(rules, others), *_debiased(others)])


def verdict(rules: pd.DataFrame, subset: str = ALL) -> str:
    """``answer`` in short: whether the gate is worth it, and what it gains on."""
    gate, others = _beside(rules, subset)
    if gate["note"]:
        return f"the gate can't be compared with fixed rules: {gate['note']}."
    return (
        f"{_worth(rules, subset, others)}. The gate ranks {words.rate(gate)} of comparisons as "
        f"the data set marks them; after Holm over {_tests(rules)} {_beaten(others)}."
        f"{_itself(others)}"
    )


def glued(rules: pd.DataFrame) -> dict[str, str]:
    """Values of the page for other pages: each rule's win rate and gain, each part's answer."""
    overall = rules[rules["subset"] == ALL].set_index("rule")
    rates = {
        f"rule-{rule}": words.number(rate, ".3f") for rule, rate in overall["win_rate"].items()
    }
    rates |= {
        f"gain-{rule}": words.number(gain, "+.3f")
        for rule, gain in overall["gain"].drop(GATE).items()
    }
    names = [name for name in rules["subset"].unique() if name != ALL]
    verdicts = {f"verdict-{name}": verdict(rules, name) for name in names}
    answers = {f"answer-{name}": answer(rules, name) for name in names}
    return rates | answers | verdicts | {"verdict": verdict(rules)}
