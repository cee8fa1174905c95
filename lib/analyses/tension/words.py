"""What the tension page says, written from its tables."""

from __future__ import annotations

import pandas as pd

from lib import words
from lib.analyses.tension.neurons import PAIRS
from lib.analyses.tension.silencing import HIGHER, LOWER, VERDICTS
from lib.analyses.tension.tasks import ALIKE_IN_STYLE
from lib.training.tension import kept
from lib.training.tension.kept import (
    BASE,
    CHANGED,
    GRADIENT,
    HARMLESS,
    HELPFUL,
    HELPS,
    MIXED,
    OBJECTIVES,
    OWN,
    RAISED,
    SHARED,
    SOURCES,
)

NOTHING = "No model of this study is there yet."
NOT_MEASURED = "Not measured in this study."
LABELS = {
    GRADIENT: "the top neurons by gradient and activation, against random ones",
    OWN: "the top neurons by published importance, against random ones",
    f"{OWN}, by layer": "these, against random ones as many in each layer",
    BASE: "the base model's top neurons, against random ones",
}
SHOWN = 6  # figures that lie outside, named


def takeaways(
    accuracy: pd.DataFrame,
    silenced: pd.DataFrame,
    overlaps: pd.DataFrame,
    lengths: pd.DataFrame,
    helps: pd.DataFrame,
    against: pd.DataFrame,
    there: list[str] = (),
) -> list[str]:
    """The two questions, what silencing shows, what helps, and how ours lie to other figures."""
    if accuracy.empty:
        return [NOTHING]
    first, *rest = beside_random(silenced)
    return [
        *base(overlaps, silenced),
        *shared(silenced),
        first,
        *helped(helps),
        *short_or_refusing(accuracy, lengths),
        *rest,
        *shares(overlaps),
        *earlier(against),
        *published(accuracy),
        *there,
    ]


def base(overlaps: pd.DataFrame, silenced: pd.DataFrame) -> list[str]:
    """Are the published top neurons those that were large before any training?"""
    own = _with_base(overlaps)
    twice = overlaps[(overlaps["kind"] == OWN) & overlaps["pair"].str.startswith("two seeds")]
    if own.empty:
        return []
    mostly = "are mostly" if own["jaccard"].mean() > 0.5 else "aren't mostly"
    text = (
        f"A model's top neurons by published importance {mostly} the base model's own: Jaccard "
        f"{words.span(own['jaccard'], '.2f')} (by chance {own['by_chance'].iloc[0]:.2f}"
    )
    text += f"; two seeds of one objective {twice['jaccard'].iloc[0]:.2f})." if len(twice) else ")."
    costs = [
        f"{model} {found[OWN]:+.3f} and {found[BASE]:+.3f}"
        for model in (HELPFUL, HARMLESS, MIXED)
        if len(found := _own_side(silenced, model)) and {OWN, BASE} <= set(found.index)
    ]
    if costs:
        text += (
            " Silencing its own set and silencing the base's change accuracy on its own pairs by: "
            f"{'; '.join(costs)}."
        )
    return [text]


def _with_base(overlaps: pd.DataFrame) -> pd.DataFrame:
    """Of each model, what its published set shares with the base's own."""
    return overlaps[(overlaps["kind"] == OWN) & overlaps["pair"].str.endswith("the base's")]


def _own_side(silenced: pd.DataFrame, model: str) -> pd.Series:
    """Change by set on the model's own held-out pairs; of the mixed one on both, the mean."""
    own = [SOURCES[model]] if model in SOURCES else list(SOURCES.values())
    rows = silenced[
        (silenced["model"] == model) & silenced["task"].isin(own) & (silenced["put"] == "zero")
    ]
    return rows.groupby("set", sort=False)["change"].mean()


