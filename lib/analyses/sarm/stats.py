"""A reward of sparse features: which reward it is, how good its autoencoder is, what features do.

``collapse``     is the reward a linear head on the state, and are its weights identified?
``quality``      what a card says of each autoencoder on held-out texts
``here``         how much the autoencoder keeps of the responses at hand
``accuracy``     what a card says of heads on each reading of the state
``attribution``  do the parts sum to the reward, and do the published ones?
``features``     each latent's part in the reward, and whether it goes toward the better response
``names``        which criterion a feature responds to, and whether to that one alone
``contexts``     the responses that move a feature most
``stability``    whether other seeds find the features again

Tables of latents hold those alone that something was read of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from lib.data.items import Items
from lib.models.sae import Reward
from lib.stats import latents, maxima, permutation, ratios, signed
from lib.stats.latents import Sparse

BETTER, WORSE, NOT_SHOWN = "toward the better", "toward the worse", "not shown"
OWN, SHARED = "responds to it alone", "responds, and not to it alone"
UNDEFINED = "undefined"
READINGS = {
    "z": "sparse: the k largest latents",
    "pre": "all pre-activations",
    "dense": "the state itself",
    "rebuilt": "what the autoencoder makes of the state",
    "tuned": "sparse, autoencoder and head tuned together",
    "last": "the model's last state",
}
TOP = 20  # of weights, in two lists that are compared; an eighth where there are few
MANY = 24  # features that names and contexts are looked for
SAME = 0.9  # cosine of a feature with that of another seed
LONGEST = 280  # characters of a text
DRAWS, FLIPS = 1000, 1999
LEVEL = 0.95

COLLAPSE = ["reading", "flag", "gap", "other_gap", "shared", "participation", "l0", "note"]
QUALITY = ["seed", "chosen", "explained", "low", "high", "explained_last", "last_low", "last_high"]
QUALITY += ["l0", "never_fired", "negative", "correlation", "less_dense", "less_low", "less_high"]
QUALITY += ["note"]
HERE = ["responses", "explained", "low", "high", "l0", "negative", "correlation", "changed", "note"]
ACCURACY = ["reading", "seed", "accuracy", "low", "high", "rows", "loss"]
ACCURACY += ["less_dense", "less_low", "less_high", "note"]
ATTRIBUTION = ["form", "sums_to", "gap", "correlation", "changed", "alike", "note"]
FEATURES = ["latent", "weight", "rate", "activation", "contribution", "difference", "low", "high"]
FEATURES += ["same", "p_adjusted", "verdict", "selection", "selection_low", "selection_high"]
FEATURES += ["p_selection", "prompts"]
NAMES = ["latent", "criterion", "effect", "low", "high", "p", "p_adjusted", "next", "next_effect"]
NAMES += ["specific", "prompts", "verdict", "note"]
CONTEXTS = ["latent", "rank", "activation", "contribution", "item", "text"]
STABILITY = ["of", "latents", "seeds", "again", "mean_cosine", "note"]


# ---- Which reward ----


def collapse(found: Sparse, of_all: np.ndarray | None = None, *, seed: int = 0) -> pd.DataFrame:
    """What the reward is with its flag on and off, on the same states.

    Parameters
    ----------
    found
        Responses read by the reward.
    of_all
        Weights of a head on all pre-activations beside a reward of the k largest, (latents,);
        the reward's own by default.

    Returns
    -------
    pandas.DataFrame
        A row for this reward, and one for it with its flag the other way round: ``reading``,
        ``flag``; ``gap``, the largest distance of a score from that of the linear head
        v·x + c, with v = W_encᵀ w, in standard deviations of the score; ``other_gap``, by how
        much the scores move at most under other weights that lie in the same place for a linear
        head (``lib.models.sae.Reward.same_scores``), and ``shared``, the share of the largest
        weights (20, or an eighth) that both have; ``participation``, the median over responses of
        (Σ|part|)²/Σ part², and ``l0``, latents that are not 0; ``note``.
    """
    if found.note:
        return _nothing(COLLAPSE, found.note)
    own = found.reward
    other = Reward(own.sae, own.weight if of_all is None or not own.topk else of_all, not own.topk)
    told = [_collapsed(found, each, seed) for each in (own, other)]
    return pd.DataFrame(
        [
            {"reading": reading} | row
            for reading, row in zip(("this reward", "with its flag turned"), told, strict=True)
        ]
    ).reindex(columns=COLLAPSE)


def _collapsed(found: Sparse, reward: Reward, seed: int) -> dict[str, Any]:
    value = found.z if reward.topk else found.pre
    score = value @ reward.weight.astype(float)
    spread = score.std()
    row = {"flag": "on" if reward.topk else "off", "l0": float((value != 0).sum(axis=1).mean())}
    if not spread > 0:
        return row | {"note": "the score is the same for all responses"}
    direction, constant = reward.collapsed()
    wanted = np.random.default_rng(seed).permutation(reward.weight)
    weight = reward.same_scores(wanted)
    many = min(TOP, max(1, len(weight) // 8))
    top = [set(np.argsort(-np.abs(w))[:many].tolist()) for w in (weight, reward.weight)]
    part = np.abs(value * reward.weight)
    squares = (part**2).sum(axis=1)
    return row | {
        "gap": np.abs(score - found.x @ direction - constant).max() / spread,
        "other_gap": np.abs(value @ weight - score).max() / spread,
        "shared": len(top[0] & top[1]) / many,
        "participation": np.median(part.sum(axis=1) ** 2 / np.where(squares > 0, squares, 1)),
        "note": "",
    }


# ---- The autoencoder ----


def quality(card: Mapping[str, Any], note: str = "") -> pd.DataFrame:
    """What a card says of its autoencoders on texts that none of them learnt from.

    Returns
    -------
    pandas.DataFrame
        A row a seed, with whether it is the one ``chosen``: ``explained`` variance of all
        tokens and of last ones (``explained_last``) with intervals, ``l0``, shares of latents
        that were ``never_fired`` and of kept ones that are ``negative``, ``correlation`` of a
        dense head's scores of the rebuilt state with its scores of the state, and its accuracy
        less (``less_dense``) with a paired interval.
    """
    rows = []
    for each in _autoencoders(card):
        kept = _part(each, "quality")
        rebuilt = _part(each, "dense_on_rebuilt")
        row = {"seed": _number(each, "seed"), "note": ""}
        row["chosen"] = "chosen" not in card or row["seed"] == _number(card, "chosen")
        row |= _interval(kept, "explained", "explained", "low", "high")
        row |= _interval(kept, "explained_last", "explained_last", "last_low", "last_high")
        row |= {name: _number(kept, name) for name in ("l0", "never_fired", "negative")}
        row["correlation"] = _number(rebuilt, "correlation")
        row |= _interval(rebuilt, "less_dense", "less_dense", "less_low", "less_high")
        rows.append(row)
    told = note or "no card says how good the autoencoder is on held-out texts"
    return pd.DataFrame(rows, columns=QUALITY) if rows else _nothing(QUALITY, told)


def here(found: Sparse, *, draws: int = DRAWS, seed: int = 0) -> pd.DataFrame:
    """How much the autoencoder keeps of the states of the responses at hand: last tokens all.

    Returns
    -------
    pandas.DataFrame
        One row: ``responses``, ``explained`` (1 − Σ|x − x̂|²/Σ|x − x̄|²) with a percentile
        interval over items, ``l0``, ``negative``; ``correlation`` of the scores of x̂ with those
        of x, and the share of comparisons whose better side ``changed``.
    """
    if found.note:
        return _nothing(HERE, found.note)
    sae = found.reward.sae
    rebuilt = sae.decode(sae.top(found.pre))
    error = ((found.x - rebuilt).astype(float) ** 2).sum(axis=1)
    spread = ((found.x - found.x.mean(axis=0)).astype(float) ** 2).sum(axis=1)
    item = np.unique(found.item, return_inverse=True)[1]
    error, spread = (np.bincount(item, each) for each in (error, spread))
    weight = np.random.default_rng(seed).multinomial(
        len(error), np.full(len(error), 1 / len(error)), size=draws
    )
    row = {"responses": len(found.x), "note": ""}
    if spread.sum() > 0:
        drawn = 1 - (weight @ error) / np.where((total := weight @ spread) > 0, total, np.nan)
        low, high = np.nanquantile(drawn, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        row |= {"explained": 1 - error.sum() / spread.sum(), "low": low, "high": high}
    else:
        row["note"] = "all states are the same"
    again = found.reward.read(rebuilt).astype(float)
    own = found.parts.sum(axis=1)
    margins = [each[found.better] - each[found.worse] for each in (own, again)]
    row |= {
        "l0": (found.value != 0).sum(axis=1).mean(),
        "negative": (found.z < 0).sum() / max(1, (found.z != 0).sum()),
        "correlation": _correlation(own, again),
        "changed": (np.sign(margins[0]) != np.sign(margins[1])).mean(),
    }
    return pd.DataFrame([row]).reindex(columns=HERE)


def accuracy(card: Mapping[str, Any], note: str = "") -> pd.DataFrame:
    """Held-out accuracy of heads on each reading, as a card says.

    Returns
    -------
    pandas.DataFrame
        A row for each of ``READINGS`` of the chosen autoencoder: ``accuracy`` with its interval,
        ``rows`` (comparisons), ``loss`` on the choosing prompts, and ``less_dense``, the accuracy
        less that of the dense head of the same layer on the same comparisons, with a paired
        interval.
    """
    chosen = [
        each
        for each in _autoencoders(card)
        if "chosen" not in card or _number(each, "seed") == _number(card, "chosen")
    ]
    rows = []
    for each in chosen[:1]:
        heads = dict(_part(each, "heads"))
        paired = dict(_part(each, "less_dense"))
        for name in ("tuned", "last"):
            heads[name] = _part(card, name)
            paired[name] = _part(_part(card, name), "less_dense")
        for name, text in READINGS.items():
            head = _part(heads, name)
            if not _part(head, "held_out"):
                continue
            row = {"reading": text, "seed": _number(each, "seed"), "note": ""}
            row |= _interval(head, "held_out", "accuracy", "low", "high")
            row["rows"] = _number(_part(head, "held_out"), "rows")
            row["loss"] = _number(head, "loss_choose")
            row |= _interval(paired, name, "less_dense", "less_low", "less_high")
            rows.append(row)
    told = note or "no card says how heads on other readings do"
    return pd.DataFrame(rows, columns=ACCURACY) if rows else _nothing(ACCURACY, told)


def _autoencoders(card: Mapping[str, Any]) -> list[Mapping]:
    listed = card.get("autoencoders")
    listed = listed if isinstance(listed, list) else [card] if _part(card, "quality") else []
    return [each for each in listed if isinstance(each, Mapping)]


def _part(card: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = card.get(name)
    return found if isinstance(found, Mapping) else {}


def _number(card: Mapping[str, Any], name: str) -> float:
    found = card.get(name)
    sound = isinstance(found, int | float) and not isinstance(found, bool) and math.isfinite(found)
    return float(found) if sound else math.nan


def _interval(card: Mapping[str, Any], name: str, *columns: str) -> dict[str, float]:
    part = _part(card, name)
    keys = ("value", "low", "high")
    return {column: _number(part, key) for column, key in zip(columns, keys, strict=True)}


# ---- Attribution ----


def attribution(found: Sparse, dense: np.ndarray | None = None) -> pd.DataFrame:
    """Do the parts of latents sum to the reward that they are parts of?

    Parameters
    ----------
    found
        Responses read by the reward.
    dense
        v, a dense head on the same state, (features,): what the published attribution is of. The
        linear head that the reward is with its flag off, where that is what it is.

    Returns
    -------
    pandas.DataFrame
        ``form``; ``sums_to``; ``gap``, the largest distance of a sum from what it should be, in
        standard deviations of that, after the mean distance is taken off (a constant changes no
        comparison); ``correlation`` of margins; the share of comparisons whose side ``changed``;
        ``alike``, Spearman's correlation over latents of mean contributions with those of
        Σ w_i z_i; ``note``.

    Notes
    -----
    As published (reward-lens 2.0.1, ``TopKSAE.decompose_reward``): relu(z_i)·(v·d_i), with d_i
    the latent's column of W_dec. It leaves out v·(x − x̂), which is what the autoencoder doesn't
    keep, and the constant v·b_pre.
    """
    if found.note:
        return _nothing(ATTRIBUTION, found.note)
    own = found.parts.sum(axis=1)
    constant = _agreement(found, own, found.score, centred=False)
    rows = [{"form": "Σ w z", "sums_to": "the reward", "alike": 1.0, "note": ""} | constant]
    if dense is None and not found.reward.topk:
        dense = found.reward.collapsed()[0]
    published = {"form": "Σ relu(z) (v·d), as published", "sums_to": "a dense head's score"}
    if dense is None:
        note = "no dense head on the same state is at hand"
        return pd.DataFrame([*rows, published | {"note": note}]).reindex(columns=ATTRIBUTION)
    each = np.maximum(found.z, 0) * (dense.astype(float) @ found.reward.sae.decoder)
    mine = np.zeros(each.shape[1])
    mine[found.used] = found.parts.mean(axis=0)
    seen = (found.z != 0).any(axis=0)
    rows.append(
        published
        | _agreement(found, each.sum(axis=1), found.x.astype(float) @ dense, centred=True)
        | {"alike": _ranks(mine[seen], each.mean(axis=0)[seen]), "note": ""}
    )
    return pd.DataFrame(rows).reindex(columns=ATTRIBUTION)


def _agreement(found: Sparse, total: np.ndarray, right: np.ndarray, centred: bool) -> dict:
    off = total - right
    spread = right.std()
    margins = [each[found.better] - each[found.worse] for each in (total, right)]
    return {
        "gap": np.abs(off - off.mean() * centred).max() / spread if spread > 0 else math.nan,
        "correlation": _correlation(*margins),
        "changed": (np.sign(margins[0]) != np.sign(margins[1])).mean(),
    }


def _correlation(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one, other)[0, 1]) if one.std() and other.std() else math.nan


def _ranks(one: np.ndarray, other: np.ndarray) -> float:
    varied = len(one) > 2 and one.std() and other.std()
    return float(stats.spearmanr(one, other).statistic) if varied else math.nan


# ---- Features ----


def features(
    found: Sparse, *, alpha: float = 0.05, flips: int = FLIPS, draws: int = DRAWS, seed: int = 0
) -> pd.DataFrame:
    """Each latent's part in the reward, and whether it goes toward the better response.

    Parameters
    ----------
    found
        Responses read by the reward.
    alpha
        Family-wise level, over all latents.
    flips, draws, seed
        Of the permutation null, and of the interval of ``selection``.

    Returns
    -------
    pandas.DataFrame
        A row for each latent that something was read of, the largest mean |w_i z_i| first:
        ``weight`` w_i; ``rate``, the share of responses whose k largest it is among;
        ``activation``, its mean there; ``contribution``, the mean of w_i z_i over all responses;
        ``difference``, the mean over prompts of its part in the margin, with a t interval,
        uncorrected, and ``same``, the share of prompts with that sign; ``p_adjusted``, over all
        latents (``lib.stats.maxima.flips``) and ``verdict``; ``selection``, the published score
        s_i = (c_i − j_i)/(c_i + j_i + mean(c + j)) with c and j the mean of z_i over better and
        over worse responses, a percentile interval over prompts, and ``p_selection``, its own
        test over all latents; ``prompts`` for which the two responses differ in it.
    """
    if found.note or not len(found.used):
        return pd.DataFrame(columns=FEATURES)
    used = found.used
    z, kept = found.value[:, used], found.z[:, used] != 0
    weight = found.reward.weight[used].astype(float)
    difference, told = sides(found, flips=flips, seed=seed)
    mean = difference.mean(axis=0)
    _, low, high = ratios.mean(difference, LEVEL)
    c, j = (found.by_prompt(z[rows].astype(float)) for rows in (found.better, found.worse))
    base = _denominator(c, j)
    chosen = maxima.flips((c - j) / len(c), scale=base, draws=flips, seed=seed)
    s_low, s_high = _resampled(c, j, draws, seed)
    shown = told.p_adjusted < alpha
    table = pd.DataFrame(
        {
            "latent": used,
            "weight": weight,
            "rate": kept.mean(axis=0),
            "activation": (z * kept).sum(axis=0) / np.maximum(kept.sum(axis=0), 1),
            "contribution": found.parts.mean(axis=0),
            "difference": mean,
            "low": low,
            "high": high,
            "same": (1 + np.sign(difference) * np.sign(mean)).mean(axis=0) / 2,
            "p_adjusted": told.p_adjusted,
            "verdict": np.select([shown & (mean > 0), shown], [BETTER, WORSE], NOT_SHOWN),
            "selection": (c - j).mean(axis=0) / base,
            "selection_low": s_low,
            "selection_high": s_high,
            "p_selection": chosen.p_adjusted,
            "prompts": (difference != 0).sum(axis=0),
        }
    )
    order = np.lexsort((used, -np.abs(found.parts).mean(axis=0)))
    return table.iloc[order].reset_index(drop=True)[FEATURES]


def sides(found: Sparse, *, flips: int = FLIPS, seed: int = 0) -> tuple[np.ndarray, maxima.Maxima]:
    """Each prompt's mean difference in w_i z_i, (prompts, used), and its test over all latents."""
    difference = found.by_prompt(found.gaps)
    return difference, maxima.flips(difference, draws=flips, seed=seed)


