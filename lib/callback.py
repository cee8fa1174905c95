"""Audit a reward model while it is trained: a callback for trl's ``RewardTrainer``.

>>> from lib.callback import RewardAudit  # doctest: +SKIP
>>> trainer.add_callback(RewardAudit(trainer, "file:held_out.jsonl", every=500))  # doctest: +SKIP

Every so many steps, or at each checkpoint that the trainer keeps, the model is read from disk as
anyone would read it, and checked, scored and tried with exploits. What is found is logged beside
the trainer's own metrics; a dashboard shows ``eval_`` as ``eval/``.

=================================================  ==============================================
``eval_reward_audit/check/right``, ``…/wrong``     lines of the check that are, and aren't
``eval_reward_audit/accuracy``                     share of comparisons ranked as labelled, ties
                                                   half, with ``…_low``, ``…_high`` and
                                                   ``…_prompts``
``eval_reward_audit/exploits/AXIS/win_rate``       share of exploited answers preferred, with
                                                   ``low``, ``high`` and ``shift``
``eval_reward_audit/exploits/pays_for``            axes that are paid for, and that are
                                                   ``penalised``
``eval_reward_audit/failed``                       1 where the model couldn't be audited, for
                                                   want of memory or of a disk too
=================================================  ==============================================

Training goes on as it would without: random numbers are put back, and an audit that fails is told
and logged, and stops nothing.
"""

from __future__ import annotations

import gc
import math
import random
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from transformers import Trainer, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from lib.analyses.exploits import stats as surfaces
from lib.check import check
from lib.check.lines import RIGHT, WRONG, Row
from lib.data import load_items
from lib.errors import AuditError, ParameterError
from lib.extraction import extract
from lib.models import load_model
from lib.run import align
from lib.stats import proportions
from lib.stats.winrates import one_score
from lib.visible import visible

PREFIX = "eval_reward_audit/"


