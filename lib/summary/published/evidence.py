"""What rows of ``claims.yaml`` are filled with: numbers and names, and no text of a claim.

Each function has the facts of one row, or of a few, and is named there; true or false ones are
what verdicts hang on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy import stats as scipy_stats

from lib.analyses.validity import official
from lib.stats import winrates
from lib.summary.published import silenced, stars, stats, words
from lib.summary.published.tables import Facts, Tables

LEVEL = 0.05  # where a test usually rejects
LINE = 0.99  # an |r| beyond this is that of points on a line
STARRED = ("safety", "harmlessness")  # the starred heads of the lowest rates
HALF = 50  # percent
LEFT = 0.1  # of the size of margins, beyond which an exchange isn't whole


# ---- ArmoRM and SARM ----


def armorm_heads(tables: Tables) -> Facts:
    """How many names, and do they agree in number with the rest?"""
    armorm = tables.figures["armorm"]
    distinct = len(set(map(tuple, armorm["heads"])))
    rows, _ = armorm["checkpoint"]["regression_layer"]
    return {
        "distinct": distinct,
        "label_sources": len({source for source, _ in armorm["heads"]}),
        "agree": distinct == armorm["config"]["num_objectives"] == rows,
    }


def armorm_score(tables: Tables) -> Facts:
    """RewardBench's mean: four sections, and prior sets at half weight."""
    bench = tables.figures["armorm"]["rewardbench"]
    parts = np.asarray([*bench["sections"], bench["prior_sets"]])
    mean = official.weighted_mean(parts, [1.0] * len(bench["sections"]) + [0.5])
    return {"mean": mean, "agrees": abs(mean - bench["score"]) <= 0.1}


def armorm_checkpoint(tables: Tables) -> Facts:
    """Do shapes follow from the configuration?"""
    armorm = tables.figures["armorm"]
    config, shapes = armorm["config"], armorm["checkpoint"]
    heads, width = shapes["regression_layer"]
    return {
        "fits": shapes["reward_transform_matrix"] == [heads, heads]
        and width == config["hidden_size"]
        and shapes["gating_layers"] == config["gating_n_hidden"] + 1
    }


def armorm_stage2(tables: Tables) -> Facts:
    """What a softmax over equal values gives each."""
    return {"weight": 1 / tables.figures["armorm_stage2"]["softmax_over"]}


def armorm_cosines(tables: Tables) -> Facts:
    """Standard deviation of cosines, from their mean and RMS."""
    cosines = tables.figures["cosines"]
    return {"spread": math.sqrt(cosines["rms"] ** 2 - cosines["mean"] ** 2)}


def sarm_score(tables: Tables) -> Facts:
    """The mean of the subsets."""
    bench = tables.figures["sarm"]["rewardbench2"]
    mean = np.mean(list(bench["subsets"].values()))
    agrees = abs(mean - bench["score"]) <= 0.01
    return {"mean": mean, "many": len(bench["subsets"]), "agrees": agrees}


# ---- The audit: names and rates ----


def wrong_names(tables: Tables) -> Facts:
    """Which heads were called by another name."""
    rows = tables.names["position"][~tables.names["right"]].tolist()
    return {"wrong": len(rows), "rows": rows}


def sample(tables: Tables) -> Facts:
    """How many of the first rows are of the first part."""
    hh = tables.figures["audit"]["hh"]
    harmless = min(hh["n"], hh["harmless_first"])
    return {"harmless": harmless, "mixed": harmless < hh["n"]}


def crossed(tables: Tables) -> Facts:
    """Heads at hand on both parts of hh-rlhf."""
    table = stats.crossed(stats.crossover(tables.runs))
    return {"crossed": table, "crossing": words.crossover(table)}