def _denominator(c: np.ndarray, j: np.ndarray) -> np.ndarray:
    total = (c + j).mean(axis=0)
    return total + total.mean()


def _resampled(c: np.ndarray, j: np.ndarray, draws: int, seed: int):
    """Percentile interval of the selection score over prompts."""
    generator = np.random.default_rng(seed)
    both = np.concatenate([c - j, c + j], axis=1).astype(np.float32)
    found = []
    for at in range(0, draws, maxima.CHUNK):
        count = min(maxima.CHUNK, draws - at)
        weight = generator.multinomial(len(c), np.full(len(c), 1 / len(c)), size=count)
        net, total = np.split(weight.astype(np.float32) @ both / len(c), 2, axis=1)
        base = total + total.mean(axis=1, keepdims=True)
        found.append(net / np.where(base != 0, base, np.nan))
    with np.errstate(all="ignore"):
        return np.quantile(np.concatenate(found), ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0)


def notable(table: pd.DataFrame, many: int = MANY) -> list[int]:
    """The latents that names and contexts are looked for: what was shown first, then the largest.

    ``table`` is as ``features`` returns it.
    """
    shown = table["verdict"] != NOT_SHOWN
    return [*table.loc[shown, "latent"], *table.loc[~shown, "latent"]][:many]


