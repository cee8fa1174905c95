"""A study: helpful, harmless and mixed models of several seeds, and what silencing does to them.

Each seed is one unit of work and one file, written by rename; a study that was stopped goes on
with the seeds that are missing. Of every model are kept:

``score SET``        rewards of each response of a test set, (models, responses), float32
``margin``           of the probe's comparisons with neurons silenced, (models, ways, pairs), where
                     a way is a set of neurons and what is put in their place
``random SIZE``      the same with random neurons, (models, draws, pairs of ``few``), as many as a
                     set has; ``random by layer`` as many in each layer as the published set has
``activation``       of each neuron, (models, layers, neurons), float16
``mask``             the neurons of each of ``SETS``, packed bits, (models, sets, bytes)
``rmsd``             of the activations of better and worse texts, (models,)
``like base``        Spearman of activations with the base's, over neurons, (models,)

The sets, all of one size but the last three: ``own`` (largest activation, as published), ``base's``
(in the backbone before training), ``raised`` (activation less the base's), ``changed``,
``gradient``; ``shared`` and the two others part the helpful and harmless models' own ones.

Neurons are chosen on training comparisons, and silenced on held-out ones. All of a study is in
one ``study.json``: settings, machine, seconds, what was compared; no text and no weights.

What was trained where: prompts are split by their opening (``lib.training.split``); what isn't
held out is for training. Every setting is given beforehand, and nothing is chosen on any test.
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
from safetensors.numpy import load_file, save_file
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lib import documents
from lib.atomic import replacing
from lib.errors import DataError, ParameterError, StoreError
from lib.extraction.taps import activations
from lib.training.tension import finetune, neurons
from lib.training.tension.finetune import Recipe, Reward
from lib.training.tension.texts import Texts, joined, load, sample

HELPFUL, HARMLESS, MIXED = "helpful", "harmless", "mixed"
OBJECTIVES = (HELPFUL, HARMLESS, MIXED)
SOURCES = {HELPFUL: "hh-rlhf/helpful-base", HARMLESS: "hh-rlhf/harmless-base"}
TESTS = ("xstest", "llmbar", "reward-bench-2", "rm-bench")
IN_ORDER, TWO_HEADS, AVERAGE, OWN_MARGIN = "mixed, in order", "two heads", "average", "own margins"
HELPS = (IN_ORDER, TWO_HEADS, AVERAGE, OWN_MARGIN)
OWN, BASE, RAISED, CHANGED, GRADIENT = "own", "base's", "raised", "changed", "gradient"
SHARED, ONLY_HELPFUL, ONLY_HARMLESS = "shared", "helpful only", "harmless only"
SETS = (OWN, BASE, RAISED, CHANGED, GRADIENT, SHARED, ONLY_HELPFUL, ONLY_HARMLESS)
PUT = ("zero", "mean")
WAYS = ("none", *(f"{name}, {put}" for name in SETS for put in PUT))
SIZES = (OWN, "by layer", SHARED, ONLY_HELPFUL, ONLY_HARMLESS)
LIKE = ("activation", "activation of base")
STUDY = "study.json"


@dataclass(frozen=True)
class Settings:
    """All that a study's numbers depend on, beside backbone and data."""

    recipe: Recipe = field(default_factory=Recipe)
    share: float = 0.1  # of neurons that are silenced
    draws: int = 20  # random sets of each size, of each seed
    measured: int = 200  # training comparisons of each side that neurons are chosen on
    few: int = 100  # held-out comparisons of each side that random sets are tried on
    each: int = 100  # comparisons of each subset of the other sets in the probe
    helping: int = 3  # seeds for which what helps is tried, too