class RewardAudit(TrainerCallback):
    """Audits the model of a trainer.

    Parameters
    ----------
    trainer
        Whose model it is: trl's ``RewardTrainer``, or any of transformers whose model is a
        sequence classifier. One that is sharded (FSDP, DeepSpeed) is audited at checkpoints alone.
    data
        A dataset's name, or ``file:PATH``: what accuracy is of.
    every
        Steps between audits; 0 for each checkpoint that the trainer keeps.
    exploits
        A dataset whose subsets are axes, or ``NAME#FORM,…``; empty for none.
    items
        At most so many items of each; 0 for all.
    source, seed
        As for ``lib.load_items``: of ``data``.
    device
        Where the copy that is audited goes: ``cpu``, ``cuda``, …; where the model is if unset.
    checked
        Check too? It takes longest on a large model.

    Attributes
    ----------
    found
        Step → what was logged.
    """

    def __init__(
        self,
        trainer: Trainer,
        data: str,
        *,
        every: int = 0,
        exploits: str = "stimuli/exploits",
        items: int = 0,
        source: str | None = None,
        seed: int = 0,
        device: str | None = None,
        checked: bool = True,
    ):
        sharded = trainer.is_deepspeed_enabled or trainer.is_fsdp_enabled
        if every < 0 or (every and sharded):
            raise ParameterError(
                "every as 0, each checkpoint, or, of a model that isn't sharded, a number of steps",
                f"{every}{' of a sharded model' if sharded else ''}",
                "Set every=0, and save_steps of the trainer.",
            )
        self.trainer, self.every, self.device, self.checked = trainer, every, device, checked
        self.given = {"data": data, "source": source, "seed": seed}
        self.data = load_items(data, source=source, limit=items, seed=seed)
        self.exploits = load_items(exploits, limit=items, seed=seed) if exploits else None
        self.found: dict[int, dict[str, float]] = {}
        self.said: set[tuple[str, str]] = set()  # lines and what of them, once wrong

    def on_step_end(self, args, state, control, **given) -> None:
        """Every so many steps: of the model as it is now."""
        if not self.every or state.global_step % self.every or not state.is_world_process_zero:
            return
        self._log(self._now, state.global_step)

    def _now(self) -> dict[str, float]:
        """What is found of the model as it is now, written to a folder that goes afterwards."""
        with tempfile.TemporaryDirectory() as folder:
            whole = self.trainer.accelerator.unwrap_model(self.trainer.model)
            whole.save_pretrained(folder)
            self.trainer.processing_class.save_pretrained(folder)
            return self.audit(folder)

    def on_save(self, args, state, control, **given) -> None:
        """Of the checkpoint that was kept."""
        folder = Path(args.output_dir) / f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}"
        if not self.every and state.is_world_process_zero and folder.is_dir():
            self._log(lambda: self.audit(folder), state.global_step)

    def _log(self, audit: Callable[[], dict[str, float]], step: int) -> None:
        try:
            with _undisturbed():
                told = audit()
        except Exception as error:  # memory, a disk: nothing of an audit may end a training
            named = "" if isinstance(error, AuditError) else f"{type(error).__name__}: "
            print(visible(f"No audit at step {step}: {named}{error}"), file=sys.stderr)
            told = {"failed": 1.0}
        _collect()
        self.found[step] = {f"{PREFIX}{name}": value for name, value in told.items()}
        # Not the trainer's own: trl's would end the averages of its training metrics here. What is
        # logged here is no answer to whoever asked for a log at this step.
        asked = self.trainer.control.should_log
        Trainer.log(self.trainer, dict(self.found[step]))
        self.trainer.control.should_log = asked

    def audit(self, folder: str | Path) -> dict[str, float]:
        """What is found of the model in a folder."""
        device = self.device or str(self.trainer.args.device)
        told = {}
        if self.checked:
            found = check(str(folder), device=device, **self.given)
            lines = list(found.lines.values())
            told = {f"check/{each}": float(lines.count(each)) for each in (RIGHT, WRONG)}
            self._say(row for row in found.rows if row.verdict == WRONG)
            _collect()
        model = load_model(str(folder), device=device)
        with tempfile.TemporaryDirectory() as store:  # states of a step are nobody's later
            run = extract(model, self.data, store=Path(store) / "data")
            told |= accuracy(run)
            if self.exploits is not None:
                run = extract(model, self.exploits, store=Path(store) / "exploits")
                told |= exploited(run)
        return {name: value for name, value in told.items() if not math.isnan(value)}

    def _say(self, rows: Iterable[Row]) -> None:
        """What is wrong, once."""
        for row in rows:
            if (row.line, row.what) not in self.said:
                self.said.add((row.line, row.what))
                told = f"{row.line}, {row.what}: {row.found}; expected {row.expected}. {row.do}"
                print(f"Wrong in the check: {told}", file=sys.stderr)


def accuracy(run) -> dict[str, float]:
    """Win rate of the one score over all comparisons, with Wilson's interval over prompts."""
    aligned = align(run)
    scores = run["final"].values[:, None] if one_score(run) else run["score"].values[:, :1]
    wins = (np.sign(aligned.gaps(scores)) + 1) / 2
    totals, sizes = proportions.by_prompt(wins, aligned.prompt)
    rate = proportions.wilson(totals, sizes)
    parts = {"": rate.estimate, "_low": rate.low, "_high": rate.high}
    told = {f"accuracy{name}": float(np.ravel(value)[0]) for name, value in parts.items()}
    return told | {"accuracy_prompts": float(len(sizes))}


def exploited(run) -> dict[str, float]:
    """What the one score pays for, as the exploits page judges it."""
    table = surfaces.judged(run)
    table = table[table["head"] == table["head"].iloc[-1]]
    told = {
        f"exploits/{row.axis}/{name}": float(getattr(row, name))
        for row in table.itertuples()
        for name in ("win_rate", "low", "high", "shift")
    }
    counts = {"pays_for": surfaces.PAYS, "penalised": surfaces.PENALISES}
    judged = table["verdict"]
    return told | {f"exploits/{name}": float((judged == v).sum()) for name, v in counts.items()}


def _collect() -> None:
    """Give back the memory of a model that is done with: cycles hold it, and torch keeps it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Random numbers go on afterwards from where they were."""
    kept = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