def hh_chance(tables: Tables) -> Facts:
    """How many heads are above and below chance after correction."""
    verdicts = tables.rates["verdict"][tables.rates["subset"] == "hh-rlhf"]
    given, above = len(verdicts), int(verdicts.isin(["strong", "tracks"]).sum())
    below = int((verdicts == "inverted").sum())
    most = above + len(tables.names) - given
    hh, rule = tables.figures["audit"]["hh"], tables.figures["audit"]["rule"]
    counted = tables.counted(hh["valid"], above, most)
    return {
        **counted,
        "both_contradict": counted["contradicted"] and hh["starred"] > hh["valid"],
        "given": given,
        "above": above,
        "below": below,
        "neither": given - above - below,
        "low_stars": sum(hh["rates"][name] < rule["weak"] for name in STARRED),
    }


def hh_stars(tables: Tables) -> Facts:
    """The p that rates leave open to a star; stars of heads at hand beside tests of their wins."""
    given, alpha = tables.every["rates"]["hh-rlhf"], tables.figures["audit"]["rule"]["alpha"]
    positive = [row["wins_p"] for row in given.values() if row["win_rate"] > 0.5]
    ends = [(given[name], given[name]["star_p"]) for name in STARRED]
    again = stars.again(tables.runs)
    starred = again[again["star_p"] < alpha]
    wins = again["wins_p"] < alpha
    others = int((wins & (again["star_p"] >= alpha)).sum())
    told = {
        "datasets": " and ".join(dict.fromkeys(again["dataset"])),
        "many": len(again),
        "starred": len(starred),
        "both": int((starred["wins_p"] < alpha).sum()),
        "others": f", and {others} that the stars don't" if others else "",
    }
    return {
        "open": [
            {"win_rate": row["win_rate"], "low": words.p_text(low), "high": f"{high:.2f}"}
            for row, (low, high) in ends
        ],
        "positive": len(positive),
        "found": sum(p < alpha for p in positive),
        "again": [told] if len(again) else [],
    }


def rule_family(tables: Tables) -> Facts:
    """How likely one of all heads that know nothing reaches the threshold."""
    audit = tables.figures["audit"]
    n = audit["hh"]["n"]
    reached = scipy_stats.binom.sf(math.ceil(audit["rule"]["share"] * n) - 1, n, 0.5)
    return {"with_threshold": -math.expm1(len(tables.names) * math.log1p(-reached))}


def rule_threshold(tables: Tables) -> Facts:
    """The interval of a rate at the threshold, and how likely heads near it reach it."""
    audit = tables.figures["audit"]
    n, share = audit["hh"]["n"], audit["rule"]["share"]
    least = math.ceil(share * n)
    low, high = scipy_stats.binomtest(round(share * n), n).proportion_ci(method="wilson")
    reached, reached_low = scipy_stats.binom.sf(least - 1, n, [share, low])
    known = {"low": low, "high": high, "reached": reached, "reached_low": reached_low}
    return known | {"exact": low >= share}


def safety_subsets(tables: Tables) -> Facts:
    """Rates of the head called safety by subset of RewardBench."""
    subsets = tables.figures["audit"]["rewardbench"]["safety_by_subset"]
    rates = tables.every["rates"]
    return {"many": len(subsets), "subsets": [rates[name]["safety"] for name in subsets]}


def type_b(tables: Tables) -> Facts:
    """Heads on their own criterion."""
    given = tables.every["rates"]["TYPE B"]
    type_b = tables.figures["audit"]["type_b"]
    return {
        "others": [given[name] for name in ("helpfulness", "coherence", "complexity")],
        "unknown": [name for name, (_, n) in type_b.items() if not n],
    }


def targeted(tables: Tables) -> Facts:
    """The best head on helpfulness beside the helpfulness head, as if on the same pairs."""
    given = tables.rates[tables.rates["subset"] == stats.TARGETED]
    best = given.sort_values("win_rate", ascending=False).iloc[0]
    own = given[given["called"] == "helpfulness"].iloc[0]
    low, high = stats.paired_p(best["wins"], own["wins"], own["n"])
    return {"best": best, "own": own, "low": low, "high": high}


