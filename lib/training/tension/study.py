"""A study: helpful, harmless and mixed models of several seeds, and what silencing does to them.

A model of a seed is one unit of work and one file, written by rename (``kept`` says what is in
it); what is there is never made again, so that a study that was stopped goes on, and processes
may share one, each with seeds of its own. What matters most comes first: models of the three
objectives with their own sets silenced, then random sets, then what may help.

Neurons are chosen on training comparisons, and silenced on held-out ones. What was trained
where: prompts are split by their opening (``lib.training.split``); what isn't held out is for
training. Every setting is given beforehand, and nothing is chosen on any test.
"""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib import documents
from lib.atomic import replacing
from lib.errors import DataError, ParameterError, StoreError
from lib.extraction.taps import activations
from lib.training.tension import finetune, kept, neurons
from lib.training.tension.finetune import Plan, Recipe, Reward
from lib.training.tension.kept import (
    AVERAGE,
    BASE,
    BY_LAYER,
    CHANGED,
    GRADIENT,
    HARMLESS,
    HELPFUL,
    HELPS,
    IN_ORDER,
    MIXED,
    OBJECTIVES,
    ONLY_HARMLESS,
    ONLY_HELPFUL,
    OWN,
    OWN_MARGIN,
    PUT,
    RAISED,
    SETS,
    SHARED,
    SIZES,
    SOURCES,
    TESTS,
    WAYS,
)
from lib.training.tension.texts import Texts, joined, load, sample

LIKE = ("activation", "activation of base")


@dataclass(frozen=True)
class Settings:
    """All that a study's numbers depend on, beside backbone and data."""

    recipe: Recipe = field(default_factory=Recipe)
    share: float = 0.1  # of neurons that are silenced
    draws: int = 50  # random sets of the published size, and of it by layer, of each model
    part_draws: int = 10  # the same of the sizes of shared neurons and the rest
    measured: int = 200  # training comparisons of each side that neurons are chosen on
    few: int = 60  # held-out comparisons of each side that random sets are tried on
    each: int = 60  # comparisons of each subset of the other sets in the probe
    helping: int = 3  # seeds for which all of what may help is tried


def run(
    model,
    source: str | Path,
    out: str | Path,
    *,
    seeds: int = 5,
    only: Sequence[int] = (),
    settings: Settings = Settings(),
    tests: Sequence[str] = TESTS,
    limit: int = 0,
    command: str = "",
    say: Callable[[str], None] = print,
) -> Path:
    """Make or go on with a study.

    Parameters
    ----------
    model
        A ``lib.models.linear.LinearHeads``, of which backbone, in float32, and template are used.
    source
        Folder that holds ``hh-rlhf`` and the ``tests``, each in its published layout.
    out
        Folder for the study.
    seeds
        How many it has: 0, 1, …
    only
        Those to make here; all by default.
    limit
        Items of each set; 0: all.

    Returns
    -------
    pathlib.Path
        Of ``study.json``.

    Raises
    ------
    ParameterError
        For a share outside of (0, 1), no seed, or one that the study doesn't have.
    DataError
        Where a set lacks comparisons, or a side of the split has none.
    ModelError
        For a backbone without activation modules in its MLPs.
    StoreError
        Where ``out`` holds a study of other settings, data or weights.
    """
    if not 0 < settings.share < 1:
        raise ParameterError("a share of neurons between 0 and 1", f"{settings.share}", "Give .1.")
    if seeds < 1:
        raise ParameterError("at least one seed", f"{seeds}", "Give 5.")
    if set(only) - set(range(seeds)):
        raise ParameterError(f"seeds from 0 to {seeds - 1}", f"{list(only)}", "Give some of those.")
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    backbone = finetune.quicken(model.backbone)
    activations(backbone)  # refused before hours of training
    data = _Data.load(model.format, Path(source), tests, limit, settings)
    _start(out, _head(model, data, settings, seeds), data)
    work = _Work(backbone, data, settings, out, command, say)
    chosen = only or range(seeds)
    for seed in chosen:
        work.objectives(seed)
    for seed in chosen:
        if seed < settings.helping:
            work.helps(seed)
    return out / kept.STUDY