def shared(silenced: pd.DataFrame) -> list[str]:
    """Do the mixed model's two aims need the neurons that helpful and harmless models share?"""
    rows = silenced[
        (silenced["set"] == SHARED)
        & (silenced["model"] == MIXED)
        & (silenced["put"] == "zero")
        & silenced["task"].isin(SOURCES.values())
    ]
    if rows.empty:
        return []
    known = rows["p"].notna()
    rows = rows.assign(told=_told(rows), changes=_estimates(rows, "change", "low", "high"))
    told = [
        *words.each(
            rows[known],
            "by {changes} on {task}, where as many random neurons change it by {random:+.3f} "
            "({told})",
        ),
        *words.each(rows[~known], "by {changes} on {task}"),
    ]
    end = "" if known.any() else "; random neurons weren't silenced in it"
    return [
        f"Silencing the {rows['neurons'].iloc[0]:,.0f} neurons that helpful and harmless models "
        f"share changes the mixed model's accuracy {' and '.join(told)}{end}."
    ]


def _estimates(rows: pd.DataFrame, value: str, low: str, high: str) -> list[str]:
    """Each row's number with its interval, where it has one."""
    return [
        words.estimate(*ends, "+.3f") for ends in rows[[value, low, high]].itertuples(index=False)
    ]


def _told(rows: pd.DataFrame) -> list[str]:
    said = {LOWER: "accuracy is lower than with those", HIGHER: "it is higher than with those"}
    return [said.get(verdict, "the two aren't told apart") for verdict in rows["verdict"]]


def beside_random(silenced: pd.DataFrame) -> list[str]:
    """Each importance beside as many random neurons, what margins hang on first."""
    tested = silenced[silenced["p"].notna()]
    if tested.empty:
        return ["No random neurons were silenced, so no set can be said to matter more than those."]
    found = []
    for name in (GRADIENT, OWN, f"{OWN}, by layer", BASE, RAISED, CHANGED):
        rows = tested[(tested["set"] == name) & _own_pairs(tested)]
        if rows.empty:
            continue
        what = LABELS.get(name, f"the {name} set, against random ones")
        found.append(
            f"On a model's own pairs, {what}: accuracy is "
            + words.cases(
                {
                    text: rows[rows["verdict"] == verdict]
                    for verdict, text in (
                        (LOWER, "lower for"),
                        (HIGHER, "higher for"),
                        ("not told apart", "not told apart for"),
                    )
                },
                lambda row: f"{row.model} ({row.more:+.3f} on {row.task})",
            )
            + "."
        )
    counts = words.tally(tested["verdict"], VERDICTS)
    found.append(
        f"Over {words.count(len(tested), 'comparison')} with random neurons, corrected by Holm: "
        f"{counts}."
    )
    return found


def _own_pairs(rows: pd.DataFrame) -> pd.Series:
    own = [row.model == MIXED or SOURCES.get(row.model) == row.task for row in rows.itertuples()]
    return pd.Series(own, index=rows.index) & rows["task"].isin(SOURCES.values())


def short_or_refusing(accuracy: pd.DataFrame, lengths: pd.DataFrame) -> list[str]:
    """Is the harmless model anything but one that prefers what is short, or refuses?"""
    found = []
    rows = lengths[lengths["model"] == HARMLESS].set_index("task")
    for task in ("llmbar Neighbor", SOURCES[HARMLESS]):
        if task in rows.index:
            row = rows.loc[task]
            more = words.estimate(row["more"], row["low"], row["high"], "+.3f")
            equal = [row[name] for name in ("at_equal", "at_equal_low", "at_equal_high")]
            found.append(
                f"On {task} the harmless model ranks {row['accuracy']:.3f} as labelled, the "
                f"shorter response alone {row['shortest']:.3f} (difference {more}). It prefers "
                f"the shorter in {words.number(row['chooses_shorter'], '.2f')}, and at equal "
                f"length its mean margin is {words.estimate(*equal, '+.2f')} sd."
                if pd.notna(row["at_equal"])
                else f"On {task} the harmless model's margins don't differ."
            )
    asked = [f"rm-bench safety-{end}, {ALIKE_IN_STYLE}" for end in ("refuse", "response")]
    known = accuracy[accuracy["task"].isin(asked)].set_index(["model", "task"])
    both = [name for name in OBJECTIVES if all((name, task) in known.index for task in asked)]
    if both:
        sides = [known.loc[(both[0], task)] for task in asked]
        told = [f"{name} {' and '.join(_of_task(known, name, asked))}" for name in both]
        short = " and ".join(words.number(side["shortest"], ".2f") for side in sides)
        found.append(
            f"Where a request is to be refused ({asked[0]}, {sides[0]['n']:.0f} comparisons) and "
            f"where it is to be answered ({asked[1]}, {sides[1]['n']:.0f}), models rank right: "
            f"{'; '.join(told)}; the shorter response alone {short}. A model that only likes "
            "refusals wins the first and loses the second."
        )
    return found


