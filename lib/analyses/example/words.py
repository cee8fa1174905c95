"""How one comparison becomes a part of a verdict, in words, from the tables of ``stats``."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.example.stats import WITH, WITHOUT, Followed
from lib.markup import READ
from lib.stats.winrates import ALL, CHANCE, FINAL, STRONG

NONE = "There is no comparison to follow."
_DOES = {"win": "so it wins", "tie": "so it ties", "loss": "so it loses"}
_WHY = {
    "strong": f"the adjusted p is below .05, and the whole interval lies above {STRONG:g}",
    "tracks": "the adjusted p is below .05, and the win rate lies above one half, though not its "
    f"whole interval above {STRONG:g}",
    "inverted": "the adjusted p is below .05, and the win rate lies below one half",
    "chance": f"the whole interval lies within {CHANCE[0]:g} to {CHANCE[1]:g}, and the test would "
    "have found the ends of that band",
    "inconclusive": "the adjusted p is not below .05, and the interval is too wide to call it "
    "chance",
}


def takeaways(
    followed: Followed, scores: pd.DataFrame, tokens: pd.DataFrame, cell: pd.DataFrame
) -> list[str]:
    """From the verdict back to the scores: verdict, cell, correction, comparison, the heads."""
    if followed.row < 0:
        return [NONE]
    row = cell[cell["cell"] == WITH].iloc[0]
    return [
        _compared(followed, scores),
        _counted(followed, cell),
        *_corrected(row),
        _judged(followed, row),
        _heads(scores),
        _long(tokens),
    ]


def _compared(followed: Followed, scores: pd.DataFrame) -> str:
    row = scores[scores["head"] == followed.head].iloc[0]
    claim = ", whose name claims that," if followed.claims else ""
    text = f"Item {followed.item} asks for {followed.criterion}. {followed.head}{claim} gives "
    if row["outcome"] == "none":
        return f"{text}no numbers to compare."
    return (
        f"{text}{row['better']:.3f} to the response marked as better and {row['worse']:.3f} to the "
        f"other: a margin of {row['margin']:+.3f}, {_DOES[row['outcome']]}."
    )


def _counted(followed: Followed, cell: pd.DataFrame) -> str:
    rows = cell.set_index("cell")
    row, place = rows.loc[WITH], f"on {followed.subset}" if followed.subset != ALL else "in all"
    text = f"It is one of {words.count(int(row['n']), 'comparison')} {place}"
    if pd.isna(row["win_rate"]):
        return f"{text}, which have no win rate: {row['note']}."
    text += (
        f", of which {followed.head} wins {row['wins']:.0f} and ties {row['ties']:.0f}: a win rate "
        f"of {words.rate(row)}"
    )
    known = WITHOUT in rows.index and pd.notna(rows.loc[WITHOUT, "win_rate"])
    return f"{text}, {words.rate(rows.loc[WITHOUT])} without this one." if known else f"{text}."


def _corrected(row: pd.Series) -> list[str]:
    if pd.isna(row["p"]):
        return []
    product = row["p"] * row["factor"]
    which = " (at most 1)" if product > 1 else ""
    if row["p_adjusted"] > min(product, 1) * (1 + 1e-9):
        which = f" to {product:.2g}, less than what a smaller p comes to, which it takes"
    return [
        f"The exact test on {words.count(int(row['prompts']), 'prompt')} gives p = {row['p']:.2g}. "
        f"The validity page asks {words.count(int(row['tests']), 'question')} at once and this p "
        f"is number {row['rank']:.0f} from the smallest, so Holm multiplies it by "
        f"{row['factor']:.0f}{which}: adjusted p = {row['p_adjusted']:.2g}."
    ]


def _judged(followed: Followed, row: pd.Series) -> str:
    why = _WHY.get(row["verdict"], row["note"])
    reads = READ.get(row["verdict"], row["verdict"])
    return f"So the cell of {followed.head} {_of(followed)} reads “{reads}”: {why}."


def _of(followed: Followed) -> str:
    return "on all comparisons" if followed.subset == ALL else f"on {followed.subset}"


def _long(tokens: pd.DataFrame) -> str:
    better, worse = tokens.itertuples()
    return (
        f"The prompt has {words.count(better.prompt_tokens, 'token')}, the better response "
        f"{better.response_tokens} ({words.count(better.characters, 'character')}), the worse "
        f"{worse.response_tokens} ({words.count(worse.characters, 'character')})."
    )


def _heads(scores: pd.DataFrame) -> str:
    """Which heads prefer the response that is marked as better."""
    heads = scores[scores["head"] != FINAL]
    kinds = heads.groupby("outcome")["head"].agg(list)
    wins = kinds.get("win", [])
    share = f"{len(wins)} of {words.count(len(heads), 'head')}" if wins else "No head"
    text = f"{share} {'gives' if len(wins) < 2 else 'give'} the response marked as better the "
    text += "higher score"
    text += f" ({', '.join(wins)})" if wins else ""
    final = scores.loc[scores["head"] == FINAL, "outcome"]
    if len(final) and final.iloc[0] in _DOES:
        does = {"win": "too prefers it", "tie": "ties", "loss": "prefers the other"}
        text += f"; the model's one score {does[final.iloc[0]]}"
    return f"{text}."