@dataclass(frozen=True)
class _Data:
    """Everything in tokens."""

    train: dict[str, Texts]  # by objective
    measured: dict[str, Texts]
    sets: list[Texts]  # scored whole
    rows: list[np.ndarray]  # of each set, those in the probe
    probe: Texts
    few: np.ndarray  # rows of the probe that random sets are tried on

    @classmethod
    def load(cls, format, source: Path, tests, limit: int, settings: Settings) -> _Data:
        sources = {
            side: load(name, format, str(source / name.split("/")[0]), limit)
            for side, name in SOURCES.items()
        }
        train, held = {}, {}
        for side, texts in sources.items():
            out = texts.side == "held_out"
            for part, rows in ((train, ~out), (held, out)):
                if not rows.any():
                    raise _one_sided(texts.name)
                part[side] = texts.where(np.flatnonzero(rows))
        train[MIXED] = joined(train[HELPFUL], train[HARMLESS])
        measured = {
            side: train[side].where(sample(train[side], settings.measured, seed=0)) for side in held
        }
        measured[MIXED] = joined(*measured.values())
        others = [load(name, format, str(source / name), limit) for name in tests]
        rows = [np.arange(len(texts)) for texts in held.values()]
        rows += [sample(texts, settings.each, seed=0) for texts in others]
        sets = [*held.values(), *others]
        parts = [texts.where(some) for texts, some in zip(sets, rows, strict=True)]
        probe = parts[0]
        for part in parts[1:]:
            probe = joined(probe, part)
        generator = np.random.default_rng(0)
        starts = (0, len(parts[0]))
        few = [
            start + generator.permutation(len(part))[: settings.few]
            for start, part in zip(starts, parts[:2], strict=True)
        ]
        return cls(train, measured, sets, rows, probe, np.sort(np.concatenate(few)))

    def arrays(self) -> dict[str, np.ndarray]:
        """What was compared, without text."""
        found = {"few": self.few.astype(np.int32)}
        for texts, rows in zip(self.sets, self.rows, strict=True):
            of = {
                "better": texts.better,
                "worse": texts.worse,
                "subset": np.unique(texts.subset, return_inverse=True)[1],
                "opening": np.unique(texts.opening, return_inverse=True)[1],
                "tokens": [len(ids) for ids in texts.sequences],
                "probe": rows,
            }
            found |= {f"{texts.name} {key}": np.asarray(x, np.int32) for key, x in of.items()}
        return found