def names(found: Sparse, wanted: list[int], *, alpha: float = 0.05) -> pd.DataFrame:
    """Which criterion a feature responds to, and whether to that one alone.

    Half of the prompts choose the criterion; the other half judge the choice. The effect of a
    feature on a criterion is the mean over prompts of z of the better response less that of the
    worse, over the standard deviation of this over all prompts of the half that judges.

    Parameters
    ----------
    found
        Responses read by the reward.
    wanted
        Latents.
    alpha
        Family-wise level over the features, one test each; and that of each comparison with the
        other criteria, all of which must be passed, so that they need no correction.

    Returns
    -------
    pandas.DataFrame
        ``latent``, ``criterion`` (the choice), ``effect`` with an uncorrected t interval, ``p``
        (exact sign flips over prompts) and ``p_adjusted`` (Holm); the criterion that is ``next``
        and its ``next_effect``; ``specific``, the largest p of one-sided Welch tests that the
        effect is larger than that on each other criterion in size; ``prompts``, ``verdict``:
        ``responds to it alone`` where both hold, ``responds, and not to it alone``,
        ``not shown``, ``undefined``.
    """
    if found.note or not wanted:
        return pd.DataFrame(columns=NAMES)
    criteria = np.unique(found.criterion)
    first = found.prompt % 2 == 0
    columns = found.value[:, wanted].astype(float)
    gap = columns[found.better] - columns[found.worse]
    halves = [
        [found.by_prompt(gap, np.flatnonzero(half & (found.criterion == c))) for c in criteria]
        for half in (first, ~first)
    ]
    rows = [
        _named([[v[:, k] for v in half] for half in halves], criteria) for k in range(len(wanted))
    ]
    table = pd.DataFrame(rows).assign(latent=wanted).reindex(columns=NAMES)
    table["p_adjusted"] = permutation.holm(table["p"].to_numpy(float))
    found_ = table["p_adjusted"] < alpha
    table["verdict"] = np.select(
        [table["p"].isna(), found_ & (table["specific"] < alpha), found_],
        [UNDEFINED, OWN, SHARED],
        NOT_SHOWN,
    )
    return table


