"""From which depth on each comparison's margin stays, of a model's one score: what its page keeps,
so that models can be paired on it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.lens.stats import reached
from lib.effects import FINAL, gaps
from lib.errors import unknown
from lib.run import comparisons

KEY = ("item", "prompt", "better", "worse", "criterion", "subset")
SETTLING = (*KEY, "head", "layers", "first", "stays")


def settling(effects: xr.Dataset, head: str = "") -> pd.DataFrame:
    """Depths of each comparison whose responses score differently.

    Parameters
    ----------
    effects
        As in ``lib.effects``.
    head
        Of this head; of the model's one score (the final score, or that of its only head) if
        empty.

    Returns
    -------
    pandas.DataFrame
        One row a comparison, as ``lib.stats.margins.outcomes`` names it: ``item``, ``prompt``,
        ``better`` and ``worse`` (places within the item), ``criterion``, ``subset``; ``head``,
        ``layers``, ``first`` and ``stays`` (``stats.reached``). Empty for several heads without
        a final score.
    """
    names = effects["head"].values.tolist()
    one = head or (FINAL if FINAL in names else names[0] if len(names) == 1 else "")
    if not one:
        return pd.DataFrame(columns=list(SETTLING))
    if one not in names:
        raise unknown(f"head of {effects.attrs['model']}", one, names)
    margins = gaps(effects, "lens")[..., [names.index(one)]]
    known = np.isfinite(margins[..., 0]).all(axis=1)
    used = np.flatnonzero(known & (margins[:, -1, 0] != 0))
    table = comparisons(effects).iloc[used].reset_index(drop=True)
    place = effects.indexes["response"]
    first, stays = (depth[:, 0] for depth in reached(margins[used]))
    owner = effects["item_of_response"].values[place.get_indexer(table["better"])]
    slots = {
        side: effects["slot"].values[place.get_indexer(table[side])] for side in ("better", "worse")
    }
    table = table.assign(prompt=effects["prompt_hash"].values[owner], **slots, head=one)
    table = table.assign(layers=margins.shape[1] - 1, first=first, stays=stays)
    return table[list(SETTLING)]