class _Work:
    """What makes the models of a study, one file each."""

    def __init__(self, backbone, data: _Data, settings: Settings, out: Path, command: str, say):
        self.backbone, self.data, self.settings = backbone, data, settings
        self.out, self.command, self.say = out, command, say
        self.device = next(backbone.parameters()).device
        self.started = time.monotonic()
        self.plans = [Plan(texts.sequences, self.device) for texts in data.sets]
        self.probe = Plan(data.probe.sequences, self.device)
        self.few = data.probe.where(data.few)
        self.few_plan = Plan(self.few.sequences, self.device)

    def objectives(self, seed: int) -> None:
        """Models of the three objectives of a seed, and the mean of two of them."""
        there = {name: kept.load_model(self.out, seed, name)[0] for name in (*OBJECTIVES, AVERAGE)}
        wanted = [side for side in OBJECTIVES if not kept.is_whole(there[side], side)]
        if not there[AVERAGE]:
            wanted = [s for s in OBJECTIVES if s in wanted or s != MIXED]
        models, seen = {}, {}
        for side in wanted:
            models[side] = self._train(seed, side, self.data.train[side])
            seen[side] = neurons.measure(models[side], self.backbone, self.data.measured[side])
        if not there[AVERAGE]:
            average = finetune.light(finetune.average(models[HELPFUL], models[HARMLESS]))
            self._keep(seed, AVERAGE, self._scores(lambda plan: plan.scores(average)[:, 0]))
            del average
        tops = {
            side: neurons.top(seen[side]["activation"], self.settings.share)
            if side in seen
            else self._own(there[side])
            for side in (HELPFUL, HARMLESS)
        }
        lights, masks, found = {}, {}, {}
        wanted = [side for side in wanted if not kept.is_whole(there[side], side)]
        for side in wanted:
            lights[side] = finetune.light(models[side])
            masks[side] = _masks(seen[side], tops, self.settings.share)
            found[side] = self._scores(lambda plan, side=side: plan.scores(lights[side])[:, 0])
            found[side] |= self._silenced(lights[side], masks[side], seen[side], side, models[side])
            self._keep(seed, side, found[side])
        for side in wanted:
            for size in SIZES:
                found[side][f"random {size}"] = self._random(lights[side], masks[side], size, seed)
            self._keep(seed, side, found[side])

    def helps(self, seed: int) -> None:
        """What else may keep both abilities."""
        both = self.data.train[MIXED]
        source = np.repeat([0, 1], [len(self.data.train[side]) for side in (HELPFUL, HARMLESS)])
        for name in HELPS:
            if kept.load_model(self.out, seed, name)[0]:
                continue
            if name == IN_ORDER:
                model = self._train(seed, name, both, in_order=True)
            elif name == OWN_MARGIN:
                asked = [
                    kept.load_model(self.out, seed, side)[0]["margin learnt"]
                    for side in (HELPFUL, HARMLESS)
                ]
                margin = np.asarray(asked, np.float32).ravel()[source]
                model = self._train(seed, name, both, margin=margin)
            else:
                model = self._train(seed, name, both, head=source)
                self._keep(seed, name, self._gated(model, both, source))
                continue
            self._keep(seed, name, self._scores(lambda plan, model=model: plan.scores(model)[:, 0]))

    def _train(self, seed: int, name: str, texts: Texts, **options) -> Reward:
        started = time.monotonic()
        model = finetune.train(self.backbone, texts, self.settings.recipe, seed, **options)
        self.say(f"seed {seed}: {name} trained in {time.monotonic() - started:.1f} s")
        return model

    def _keep(self, seed: int, name: str, arrays: dict[str, np.ndarray]) -> None:
        """Write the file of a model."""
        seconds = time.monotonic() - self.started
        metadata = {
            "seconds": f"{seconds:.1f}",  # since this process began to train
            "machine": _machine(self.device),
            "command": self.command,
        }
        with replacing(kept.path(self.out, seed, name)) as partial:
            save_file({k: np.ascontiguousarray(v) for k, v in arrays.items()}, partial, metadata)
        self.say(f"seed {seed}: {name} kept with {len(arrays)} arrays, at {seconds:.1f} s")

    def _scores(self, score: Callable[[Plan], np.ndarray]) -> dict[str, np.ndarray]:
        return {
            f"score {texts.name}": score(plan).astype(np.float32)
            for texts, plan in zip(self.data.sets, self.plans, strict=True)
        }

    def _own(self, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """The published set of a model that is there already."""
        shape = arrays["activation"].shape
        mask = np.unpackbits(arrays["mask"][SETS.index(OWN)], count=np.prod(shape))
        return mask.astype(bool).reshape(shape)

    def _silenced(self, model: Reward, masks, seen, side: str, whole: Reward) -> dict:
        """Margins of the probe in each of ``WAYS``, and of neurons what is kept."""
        probe, plan = self.data.probe, self.probe
        margins = [probe.margins(plan.scores(model)[:, 0])]
        for name in SETS:
            for put in PUT:
                value = seen["activation"] if put == "mean" else None
                with neurons.silenced(model.backbone, masks[name], value):
                    margins.append(probe.margins(plan.scores(model)[:, 0]))
        measured = self.data.measured[side]
        learnt = measured.margins(finetune.scores(whole, measured.sequences)[:, 0])
        return {
            "margin": np.stack(margins).astype(np.float16),
            "activation": seen["activation"].astype(np.float16),
            "mask": np.stack([np.packbits(masks[name]) for name in SETS]),
            "rmsd": np.asarray([np.sqrt((seen["gap"] ** 2).mean())], np.float32),
            "like base": np.asarray(
                [spearmanr(*(seen[n].ravel() for n in LIKE)).statistic], np.float32
            ),
            "right": np.asarray([(learnt > 0).mean()], np.float32),
            "margin learnt": np.asarray([learnt.mean()], np.float32),
        }

    def _random(self, model: Reward, masks, size: str, seed: int) -> np.ndarray:
        """Margins with random neurons silenced, (draws, comparisons), float16."""
        by_layer = size == BY_LAYER
        mask = masks[OWN if by_layer else size]
        n = self.settings.draws if size in (OWN, BY_LAYER) else self.settings.part_draws
        found = []
        for draw in range(n):
            drawn = neurons.drawn(mask, [seed, draw, SIZES.index(size)], by_layer)
            with neurons.silenced(model.backbone, drawn):
                found.append(self.few.margins(self.few_plan.scores(model)[:, 0]))
        return np.stack(found).astype(np.float16)

    def _gated(self, model: Reward, both: Texts, source: np.ndarray) -> dict[str, np.ndarray]:
        """Two heads on one backbone, weighed by a gate that reads the prompt's end (as ArmoRM's).

        Each head learnt from its own source; the gate is the probability, by logistic regression
        on the trained backbone's states, that a prompt is of the harmless one.
        """

        def prompt_ends(texts: Texts, rows) -> np.ndarray:
            ends = [texts.sequences[i][: texts.gate_at[i] + 1] for i in rows]
            return Plan(ends, self.device).states(model).cpu().numpy()

        gate = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
        gate.fit(prompt_ends(both, both.better), source)
        found = {}
        for texts, plan in zip(self.data.sets, self.plans, strict=True):
            heads = plan.scores(model)
            harmless = gate.predict_proba(prompt_ends(texts, range(len(texts.sequences))))[:, 1]
            score = heads[:, 0] * (1 - harmless) + heads[:, 1] * harmless
            found[f"score {texts.name}"] = score.astype(np.float32)
            found[f"gate {texts.name}"] = harmless.astype(np.float16)
        return found


def _masks(seen, tops, share: float) -> dict[str, np.ndarray]:
    """The neurons of each of ``SETS``, of a model."""
    helpful, harmless = tops[HELPFUL], tops[HARMLESS]
    return {
        OWN: neurons.top(seen["activation"], share),
        BASE: neurons.top(seen["activation of base"], share),
        RAISED: neurons.top(seen["activation"] - seen[LIKE[1]], share),
        CHANGED: neurons.top(seen["change"], share),
        GRADIENT: neurons.top(seen["gradient"], share),
        SHARED: helpful & harmless,
        ONLY_HELPFUL: helpful & ~harmless,
        ONLY_HARMLESS: harmless & ~helpful,
    }


# ---- What is kept of the study as a whole ----


def _head(model, data: _Data, settings: Settings, seeds: int) -> dict:
    """All that a study's numbers depend on, as it is kept."""
    parts = {name: digest for name, digest in model.fingerprint.items() if name != "heads"}
    config = model.backbone.config
    return {
        "backbone": model.card.get("backbone", model.name),
        "fingerprint": parts,
        "shape": [config.num_hidden_layers, config.intermediate_size],
        "seeds": seeds,
        "settings": asdict(settings),
        "ways": list(WAYS),
        "sizes": list(SIZES),
        "neurons": list(SETS),
        "train": {side: len(texts) for side, texts in data.train.items()},
        "sets": {texts.name: np.unique(texts.subset).tolist() for texts in data.sets},
        "items": {texts.name: texts.fingerprint for texts in data.sets},
    }


def _start(out: Path, head: dict, data: _Data) -> None:
    """Write what is kept of the whole, or see that what is there is of the same study."""
    if (out / kept.STUDY).exists():
        there = documents.read_json(out / kept.STUDY, what="a study", fields={"seeds": int})
        for name, value in head.items():
            if there.get(name) != json.loads(json.dumps(value)):
                raise StoreError(
                    f"a study of the same {name} in {out}",
                    "another",
                    "Give another folder, or take that study away.",
                )
        return
    # Several processes may come here at once: each writes the same bytes.
    with replacing(out / kept.DATA) as partial:
        save_file(data.arrays(), partial)
    with replacing(out / kept.STUDY) as partial:
        partial.write_text(json.dumps(head, indent=1) + "\n")


def _machine(device: torch.device) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return f"{name}, torch {torch.__version__}"


def _one_sided(name: str) -> DataError:
    return DataError(
        f"comparisons of {name} to train on and to hold out",
        "none on one side of the split",
        "Give more items.",
    )