# ---- The audit: correlations, probes, geometry ----


def named_pairs(tables: Tables) -> Facts:
    """Correlated pairs by the names used and by their true ones."""
    pairs = stats.rank_pairs(tables.figures)
    threshold = tables.figures["audit"]["disentanglement"]["threshold"]
    safety = tables.names.loc["readability", "head"]
    return {
        "pairs": len(pairs),
        "above": (pairs["rho"] > threshold).sum(),
        "renamed": pairs["renamed"].sum(),
        "same_source": pairs["same_source"].sum(),
        "safety_head": safety,
        "misnamed": pairs["renamed"][
            (pairs[["called", "other_called"]] == "safety").any(axis=1)
        ].all(),
        "called_safety": (pairs[["called", "other_called"]] == "safety").any(axis=1).sum(),
        "with_safety": (pairs[["head", "other"]] == safety).any(axis=1).sum(),
    }


def levels(tables: Tables) -> Facts:
    """Correlations of heads at hand, pooled and within items."""
    return {"levels": stats.levels(tables.runs)}


def probes(tables: Tables) -> Facts:
    """Is what R² doesn't predict of probes smaller than what was published as a difference?"""
    shares, planted = tables.shares, tables.every["planted"]
    gap = shares["top"]["accuracy"] - shares["bottom"]["accuracy"]
    planted_miss = left = abs(planted["probe"] - planted["probe_predicted"])
    components = tables.figures["audit"]["pca"]["components"]
    options = {"components": components, "seed": tables.seed, "found": tables.probed}
    again = stats.probes_again(tables.runs, **options)
    fits, unpredicted = [], []
    if len(again):
        miss = again["accuracy"] - again["predicted"]
        fits = [
            {
                "many": len(again),
                "of_heads": again["head"].nunique(),
                "of_datasets": again["dataset"].nunique(),
                "median": miss.abs().median(),
                "largest": miss.abs().max(),
                **again.loc[miss.abs().idxmax(), ["head", "dataset"]],
            }
        ]
        if again.groupby("dataset")["head"].nunique().max() > 1:
            unpredicted = [miss.groupby(again["dataset"]).agg(np.ptp).max()]
            left = max(left, *unpredicted)
    return {
        "gap": gap,
        "planted_miss": planted_miss,
        "fits": fits,
        "unpredicted": unpredicted,
        "predicted": left < gap,
    }


def folds(tables: Tables) -> Facts:
    """What published folds and components add to accuracies at hand."""
    components = tables.figures["audit"]["pca"]["components"]
    options = {"components": components, "seed": tables.seed, "found": tables.probed}
    apart = stats.folds_again(tables.runs, **options)
    gained = apart["accuracy"] - apart["held_out"]
    added = {
        "mean": gained.mean(),
        "most": gained.max(),
        "many": len(apart),
        "above_half": tables.shares["bottom"]["accuracy"] - 0.5,
    }
    return {"folds": [added] if len(apart) else []}


def regression(tables: Tables) -> Facts:
    """What the published regression allows, and whether the published figures keep to it."""
    bounds, gap = tables.bounds, tables.figures["audit"]["geometry"]["gap"]
    most, least = bounds["largest RMS correlation"], bounds["smallest RMS cosine"]
    picture = bounds["RMS cosine of the picture"]
    traced = tables.figures["sources"]["armorm-picture"]["address"] != "unknown"
    root, told = math.sqrt(gap), tables.figures["audit"]["geometry"].get("gap_is")
    consistent, pictured = most["high"] >= most["published"], picture["low"] <= gap
    return {
        "most": most,
        "least": least,
        "mean": bounds["mean cosine"],
        "picture": picture,
        "root": root,
        "root_allowed": "meets" if root >= least["low"] else "does not meet",
        "defined": f"By its code the gap is a {told}." if told else "The source doesn't define it.",
        "consistent": consistent,
        # by every reading that the source leaves open
        "contradicted": not consistent and (bool(told) or root < least["low"]),
        "allowed": "allows" if picture["high"] >= least["low"] else "rules out",
        "pictured": traced and pictured,
        "unpictured": traced and not pictured and (bool(told) or root < picture["low"]),
        "traced": ""
        if traced
        else "Its address was not written down: what nobody can look up decides nothing.",
    }


