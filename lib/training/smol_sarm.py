"""Make ``smol-sarm``: SARM's recipe on the embedded backbone and real comparisons.

``python -m lib train smol-sarm --source FOLDER`` needs the folder that holds ``hh-rlhf`` in its
published layout. Layer 15 of 30, 8 latents a feature, the 64 largest kept; the head is linear
Bradley–Terry on z, from the comparisons of helpful-base and harmless-base together
(``lib.training.sarm``). Three autoencoders are learnt, which differ in nothing but the seed:
the one whose head has the least loss on the choosing prompts is the model, and the two others
tell which of its features come again (``stability``).

The autoencoder is kept in half precision, and all that the card says is of it as kept. Beside it
lie the head on all pre-activations, which is what SARM is with its flag off, and the dense head
on the state.

This is the second recipe that was trained in full. The first, of a lower rate and fewer steps,
explained too little of held-out states; the rate was then chosen on small samples of states,
held-out ones of a few prompts among them (by states that are learnt from alone it is the same),
and the steps by how long they take. So the held-out explained variance is not that of a recipe
that never saw it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lib.atomic import replacing
from lib.data import load_items
from lib.models import backbone as backbones
from lib.models.base import Head
from lib.models.frozen import OF_ALL, OF_STATE
from lib.models.sae import SAE
from lib.models.weights import STABILITY
from lib.training import cards, sarm
from lib.training.parts import bare_backbone
from lib.training.sae import Recipe
from lib.training.smol_mixed import FAMILY, SETS

NAME = "smol-sarm"
LAYER, LATENTS, K, SEEDS = 15, 4608, 64, (0, 1, 2)
STEPS, BATCH, RATE, WARM_UP = 20_000, 4096, 1.2e-3, 0.05
HEAD = Head("reward", "this project: choices of hh-rlhf's helpful-base and harmless-base, mixed")
IS_NOT = (
    "Not a sum of named qualities: its features are directions that an autoencoder found in "
    "texts, their names are ours, and a part of them is found again by another seed only in "
    "other words. It learned from choices made by helpfulness on some prompts and by "
    "harmlessness on others without being told which."
)


def train(
    source: str | Path,
    out: str | Path | None = None,
    *,
    model=None,
    limit: int = 0,
    layer: int = LAYER,
    latents: int = LATENTS,
    k: int = K,
    steps: int = STEPS,
    batch: int = BATCH,
    rate: float = RATE,
    seeds: Sequence[int] = SEEDS,
) -> str:
    """Train everything and write weights, card and the table of stability; returns a summary.

    Arguments as in ``lib.training.smol_armo.train``; the default backbone is on a GPU when
    there is one, and its layers above the source layer are gone after. Lines on how it goes are
    written to stderr. What was learnt is kept in ``out`` until all is done, so that a training
    that was killed goes on when it is started again.

    Raises
    ------
    ParameterError
        For a limit without ``out``.
    DataError
        When the source lacks a part, or a side of the split has no comparison.
    """
    out = cards.folder(NAME, out, limit)
    began = time.monotonic()

    def told(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", file=sys.stderr, flush=True)

    model = model or bare_backbone()
    device = next(model.backbone.parameters()).device.type
    folder = Path(source) / FAMILY
    sets = {name: load_items(name, source=folder, limit=limit) for name in SETS}
    data = sarm.prepare(model, sets, layer)
    told(f"states of {len(data.seen):,} tokens to learn from, {len(data.held):,} held out")
    last = sarm.last_head(data, device)
    dense = sarm.fit_head(data.states("at"), data, device)
    trained = [
        sarm.train(
            data,
            Recipe(
                latents,
                k,
                seed,
                steps=steps,
                batch=batch,
                rate=rate,
                warm_up=max(1, round(WARM_UP * steps)),
            ),
            told=told,
            device=device,
            dense=dense,
            half=True,
            keep=out / f"seed-{seed}.partial.safetensors",
        )
        for seed in seeds
    ]
    told("autoencoders and their heads are there")
    losses = [each.heads["z"].card["loss_choose"] for each in trained]
    best = trained[int(np.argmin(losses))]
    others = [each.sae for each in trained if each is not best]
    tuned, weight, tuning = sarm.tune(
        best.sae, best.heads["z"].weight, data, seed=best.card["seed"], device=device
    )
    z = tuned.encode(data.states("at")).dense()
    head = sarm.scored(z, weight, data, tuning)
    card = {
        "name": NAME,
        "backbone": backbones.EMBEDDED,
        "device": device,
        "recipe": "SARM's, on a frozen backbone: see lib/training/smol_sarm.py",
        "command": cards.command(NAME, limit) + (f" --steps {steps}" if steps != STEPS else ""),
        "unit": cards.UNIT,
        "sarm": {"layer": layer, "k": k, "topk": True},
        "heads": [
            {
                "name": HEAD.name,
                "source": HEAD.source,
                "concept": HEAD.concept,
                "kind": "preference",
                "trained_on": " and ".join(SETS),
                "score": "accuracy",
                **best.heads["z"].card,
                "is_not": IS_NOT,
            }
        ],
        "autoencoders": [each.card for each in trained],
        "chosen": best.card["seed"],
        "last": last.card | {"less_dense": sarm.less(last.correct, dense.correct, data)},
        "z_less_last": sarm.less(best.heads["z"].correct, last.correct, data),
        "tuned": {
            **head.card,
            "explained": sarm.sae.quality(tuned, data.held, data.group, device).summary(),
            "less_untuned": sarm.less(head.correct, best.heads["z"].correct, data),
        },
        "split": sarm.split_card(data),
    }
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / STABILITY) as partial:
        stability(best, others).to_csv(partial, index=False)
    arrays = tensors(best.sae, *(best.heads[name].weight for name in ("z", "pre", "dense")))
    cards.write(out, arrays, card)
    for seed in seeds:
        (out / f"seed-{seed}.partial.safetensors").unlink(missing_ok=True)
    return summary(card)


def tensors(
    made: SAE, weight: np.ndarray, pre: np.ndarray, dense: np.ndarray
) -> dict[str, np.ndarray]:
    """What is kept, by the names of SARM's layout: the autoencoder in half precision."""
    halves = {
        "sae.encoder.weight": made.encoder,
        "sae.decoder.weight": made.decoder,
        "sae.pre_bias": made.pre_bias,
        "sae.latent_bias": made.latent_bias,
    }
    heads = {"score.weight": weight[None], OF_ALL: pre[None], OF_STATE: dense[None]}
    return {name: np.ascontiguousarray(a, np.float16) for name, a in halves.items()} | {
        name: np.ascontiguousarray(a, np.float32) for name, a in heads.items()
    }


