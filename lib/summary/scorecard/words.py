"""What the scorecard says, written from its tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lib import words
from lib.analyses.disentanglement.stats import THRESHOLD
from lib.analyses.exploits.stats import PAYS, PENALISES, RESISTS, UNTOLD
from lib.analyses.protocols import words as protocols
from lib.analyses.protocols.stats import changing
from lib.data.concepts import OPPOSED, OTHER, RELATIONS
from lib.stats.winrates import ALL, CHANCE, STRONG, VERDICTS
from lib.summary.scorecard.stats import (
    DOUBTED,
    NO_CONCEPT,
    NOT_TESTED,
    UNKNOWN,
    USE,
    WRONG,
    claimed,
    compared,
)
from lib.summary.tables import NOT_RUN
from lib.words.longer import extremes
from lib.words.longer import verdicts as owed_to_length

SHOWN = 3  # sentences of one sort
SCORE = "{dataset} {win_rate:.2f} [{low:.2f}, {high:.2f}] ({win_rate_longer:.2f})"
NAMED = 12  # heads named in a sentence; of more, the table below it names them


def takeaways(
    card: pd.DataFrame,
    matrix: pd.DataFrame,
    entangled: pd.DataFrame,
    sides: pd.DataFrame | None = None,
) -> list[str]:
    """Verdicts, changes of side, names, partners, readouts, who changes sides, what is missing.

    The tables are those that ``lib.summary``'s ``scorecard``, ``matrix``, ``entanglement`` and
    ``sides`` return.
    """
    return [
        *_verdicts(card, matrix),
        *_sides(card, sides),
        *_names(card),
        *_partners(card, entangled),
        *_readout(card),
        *([] if sides is None else _crossing(sides)),
        *_missing(card, matrix),
    ]


def _verdicts(card: pd.DataFrame, matrix: pd.DataFrame) -> list[str]:
    overall = _judged(matrix)
    if overall.empty:
        return []
    number = words.count(overall["dataset"].nunique(), "protocol")
    who = f"{len(card)} heads on {number} give {words.count(len(overall), 'verdict')}"
    one = f"The model's one head, {card['head'].iloc[0]}," if len(card) == 1 else ""
    if not overall["relation"].isin(RELATIONS).any():
        who = f"{one} on {number}" if one else who
        counts = f"{who}: {words.tally(overall['verdict'], VERDICTS)}."
        return [" ".join([counts, *owed_to_length(overall)])]
    own = claimed(matrix)
    sentences = [
        f"{one or f'None of {len(card)} heads'} is {'not ' if one else ''}asked what its name "
        "claims."
    ]
    if len(own):
        asked = own["head"].nunique()
        single = "is asked what its name claims"
        many = single if asked == 1 else "are asked what their names claim"
        sentences = [
            f"{f'{one} {single}' if one else f'{asked} of {len(card)} heads {many}'}, in "
            f"{words.count(len(own), 'cell')}: {words.tally(own['verdict'], VERDICTS)}.",
            *owed_to_length(own),
        ]
    other = overall[overall["relation"] == OTHER]
    if len(other):
        sentences.append(
            f"{words.count(len(other), 'further cell')} of whole protocols "
            f"{'asks' if len(other) == 1 else 'ask'} something else: "
            f"{words.tally(other['verdict'], VERDICTS)}; to go against such labels is no fault."
        )
    return [" ".join(sentences), *_opposed(overall)]


def _opposed(overall: pd.DataFrame) -> list[str]:
    """Heads whose names claim the opposite of what a protocol asks."""
    against = overall["verdict"].map(
        {
            "inverted": "goes against these labels, as its name says",
            "tracks": "goes with these labels, against its name",
            "strong": "goes with these labels, against its name",
        }
    )
    rows = overall.assign(does=against.fillna("is not shown to go either way"))
    return words.each(
        rows[rows["relation"] == OPPOSED].dropna(subset=["win_rate"]),
        "The name of {head} claims the opposite of what {dataset} asks; it {does} "
        "({win_rate:.3f} [{low:.3f}, {high:.3f}]).",
    )


def _judged(matrix: pd.DataFrame) -> pd.DataFrame:
    return matrix[(matrix["subset"] == ALL) & (matrix["verdict"] != NOT_RUN)]


def _sides(card: pd.DataFrame, sides: pd.DataFrame | None) -> list[str]:
    """How many heads change sides; nothing where no table corrects over protocols."""
    if sides is None:
        return []
    if len(changing(sides)):
        return [protocols.answer(sides)]
    if (card["protocols"] > 1).any():
        return [
            "No head is shown to go with the labels of one protocol and against those of another, "
            "corrected over all protocols at once."
        ]
    return []


def _crossing(sides: pd.DataFrame) -> list[str]:
    return words.first(protocols.crossing(sides), SHOWN, "further heads change sides too.")


def _names(card: pd.DataFrame) -> list[str]:
    if (card["label"] == NOT_RUN).all():
        return []
    tested = card[~card["label"].isin([NOT_RUN, NOT_TESTED])]
    if tested.empty:
        return ["No head's name could be tested against what the head does."]
    wrong = words.each(
        card[card["label"] == WRONG],
        "{head} is called wrong about {claims} on {label_on}: it {label_why} (it wins {own:.2f} "
        "[{own_low:.2f}, {own_high:.2f}] of what it claims).",
    )
    doubted = words.each(
        card[card["label"] == DOUBTED],
        "The name of {head}, {claims}, is in doubt on {label_on}: it {label_why}.",
    )
    sentences = words.first(wrong, SHOWN, "further names are called wrong.")
    sentences += words.first(doubted, SHOWN, "further names are in doubt.")
    if not sentences and len(tested) == 1:
        sentences = ["The one name that was tested is not contradicted."]
    elif not sentences:
        sentences = [f"None of the {len(tested)} names that were tested is called wrong."]
    sentences.append(_unproven(tested))
    untested = card[card["label"] == NOT_TESTED]
    if len(untested):
        claimless = len(untested) == 1 and (untested["claims"] == NO_CONCEPT).all()
        why = ", since it claims none of the concepts" if claimless else ""
        sentences.append(f"The name of {words.count(len(untested), 'head')} was not tested{why}.")
    return sentences


def _unproven(tested: pd.DataFrame) -> str:
    """How many heads don't win on the criterion that they claim: silence is no support."""
    unproven = int((tested["own_low"].astype(float) <= 0.5).sum())
    if not unproven:
        return "Each tested head is shown to win on its own criterion, by its interval."
    is_, its = ("is", "its") if unproven == 1 else ("are", "their")
    return (
        f"{unproven} of {words.count(len(tested), 'tested head')} {is_} not shown to win on {its} "
        f"own criterion: {its} interval holds one half or lies below it."
    )


