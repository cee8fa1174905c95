"""The benchmarks' own scores on a validity page: RewardBench, RewardBench 2, RM-Bench.

``scores``     the scores themselves; ``None`` for a run of anything else
``shown``      a row a head and baseline, a column a score
``sentences``  what the score is, and what the run lacks of the benchmark
``section``    heading, sentences and table for the page; nothing for other data sets
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd
import xarray as xr

from lib.analyses.validity import official
from lib.analyses.validity.official import OVERALL
from lib.markup import Html, escape, table


@dataclass(frozen=True)
class Benchmark:
    """A benchmark with a score of its own."""

    name: str  # as it calls itself
    score: Callable[[xr.Dataset], pd.DataFrame]  # of ``official``
    level: str  # of the parts that stand beside the overall score
    finer: str  # of the parts that stand alone where none of these has a score; empty: none
    rule: str  # what its score is, in words


BENCHMARKS: Mapping[str, Benchmark] = {
    "reward-bench": Benchmark(
        "RewardBench",
        official.reward_bench,
        "section",
        "subset",
        "The overall score is the mean of the sections, each the mean of its subsets' accuracies "
        "by the benchmark's own weights.",
    ),
    "reward-bench-2": Benchmark(
        "RewardBench 2",
        official.reward_bench_2,
        "subset",
        "",
        "An item counts when its right response scores highest of all its responses, usually "
        "four, so guessing gives about a quarter; Ties has a score of its own, and the overall "
        "score is the mean of the subsets.",
    ),
    "rm-bench": Benchmark(
        "RM-Bench",
        official.rm_bench,
        "domain",
        "half",
        "Each right response is set against each wrong one in three styles: easy where the right "
        "one has the fancier style, normal where both have the same, hard where the wrong one has "
        "the fancier; the average is the mean of the three, and overall scores are means over the "
        "domains.",
    ),
}
STRICT = "A tie is a loss here, unlike in a win rate."
SHARED = "Responses that share the top share the credit."
REMARKS = ("with ", "not counted: ")  # how the score was made, where nothing is lacking
PART = (
    "The run holds a part of the benchmark, so these scores don't stand beside those that others "
    "report"
)
NO_SCORE = "No official score can be given"


def benchmark(dataset: str) -> Benchmark | None:
    """The benchmark that a data set is, or a named part of; ``None`` for any other, and pooled."""
    return None if " + " in dataset else BENCHMARKS.get(dataset.partition("/")[0])


def scores(run: xr.Dataset) -> pd.DataFrame | None:
    """The official scores of a run, as ``official`` gives them; ``None`` for other data sets."""
    found = benchmark(run.attrs["dataset"])
    return found.score(run) if found else None


def shown(dataset: str, scored: pd.DataFrame) -> pd.DataFrame:
    """A row a head, the model's one score and each baseline; a column a score.

    ``overall`` and the parts by their names. Of RM-Bench ``easy``, ``normal``, ``hard`` and
    ``average``, then the average of each domain; where a domain is missing there is nothing over
    all, so each domain's own ``easy``, ``normal`` and ``hard`` instead. Scores that the run gives
    to nobody have no column; where these are all, the smaller parts (RewardBench's subsets, the
    halves of RM-Bench's safety) instead.
    """
    kept = scored["level"].isin([OVERALL, benchmark(dataset).level])
    finer = scored["level"] == benchmark(dataset).finer
    if finer.any() and scored.loc[kept, "score"].isna().all():
        kept = finer
    rows = scored[kept].assign(column=scored["name"])
    if "difficulty" in scored:
        rows = _by_difficulty(rows)
    keys = ["head", "kind"]  # a head may have a baseline's name
    wide = rows.pivot(index=keys, columns="column", values="score")
    wide = wide.loc[list(dict.fromkeys(zip(*(rows[key] for key in keys), strict=True)))]
    wide = wide[list(dict.fromkeys(rows["column"]))].dropna(axis="columns", how="all")
    return wide.rename_axis(columns=None).reset_index().drop(columns="kind")


def _by_difficulty(rows: pd.DataFrame) -> pd.DataFrame:
    overall, average = rows["level"] == OVERALL, rows["difficulty"] == "average"
    if rows.loc[overall, "score"].notna().any():
        return rows.assign(column=rows["name"].mask(overall, rows["difficulty"]))[overall | average]
    return rows.assign(column=rows["name"] + " " + rows["difficulty"])[~overall & ~average]


def sentences(dataset: str, scored: pd.DataFrame) -> list[str]:
    """What the score is; and where the run holds a part of the benchmark, what it lacks."""
    found = benchmark(dataset)
    rules = [found.rule, SHARED if found.score is official.reward_bench_2 else STRICT]
    notes = _notes(scored)
    remarks = [note for note in notes if note.startswith(REMARKS)]
    lacks = "; ".join(note for note in notes if note not in remarks)
    if shown(dataset, scored).columns.tolist() == ["head"]:
        return [*rules, f"{NO_SCORE}{lacks and ': '}{lacks}."]
    if lacks:
        rules.append(f"{PART}: {lacks}.")
    if remarks:
        rules.append(f"The overall score here: {'; '.join(remarks)}.")
    return rules


def _notes(scored: pd.DataFrame) -> list[str]:
    """Notes of the overall score; of a row that is about the run and not about one head."""
    overall = scored[(scored["level"] == OVERALL) & (scored["kind"] == "baseline")]
    return [note for note in overall["note"].iloc[0].split("; ") if note]


def section(
    run: xr.Dataset, save: Callable[[pd.DataFrame, str], None] | None = None
) -> Html | None:
    """The part of the page about the official score; ``None`` for other data sets.

    ``save`` is called with the scores and the name ``official``, to keep them.
    """
    dataset = run.attrs["dataset"]
    found = benchmark(dataset)
    if found is None:
        return None
    title = escape(f"As {found.name} scores it")
    if not run.sizes["comparison"]:
        return Html(f"<h2>{title}</h2><p>{NO_SCORE}: the run has no comparisons.</p>")
    scored = scores(run)
    if save:
        save(scored, "official")
    frame = shown(dataset, scored)
    numbers = frame.columns.drop("head")
    text = " ".join(map(escape, sentences(dataset, scored)))
    below = table(frame, dict.fromkeys(numbers, ".3f")).markup if len(numbers) else ""
    return Html(f"<h2>{title}</h2><p>{text}</p>{below}")
