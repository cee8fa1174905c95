"""The audit of the published audits in words: verdicts, takeaways, values for other pages.

Claims and what their verdicts rest on are in ``claims.yaml``.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib import words
from lib.data.asks import of as of_dataset
from lib.errors import DataError, unknown

# A verdict as the file of claims and the values for other pages name it → as it is shown.
VERDICTS = {
    "holds": "holds",
    "fails": "fails",
    "artefact": "artefact of the method",
    "undecided": "can't be told",
}
NO_EFFECTS = "No effects of a model's parts are at hand."
SMALL = 1e-12  # p below this are shown alike
ABOVE, BELOW = ("strong", "tracks"), ("inverted",)

AUDIT = "reward-basis-audit"
SHOWN = 3  # data sets named in a sentence
NAMED = "1"  # of the faults that claims rest on: the list of heads' names
# Filled from ``glued``.
OF_THE_AUDIT = (
    "We cut this audit into {audit-claims} claims: {audit-holds} hold and {audit-fails} fail, "
    "{audit-names-fail} of these by the one wrong list of names; {audit-artefact} are artefacts of "
    "its method, and {audit-undecided} can't be told, given what was published."
)
ANSWER = (
    "Of {claims} claims that we cut the sources into {claims-holds} hold and {claims-fails} fail; "
    "{claims-artefact} are artefacts of the method, and {claims-undecided} can't be told, given "
    "what was published. One fault can fail several: the wrong list of names fails "
    "{audit-names-fail}."
)
NAMES = (
    "{heads-misnamed} of {heads} heads were called by a name that isn't theirs. The only head that "
    "the audit found valid on hh-rlhf, its readability, is {readability-is}."
)
TAKEAWAYS = (
    ANSWER,
    NAMES,
    "On hh-rlhf {rates-above} of the {rates-given} heads given are above one half and "
    "{rates-below} below it, beyond chance. The audit's code counts those below as chance, "
    "helpfulness at {rate-helpfulness} (p = {p-helpfulness}) among them; on these pairs, which are "
    "about harm, a head that is right about help can go against people.",
    "A published RMS cosine of {gap-published} contradicts the regression beside it, which allows "
    "an RMS correlation of {rms-allowed} at most where the mean is {mean-published}; {gap-needed} "
    "or more is needed.",
    "The overlap of helpful and harmless neurons is {overlap-published} over all models and "
    "{overlap-without} without one, whose own is, to four digits, what a top tenth shares with a "
    "set of all neurons.",
)


def p_text(p: float) -> str:
    """As in "0.0042", or "< 1e-12" where it is smaller."""
    return f"{p:.2g}" if p >= SMALL else f"< {SMALL:g}"


def tested(row: Mapping[str, float]) -> str:
    """``0.504 [0.486, 0.522], p = 0.69``."""
    p = p_text(row["p"])
    return f"{words.rate(row)}, p {p if p.startswith('<') else f'= {p}'}"


def of(claims: pd.DataFrame, system: str, part: str = "") -> pd.DataFrame:
    """One system's claims, or those of one part of them.

    Raises
    ------
    DataError
        When there is no claim of it.
    """
    rows = claims[(claims["system"] == system) & (claims["part"] == part)]
    if rows.empty:
        known = (claims["system"] + ": " + claims["part"]).unique()
        raise unknown("system and part of the claims", f"{system}: {part}", known, DataError)
    return rows


def rated(rates: pd.DataFrame) -> pd.DataFrame:
    """What is shown of ``stats.rates``: a rate with its interval, and notes, in one cell each."""
    rows = rates.to_dict("records")
    return rates.assign(
        subset=[row["subset"] + f" ({row['note']})" * bool(row["note"]) for row in rows],
        win_rate=[words.rate(row) for row in rows],
        p=rates["p"].map(p_text),
    )[["subset", "called", "head", "n", "win_rate", "p", "verdict"]]


def counts(claims: pd.DataFrame) -> pd.DataFrame:
    """Claims by ``system``, ``part`` and ``verdict``: every verdict, ``claims`` maybe 0."""
    groups = ["system", "part"]
    found = claims.groupby(groups, sort=False)["verdict"].value_counts().unstack(fill_value=0)
    return (
        found.reindex(columns=pd.Index(VERDICTS.values(), name="verdict"), fill_value=0)
        .stack()
        .rename("claims")
        .reset_index()
    )


def glued(
    claims: pd.DataFrame,
    names: pd.DataFrame,
    rates: pd.DataFrame,
    bounds: pd.DataFrame,
    overlaps: pd.DataFrame,
) -> dict[str, str]:
    """Numbers and names of the page as text, for its takeaways and for other pages.

    Parameters
    ----------
    claims
        From ``claims.claims``; the others from ``stats``.
    """
    hh = rates[rates["subset"] == "hh-rlhf"].set_index("called")
    bound = bounds.set_index("quantity")
    most, least = bound.loc["largest RMS correlation"], bound.loc["smallest RMS cosine"]
    both, own = overlaps.iloc[0], claims[claims["system"] == AUDIT]
    audit, by_names = own["verdict"], own["points"].str.split(", ").map(lambda p: NAMED in p)
    return {
        "claims": str(len(claims)),
        **{f"claims-{key}": str((claims["verdict"] == v).sum()) for key, v in VERDICTS.items()},
        "audit-claims": str(len(audit)),
        **{f"audit-{key}": str((audit == v).sum()) for key, v in VERDICTS.items()},
        "audit-names-fail": str((by_names & (audit == VERDICTS["fails"])).sum()),
        "heads": str(len(names)),
        "heads-misnamed": str((~names["right"]).sum()),
        "readability-is": hh.loc["readability", "head"],
        "rate-helpfulness": f"{hh.loc['helpfulness', 'win_rate']:.3f}",
        "p-helpfulness": f"{hh.loc['helpfulness', 'p']:.1g}",
        "rates-given": str(len(hh)),
        "rates-above": str(hh["verdict"].isin(ABOVE).sum()),
        "rates-below": str(hh["verdict"].isin(BELOW).sum()),
        "gap-published": f"{least['published']:.3f}",
        "gap-needed": f"{least['value']:.2f}",
        "rms-allowed": f"{most['high']:.3f}",
        "mean-published": f"{most['published']:.3f}",
        "overlap-published": f"{both['published']:.3f}",
        "overlap-without": f"{both['without']:.3f}",
    }


def takeaways(glued: Mapping[str, str]) -> list[str]:
    """Verdicts, names, the two rates that were read wrongly, geometry, overlap."""
    return [sentence.format_map(glued) for sentence in TAKEAWAYS]


def crossover(crossed: pd.DataFrame) -> str:
    """What the head that follows people best on one part of hh-rlhf does on the other.

    Parameters
    ----------
    crossed
        From ``stats.crossed``.
    """
    if crossed.empty:
        return "No head of the model at hand was seen to follow people on a part of hh-rlhf."
    many = len(crossed) > 1
    return " ".join(_crossed(row, many) for row in crossed.itertuples())


def _crossed(row, many: bool) -> str:
    against, with_them = row.high < 0.5, row.low > 0.5
    side = "against them" if against else "with them too" if with_them else "neither way for sure"
    asked, other = (of_dataset(name).question for name in (row.part, row.dataset))
    other = "the other question" if many else other  # the next sentence has it
    length = f", {row.length}" if row.length else ""
    return (
        f"Asked {asked}, {row.head} agrees with people most often "
        f"({words.estimate(row.own, row.own_low, row.own_high)}{length}; not tested against other "
        f"heads); asked {other}, it goes {side} "
        f"({words.estimate(row.other, row.low, row.high)})."
    )


def mechanisms(
    depths: pd.DataFrame, patches: pd.DataFrame, figures: Mapping[str, Mapping[str, float]]
) -> dict[str, str]:
    """What lenses, attribution and patches at hand say of the published method, for other pages.

    Parameters
    ----------
    depths, patches
        As ``explained`` makes them.
    figures
        Those published of reward-lens.

    Returns
    -------
    dict
        ``mechanisms``: how far attribution and patches agree, as published and mended;
        ``faults``: what each fault makes of that; ``lens``: where half of a margin is read,
        ``lens-end``: how often the published lens ends at another response. Where no effects are
        at hand each says so.
    """
    told = dict.fromkeys(("mechanisms", "faults", "lens", "lens-end"), NO_EFFECTS)
    if len(patches):
        given, later = figures["attribution"], figures["attribution_later"]
        plain, mended = (_over(patches, name, "+z.2f") for name in ("plain", "mended"))
        told["mechanisms"] = (
            "In reward-lens attribution and patches were published not to agree (ρ "
            f"{given['skywork']:+.3f} and {given['armorm']:+.3f} with version 1, "
            f"{later['skywork']:+.3f} and {later['armorm']:+.3f} since). Computed that way "
            f"{_where(patches)} ρ is {plain}; with the two faults of that way mended, {mended}. "
            "The rewrite keeps both."
        )
        told["faults"] = (
            "Aligning the two responses at both ends, so that the token at which the reward is "
            f"read is patched, adds {_over(patches, 'alignment', '+z.2f')} to ρ; applying the "
            f"final norm adds {_over(patches, 'norm', '+z.2f')}."
        )
    if len(depths):
        raw, first, stays = (_over(depths, name, ".0%") for name in ("raw", "first", "stays"))
        told["lens"] = (
            "The lens as published, without the final norm, reads half of the median margin "
            f"{_where(depths)} for the first time after {raw} of the layers; with the norm that "
            f"is after {first}, and it stays at half or more after {stays}."
        )
        told["lens-end"] = (
            "At its last point, which should be the reward, the published lens picks another "
            f"response in {_over(depths, 'opposed', '.0%')} of comparisons."
        )
    return told


def _where(table: pd.DataFrame) -> str:
    models, datasets = (dict.fromkeys(table[name]) for name in ("model", "dataset"))
    return f"for {' and '.join(models)} on {words.listed(list(datasets), SHOWN)}"


def _over(table: pd.DataFrame, name: str, form: str) -> str:
    """A number with its interval; of several data sets from the least to the most."""
    if len(table) > 1:
        return words.span(table[name], form)
    return words.estimate(*table.iloc[0][[name, f"{name}_low", f"{name}_high"]], form)