def _partners(card: pd.DataFrame, entangled: pd.DataFrame) -> list[str]:
    if len(card) == 1 or (card["partners"] == NOT_RUN).all():
        return []
    if entangled.empty:
        return [
            f"No two heads' choices correlate beyond ±{THRESHOLD:g} for sure, wherever that was "
            "looked at."
        ]
    once = entangled.drop_duplicates(["head", "other"])
    pairs = words.each(
        once.assign(how=["opposed" if r < 0 else "entangled" for r in once["r"]]),
        "{head} and {other} are {how}: their choices correlate at {r:.2f} "
        "[{low:.2f}, {high:.2f}] on {dataset}.",
    )
    return [
        *words.first(pairs, SHOWN, "further pairs are entangled or opposed."),
        f"Two heads count as entangled where the whole interval lies above {THRESHOLD:g} and as "
        f"opposed where it lies below −{THRESHOLD:g}; of "
        "several datasets the largest correlation is told.",
    ]


def _readout(card: pd.DataFrame) -> list[str]:
    lost = words.each(
        card[card["readout"].str.contains(": not read out", regex=False)],
        "Probes find in the state what {head} doesn't read out.",
    )
    return words.first(lost, SHOWN, "further heads lose what the state holds.")


def gate(gates: pd.DataFrame) -> list[str]:
    """What the gate is worth beside each rule; one sentence where there is no gate to judge."""
    sentences = []
    for rule, rows in compared(gates).groupby("rule", sort=False):
        found = rows[rows["p_adjusted"] < 0.05]
        kinds = {"gains on": found[found["gain"] > 0], "loses on": found[found["gain"] < 0]}
        parts = [text] if (text := words.cases(kinds, _gain)) else []
        missed = len(rows) - len(found)
        if missed:
            parts.append(f"is not told apart on {missed} of {words.count(len(rows), 'dataset')}")
        sentences.append(f"Beside {rule} the gate {'; '.join(parts)}.")
    return sentences or ["The model has no gate, or no page judged it."]


