"""Do ways to say what carries a margin agree, and what makes them differ?

``attribution``  parts against patches over nodes, with and without the final norm and with
                 both alignments
``faults``       how much of that the norm and the alignment each make
``alignment``    patches aligned at both ends beside those from the left
``ways``      every other way to patch beside noising
``gate``         the final score's effects with its gate held and recomputed

Agreement is Spearman's correlation over nodes, comparison by comparison; its mean over prompts
has Student's interval. What noising and denoising carry is as in ``stats``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib import effects as measured
from lib.analyses.patching import stats
from lib.analyses.patching.stats import way_of
from lib.effects import BOTH_ENDS, DENOISING, EVERYTHING, FINAL, LEFT, NOISING
from lib.stats import ratios
from lib.stats.permutation import holm
from lib.stats.signed import flipped, per_prompt

NORMED, RAW = "normed", "raw"  # parts with the final norm, and as published without
PARTS = {NORMED: "part", RAW: "part_raw"}
ALIGNMENTS = (BOTH_ENDS, LEFT)
CORRECTED, AS_PUBLISHED = (BOTH_ENDS, NORMED), (LEFT, RAW)
ALIGNED, NORM, TOGETHER = "alignment", "norm", "both"


def over_nodes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's correlation over nodes, (rows, nodes, heads) twice → (rows, heads).

    NaN where either doesn't vary. Checked against ``scipy.stats.spearmanr``.
    """
    ranks = [scipy_stats.rankdata(x, axis=1) for x in (first, second)]
    left, right = (r - r.mean(axis=1, keepdims=True) for r in ranks)
    size = np.sqrt((left**2).sum(axis=1) * (right**2).sum(axis=1))
    product = (left * right).sum(axis=1)
    return np.divide(product, size, out=np.full(size.shape, np.nan), where=size > 0)


def _real(effects: xr.Dataset) -> np.ndarray:
    return effects["node"].values[effects["node"].values != EVERYTHING]


def _carried(effects: xr.Dataset, name: str) -> np.ndarray:
    """By comparison, (patched, nodes, heads), without ``everything``."""
    found = effects["effect"].sel(way=name, node=_real(effects))
    return -found.values.astype(float)


def _parts(effects: xr.Dataset, kind: str) -> np.ndarray:
    """Parts of the patched comparisons' margins, (patched, nodes, heads)."""
    place = effects.indexes["component"].get_indexer(_real(effects))
    return measured.patched(effects, PARTS[kind])[:, place]


def _mean(values: np.ndarray, prompt: np.ndarray, most: float = 1.0) -> dict[str, np.ndarray]:
    """Mean over prompts with its interval, of each head; rows without a number are left out.

    No end of an interval is beyond ``most``, the largest size that there can be.
    """
    found = []
    for column in values.T:
        told = np.isfinite(column)
        own = per_prompt(column[told], prompt[told])
        each = ratios.mean(own) if len(own) else (np.nan,) * 3
        found.append((*np.clip(each, -most, most), len(own)))
    return dict(zip(("rho", "low", "high", "prompts"), np.asarray(found).T, strict=True))


def _rhos(effects: xr.Dataset) -> dict[tuple[str, str], np.ndarray]:
    """(patched, heads) of each alignment and kind of parts."""
    patches = {way: _carried(effects, way_of(NOISING, way)) for way in ALIGNMENTS}
    parts = {kind: _parts(effects, kind) for kind in PARTS}
    return {
        (way, kind): over_nodes(parts[kind], patches[way]) for way in ALIGNMENTS for kind in PARTS
    }


def attribution(effects: xr.Dataset) -> pd.DataFrame:
    """Agreement of attribution with noising, aligned and normed in either way.

    Returns
    -------
    pandas.DataFrame
        One row a head, ``alignment`` and ``parts``: ``rho``, the mean over prompts of
        Spearman's correlation over nodes in each comparison, with ``low`` and ``high``;
        ``median``, ``lower`` and ``upper`` (quartiles) over comparisons; ``of_means``, the one
        correlation of what each carries on average; ``of_sizes``, that of mean sizes, whatever
        the sign; ``prompts``. The published ones don't say which of the three they are.
    """
    prompt, rhos, rows = stats.prompt_of_patched(effects), _rhos(effects), []
    for (way, kind), rho in rhos.items():
        parts, patch = _parts(effects, kind), _carried(effects, way_of(NOISING, way))
        lower, median, upper = np.nanquantile(_held(rho), [0.25, 0.5, 0.75], axis=0)
        whole = [per_prompt(x, prompt).mean(axis=0, keepdims=True) for x in (parts, patch)]
        sizes = [per_prompt(np.abs(x), prompt).mean(axis=0, keepdims=True) for x in (parts, patch)]
        rows.append(
            pd.DataFrame(
                {
                    "head": effects["head"].values,
                    "alignment": way,
                    "parts": kind,
                    **_mean(rho, prompt),
                    "median": median,
                    "lower": lower,
                    "upper": upper,
                    "of_means": over_nodes(*whole)[0],
                    "of_sizes": over_nodes(*sizes)[0],
                }
            )
        )
    return stats.by_head(effects, pd.concat(rows, ignore_index=True))


def _held(rho: np.ndarray) -> np.ndarray:
    """With a row of NaN less than all: quantiles of nothing are NaN without a warning."""
    return np.where(np.isfinite(rho).any(axis=0), rho, 0.0) if rho.size else rho


