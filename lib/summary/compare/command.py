"""``python -m lib compare``: a table in the terminal, ``compare.json``, and tables for the page."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from lib import words
from lib.atomic import as_others, exchange
from lib.check.command import writable
from lib.data.items import Items
from lib.errors import DataError, ParameterError, StoreError
from lib.summary.compare import document
from lib.summary.compare import words as words_of
from lib.summary.compare.measure import SCORED, Compared, compare, read
from lib.terminal import fitting, grid, wrapped

PARQUET = ".parquet"
CUT = 600  # characters of a text that the terminal shows
INDENT = "    "
RIGHT = (2, 3, 4, 6, 7, 8)  # columns of numbers
MARKS = {"higher": "+", "lower": "-", "not told apart": "=", "undefined": "?"}


def run(
    models: Sequence[str],
    datasets: Sequence[str],
    *,
    json: str = "",
    tables: str = "",
    show_text: bool = False,
    **options,
) -> Compared:
    """Compare, print, and write ``json``; keep in ``tables``, and nothing else, what the page
    reads.

    ``options`` go to ``lib.summary.compare.measure.compare``.
    """
    if json:
        writable(Path(json))
    if show_text and not any(name.startswith("file:") for name in datasets):
        raise ParameterError(
            "a dataset of your own (file:PATH) whose text to show",
            ", ".join(datasets) or "none",
            "Leave --show-text out: items of published sets are named by id.",
        )
    with _fresh(Path(tables)) if tables else tempfile.TemporaryDirectory() as folder:
        found = compare(models, datasets, folder, every_head=bool(tables), **options)
    loading = {key: options[key] for key in ("source", "limit", "seed") if key in options}
    texts = _texts(found, loading) if show_text else []
    print(table(found, texts, shutil.get_terminal_size().columns))
    if json:
        document.save(json, document.document(found, texts))
    return found


@contextmanager
def _fresh(folder: Path) -> Iterator[Path]:
    """An empty folder that takes the place of one with tables once the block is done.

    Left to what another call wrote, a page would show models and datasets that weren't named.
    """
    folder = folder.resolve()
    others = [path for path in folder.rglob("*") if not path.is_dir() and path.suffix != PARQUET]
    if others or (folder.exists() and not folder.is_dir()):
        raise StoreError(
            f"a new folder, or one with tables alone, at {folder}",
            f"{others[0].relative_to(folder)} in it" if others else "a file",
            "Name another page.",
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f"{folder.name}.partial-"))
    try:
        yield fresh
        as_others(fresh)
        if folder.exists() and not exchange(fresh, folder):
            shutil.rmtree(folder)
        if not folder.exists():
            os.replace(fresh, folder)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _texts(found: Compared, loading: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Prompt and both responses of each contested item of the user's own data; empty for others."""
    own = [data for data in found.contested["dataset"].unique() if data.startswith("file:")]
    # ids and places of responses are the same whether ties were kept
    known = {dataset: read(dataset, **loading) for dataset in own}
    return [
        _text(known[row.dataset], row) if row.dataset in known else {}
        for row in found.contested.itertuples()
    ]


def _text(items: Items, row) -> dict[str, Any]:
    own = items.prompts[items.prompts["item"].astype(str) == row.item]
    responses = items.responses[items.responses["item"].astype(str) == row.item]
    text = responses.set_index("slot")["text"]
    if own.empty or not {row.better, row.worse} <= set(text.index):
        raise DataError(
            f"item {row.item} of {row.dataset} as it was scored",
            "another file",
            "Score the models on this file, or leave --show-text out.",
        )
    turns = [dict(turn) for turn in own["prompt"].iloc[0]]
    return {"prompt": turns, "better": text[row.better], "worse": text[row.worse]}