LEAST = 4  # prompts of a criterion in a half


def _named(halves: list[list[np.ndarray]], criteria: np.ndarray) -> dict[str, Any]:
    choosing, judging = halves
    enough = [min(len(a), len(b)) >= LEAST for a, b in zip(choosing, judging, strict=True)]
    if sum(enough) < 2:
        return {"note": "fewer than two criteria have prompts enough in both halves"}
    sizes = [_size(v) if ok else -1.0 for v, ok in zip(choosing, enough, strict=True)]
    own = int(np.argmax(sizes))
    if sizes[own] <= 0:
        return {"note": "it differs in no comparison that would choose a criterion"}
    values = judging[own] * np.sign(choosing[own].mean())
    spread = np.concatenate([v for v, ok in zip(judging, enough, strict=True) if ok]).std()
    if not spread > 0:
        return {"note": "it differs in no comparison that would judge a criterion"}
    others = {
        name: v
        for k, (name, v) in enumerate(zip(criteria, judging, strict=True))
        if enough[k] and k != own
    }
    rival = max(others, key=lambda name: abs(others[name].mean()))
    _, low, high = ratios.mean(values, LEVEL)
    return {
        "criterion": criteria[own],
        "effect": values.mean() / spread,
        "low": low / spread,
        "high": high / spread,
        "p": float(signed.flipped(values[:, None])[0]) if values.mean() > 0 else 1.0,
        "next": rival,
        "next_effect": abs(others[rival].mean()) / spread,
        "specific": max(_larger(values, v) for v in others.values()),
        "prompts": len(values),
        "note": "",
    }