def run(
    model,
    source: str | Path,
    out: str | Path,
    *,
    seeds: int = 5,
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
        A ``lib.models.LinearHeads``, of which backbone, in float32, and template are used.
    source
        Folder that holds ``hh-rlhf`` and the ``tests``, each in its published layout.
    out
        Folder for the study.
    seeds
        How many: 0, 1, …
    limit
        Items of each set; 0: all.

    Returns
    -------
    pathlib.Path
        Of ``study.json``.

    Raises
    ------
    ParameterError
        For a share outside of (0, 1), or no seed.
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
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    backbone = model.backbone
    activations(backbone)  # refused before hours of training
    data = _Data.load(model.format, Path(source), tests, limit, settings)
    head = _head(model, data, settings)
    kept = _kept(out / STUDY, head)
    for seed in range(seeds):
        path = out / f"seed-{seed}.safetensors"
        if f"{seed}" in kept["seconds"] and path.is_file():
            continue
        started = time.monotonic()
        found = _seed(backbone, data, settings, seed, say)
        with replacing(path) as partial:
            save_file(found, partial)
        kept["seconds"][f"{seed}"] = round(time.monotonic() - started, 1)
        kept |= {"machine": _machine(), "command": command}
        with replacing(out / STUDY) as partial:
            partial.write_text(json.dumps(kept, indent=1) + "\n")
        say(f"seed {seed}: {kept['seconds'][f'{seed}']} s")
    return out / STUDY


@dataclass(frozen=True)
class _Data:
    """Everything in tokens."""

    train: dict[str, Texts]  # by objective
    measured: dict[str, Texts]
    sets: list[Texts]  # scored whole
    probe: Texts  # held-out pairs of both sources, then a sample of the other sets
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
            for kept, rows in ((train, ~out), (held, out)):
                if not rows.any():
                    raise _one_sided(texts.name)
                kept[side] = texts.where(np.flatnonzero(rows))
        both = joined(train[HELPFUL], train[HARMLESS])
        measured = {side: sample(texts, settings.measured, seed=0) for side, texts in train.items()}
        measured[MIXED] = joined(*measured.values())
        others = [load(name, format, str(source / name), limit) for name in tests]
        sets = [*held.values(), *others]
        probe = joined(held[HELPFUL], held[HARMLESS])
        n = [len(texts) for texts in held.values()]
        generator = np.random.default_rng(0)
        few = [
            start + generator.permutation(size)[: settings.few]
            for start, size in zip((0, n[0]), n, strict=True)
        ]
        for texts in others:
            probe = joined(probe, sample(texts, settings.each, seed=0))
        return cls(train | {MIXED: both}, measured, sets, probe, np.sort(np.concatenate(few)))

    def document(self) -> dict:
        """What was compared, without text."""
        return {
            "sets": [
                {
                    "name": texts.name,
                    "items": texts.fingerprint,
                    "better": texts.better.tolist(),
                    "worse": texts.worse.tolist(),
                    "subset": texts.subset.tolist(),
                    "opening": texts.opening.tolist(),
                    "tokens": [len(ids) for ids in texts.sequences],
                }
                for texts in self.sets
            ],
            "probe": {
                "origin": self.probe.origin.tolist(),
                "subset": self.probe.subset.tolist(),
                "opening": self.probe.opening.tolist(),
            },
            "few": self.few.tolist(),
            "train": {side: len(texts) for side, texts in self.train.items()},
            "trained_on": {side: texts.fingerprint for side, texts in self.train.items()},
        }


def _seed(backbone, data: _Data, settings: Settings, seed: int, say) -> dict[str, np.ndarray]:
    """Everything of one seed, as arrays by name."""
    models: dict[str, Reward] = {}
    for side in OBJECTIVES:
        models[side] = finetune.train(backbone, data.train[side], settings.recipe, seed)
        say(f"seed {seed}: {side} trained")
    seen = {
        side: neurons.measure(model, backbone, data.measured[side])
        for side, model in models.items()
    }
    masks = {side: _masks(seen, side, settings.share) for side in OBJECTIVES}
    each = [seen[side] for side in OBJECTIVES]
    found = {
        "activation": np.stack([of["activation"] for of in each]).astype(np.float16),
        "mask": np.stack(
            [[np.packbits(masks[side][name]) for name in SETS] for side in OBJECTIVES]
        ),
        "rmsd": np.asarray([np.sqrt((of["gap"] ** 2).mean()) for of in each], np.float32),
        "like base": np.asarray(
            [spearmanr(*(of[n].ravel() for n in LIKE)).statistic for of in each], np.float32
        ),
    }
    found["margin"] = np.stack(
        [_silenced(models[side], masks[side], seen[side], data.probe) for side in OBJECTIVES]
    ).astype(np.float16)
    few = data.probe.where(data.few)
    for size in SIZES:
        found[f"random {size}"] = np.stack(
            [
                _random(model, masks[side], size, few, settings.draws, seed)
                for side, model in models.items()
            ]
        ).astype(np.float16)
    say(f"seed {seed}: silenced")
    helps = _helps(backbone, data, settings, seed, models) if seed < settings.helping else {}
    for texts in data.sets:
        rewards = [finetune.scores(model, texts.sequences)[:, 0] for model in models.values()]
        rewards += [score(texts) for score in helps.values()]
        found[f"score {texts.name}"] = np.stack(rewards).astype(np.float32)
    return found


def _masks(seen, side: str, share: float) -> dict[str, np.ndarray]:
    """The neurons of each of ``SETS``, of the model of one objective."""
    tops = {each: neurons.top(seen[each]["activation"], share) for each in OBJECTIVES}
    helpful, harmless = tops[HELPFUL], tops[HARMLESS]
    return {
        OWN: tops[side],
        BASE: neurons.top(seen[side]["activation of base"], share),
        RAISED: neurons.top(seen[side]["activation"] - seen[side][LIKE[1]], share),
        CHANGED: neurons.top(seen[side]["change"], share),
        GRADIENT: neurons.top(seen[side]["gradient"], share),
        SHARED: helpful & harmless,
        ONLY_HELPFUL: helpful & ~harmless,
        ONLY_HARMLESS: harmless & ~helpful,
    }


def _silenced(model: Reward, masks, seen, probe: Texts) -> np.ndarray:
    """Margins of the probe in each of ``WAYS``, (ways, pairs)."""
    found = [probe.margins(finetune.scores(model, probe.sequences)[:, 0])]
    for name in SETS:
        for put in PUT:
            value = seen["activation"] if put == "mean" else None
            with neurons.silenced(model.backbone, masks[name], value):
                found.append(probe.margins(finetune.scores(model, probe.sequences)[:, 0]))
    return np.stack(found)


def _random(model: Reward, masks, size: str, few: Texts, draws: int, seed: int) -> np.ndarray:
    """Margins with random neurons silenced, (draws, pairs)."""
    by_layer = size == "by layer"
    mask = masks[OWN if by_layer else size]
    found = []
    for draw in range(draws):
        drawn = neurons.drawn(mask, [seed, draw, SIZES.index(size)], by_layer)
        with neurons.silenced(model.backbone, drawn):
            found.append(few.margins(finetune.scores(model, few.sequences)[:, 0]))
    return np.stack(found)


def _helps(backbone, data: _Data, settings: Settings, seed: int, models) -> dict[str, Callable]:
    """What may keep both abilities: of each of ``HELPS``, scores (responses,) of texts."""
    both = data.train[MIXED]
    source = np.repeat([0, 1], [len(data.train[HELPFUL]), len(data.train[HARMLESS])])
    ordered = finetune.train(backbone, both, settings.recipe, seed, in_order=True)
    averaged = finetune.average(models[HELPFUL], models[HARMLESS])
    asked = np.asarray(
        [
            np.mean(texts.margins(finetune.scores(models[side], texts.sequences)[:, 0]))
            for side, texts in data.measured.items()
            if side != MIXED
        ]
    )
    own = finetune.train(
        backbone, both, settings.recipe, seed, margin=asked[source].astype(np.float32)
    )
    plain = {IN_ORDER: ordered, AVERAGE: averaged, OWN_MARGIN: own}
    found = {
        name: lambda texts, model=model: finetune.scores(model, texts.sequences)[:, 0]
        for name, model in plain.items()
    }
    found[TWO_HEADS] = _gated(backbone, both, source, settings, seed)
    return {name: found[name] for name in HELPS}


def _gated(backbone, both: Texts, source: np.ndarray, settings: Settings, seed: int) -> Callable:
    """Two heads on one backbone, weighed by a gate that reads the prompt's end (as ArmoRM's).

    Each head learns from its own source; the gate is the probability, by logistic regression on
    the trained backbone's states, that a prompt is of the harmless one.
    """
    model = finetune.train(backbone, both, settings.recipe, seed, head=source)

    def prompt_ends(texts: Texts, rows) -> np.ndarray:
        ends = [texts.sequences[i][: texts.gate_at[i] + 1] for i in rows]
        return finetune.read(model, ends)

    gate = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=2000))
    gate.fit(prompt_ends(both, both.better), source)

    def score(texts: Texts) -> np.ndarray:
        heads = finetune.scores(model, texts.sequences)
        harmless = gate.predict_proba(prompt_ends(texts, range(len(texts.sequences))))[:, 1]
        return heads[:, 0] * (1 - harmless) + heads[:, 1] * harmless

    return score


