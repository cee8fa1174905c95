"""Claims of the alignment-tension study on a study at hand (``lib.training.tension``)."""

from __future__ import annotations

import pandas as pd

from lib.analyses.tension import stats
from lib.analyses.tension.silencing import LOWER
from lib.analyses.tension.tasks import ALIKE_IN_STYLE
from lib.training.tension.kept import (
    BASE,
    HARMLESS,
    HELPFUL,
    MIXED,
    OBJECTIVES,
    OWN,
    SHARED,
    SOURCES,
    Study,
    load_study,
)

REFUSE, ANSWER = (f"rm-bench safety-{end}, {ALIKE_IN_STYLE}" for end in ("refuse", "response"))
ROWS = ["model", "task", "own", "base", "random", "verdict", "base_verdict"]


def load(folder: str) -> Study | None:
    """The study in a folder; none where no folder is named."""
    return load_study(folder) if folder else None


def own_pairs(study: Study | None) -> pd.DataFrame:
    """On each model's own pairs, of the mixed one both: its top set, the base's, and random ones.

    Columns: ``model``, ``task``; changes of accuracy with the ``own`` set silenced, with the
    ``base``'s, with ``random`` ones; ``verdict`` and ``base_verdict`` beside random ones.
    """
    return _beside(study, OWN)


def shared(study: Study | None) -> pd.DataFrame:
    """The same of the neurons that helpful and harmless models share, in the mixed model."""
    table = _beside(study, SHARED)
    return table[table["model"] == MIXED]


def _beside(study: Study | None, name: str) -> pd.DataFrame:
    if study is None:
        return pd.DataFrame(columns=ROWS)
    table = stats.silenced(study)
    table = table[table["p"].notna()].set_index(["set", "model", "task"])
    rows = []
    for model in OBJECTIVES:
        for task in [SOURCES[model]] if model in SOURCES else SOURCES.values():
            keys = [(one, model, task) for one in (name, BASE)]
            if not all(key in table.index for key in keys):
                continue
            own, base = (table.loc[key] for key in keys)
            row = {"model": model, "task": task, "own": own["change"], "base": base["change"]}
            row |= {"random": own["random"], "verdict": own["verdict"]}
            rows.append(row | {"base_verdict": base["verdict"]})
    return pd.DataFrame(rows, columns=ROWS)


def by_base(table: pd.DataFrame) -> bool:
    """Does the base's own set cost more than random neurons wherever this one does, and it does?"""
    lower = table["verdict"] == LOWER
    return bool(lower.any() and (table.loc[lower, "base_verdict"] == LOWER).all())


def overlaps(study: Study | None) -> list[dict]:
    """Of the published importance: helpful with harmless, either with the base's, two seeds."""
    if study is None:
        return []
    table = stats.overlaps(study)
    own = table[table["kind"] == OWN].set_index("pair")
    names = ["helpful and harmless", *(f"{side} and the base's" for side in (HELPFUL, HARMLESS))]
    if not set(names) <= set(own.index):
        return []
    both, *base = (own.loc[name] for name in names)
    return [
        {
            "both": both["jaccard"],
            "most": both["most"],
            "base": min(row["jaccard"] for row in base),
            "base_least": min(row["least"] for row in base),
            "by_chance": both["by_chance"],
        }
    ]


def trade_off(study: Study | None) -> pd.DataFrame:
    """Of each model and seed how much is right where to refuse, and where to answer."""
    columns = ["model", "refuse", "answer", "ordered"]
    if study is None:
        return pd.DataFrame(columns=columns)
    table = stats.accuracy(study)
    table = table[table["model"].isin(OBJECTIVES) & table["task"].isin([REFUSE, ANSWER])]
    wide = table.pivot(index="model", columns="task", values=["accuracy", "low", "high"])
    if set(wide.index) != set(OBJECTIVES) or len(wide.columns) < 6:
        return pd.DataFrame(columns=columns)
    rows = wide.loc[list(OBJECTIVES), "accuracy"].rename(
        columns={REFUSE: "refuse", ANSWER: "answer"}
    )
    helpful, harmless, mixed = (rows.loc[name] for name in OBJECTIVES)
    rows = rows.reset_index()[["model", "refuse", "answer"]]
    return rows.assign(
        ordered=helpful["refuse"] < mixed["refuse"] < harmless["refuse"]
        and harmless["answer"] < mixed["answer"] < helpful["answer"]
        and wide.loc[HELPFUL, ("high", REFUSE)] < 0.5
        and wide.loc[HARMLESS, ("high", ANSWER)] < 0.5
    )