def _size(values: np.ndarray) -> float:
    spread = np.sqrt((values**2).sum())
    return abs(values.sum()) / spread if spread > 0 else 0.0


def _larger(values: np.ndarray, other: np.ndarray) -> float:
    """P of Welch's one-sided tests that a mean is above another's size, whatever its sign."""
    if not (values.std() or other.std()):
        return 0.0 if values.mean() > abs(other.mean()) else 1.0
    return max(
        float(stats.ttest_ind(values, sign * other, equal_var=False, alternative="greater").pvalue)
        for sign in (1, -1)
    )


def contexts(found: Sparse, wanted: list[int], items: Items | str, many: int = 3) -> pd.DataFrame:
    """The responses that move each feature most, with the end of their text where it may be shown.

    Parameters
    ----------
    items
        With the text; in their place a sentence where there is none to show.

    Returns
    -------
    pandas.DataFrame
        ``latent``, ``rank``, ``activation`` (z_i at the response's last token),
        ``contribution`` (w_i z_i), ``item`` and ``text``; responses of 0 are left out.
    """
    if found.note:
        return pd.DataFrame(columns=CONTEXTS)
    texts = None if isinstance(items, str) else items.responses["text"]
    rows = []
    for latent in wanted:
        value = found.value[:, latent]
        for rank, at in enumerate(np.argsort(-np.abs(value), kind="stable")[:many], 1):
            if value[at] == 0:
                break
            label = found.response[at]
            text = "" if texts is None or label not in texts.index else str(texts.loc[label])
            rows.append(
                {
                    "latent": latent,
                    "rank": rank,
                    "activation": value[at],
                    "contribution": value[at] * found.reward.weight[latent],
                    "item": found.item[at],
                    "text": text if len(text) <= LONGEST else f"… {text[-LONGEST:]}",
                }
            )
    return pd.DataFrame(rows, columns=CONTEXTS)