def faults(effects: xr.Dataset) -> pd.DataFrame:
    """How much of the agreement the published alignment and the skipped norm take.

    Returns
    -------
    pandas.DataFrame
        One row a head and ``what`` (``alignment``, ``norm``, ``both``): ``change`` of ρ by
        mending it, paired by comparison, with ``low`` and ``high``; of ``alignment`` and
        ``norm`` the mean over either state of the other, so that the two sum to ``both``.
    """
    prompt, rho = stats.prompt_of_patched(effects), _rhos(effects)
    changes = {
        ALIGNED: sum(rho[BOTH_ENDS, kind] - rho[LEFT, kind] for kind in PARTS) / 2,
        NORM: sum(rho[way, NORMED] - rho[way, RAW] for way in ALIGNMENTS) / 2,
        TOGETHER: rho[CORRECTED] - rho[AS_PUBLISHED],
    }
    rows = [
        pd.DataFrame({"head": effects["head"].values, "what": what, **_mean(change, prompt, 2.0)})
        for what, change in changes.items()
    ]
    table = pd.concat(rows, ignore_index=True).rename(columns={"rho": "change"})
    return stats.by_head(effects, table)


def alignment(effects: xr.Dataset, both_ends: pd.DataFrame, left: pd.DataFrame) -> pd.DataFrame:
    """Patches aligned at both ends beside those from the left, as published.

    Parameters
    ----------
    effects
        As ``lib.effects`` describes them.
    both_ends, left
        Verdicts with each, of ``stats.verdicts``.

    Returns
    -------
    pandas.DataFrame
        One row a head and ``mode``: ``rho`` over nodes between the two, with ``low`` and
        ``high``; ``unreached``, the share of comparisons whose patched response is the longer
        one, so that from the left its last token, where the reward is read, is never patched;
        ``left_over``, the mean size of the margin that is left when *everything* is patched from
        the left, as a share of its mean size (0 at both ends); ``changed``, nodes whose verdict
        is another one from the left, with ``nodes``.
    """
    prompt = stats.prompt_of_patched(effects)
    tokens = effects["n_response_tokens"].values
    places = effects["comparison_of_patched"].values
    index = effects.indexes["response"]
    better, worse = (
        tokens[index.get_indexer(effects[side].values)][places] for side in ("better", "worse")
    )
    longer = {NOISING: better > worse, DENOISING: worse > better}
    margin = effects["margin"].values.astype(float)
    both = both_ends.merge(left, on=["head", "node"], suffixes=("", "_left"))
    differ = (both["verdict"] != both["verdict_left"]).groupby(both["head"], sort=False).sum()
    rows = []
    for mode in (NOISING, DENOISING):
        rho = over_nodes(*(_carried(effects, way_of(mode, way)) for way in ALIGNMENTS))
        every = effects["effect"].sel(way=way_of(mode, LEFT), node=EVERYTHING).values
        size = np.abs(margin).mean(axis=0)
        rest = np.abs(margin + every).mean(axis=0)
        rows.append(
            pd.DataFrame(
                {
                    "head": effects["head"].values,
                    "mode": mode,
                    **_mean(rho, prompt),
                    "unreached": longer[mode].mean(),
                    "left_over": np.divide(
                        rest, size, out=np.full(size.shape, np.nan), where=size > 0
                    ),
                    "changed": differ.reindex(effects["head"].values).to_numpy(),
                    "nodes": len(_real(effects)),
                }
            )
        )
    return stats.by_head(effects, pd.concat(rows, ignore_index=True))


def ways(effects: xr.Dataset) -> pd.DataFrame:
    """Every other way to patch beside noising aligned at both ends.

    Returns
    -------
    pandas.DataFrame
        One row a head and ``way``: ``rho`` over nodes with ``low`` and ``high``, and
        ``same_side``, the share of nodes whose means have the same sign.
    """
    prompt, plain = stats.prompt_of_patched(effects), way_of(NOISING)
    first = _carried(effects, plain)
    rows = []
    for name in effects["way"].values:
        if name == plain:
            continue
        other = _carried(effects, name)
        means = [np.sign(per_prompt(x, prompt).mean(axis=0)) for x in (first, other)]
        table = pd.DataFrame(
            {
                "head": effects["head"].values,
                "way": name,
                **_mean(over_nodes(first, other), prompt),
                "same_side": (means[0] == means[1]).mean(axis=0),
            }
        )
        # A gate that is recomputed changes the final score alone.
        again = str(effects["gate"].sel(way=name).values) == "recomputed"
        rows.append(table[table["head"] == FINAL] if again else table)
    return stats.by_head(effects, pd.concat(rows, ignore_index=True))


def gate(effects: xr.Dataset) -> pd.DataFrame:
    """What nodes carry of the final score with the gate held, and with the gate recomputed.

    Returns
    -------
    pandas.DataFrame
        One row a node, none where no gate was recomputed: ``held`` and ``recomputed`` (means
        over prompts of what it carries), ``change`` with ``low`` and ``high``, ``p_adjusted``
        (exact sign flip, Holm over nodes).
    """
    again = [
        name
        for name in effects["way"].values
        if str(effects["gate"].sel(way=name).values) == "recomputed"
    ]
    if not again or FINAL not in effects["head"].values:
        columns = ["node", "held", "recomputed", "change", "low", "high", "p_adjusted"]
        return pd.DataFrame(columns=columns)
    prompt, place = stats.prompt_of_patched(effects), effects["head"].values.tolist().index(FINAL)
    held_name = again[0].removesuffix(", gate recomputed")
    held, changed = (
        per_prompt(_carried(effects, name)[..., place], prompt) for name in (held_name, again[0])
    )
    found = ratios.mean(changed - held)
    return pd.DataFrame(
        {
            "node": _real(effects),
            "held": held.mean(axis=0),
            "recomputed": changed.mean(axis=0),
            "change": found.estimate,
            "low": found.low,
            "high": found.high,
            "p_adjusted": holm(flipped(changed - held)),
        }
    )
