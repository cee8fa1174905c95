"""``python -m lib explain``, for the shell and for the steps of a build."""

from __future__ import annotations

import shlex

from lib import hub, paths
from lib.mechanisms import disk


def explain(
    model: str,
    dataset: str,
    *,
    out: str,
    traced: int = 0,
    patched: int | None = None,
    attention_heads: bool = False,
    store: str | None = None,
    device: str = "",
    dtype: str = "",
    date: str = "",
    yes: bool = False,
    **loading,
) -> None:
    """Compute effects (``lib.effects``) and keep them in the folder ``out``.

    Parameters are the flags of the command; traced of 0 and patched of ``None`` are the default
    numbers. ``loading`` goes to ``load_items``.

    Raises
    ------
    AuditError
        For a model or data that can't be used or explained, or hours that weren't asked for
        with ``yes``.
    """
    from tqdm import tqdm

    from lib.data import load_items
    from lib.extraction import estimate as estimates
    from lib.mechanisms import estimate
    from lib.mechanisms.effects import PATCHED, TRACED, effects, explainable
    from lib.models import load_model

    disk.check_target(out)
    asked = {"traced": traced or "", "patched": "" if patched is None else str(patched)}
    sizes = {"traced": traced or TRACED, "patched": PATCHED if patched is None else patched}
    sizes["seed"] = seed = loading.get("seed", 0)
    with hub.under_way(f"Reading {dataset}"):
        items = load_items(dataset, **loading)
    with hub.under_way(f"Loading {model}"):
        loaded = load_model(model, device=device or None, dtype=dtype or None, date=date or None)
    explainable(loaded)
    estimates.announce([estimate.estimate(loaded, items, **sizes)], yes)
    with tqdm(unit="comparison", desc="explain", disable=None) as bar:
        found = effects(
            loaded,
            items,
            **sizes,
            attention_heads=attention_heads,
            store=store,
            on_comparison=bar.update,
        )
    given = {"source": loading.get("source") and "SOURCE", "limit": loading.get("limit")}
    given |= {"seed": seed, **asked, "device": device, "dtype": dtype, "date": date}
    words = ["python", "-m", "lib", "explain", paths.public(model), paths.public(dataset)]
    words += ["--out", "FOLDER"]
    words += [str(w) for name, value in given.items() if value for w in (f"--{name}", value)]
    words += ["--attention-heads"] * attention_heads
    found.attrs["command"] = shlex.join(words)
    disk.save_effects(found, out)
    sizes = found.sizes
    left_out = ", ".join(f"{n} {why}" for why, n in found.attrs["dropped"].items()) or "none"
    print(
        f"{sizes['item']} items traced, {sizes['patched']} comparisons patched; left out: "
        f"{left_out}; effects in {out}"
    )