def stability(table: pd.DataFrame | None, parts: pd.DataFrame, note: str = "") -> pd.DataFrame:
    """Are the features there again in autoencoders of other seeds?

    Parameters
    ----------
    table
        A row a latent with ``cosine_n`` and ``mutual_n`` for each other autoencoder n.
    parts
        As ``features`` returns it.

    Returns
    -------
    pandas.DataFrame
        For all latents, those read here, those weighted by mean |w_i z_i| over the responses,
        and those whose verdict was shown: how many ``latents`` and other ``seeds``, the share
        that is found ``again`` in all of them (each the other's nearest, cosine at least .9),
        and the ``mean_cosine``.
    """
    if table is None:
        return _nothing(STABILITY, note or "no table of other seeds lies beside the weights")
    cosine = table.filter(regex="^cosine_").to_numpy(float)
    mutual = table.filter(regex="^mutual_").to_numpy(bool)
    again = ((cosine >= SAME) & mutual).all(axis=1)
    near = cosine.mean(axis=1)
    read = parts["latent"].to_numpy(int)
    shown = parts.loc[parts["verdict"] != NOT_SHOWN, "latent"].to_numpy(int)
    weight = np.zeros(len(table))
    weight[read] = parts["contribution"].abs()
    kinds = {
        "all latents": np.ones(len(table)),
        "those read here": np.isin(np.arange(len(table)), read).astype(float),
        "the sizes of their mean parts": weight,
        "those shown to go toward a side": np.isin(np.arange(len(table)), shown).astype(float),
    }
    rows = []
    for of, w in kinds.items():
        row = {"of": of, "latents": int((w > 0).sum()), "seeds": cosine.shape[1], "note": ""}
        if w.sum() > 0 and cosine.shape[1]:
            row |= {"again": (again * w).sum() / w.sum(), "mean_cosine": (near * w).sum() / w.sum()}
        else:
            row["note"] = "there are none"
        rows.append(row)
    return pd.DataFrame(rows).reindex(columns=STABILITY)


def _nothing(columns: list[str], note: str) -> pd.DataFrame:
    return pd.DataFrame([{"note": note}]).reindex(columns=columns)


def rates(found: Sparse) -> float:
    """Share of the latents that are among the k largest of no response here."""
    return float((latents.rates(found) == 0).mean()) if not found.note else math.nan