def random_angles(tables: Tables) -> Facts:
    """Is the published angle among those of random subspaces?"""
    angle = tables.figures["audit"]["geometry"]["random_angle"]
    table = stats.random_angles(tables.figures, seed=tables.seed)
    inside = (table["lowest"] <= angle) & (angle <= table["largest"])
    return {"angles": table, "inside": inside.all()}


def pairs_of_heads(tables: Tables) -> Facts:
    """How many pairs there are, and in how many each head is."""
    heads = len(tables.names)
    return {"pairs": math.comb(heads, 2), "others": heads - 1}


# ---- reward-lens ----


def crystallisation(tables: Tables) -> Facts:
    """Depths at hand of the published lens and of one with the final norm: is it the norm?

    It is where on every dataset the published median depth is later, by intervals that don't
    meet.
    """
    table = tables.depths
    by_norm = len(table) > 0 and (table["raw_low"] > table["first_high"]).all()
    return {"again": table.to_dict("records"), "by_norm": bool(by_norm)}


def lens_ends(tables: Tables) -> Facts:
    """How often the published lens picks another response at its end than the reward."""
    return {"ends": tables.depths.to_dict("records")}


def attribution(tables: Tables) -> Facts:
    """Agreement at hand as published and with both faults mended: is it the alignment?

    It is where on every dataset the published agreement is lower than the mended, by intervals
    that don't meet, and mending the alignment adds to it.
    """
    table = tables.patches
    lower = (table["plain_high"] < table["mended_low"]) & (table["alignment_low"] > 0)
    by_alignment = len(table) > 0 and lower.all()
    return {"again": table.to_dict("records"), "by_alignment": bool(by_alignment)}


def alignment(tables: Tables) -> Facts:
    """What exchanging everything leaves of margins, aligned from the left: nothing if whole."""
    table = tables.patches
    left = table[["better_left", "worse_left"]].min(axis=1)
    return {
        "left": table.to_dict("records"),
        "misses": len(table) > 0 and bool((left > LEFT).all()),
    }


def cascade(tables: Tables) -> Facts:
    """Do so few points always lie on a line?"""
    return {"on_a_line": tables.every["planted"]["cascade"] > LINE}


def cascade_risk(tables: Tables) -> Facts:
    """The least risk of correlations that are all 1 or −1, and how often some failure adds to it.

    Where each dimension's mean difference is below 0 as often as above, independently, none of
    k is with probability 2⁻ᵏ.
    """
    given = tables.figures["reward_lens"]["cascade_risk"]
    floor, share = sum(given["weights"][1:]), 1 - 0.5 ** given["dimensions"]
    full = cascade(tables)["on_a_line"] and floor >= given["high"]
    return {"floor": floor, "share": share, "built_in": full and share > LEVEL}


def distortion(tables: Tables) -> Facts:
    """Is some dimension often at high risk where there is nothing to find?"""
    probes = tables.figures["reward_lens"]["distortion"]["probes"].values()
    return {
        "dimensions": len(probes),
        "fewest": min(probes),
        "most": max(probes),
        "often": tables.every["planted"]["distortion"] > LEVEL,
    }


def conflicts(tables: Tables) -> Facts:
    """How often are directions of nothing called aligned or in conflict?"""
    called = stats.conflicts(tables.figures, tables.runs, seed=tables.seed)
    return {"called": called, "often": len(called) > 0 and (called["share"] > LEVEL).all()}


def concept_signs(tables: Tables) -> Facts:
    """Is the response that stands for more words the one of fewer?"""
    pairs = tables.figures["reward_lens"]["concept_lengths"]["verbosity"]
    shorter = sum(more < less for more, less in pairs)
    return {
        "many": len(pairs),
        "shorter": shorter,
        "characters": [{"more": more, "less": less} for more, less in pairs],
        "turned": shorter == len(pairs),
    }


