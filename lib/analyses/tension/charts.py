"""Alignment tension as rows: accuracies, silenced neurons, margins, overlaps, what helps."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lib.analyses.tension.abilities import ACCURACY, HELPS
from lib.analyses.tension.neurons import OVERLAPS
from lib.analyses.tension.silencing import HIGHER, LOWER, MARGINS, SILENCED
from lib.charts.intervals import intervals
from lib.charts.render import Chart, nothing, require
from lib.charts.rows import toned
from lib.training.tension.kept import MIXED, OBJECTIVES, SOURCES

TONES = {LOWER: "worse", HIGHER: "better"}
LEVEL = "Intervals of 95% over prompts and seeds together"


def accuracies(table: pd.DataFrame) -> Chart:
    """How often each model ranks right, a task a row; a menu chooses the model."""
    require(table, ACCURACY, "accuracies", empty=True)
    if table.empty:
        return nothing("No model was trained.", table, "tension_accuracy")
    rows = pd.DataFrame(
        {
            "name": table["task"],
            "group": table["model"],
            "value": table["accuracy"],
            "low": table["low"],
            "high": table["high"],
            "note": "",
            "beside": table["published"],
        }
    )
    return intervals(
        rows,
        title="ranked as labelled",
        reference=0.5,
        domain=(0.0, 1.0),
        data=table,
        name="tension_accuracy",
        what="Accuracies",
        beside="published",
        menu_name="Model",
        caption=f"Share of comparisons that a model ranks as labelled, ties half. {LEVEL}; grey "
        "tick: the published figure, where there is one.",
    )


def silenced(table: pd.DataFrame) -> Chart:
    """What silencing sets of neurons costs on the held-out sets, beside random ones."""
    require(table, SILENCED, "silenced neurons", empty=True)
    shown = table[(table["put"] == "zero") & table["task"].isin(SOURCES.values())]
    if shown.empty:
        return nothing("No neurons were silenced.", table, "tension_silenced")
    rows = pd.DataFrame(
        {
            "name": [
                f"{row.set}: {row.verdict}" if row.verdict in TONES else row.set
                for row in shown.itertuples()
            ],
            "group": [f"{row.model} on {row.task}" for row in shown.itertuples()],
            "value": shown["change"],
            "low": shown["low"],
            "high": shown["high"],
            "note": shown["verdict"],
            "beside": shown["random"],
            "tone": toned(shown["verdict"], TONES),
            "row": shown.groupby(["model", "task"], sort=False).cumcount(),
        }
    )
    return intervals(
        rows,
        title="change of accuracy",
        reference=0.0,
        domain=(-0.05, 0.05),
        data=table,
        name="tension_silenced",
        what="Changes of accuracy",
        beside="random neurons",
        menu_name="Model",
        caption="What setting a set's activations to zero changes of the accuracy. Grey tick: as "
        "many random neurons, on fewer prompts. In colour: lower or higher than with those, by "
        f"Holm's correction over all rows. {LEVEL}.",
    )


def margins(table: pd.DataFrame) -> Chart:
    """The spread of margins, before and after sets are silenced."""
    require(table, MARGINS, "margins", empty=True)
    if table.empty:
        return nothing("No margins were kept.", table, "tension_margins")
    rows = pd.DataFrame(
        {
            "name": table["set"].replace("none", "the whole model"),
            "group": table["model"] + " on " + table["task"],
            "value": table["median"],
            "low": table["low"],
            "high": table["high"],
            "note": "",
        }
    )
    return intervals(
        rows,
        title="margin",
        reference=0.0,
        data=table,
        name="tension_margins",
        what="Medians of margins",
        menu_name="Model",
        caption="Score of the better response less that of the worse one, in the model's own "
        "units: the median, and the range that leaves a tenth out at either end, all seeds "
        "together.",
    )


def overlaps(table: pd.DataFrame) -> Chart:
    """Jaccard of sets of neurons; a menu chooses the importance."""
    require(table, OVERLAPS, "overlaps", empty=True)
    known = table[table["jaccard"].notna()]
    if known.empty:
        return nothing("No two sets of neurons can be compared.", table, "tension_overlaps")
    rows = pd.DataFrame(
        {
            "name": known["pair"],
            "group": known["kind"],
            "value": known["jaccard"],
            "low": known["least"],
            "high": known["most"],
            "note": "",
            "beside": known["published"],
            "row": known.groupby("kind", sort=False).cumcount(),
        }
    )
    return intervals(
        rows,
        title="Jaccard",
        reference=float(known["by_chance"].iloc[0]),
        domain=(0.0, 1.0),
        data=table,
        name="tension_overlaps",
        what="Overlaps of sets of neurons",
        beside="published",
        menu_name="Importance",
        caption="Mean over seeds, or pairs of seeds, and the least and the most of them. The line "
        "stands where two random sets would be; grey tick: the published figure.",
    )


def helps(table: pd.DataFrame) -> Chart:
    """What each model of both sources gains over the mixed one."""
    require(table, HELPS, "what helps", empty=True)
    shown = table[~table["model"].isin([MIXED])]
    if shown.empty:
        return nothing("Nothing but the mixed model was trained.", table, "tension_helps")
    kinds = {
        "gain": "both sides",
        "gain_helpful": "helpful pairs",
        "gain_harmless": "harmless pairs",
    }
    rows = pd.concat(
        [
            pd.DataFrame(
                {
                    "name": shown["model"],
                    "group": text,
                    "value": shown[kind],
                    "low": shown[f"{kind}_low"],
                    "high": shown[f"{kind}_high"],
                    "note": "",
                    "tone": np.where(shown["model"].isin(OBJECTIVES), "baseline", "better"),
                }
            )
            for kind, text in kinds.items()
        ]
    )
    return intervals(
        rows,
        title="accuracy beyond the mixed model's",
        reference=0.0,
        domain=(-0.05, 0.05),
        data=table,
        name="tension_helps",
        what="Gains over the mixed model",
        menu_name="On",
        caption=f"Accuracy less that of the mixed model of the same seeds. {LEVEL}; grey: models "
        "of one source alone.",
    )