def _of_task(known: pd.DataFrame, model: str, tasks: list[str]) -> list[str]:
    rows = [known.loc[(model, task), ["accuracy", "low", "high"]] for task in tasks]
    return [words.estimate(*row, ".2f") for row in rows]


def helped(helps: pd.DataFrame) -> list[str]:
    """Who keeps both abilities?"""
    mixed = helps[helps["model"] == MIXED]
    others = helps[helps["model"].isin(HELPS)]
    if mixed.empty or others.empty:
        return []
    row = mixed.iloc[0]
    told = words.each(
        others.assign(
            gained=_estimates(others, "gain", "gain_low", "gain_high"),
            of=[words.count(seeds, "seed") for seeds in others["seeds"]],
        ),
        "{model} {gained} ({helpful:.2f} and {harmless:.2f}, {of})",
    )
    kinds = {"more": others["gain_low"] > 0, "less": others["gain_high"] < 0}
    shown = [
        f"Shown to keep {kind}: {', '.join(others.loc[rows, 'model'])}."
        for kind, rows in kinds.items()
        if rows.any()
    ]
    end = " ".join(shown) or "None is shown to keep more."
    if len(others) > 1:
        end += " These intervals count prompts and seeds, and aren't corrected for one another."
    return [
        f"The mixed model ranks {row['helpful']:.2f} of helpful and {row['harmless']:.2f} of "
        f"harmless pairs as labelled. Beside it, as the mean gain on both: {'; '.join(told)}. {end}"
    ]


def shares(overlaps: pd.DataFrame) -> list[str]:
    """Do helpful and harmless models share more than two seeds of one objective do?"""
    rows = overlaps[overlaps["pair"].isin(PAIRS) & overlaps["null"].notna()]
    rows = rows[rows["pair"] == next(iter(PAIRS))]
    return words.each(
        rows.assign(of=rows["kind"].replace(OWN, "published")),
        "By {of} importance helpful and harmless models share {jaccard:.2f} of their top "
        "neurons (Jaccard); two seeds of one objective share {null:.2f}, two random sets "
        "{by_chance:.2f}.",
    )


def earlier(against: pd.DataFrame) -> list[str]:
    """How figures of the earlier run lie to ours."""
    known = against[against["within"].notna()]
    if known.empty:
        return []
    outside = known[~known["within"].astype(bool)]
    text = (
        f"Of {words.count(len(known), 'figure')} of an earlier run {len(known) - len(outside)} lie "
        "where further seeds of ours are expected"
    )
    if outside.empty:
        return [f"{text}."]
    named = [
        f"{row.what} ({row.earlier:.2f}; {row.predicted_low:.2f} to {row.predicted_high:.2f})"
        for row in outside.itertuples()
    ]
    return [f"{text}. Outside: {words.listed(named, SHOWN, '; ')}."]


def published(accuracy: pd.DataFrame) -> list[str]:
    """How published accuracies lie to ours."""
    known = accuracy[accuracy["published"].notna()]
    if known.empty:
        return []
    apart = known["accuracy"] - known["published"]
    far = known.loc[apart.abs().idxmax()]
    side = ((known["accuracy"] > 0.5) == (known["published"] > 0.5)).sum()
    return [
        f"Of {words.count(len(known), 'published figure')} "
        f"{side} lie on the same side of one half as ours; the mean distance is "
        f"{apart.abs().mean():.3f}, the largest {far['model']} on {far['task']} "
        f"({far['accuracy']:.2f} here, {far['published']:.2f} published)."
    ]