def separability(tables: Tables) -> Facts:
    """Is it the same for a concept that is there and for one that isn't?"""
    values = list(tables.every["planted"]["separability"].values())
    return {"constant": math.isclose(min(values), max(values), rel_tol=1e-9)}


def concept_risk(tables: Tables) -> Facts:
    """The |cos| from which a listed concept's risk is high, and the most that another's can be."""
    given = tables.figures["reward_lens"]["concept_risk"]
    listed, most = given["listed"], given["other"]["slope"]
    reach = (given["high"] - listed["least"]) / listed["slope"]
    return {"reach": reach, "most": most, "by_name": most <= given["high"] and reach < 1}


def no_effect(tables: Tables) -> Facts:
    """How often a probe that has nothing to find is called significant, by number of pairs.

    The published d of n differences is Student's t over √(n − 1); one difference has no spread.
    """
    lens = tables.figures["reward_lens"]
    fewest, most = min(lens["probe_pairs"]), max(lens["probe_pairs"])
    called = [
        {
            "pairs": n,
            "share": 1.0
            if n == 1
            else 2 * scipy_stats.t.sf(lens["large_effect"] * math.sqrt(n - 1), n - 1),
        }
        for n in range(fewest, most + 1)
    ]
    return {
        "least": fewest,
        "most": most,
        "smallest": words.p_text(2 * 0.5**most),
        "called": called,
        "often": called[-1]["share"] > LEVEL,
    }


def divergence(tables: Tables) -> Facts:
    """Share of normal data beyond the published distance, by dimension."""
    given = tables.figures["reward_lens"]["divergence"]
    return {
        "flagged": [
            {"share": scipy_stats.chi2.sf(given["threshold"] ** 2, d), "dimensions": d}
            for d in given["dimensions"]
        ]
    }


# ---- Alignment tension ----


def overlap(tables: Tables) -> Facts:
    """Do the published overlaps agree, and what do two random sets share?"""
    tension, both = tables.figures["tension"], tables.every["overlaps"]["helpful and harmless"]
    return {
        "many": len(tension["overlap_by_model"]),
        "agrees": abs(both["recomputed"] - both["published"]) <= 0.0001,
        "by_chance": tension["top_share"] / (2 - tension["top_share"]),
    }


def overlap_with_all(tables: Tables) -> Facts:
    """The overlap of all neurons with a top set, where scores below 0 count as 0."""
    large = tables.figures["tension"]["gpt2_large"]
    taken, share = stats.clamped_overlap(tables.figures, tables.seed)
    return {
        "taken": taken,
        "with_all": share,
        "product": large["layers"] * large["neurons_a_layer"],
    }


def retention(tables: Tables) -> Facts:
    """What ablating shared neurons takes from retention."""
    kept = tables.figures["tension"]["retention"]
    return {
        "drops": [
            {
                "side": side,
                "change": kept[f"{side}_ablated"] - kept[side],
                "relative": kept[f"{side}_ablated"] / kept[side] - 1,
            }
            for side in ("harmless", "helpful")
        ]
    }


def ablation(tables: Tables) -> Facts:
    """What ablations change, and which models are below one half on a side before any."""
    tension = tables.figures["tension"]
    shared, mixed = tension["shared_ablation"], tension["ablation"]["mixed"]
    return {
        "half": HALF,
        "low": [name for name, row in tension["ablation"].items() if min(row[0], row[2]) < HALF],
        "shared": shared[1] / shared[3],
        "mixed": mixed[1] / mixed[3],
    }


