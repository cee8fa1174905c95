"""A control for depths: when would margins be there if the layers had written in another order?

Any sum that is made of many parts is half there at some depth, whatever the parts are. So the
depth at which a head's margin stays above half is set beside what it is when the same writes
are added in an order drawn at random, one order for all comparisons. The final norm's scale is
held, since that of a stream in another order isn't known: with m_l the sum of the parts up to
layer l, a head's *mean depth* is the mean over prompts of ``stats.reached(m)``'s second.

If a layer's place said nothing, the true order would be one of those: the share of orders with
a mean depth as far out is an exact p. It tells whether margins are made early or late, not why.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from lib.analyses.lens.stats import ALPHA, NO_MARGIN, ordered, reached
from lib.effects import gaps, prompts
from lib.stats.permutation import holm

ORDERS = 1999
LATER, EARLIER, NEITHER = "later", "earlier", "not told apart"
ONE_LAYER = "a single layer has one order"


def order(effects: xr.Dataset, *, orders: int = ORDERS, seed: int = 0) -> pd.DataFrame:
    """Mean depth of each head beside that of layers in random order.

    Parameters
    ----------
    orders
        Drawn at random, beside the true one.
    seed
        Of the orders, which all heads share.

    Returns
    -------
    pandas.DataFrame
        One row a head: ``head``, ``layers``, ``n``, ``prompts``, ``mean_depth`` (the norm's
        scale held), ``shuffled`` with ``low`` and ``high`` (mean and the middle 95% of random
        orders), ``p`` (two-sided), ``p_adjusted`` (Holm over heads), ``verdict`` (``later``,
        ``earlier``, ``not told apart``) and ``note``.
    """
    start, steps = _layers(effects)
    prompt = prompts(effects)
    layers = steps.shape[1]
    whole = start + steps.sum(axis=1)
    generator = np.random.default_rng(seed)
    drawn = np.stack([np.arange(layers), *(generator.permutation(layers) for _ in range(orders))])
    rows = []
    for k, head in ordered(effects):
        used = whole[:, k] != 0
        base = {"head": head, "layers": layers, "n": int(used.sum())}
        base["prompts"] = len(np.unique(prompt[used]))
        if not used.any() or layers < 2:
            note = ONE_LAYER if used.any() else NO_MARGIN
            rows.append(base | {"p": np.nan, "note": note})
            continue
        found = _means(start[used, k], steps[used, :, k], prompt[used], drawn)
        own, others = found[0], found[1:]
        tails = [(1 + (others >= own - 1e-12).sum()), (1 + (others <= own + 1e-12).sum())]
        low, high = np.quantile(others, [0.025, 0.975])
        rows.append(
            base
            | {"mean_depth": own, "shuffled": others.mean(), "low": low, "high": high}
            | {"p": min(1.0, 2 * min(tails) / (1 + orders)), "note": ""}
        )
    table = pd.DataFrame(rows)
    table["p_adjusted"] = holm(table["p"].to_numpy(float))
    columns = ["head", "layers", "n", "prompts", "mean_depth", "shuffled", "low", "high"]
    table = table.reindex(columns=[*columns, "p", "p_adjusted", "note"])
    told = table["p_adjusted"] < ALPHA
    late = table["mean_depth"] > table["shuffled"]
    table["verdict"] = np.select(
        [table["p"].isna(), told & late, told], ["undefined", LATER, EARLIER], NEITHER
    )
    return table


def _layers(effects: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Margins' parts: what no layer writes, (comparisons, heads), and each layer's, by layer."""
    part, names = gaps(effects, "part"), effects["component"].values.tolist()
    number = np.asarray([int(n.rpartition(" ")[2]) if " " in n else 0 for n in names])
    steps = [part[:, number == n].sum(axis=1) for n in range(1, number.max() + 1)]
    return part[:, number == 0].sum(axis=1), np.stack(steps, axis=1)


def _means(
    start: np.ndarray, steps: np.ndarray, prompt: np.ndarray, orders: np.ndarray
) -> np.ndarray:
    """Mean depth in each order, of one head's parts (comparisons,) and (comparisons, layers)."""
    _, unit, sizes = np.unique(prompt, return_inverse=True, return_counts=True)
    weight = 1 / sizes[unit] / len(sizes)
    found = []
    for one in orders:
        margins = np.empty((len(start), len(one) + 1))
        margins[:, 0] = start
        margins[:, 1:] = start[:, None] + steps[:, one].cumsum(axis=1)
        margins[:, -1] = start + steps.sum(axis=1)  # the same end, to the last digit
        found.append(weight @ reached(margins[..., None])[1][:, 0])
    return np.asarray(found)