def glued(
    accuracy: pd.DataFrame,
    silenced: pd.DataFrame,
    overlaps: pd.DataFrame,
    lengths: pd.DataFrame,
    helps: pd.DataFrame,
    against: pd.DataFrame,
) -> dict[str, str]:
    """Values for other pages."""
    beside = beside_random(silenced)
    said = {
        "brief": brief(silenced, overlaps),
        "base": base(overlaps, silenced),
        "shared": shared(silenced),
        "random": [*beside[:2], *beside[2:][-1:]],
        "refusing": short_or_refusing(accuracy, lengths)[-1:],
        "helps": helped(helps),
        "earlier": earlier(against),
    }
    return {name: " ".join(sentences) or NOT_MEASURED for name, sentences in said.items()}


def brief(silenced: pd.DataFrame, overlaps: pd.DataFrame) -> list[str]:
    """In one sentence: whose neurons are the published ones, and what is silencing them worth?"""
    own = _with_base(overlaps)
    rows = silenced[silenced["p"].notna() & (silenced["set"] == OWN)]
    rows = rows[_own_pairs(rows)]
    if own.empty or rows.empty:
        return []
    mostly = "mostly" if own["jaccard"].mean() > 0.5 else "not mostly"
    lower = int((rows["verdict"] == LOWER).sum())
    return [
        "The neurons that the study of alignment tension holds most important are, on the backbone "
        f"trained here, {mostly} those that were largest before any training (Jaccard "
        f"{words.span(own['jaccard'], '.2f')}, by chance {own['by_chance'].iloc[0]:.2f}); that "
        "silencing them costs more than silencing random ones is shown in "
        f"{lower} of {words.count(len(rows), 'comparison')} on a model's own pairs."
    ]


def held_out(silenced: pd.DataFrame) -> pd.DataFrame:
    """The rows on held-out pairs, as a page shows them."""
    rows = silenced[silenced["task"].isin(SOURCES.values())]
    return rows.drop(columns=["n", "seeds", "few", "p"]).reset_index(drop=True)


def there(study: kept.Study) -> list[str]:
    """How much of a study is there, and what isn't."""
    planned, seeds = study.document["seeds"], study.seeds
    found = [f"{words.count(len(seeds), 'seed')} of {planned} planned are there."]
    without = {
        model: sum(
            not kept.is_whole(of, model) for (_, name), of in study.models.items() if name == model
        )
        for model in OBJECTIVES
    }
    lacking = [f"{model} ({words.count(many, 'seed')})" for model, many in without.items() if many]
    if lacking:
        found.append(
            "Random sets were not measured for these models, which can't be set beside them: "
            f"{', '.join(lacking)}."
        )
    helping = study.document.get("settings", {}).get("helping", planned)
    untried = [
        model
        for model in HELPS
        if sum(name == model for _, name in study.models) < (1 if helping else 0)
    ]
    if untried:
        found.append(f"Of what may help, not tried yet: {', '.join(untried)}.")
    return found


def machine(metadata: dict[tuple[int, str], dict[str, str]]) -> list[str]:
    """The machines, commands and seconds of a study's models."""
    rows = pd.DataFrame(
        [
            {"seed": seed, "model": model, **of}
            for (seed, model), of in metadata.items()
            if "seconds" in of
        ]
    )
    if rows.empty:
        return []
    said = []
    for name, own in rows.groupby("machine", sort=False):
        last = own.assign(seconds=own["seconds"].astype(float)).groupby("command")["seconds"].max()
        said.append(
            f"{words.count(len(own), 'model')} on {name}; the last of each command's was done "
            f"{words.span(last, ',.0f')} s after its process began to train."
        )
        said += [f"Command: {command}" for command in last.index]
    return said