def rmsd(tables: Tables) -> Facts:
    """In how many models the harmless one's RMSD is larger, with a sign test."""
    helpful, harmless, mixed = np.asarray(list(tables.figures["tension"]["rmsd"].values())).T
    larger, many = int((harmless > helpful).sum()), len(helpful)
    return {
        "larger": larger,
        "many": many,
        "p": scipy_stats.binomtest(larger, many).pvalue,
        "between": int(((mixed > helpful) & (mixed < harmless)).sum()),
        "all_larger": larger == many,
    }


def trade_off(tables: Tables) -> Facts:
    """Is the mixed model between the others, which stand in opposite orders on the two sides?"""
    tension = tables.figures["tension"]
    sums = pd.DataFrame(
        {
            name: {
                backbone: row[name]["safety-refuse"] + row[name]["safety-response"]
                for backbone, row in tension["accuracy"].items()
            }
            for name in ("harmless", "helpful", "mixed")
        }
    )
    ordered = [_ordered(**models) for models in tension["accuracy"].values()]
    return {
        "sums": [
            {"model": name, "least": column.min(), "most": column.max()}
            for name, column in sums.items()
        ],
        "one_side": 2 * HALF,
        "half": HALF,
        "seeds": tension["seeds"],
        "many": len(ordered),
        "in_order": sum(ordered),
        "ordered": all(ordered),
    }


def _ordered(helpful: Mapping, mixed: Mapping, harmless: Mapping) -> bool:
    refuse, answer = (
        [row[name] for row in (helpful, mixed, harmless)]
        for name in ("safety-refuse", "safety-response")
    )
    return (
        refuse[0] < refuse[1] < refuse[2]
        and answer[2] < answer[1] < answer[0]
        and max(refuse[0], answer[2]) < HALF
    )


def looks(tables: Tables) -> Facts:
    """Is the helpful model of each backbone below one half where looks mislead?"""
    table = stats.looks(tables.figures)
    whole = table["subset"] == winrates.ALL
    one = table[~whole]
    helpful, judged = (table[of & (table["model"] == "helpful")] for of in (~whole, whole))
    low = helpful["rate"] < HALF
    shown = low & (helpful["p_adjusted"] < LEVEL)
    return {
        "ranges": [
            {"model": name, "least": rows["rate"].min(), "most": rows["rate"].max()}
            for name, rows in one.groupby("model", sort=False)
        ],
        "tests": judged.assign(p=judged["p_adjusted"].map(words.p_text)),
        "seeds": tables.figures["tension"]["seeds"],
        "many": helpful["subset"].nunique(),
        "backbones": len(judged),
        "cells": len(helpful),
        "below": int(low.sum()),
        "shown": int(shown.sum()),
        "any_above": not low.all(),
        "all_below": ((judged["rate"] < HALF) & (judged["p_adjusted"] < LEVEL)).all(),
    }


def silenced_here(tables: Tables) -> Facts:
    """Each model's top set, the base's and random neurons silenced, on the model's own pairs."""
    table = silenced.own_pairs(tables.study)
    return {"again": table.to_dict("records"), "by_base": silenced.by_base(table)}


def shared_here(tables: Tables) -> Facts:
    """Shared neurons, the base's and random ones silenced in the mixed model, on both sides."""
    table = silenced.shared(tables.study)
    lower = len(table) > 0 and (table["verdict"] == silenced.LOWER).all()
    by_base = silenced.by_base(table)
    return {
        "again": table.to_dict("records"),
        "by_base": by_base,
        "beyond": bool(lower and not by_base),
    }


def overlap_here(tables: Tables) -> Facts:
    """Do helpful and harmless models share no more neurons than either shares with the base?"""
    rows = silenced.overlaps(tables.study)
    return {"again": rows, "by_base": any(row["base_least"] > row["both"] for row in rows)}


def trade_off_here(tables: Tables) -> Facts:
    """Is the mixed model between the others on both sides, each of which fails on one?"""
    table = silenced.trade_off(tables.study)
    known = len(table) > 0
    ordered = bool(known and table["ordered"].all())
    return {"again": table.to_dict("records"), "half": HALF / 100, "ordered": ordered}
