"""Which lines are asked of a model, in which order, and what blocks what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.check import head, invariance, outside, reading, scales, template
from lib.check.lines import (
    HEAD,
    INVARIANCE,
    LENGTH,
    LINES,
    NOT_ASKED,
    OVERLAP,
    READING,
    REFERENCE,
    SCALE,
    TEMPLATE,
    WRONG,
    Checked,
    Row,
    blocked,
    worst,
    wrong,
)
from lib.check.subject import Subject, encoded
from lib.data import load_items
from lib.errors import ModelError, unknown
from lib.extraction.job import NothingToScoreError
from lib.models import (
    EMBEDDED,
    folder_of,
    frozen,
    identity,
    is_frozen,
    layout_of,
    load_model,
    pooling,
    resolve,
)
from lib.models import backbone as backbones
from lib.models import checkpoint as checkpoints
from lib.models.classifier import Classifier
from lib.models.prompt import PromptFormat
from lib.models.template import DATE, day_of

DATA = "stimuli/controlled"
ITEMS = 64
Watched = Callable[[str], AbstractContextManager]


@dataclass
class Opened:
    """What of a model could be read before it is loaded whole; ``stopped`` is the line that keeps
    it from being loaded.
    """

    rows: list[Row]
    stopped: str = ""
    format: PromptFormat | None = None
    config: Any = None
    card: dict | None = None
    checkpoint: checkpoints.Checkpoint | None = None
    keys: frozenset[str] = frozenset()


def check(
    model: str,
    *,
    data: str = DATA,
    source: str | None = None,
    items: int = ITEMS,
    seed: int = 0,
    quick: bool = False,
    reference: str | Path | None = None,
    training: str | Path | None = None,
    device: str | None = None,
    date: str | None = None,
    watch: Watched = lambda line: nullcontext(),
) -> Checked:
    """Check a model's scores.

    Parameters
    ----------
    model, device, date
        As for ``load_model``; numbers are float32 but where number types are compared.
    data, source, items, seed
        Which items, and how many of them; as for ``load_items``.
    quick
        Scores of the eight shortest items alone, and no cost of the template.
    reference
        A file of published results of these items: *Reference*.
    training
        A file of training data, as ``file:PATH`` reads it: *Overlap*.
    watch
        Entered while a line is under way.

    Returns
    -------
    Checked
        Whatever is wrong with the model is a row of it.

    Raises
    ------
    AuditError
        When the check can't run: no such model or data, or nothing in it to score.
    """
    if reference is not None:
        outside.read(reference)  # what is wrong with a file is said before anything is loaded
    learnt = None if training is None else load_items(f"file:{training}", ties="keep")
    resolve(device, None)  # what is wrong with the command is no fault of the model
    day_of(date or DATE)
    if not model.strip():
        raise unknown("model, or a folder or hub id of one", model, EMBEDDED, ModelError)
    loaded = load_items(data, source=source, limit=items, seed=seed)
    with watch(HEAD):
        opened = _opened(model, date)
    rows, tables, stopped = list(opened.rows), {}, opened.stopped
    if opened.format is not None:
        rows += template.rows(opened.format, (opened.card or {}).get("system_prompt"))
        loaded, tokens = encoded(opened.format, loaded)
        pairs = loaded.comparisons[["better", "worse"]].to_numpy(int).tolist()
        window = getattr(opened.config, "max_position_embeddings", None)
        found, tables["windows"] = scales.length(tokens, pairs, window)
        rows += found
    subject = None
    if not stopped:
        with watch(HEAD):
            known, row = _loaded(model, opened, device, date)
        rows.append(row)
        stopped = HEAD if known is None else ""
    if not stopped:
        subject = Subject.of(model, known, loaded, tokens, quick)
        if not subject.encoded:
            if worst(row for row in rows if row.line == LENGTH) != WRONG:
                raise NothingToScoreError(data, loaded.dropped)
            subject, stopped = None, LENGTH
    if subject is not None:
        rows += _scored(subject, tables, quick, reference, watch, device=device, date=date)
    else:
        told = {row.line for row in rows}
        waiting = [HEAD, READING, INVARIANCE, LENGTH, SCALE, *([REFERENCE] if reference else [])]
        rows += blocked([line for line in waiting if line not in told], stopped)
    if learnt is not None:
        with watch(OVERLAP):
            rows += outside.overlap(load_items(data, source=source), learnt)
    for line, flag in ((REFERENCE, "--reference"), (OVERLAP, "--training")):
        if all(row.line != line for row in rows):
            rows.append(Row(line, "all", f"no file ({flag})", "", NOT_ASKED))
    return Checked(
        model=model,
        dataset=loaded.name,
        items=len(subject.encoded) if subject else 0,
        quick=quick,
        fingerprint=subject.model.fingerprint if subject else {},
        versions=identity.versions(),
        example=opened.format.example if opened.format else "",
        rows=sorted(rows, key=lambda row: LINES.index(row.line)),
        tables=tables,
    )


def _scored(subject: Subject, tables: dict, quick: bool, reference, watch: Watched, **loading):
    rows = []
    with watch(SCALE):
        found, tables["scale"] = scales.scale(subject)
        rows += found
    with watch(READING):
        rows += reading.rows(subject)
    with watch(INVARIANCE):
        found, tables["shifts"] = invariance.rows(subject, **loading)
        rows += [*found, *invariance.alone(subject)]
    if quick:
        rows.append(Row(TEMPLATE, "cost", "left out of a quick check", "", NOT_ASKED))
    else:
        with watch(TEMPLATE):
            found, tables["costs"] = template.costs(subject)
            rows += found
    if reference is not None:
        moved = [record["largest"] for record in tables["shifts"]]
        allowed = max([invariance.ROUNDING, *(2 * each for each in moved)])
        with watch(REFERENCE):
            found, tables["differences"] = outside.reference(subject, reference, allowed)
        rows += found
    return rows


def _opened(name: str, date: str | None) -> Opened:
    """The files of a model: its head, its tokenizer and template; what is wrong is a row."""
    folder = folder_of(name)
    if is_frozen(name):
        return _frozen(name, folder, date)
    try:
        checkpoint = checkpoints.open_checkpoint(folder, name)
        config = checkpoints.load_config(checkpoint)
    except ModelError as error:
        return Opened([wrong(HEAD, "files", error)], HEAD)
    layout = layout_of(checkpoint)
    opened = Opened([], config=config, checkpoint=checkpoint)
    opened.card = {"system_prompt": checkpoint.config.get("system_prompt")}
    try:
        if layout is Classifier:
            pooling.check(config, name)
        _, keys = layout.head(checkpoint, config, None)
        opened.keys = frozenset(keys)
        read = {key: checkpoint.files[key].name for key in keys}
        opened.rows += head.tensors(folder, read)
    except ModelError as error:
        pooled = layout is Classifier and pooling.pooling(config)
        opened.stopped = READING if pooled else HEAD
        opened.rows.append(wrong(opened.stopped, "pooling" if pooled else "tensors", error))
    try:
        tokenizer = checkpoints.load_tokenizer(checkpoint, config)
        opened.format = PromptFormat(tokenizer, name, date=date)
        layout.check_format(opened.format)
    except ModelError as error:
        opened.format = None
        opened.stopped = opened.stopped or TEMPLATE
        opened.rows.append(wrong(TEMPLATE, "template", error))
    return opened


def _frozen(name: str, folder: Path, date: str | None) -> Opened:
    from transformers import AutoConfig, AutoTokenizer

    opened = Opened([])
    try:
        parts = frozen.read(folder)
    except ModelError as error:
        opened.rows.append(wrong(HEAD, "tensors", error))
        opened.stopped = HEAD
    else:
        opened.card = parts.card
        keys = (
            parts.keys
            if isinstance(parts, frozen.SparseParts)
            else frozen.tensors(parts.weight, parts.bias, parts.transform, parts.gate)
        )
        read = dict.fromkeys(keys, frozen.WEIGHTS)
        opened.rows += head.tensors(folder, read)
    place = backbones.dequantised()
    opened.config = AutoConfig.from_pretrained(place)
    opened.format = PromptFormat(
        AutoTokenizer.from_pretrained(place), name, backbones.END_OF_TURN, date
    )
    return opened


def _loaded(name: str, opened: Opened, device: str | None, date: str | None):
    """The model and a row on its weights; no model where those are wrong."""
    try:
        model = load_model(name, device=device, date=date)
    except ModelError as error:
        return None, wrong(HEAD, "weights", error)
    return model, head.weights(opened.checkpoint, opened.keys)