def exploits(paid: pd.DataFrame) -> list[str]:
    """Surfaces that the one score pays for or penalises, a sentence a dataset."""
    sentences = []
    for (dataset, head), rows in paid.groupby(["dataset", "head"], sort=False):
        kinds = {
            does: rows[rows["verdict"] == verdict]
            for verdict, does in (
                (PAYS, "pays for"),
                (PENALISES, "penalises"),
                (RESISTS, "resists"),
            )
        }
        told = words.cases(kinds, lambda row: f"{row.axis} ({row.win_rate:.2f})")
        left = int((rows["verdict"] == UNTOLD).sum())
        parts = [told] if told else []
        if left:
            parts.append(f"of {left} of {len(rows)} axes it can't be told")
        sentences.append(f"On {dataset} {head} {'; '.join(parts) or 'gives no numbers'}.")
    return sentences or ["No exploits page was executed."]


def _gain(row: Any) -> str:
    return f"{row.dataset} ({words.estimate(row.gain, row.gain_low, row.gain_high, '+.3f')})"


def _missing(card: pd.DataFrame, matrix: pd.DataFrame) -> list[str]:
    absent = {"validity": matrix.empty} | {
        analysis: (card[column] == NOT_RUN).all()
        for analysis, column in (
            ("labels", "label"),
            ("disentanglement", "partners"),
            ("probes", "readout"),
        )
    }
    names = [name for name, missing in absent.items() if missing]
    sentences = [f"Not run for this model: {', '.join(names)}."] if names else []
    holes = matrix.loc[matrix["verdict"] == NOT_RUN, "dataset"].unique()
    if len(holes):
        sentences.append(f"Validity was not run for every head on {', '.join(holes)}.")
    return sentences


def uses(table: pd.DataFrame) -> str:
    """Which heads do what their names say somewhere, which aren't shown to, which aren't asked."""
    if table.empty:
        return "No validity page says what its labels ask."
    heads = table["head"].unique()
    rows = table[table["use"] == USE]
    shown = rows["head"].unique()
    apart = set(rows.loc[~rows["trained"].fillna(False).astype(bool), "head"])
    learned = [head for head in shown if head not in apart]
    silent = table.loc[table["dataset"] == "", "head"].unique()
    missed = [head for head in heads if head not in {*shown, *silent}]
    does, its = ("does", "its name says") if len(shown) == 1 else ("do", "their names say")
    text = (
        f"{len(shown)} of {words.count(len(heads), 'head')} {does} what {its} on at "
        "least one data set, and not just by length or by refusing, unless that is the claim"
    )
    sentences = [f"{text}{': ' if len(shown) else ''}{_names_of(shown)}."]
    if learned:
        sentences.append(f"Of these only on what it was trained on: {_names_of(learned)}.")
    if missed:
        told = [f"{head}{_as_length(table, head)}" for head in missed]
        sentences.append(f"Tested and not shown: {_names_of(told)}.")
    if len(silent):
        sentences.append(f"Tested by no data here: {_names_of(silent)}.")
    return " ".join(sentences)


def _names_of(heads: Sequence[str]) -> str:
    """All heads where they fit a sentence, else the first and where the others are."""
    if len(heads) <= NAMED:
        return ", ".join(heads)
    return f"{', '.join(heads[: NAMED // 2])} and {len(heads) - NAMED // 2} that the table names"


def _as_length(table: pd.DataFrame, head: str) -> str:
    """Where a head goes with labels that ask its claim, and length does as well."""
    own = table[(table["head"] == head) & (table["use"] == UNKNOWN)]
    own = own[own["verdict"].isin(["strong", "tracks"])]
    told = words.each(own, "goes with the labels of {dataset}, {length}")
    return f" ({'; '.join(told)})" if told else ""