def table(found: Compared, texts: Sequence[Mapping[str, Any]] = (), width: int = 100) -> str:
    """What was found, a row a dataset, or some lines where it doesn't fit; then what is contested
    most.
    """
    width = fitting(width)
    lines = [*found.warnings, *_from(found)]
    for (model, other), rows in found.differences.groupby(["model", "other"], sort=False):
        lines += ["", f"{model} (A) and {other} (B), by {found.head or 'the one score of each'}"]
        columns = _grid(rows)
        fits = max(map(len, columns)) <= width
        lines += (
            columns if fits else [line for row in rows.itertuples() for line in _row(row, width)]
        )
    if found.differences.empty:
        lines += ["", "No two models have a dataset in common."]
    family = int(found.differences["p"].notna().sum())
    lines += [
        "",
        *wrapped(
            f"Differences of shares of comparisons won are paired, with {1 - found.alpha:.0%} "
            "intervals over prompts. p is exact, with Holm's correction over "
            f"{words.count(family, 'test')}; by it A is higher (+), lower (-) or not "
            "told apart (=). MDE: what would have been found with power .8.",
            width,
        ),
    ]
    lines += _depths(found, width)
    lines += _contested(found, texts, width)
    return "\n".join(lines)


def _from(found: Compared) -> list[str]:
    """Where scores come from."""
    lines = []
    for (model, how), rows in found.sources.groupby(["model", "how"], sort=False):
        where = f"{how} of" if how == SCORED else f"{how}{'s' * (len(rows) > 1)} of"
        lines.append(f"{model}: {where} {', '.join(rows['dataset'])}")
    return lines


def _grid(rows: pd.DataFrame) -> list[str]:
    """Rows in columns, with a mark for each verdict."""
    cells = [("", "dataset", "n", "A", "B", "A less B", "p", "MDE", "disagree", "")]
    for row in rows.itertuples():
        told = ("–",) * 6
        if not pd.isna(row.p):
            told = (
                f"{row.rate:.3f}",
                f"{row.other_rate:.3f}",
                words.estimate(row.difference, row.low, row.high, "+.3f"),
                f"{row.p_adjusted:.2g}",
                words.number(row.mde, ".3f", "none"),
                f"{row.disagree:.1%}",
            )
        cells.append((MARKS[row.verdict], row.dataset, str(row.n), *told, row.note))
    return grid(cells, RIGHT)


def _row(row, width: int) -> list[str]:
    head = f"  {MARKS[row.verdict]} {row.dataset}: {row.verdict}"
    if pd.isna(row.p):
        return wrapped(f"{head} ({row.note})", width)
    numbers = (
        f"{words.estimate(row.difference, row.low, row.high, '+.3f')}, adjusted p = "
        f"{row.p_adjusted:.2g}: {row.rate:.3f} and {row.other_rate:.3f} of {row.n} comparisons of "
        f"{words.count(int(row.prompts), 'prompt')}"
    )
    nothing = "no difference"
    rest = (
        f"they disagree on {row.disagree:.1%}; "
        f"{words.found(row.mde, nothing=nothing)} with power .8"
    )
    return [head, *wrapped(numbers, width, INDENT), *wrapped(rest, width, INDENT)]


def _depths(found: Compared, width: int) -> list[str]:
    """Where rankings are settled, of models whose effects are there."""
    told = words_of.depths(found.profiles, found.depths)
    return ["", *(line for text in told for line in wrapped(text, width))] if told else []


def _contested(found: Compared, texts: Sequence[Mapping[str, Any]], width: int) -> list[str]:
    lines = []
    texts = list(texts) or [{}] * len(found.contested)
    rows = found.contested.assign(text=texts)
    for (model, other), own in rows.groupby(["model", "other"], sort=False):
        lines += [
            "",
            f"Contested most by {model} and {other} (dataset, item, places: margins in "
            "root mean squares of each model's)",
        ]
        for row in own.itertuples():
            told = (
                f"{row.dataset} {row.item}, {row.better} or {row.worse}: "
                f"{row.margin:+.2f} and {row.other_margin:+.2f}"
            )
            lines += wrapped(told, width, "  ")
            for part, text in row.text.items():
                turns = text if part == "prompt" else [{"role": part, "content": text}]
                for turn in turns:
                    told = " ".join(turn["content"].split())
                    told = told if len(told) <= CUT else f"{told[:CUT]} …"
                    lines += wrapped(f"{turn['role']}: {told}", width, INDENT)
    return lines