def stability(best: sarm.Trained, others: Sequence[SAE]) -> pd.DataFrame:
    """Of each latent: weight, how often it is kept, and how well others have it.

    ``cosine_i`` is the largest of its column of W_dec with those of another autoencoder, and
    ``mutual_i`` says whether that one's nearest is it again.
    """
    tokens = best.quality.tokens
    table = {
        "latent": np.arange(best.sae.latents),
        "weight": best.heads["z"].weight.round(6),
        "rate": (best.quality.fired / tokens).round(8),
    }
    mine = _unit(best.sae.decoder)
    for number, other in enumerate(others, 1):
        cosine = mine.T @ _unit(other.decoder)
        nearest = cosine.argmax(axis=1)
        table[f"cosine_{number}"] = cosine.max(axis=1).round(4)
        table[f"mutual_{number}"] = cosine.argmax(axis=0)[nearest] == table["latent"]
    return pd.DataFrame(table)


def _unit(columns: np.ndarray) -> np.ndarray:
    return columns / np.linalg.norm(columns, axis=0)


def summary(card: dict) -> str:
    """What was found, a line each."""
    lines = []
    for each in card["autoencoders"]:
        kept = each["quality"]
        lines.append(
            f"seed {each['seed']}: explained {kept['explained']['value']:.4f}, at last tokens "
            f"{kept['explained_last']['value']:.4f}, never fired {kept['never_fired']:.4%}, "
            f"L0 {kept['l0']}, negative {kept['negative']:.2%}"
        )
        for name, head in each["heads"].items():
            paired = each["less_dense"].get(name)
            lines.append(
                f"  {name}: held out {cards.shown(head['held_out'])}"
                + (f", less dense {cards.shown(paired)}" if paired else "")
                + f" ({head['scaling']}, {head['penalty']:g}, loss {head['loss_choose']:.4f})"
            )
        found = each["dense_on_rebuilt"]
        lines.append(
            f"  dense on x̂: r {found['correlation']}, less dense {cards.shown(found['less_dense'])}"
        )
    lines.append(f"last: held out {cards.shown(card['last']['held_out'])}")
    lines.append(
        f"tuned: held out {cards.shown(card['tuned']['held_out'])} after {card['tuned']['steps']}"
        f", explained {card['tuned']['explained']['explained']['value']:.4f}"
    )
    return "\n".join([*lines, f"chosen: seed {card['chosen']}"])