# ---- What is kept ----


def _head(model, data: _Data, settings: Settings) -> dict:
    """All that a study's numbers depend on, as it is kept."""
    parts = {name: digest for name, digest in model.fingerprint.items() if name != "heads"}
    return {
        "backbone": model.card.get("backbone", model.name),
        "fingerprint": parts,
        "settings": asdict(settings),
        "objectives": list(OBJECTIVES),
        "helps": list(HELPS),
        "ways": list(WAYS),
        "sizes": list(SIZES),
        "sets": list(SETS),
        "data": data.document(),
    }


def _kept(path: Path, head: dict) -> dict:
    """The study that is there already, or an empty one."""
    if not path.exists():
        return head | {"seconds": {}}
    kept = documents.read_json(path, what="a study", fields={"seconds": dict[str, float]})
    for name, value in head.items():
        if kept.get(name) != json.loads(json.dumps(value)):
            raise StoreError(
                f"a study of the same {name} in {path.parent}",
                "another",
                "Give another folder, or take that study away.",
            )
    return kept


def _machine() -> str:
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return f"{device}, torch {torch.__version__}"


def _one_sided(name: str) -> DataError:
    return DataError(
        f"comparisons of {name} to train on and to hold out",
        "none on one side of the split",
        "Give more items.",
    )


def load_study(folder: str | Path) -> tuple[dict, list[dict[str, np.ndarray]]]:
    """The document of a study and the arrays of each seed that is done, in order."""
    folder = Path(folder)
    document = documents.read_json(
        folder / STUDY, what="a study", fields={"seconds": dict[str, float]}
    )
    done = sorted(document["seconds"], key=int)
    return document, [load_file(folder / f"seed-{seed}.safetensors") for seed in done]
