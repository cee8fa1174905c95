"""False alarms of ``lib.check``: random tiny models that are right must be right in every line.

Each has a kind, a layout, a number of heads, a template and weights drawn from its seed, in the
layouts that are released, and is checked as ``--quick`` checks it::

    python bench/check_alarms.py --models 200 --json bench/results/check_alarms.json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import time
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "models")]

import tiny  # noqa: E402

from lib.check import check  # noqa: E402
from lib.check.lines import NOTE, RIGHT  # noqa: E402

ROOM = 4096  # tokens
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}  # of a tokenizer for Mistral's template
TEMPLATES = (
    (tiny.OPENS_WHEN_ASKED, {}),
    (tiny.NEVER_OPENS, {}),
    (tiny.CHATML, {}),
    (tiny.MISTRAL, SPECIAL),
)


def write(folder: Path, seed: int) -> str:
    """Write the model of a seed; says which it is."""
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(list(tiny.KINDS)))
    template, special = TEMPLATES[rng.integers(len(TEMPLATES))]
    layers, heads = int(rng.integers(1, 5)), int(rng.choice([1, 3, 4, 5]))  # two need names given
    depth = "n_layer" if kind == "gpt2" else "num_hidden_layers"
    changes = {depth: layers, "max_position_embeddings": ROOM}
    module = tiny.config(kind, **changes)
    gated = bool(rng.integers(2)) and template in (tiny.OPENS_WHEN_ASKED, tiny.CHATML)
    if gated:
        backbone = tiny.widen(tiny.AutoModel.from_config(module), seed)
        head = tiny.head(heads + 1, seed=seed, depth=int(rng.integers(1, 3)))
        tokens = tiny.tokenizer(template)
        tiny.save_armorm(folder, backbone=backbone, tokenizer=tokens, **head)
    else:
        names = [f"quality {i}" for i in range(heads)]
        changes["id2label"] = dict(enumerate(names))
        changes |= {"problem_type": "regression"} if heads > 1 else {}
        tokens = tiny.tokenizer(template, **special)
        made = tiny.AutoModelForSequenceClassification.from_config(tiny.config(kind, **changes))
        tiny.widen(made, seed).save_pretrained(folder)
        tokens.save_pretrained(folder)
    return f"{kind}, {layers} layers, {heads} heads, {'gated' if gated else 'classifier'}"


def main() -> None:
    """Check them all and print, or keep, what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--items", type=int, default=8)
    parser.add_argument("--json", help="keep what was found there")
    options = parser.parse_args()
    alarms, verdicts, moved, start = [], Counter(), {}, time.perf_counter()
    for seed in range(options.first, options.first + options.models):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
            which = write(Path(folder), seed)
            found = check(folder, quick=True, items=options.items, seed=seed, device="cpu")
        verdicts[found.verdict] += 1
        for record in found.tables.get("shifts", []):
            worst = moved.setdefault(record["way"], {"largest": 0.0, "spread": 0.0})
            moved[record["way"]] = {key: max(worst[key], record[key]) for key in worst}
        wrong = [row for row in found.rows if row.verdict not in (RIGHT, NOTE, "not asked")]
        alarms += [f"{seed} ({which}): {row.line}, {row.what}: {row.found}" for row in wrong]
        print(f"{seed} {which}: {found.verdict}", file=sys.stderr, flush=True)
    told = {
        "models": options.models,
        "verdicts": dict(verdicts),
        "alarms": alarms,
        "moved": moved,
        "seconds": round(time.perf_counter() - start),
        "command": f"python bench/check_alarms.py --models {options.models} --json",
        "date": date.today().isoformat(),
    }
    text = json.dumps(told, indent=1)
    print(text)
    if options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
