"""Models side by side: the score of each by dataset, paired differences, agreement, depths."""

from __future__ import annotations

import pandas as pd

from lib.charts.intervals import intervals
from lib.charts.render import Chart, nothing, plain, require
from lib.charts.rows import toned, won
from lib.stats.winrates import LONGER
from lib.summary.compare.agreement import AGREEMENT, APART, TOGETHER
from lib.summary.compare.learned import MARK, marks
from lib.summary.compare.lens import PROFILES
from lib.summary.compare.stats import DIFFERENCES, SCORES

TONES = ("text", "baseline")


def scores(table: pd.DataFrame) -> Chart:
    """Win rate of each model's one score on each dataset, models next to one another.

    ``table`` is as ``lib.summary.scores`` returns it.
    """
    require(table, SCORES, "scores")
    models = list(dict.fromkeys(table["model"]))
    several = len(models) > 1
    rows = pd.DataFrame(
        {
            "name": [
                (f"{plain(row.dataset)} · {plain(row.model)}" if several else plain(row.dataset))
                + mark
                for row, mark in zip(table.itertuples(), marks(table), strict=True)
            ],
            "group": "every dataset",
            "value": table["win_rate"],
            "low": table["low"],
            "high": table["high"],
            "note": table["note"],
            "tone": [TONES[models.index(model) % len(TONES)] for model in table["model"]],
            "beside": table["longer"].astype(float),
        }
    )
    return intervals(
        rows,
        title="share of comparisons won",
        reference=0.5,
        domain=won(rows["value"], rows["low"], rows["high"], rows["beside"]),
        data=table,
        name="scores",
        what="Win rates of the models' scores",
        beside=LONGER,
        caption="Share of all comparisons of a dataset that the model's one score ranks as "
        "that dataset marks them, ties counted half, with its interval. Models were not audited "
        "on the same comparisons where each trained on others, so intervals that overlap decide "
        f"nothing; the paired differences do. {MARK}: the model learned from other prompts of this "
        "source. Grey tick: the share that the longer response alone "
        "wins on the same comparisons.",
    )


def differences(table: pd.DataFrame) -> Chart:
    """Paired differences of two models by dataset; a menu of pairs where there are several.

    ``table`` is as ``lib.summary.compare`` returns it.
    """
    require(table, DIFFERENCES, "differences", empty=True)
    if table.empty:
        sentence = "Fewer than two models share a dataset: there is nothing to compare."
        return nothing(sentence, table, "differences")
    tone = {"higher": "better", "lower": "worse"}
    rows = table.rename(columns={"dataset": "name", "difference": "value"}).assign(
        name=[name + mark for name, mark in zip(table["dataset"], marks(table), strict=True)],
        group=[f"{row.model} less {row.other}" for row in table.itertuples()],
        tone=toned(table["verdict"], tone),
    )
    return intervals(
        rows,
        title="difference in the share of comparisons won",
        reference=0.0,
        domain=(-0.1, 0.1),
        data=table,
        name="differences",
        what="Paired differences",
        caption="Win rate of the first model less that of the second on the comparisons that both "
        "were audited on, with a 95% interval over prompts, uncorrected. In grey: not told apart "
        f"by Holm's correction over all rows, so an interval in grey may exclude 0. {MARK}: one of "
        "the two models learned from other prompts of this source, and the other didn't.",
    )


def agreement(table: pd.DataFrame) -> Chart:
    """κ of two models by dataset; a menu of pairs where there are several.

    ``table`` is as ``lib.summary.agreement`` returns it.
    """
    require(table, AGREEMENT, "agreement", empty=True)
    if table.empty:
        sentence = "Fewer than two models share a dataset: there is nothing to compare."
        return nothing(sentence, table, "agreement")
    tone = {TOGETHER: "better", APART: "worse"}
    rows = table.rename(columns={"dataset": "name", "kappa": "value"}).assign(
        group=[f"{row.model} and {row.other}" for row in table.itertuples()],
        tone=toned(table["verdict"], tone),
    )
    return intervals(
        rows,
        title="agreement beyond accuracy (κ)",
        reference=0.0,
        domain=(-0.2, 1.0),
        data=table,
        name="agreement",
        what="Agreement beyond accuracy",
        menu_name="Models",
        caption="Cohen's κ of the choices of two models, with what their accuracies in each subset "
        "give taken out, and a 95% interval over prompts, uncorrected. In grey: failures are not "
        "shown to be shared, by Holm's correction over all rows.",
    )


def depths(table: pd.DataFrame) -> Chart:
    """At which part of its layers each model's margins stay, models next to one another.

    ``table`` is as ``lib.summary.profiles`` returns it.
    """
    require(table, PROFILES, "depths", empty=True)
    if table.empty:
        return nothing("No lens page of these models was made.", table, "depths")
    models = list(dict.fromkeys(table["model"]))
    rows = pd.DataFrame(
        {
            "name": [f"{plain(row.dataset)} · {plain(row.model)}" for row in table.itertuples()],
            "group": "every dataset",
            "value": table["depth"],
            "low": table["low"],
            "high": table["high"],
            "note": table["note"],
            "tone": [TONES[models.index(model) % len(TONES)] for model in table["model"]],
            "beside": table["settled"].astype(float),
        }
    )
    return intervals(
        rows,
        title="share of the layers",
        reference=1.0,
        domain=(0.5, 1.0),
        data=table,
        name="depths",
        what="Depths from which margins stay",
        beside="settled",
        caption="From which part of its layers on a comparison's margin stays at half its final "
        "size or more: the mean over prompts, with its interval. Grey tick: from where on the "
        "lens is shown to pick the response that the reward picks, as the lens page judges it; at "
        "the right edge where that isn't shown before the end.",
    )