def longer(card: pd.DataFrame, lengths: pd.DataFrame) -> list[str]:
    """From where to where the longer response goes, and which head goes most with it."""
    sentences = extremes(lengths[lengths["subset"] == ALL])
    known = card.dropna(subset=["from_length"])
    if len(known) > 1 and sentences:
        sentences += words.each(
            known.nsmallest(1, "from_length"),
            "Of the heads, {head} has the win rates nearest to those of the longer response: "
            "{from_length:.3f} away, in the mean over protocols.",
        )
    return sentences


def one_score(score: pd.DataFrame, lengths: pd.DataFrame) -> list[str]:
    """What the one score wins of each dataset that asks one question, beside the longer response.

    Nothing of a model whose one score is a head, which has verdicts of its own. The tables are
    those of ``lib.summary``'s ``one_score`` and ``longer``.
    """
    keys = ["dataset", "subset"]
    beside = score.merge(
        lengths[[*keys, "win_rate"]], on=keys, how="left", suffixes=("", "_longer")
    )
    rows = beside[beside["subset"] == ALL].dropna(subset=["win_rate"])
    if rows.empty:
        return []
    more, less = rows["low"] > 0.5, rows["high"] < 0.5
    sides = {
        "wins more than half of": more,
        "less than half of": less,
        "isn't told from half on": ~(more | less),
    }
    told = [
        f"{says} " + ", ".join(words.each(rows[own], SCORE))
        for says, own in sides.items()
        if own.any()
    ]
    return [
        f"The model's one score {'; '.join(told)}. Intervals have level 95% and aren't corrected, "
        "and it is no head, so it has no verdict; in brackets behind, what the longer response "
        "alone wins."
    ]


def answer(card: pd.DataFrame, matrix: pd.DataFrame, sides: pd.DataFrame | None = None) -> str:
    """In short: the verdicts, and how many heads change sides from protocol to protocol.

    That number is shown where ``sides`` is at hand, as ``lib.summary.sides`` returns it: a
    verdict of each page's own correction would change sides too often by luck.
    """
    several = 0 if sides is None else len(changing(sides))
    if not several:
        return " ".join([_in_short(card, matrix), *_sides(card, sides)])
    return " ".join([_in_short(card, matrix), protocols.answer(sides), *_both(matrix, several)])


def _both(matrix: pd.DataFrame, several: int) -> list[str]:
    """How many heads have verdicts of both sides in the matrix, where that is another number."""
    found = _judged(matrix).groupby("head")["verdict"].agg(set)
    both = sum("inverted" in own and bool(own & {"strong", "tracks"}) for own in found)
    if both == several:
        return []
    return [
        f"The matrix has both colours for {both}: there each data set is a family of its own, and "
        "such a pair of verdicts is no claim about protocols."
    ]


def _in_short(card: pd.DataFrame, matrix: pd.DataFrame) -> str:
    if matrix.empty:
        return "No validity page was executed."
    return " ".join(_verdicts(card, matrix)[:1]) or (
        "No dataset that asks one question as a whole was judged, only criteria one by one."
    )


def legend() -> pd.DataFrame:
    """What each ``verdict`` of a head means, in words; its ``meaning`` names the thresholds."""
    low, high = CHANCE
    meanings = {
        "strong": f"as tracks, and the whole interval of its win rate lies above {STRONG:g}",
        "tracks": "ranks first what the data set marks as better, more often than not, beyond "
        "chance; it may do so by length alone, which its sentence then says",
        "inverted": "prefers what it marks as worse, beyond chance: where the labels ask what the "
        "head's name claims it does the opposite of its name; elsewhere that is no fault",
        "chance": f"its whole interval lies within {low:g} to {high:g}, and its test would have "
        f"found {high - 0.5:.2f} from one half",
        "inconclusive": "none of these can be said with the data at hand",
        "undefined": "gives no numbers, or nothing but ties; or a mean over criteria, which "
        "answers no question",
    }
    return pd.DataFrame({"verdict": list(meanings), "meaning": list(meanings.values())})


def glued(card: pd.DataFrame, matrix: pd.DataFrame) -> dict[str, str]:
    """Values of the scorecard for other pages: how many heads and protocols, the verdicts."""
    return {
        "heads": str(len(card)),
        "protocols": str(_judged(matrix)["dataset"].nunique()),
        "verdicts": _in_short(card, matrix),
    }
