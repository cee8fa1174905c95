"""Every claim of the published audits, a row each: published, recomputed, verdict.

``checks`` is the one way in. Verdicts:

=====================================  ================================================
holds                                  the published figures, computed again, say the same
fails                                  names, code or the figures themselves say otherwise,
                                       or do not reach as far as the claim
artefact of the method                 the number is what the method gives whether or not
                                       the claim is true
can't be told without the weights      needs the model, or what was not published
=====================================  ================================================

``words`` has the claims and the evidence in words, by ``key``. A function
below has the rows of one system, or of one part of the audit, in the order of the page.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib.analyses.validity.official import weighted_mean
from lib.summary.published import stats
from lib.summary.published.evidence import planted_evidence
from lib.summary.published.stats import Figures

HOLDS, FAILS, ARTEFACT = "holds", "fails", "artefact of the method"
UNTOLD = "can't be told without the weights"
VERDICTS = (HOLDS, FAILS, ARTEFACT, UNTOLD)
ARMORM, AUDIT, LENS = "ArmoRM", "reward-basis-audit", "reward-lens"
SARM, TENSION = "SARM", "alignment tension"
COLUMNS = ("key", "system", "part", "points", "published", "recomputed", "verdict")
NO_PARTS = "no runs of both parts of hh-rlhf are at hand"
NO_RUN = "no run that says it is at hand"
SMALL = 1e-12  # p below this are not told apart
LEVEL = 0.05  # where a test usually rejects
LINE = 0.99  # an |r| beyond this is that of points on a line
NOTHING = "nothing to compute: read in text and code"
STRUCTURE = (AUDIT, "correlations, probes, geometry")
BENCHMARKS = (AUDIT, "benchmarks")


def checks(figures: Figures, runs: Sequence[xr.Dataset] = (), *, seed: int = 0) -> pd.DataFrame:
    """Every claim with what was published, what it comes to, and a verdict.

    Parameters
    ----------
    figures
        From ``lib.data.published.figures``.
    runs
        Of any model: what they lack for a claim, its row says.
    seed
        Of the planted worlds and random subspaces.

    Returns
    -------
    pandas.DataFrame
        ``key`` (see ``words``), ``system``, ``part``, ``points`` (of this
        project's list of faults, joined by commas; empty for none), ``published``,
        ``recomputed``, ``verdict``.
    """
    planted_found = planted_evidence(figures, seed=seed)
    rows = [
        *_armorm(figures),
        *_audit_names(figures, runs),
        *_audit_validity(figures, runs, planted_found),
        *_audit_correlations(figures, runs, planted_found),
        *_audit_probes(figures, runs, planted_found, seed),
        *_audit_geometry(figures, planted_found, seed),
        *_audit_reward_bench(figures),
        *_audit_type_a(figures),
        *_audit_type_b(figures),
        *_audit_code(figures, runs),
        *_reward_lens(figures, runs, planted_found),
        *_sarm(figures),
        *_tension_overlaps(figures, seed),
        *_tension_ablations(figures),
        *_tension_models(figures),
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _whether(right: bool) -> str:
    return HOLDS if right else FAILS


def _count(claimed: int, least: int, most: int) -> str:
    """Of a count that the published part of what it counts puts between two others."""
    if not least <= claimed <= most:
        return FAILS
    return HOLDS if least == most else UNTOLD


def p_text(p: float) -> str:
    """As in "0.0042", or "< 1e-12" where it is smaller."""
    return f"{p:.2g}" if p >= SMALL else f"< {SMALL:g}"


def _rate(row) -> str:
    p = p_text(row.p)
    sign = "" if p.startswith("<") else "= "
    return f"{row.win_rate:.3f} [{row.low:.3f}, {row.high:.3f}], p {sign}{p}"


def _armorm(figures: Figures) -> Iterator[tuple]:
    armorm, cosines = figures["armorm"], figures["cosines"]
    system = (ARMORM, "")
    heads, config, shapes = armorm["heads"], armorm["config"], armorm["checkpoint"]
    sources = len({source for source, _ in heads})
    k, width = shapes["regression_layer"]
    yield (
        "armorm-heads",
        *system,
        "1",
        f"{config['num_objectives']} objectives, each with a name",
        f"{len(heads)} distinct names from {sources} label sources; {k} rows in the head matrix",
        _whether(len({tuple(h) for h in heads}) == config["num_objectives"] == k),
    )
    bench = armorm["rewardbench"]
    score = weighted_mean(np.asarray([*bench["sections"], bench["prior_sets"]]), [1.0] * 4 + [0.5])
    yield (
        "armorm-score",
        *system,
        "",
        f"{bench['score']:.1f}",
        f"{score:.2f}",
        _whether(abs(score - bench["score"]) <= 0.1),
    )
    square = shapes["reward_transform_matrix"]
    fits = square == [k, k] and width == config["hidden_size"]
    fits = fits and shapes["gating_layers"] == config["gating_n_hidden"] + 1
    yield (
        "armorm-checkpoint",
        *system,
        "",
        f"head matrix {k} × {width}, debiasing {square[0]} × {square[1]}, "
        f"{shapes['gating_layers']} gate layers",
        f"{config['num_objectives']} × {config['hidden_size']}, square in the heads, "
        f"{config['gating_n_hidden']} hidden layers and one out",
        _whether(fits),
    )
    yield (
        "armorm-stage2",
        *system,
        "8",
        f"a gate over {k} heads",
        "the two sides share the prompt's state, so a softmax over them makes each weight "
        f"{1 / figures['armorm_stage2']['softmax_over']:.2f} whatever the gate says",
        UNTOLD,
    )
    told = ", ".join(f"{name} {value:.5f}" for name, value in armorm["card_example"].items())
    yield ("armorm-example", *system, "", told, "not computed", UNTOLD)
    spread = math.sqrt(cosines["rms"] ** 2 - cosines["mean"] ** 2)
    yield (
        "armorm-cosines",
        *system,
        "4",
        f"RMS {cosines['rms']:.2f}, mean {cosines['mean']:.2f}, largest {cosines['largest']:.2f}",
        f"read to ± {cosines['tolerance']:g}; these leave a spread of {spread:.2f} around the mean",
        UNTOLD,
    )


def _audit_names(figures: Figures, runs) -> Iterator[tuple]:
    audit = figures["audit"]
    system = (AUDIT, "names and data")
    names = stats.head_names(figures)
    true = stats.true_names(figures)
    wrong = names[~names["right"]]
    yield (
        "names",
        *system,
        "1",
        f"{len(names)} heads by name",
        f"{len(wrong)} of {len(names)} differ from the model card: rows "
        f"{', '.join(map(str, wrong['position']))}",
        _whether(wrong.empty),
    )
    for name in ("readability", "safety", "harmlessness"):
        yield (
            f"name-{name}",
            *system,
            "1",
            name,
            f"row {names.set_index('called')['position'][name]} is {true[name]}",
            _whether(bool(names.set_index("called")["right"][name])),
        )
    hh = audit["hh"]
    first = min(hh["n"], hh["harmless_first"])
    yield (
        "sample",
        *system,
        "2",
        f"the first {hh['n']} rows of the default train split, as hh-rlhf",
        f"{first} of {hh['n']} are harmlessness pairs: the split begins with "
        f"{hh['harmless_first']:,} of them",
        _whether(first < hh["n"]),
    )
    table = stats.crossed(stats.crossover(runs))
    told = "; ".join(
        f"{row.head} wins {row.own:.3f} on {row.part} and {row.other:.3f} "
        f"[{row.low:.3f}, {row.high:.3f}] on the other part"
        for row in table.itertuples()
    )
    yield (
        "valid-heads-cross",
        *system,
        "2",
        f"helpfulness {hh['rates']['helpfulness']:.3f}, the head called readability "
        f"{hh['rates']['readability']:.3f}",
        told or f"not computed: {NO_PARTS}",
        UNTOLD,
    )
    yield ("stratified", *system, "2", "results by subset of hh-rlhf", NOTHING, UNTOLD)


def _audit_validity(figures: Figures, runs, found: Mapping[str, float]) -> Iterator[tuple]:
    audit = figures["audit"]
    system = (AUDIT, "validity")
    heads, rule, hh = len(audit["names"]), audit["rule"], audit["hh"]
    table = stats.rates(figures)
    given = table[table["subset"] == "hh-rlhf"].set_index("called")
    passing, absent = int((given["win_rate"] >= rule["share"]).sum()), heads - len(given)
    yield (
        "hh-valid",
        *system,
        "6",
        f"{hh['valid']} of {heads} heads reaches {rule['share']:.2f}",
        f"{passing} of the {len(given)} rates given does; {absent} were not given",
        _count(hh["valid"], passing, passing + absent),
    )
    above = given["verdict"].isin(["strong", "tracks"])
    below = given["verdict"] == "inverted"
    yield (
        "hh-chance",
        *system,
        "6",
        f"{hh['valid']} of {heads} heads is above chance",
        f"of the {len(given)} given, {above.sum()} above and {below.sum()} below one half after "
        f"correction for {heads} heads; {len(given) - above.sum() - below.sum()} undecided",
        _count(hh["valid"], int(above.sum()), int(above.sum()) + absent),
    )
    marginal = [given.loc[name] for name in ("safety", "harmlessness")]
    yield (
        "hh-stars",
        *system,
        "6",
        f"{hh['starred']} heads are starred, among them "
        + " and ".join(f"{row.win_rate:.3f}" for row in marginal),
        f"{(given['win_rate'] > 0.5).sum()} rates lie above one half; the two have p = "
        + " and ".join(f"{row.p:.2f}" for row in marginal),
        _whether(all(row.p < rule["alpha"] for row in marginal)),
    )
    helpful, best = given.loc["helpfulness"], given.loc["readability"]
    yield (
        "hh-helpfulness",
        *system,
        "6",
        f"{helpful['win_rate']:.3f}, called noise",
        _rate(helpful),
        _whether(helpful["verdict"] == "chance"),
    )
    yield (
        "hh-best",
        *system,
        "1, 6",
        f"{best['win_rate']:.3f}",
        f"{best['head']}: {_rate(best)}",
        _whether(best["verdict"] in ("strong", "tracks")),
    )
    yield (
        "rule-family",
        *system,
        "6",
        f"{heads} one-sided tests at {rule['alpha']:.2f}, not corrected",
        f"heads that know nothing, were they independent, give one false find or more with "
        f"probability {found['family']:.2f}",
        ARTEFACT,
    )
    yield (
        "rule-wilcoxon",
        *system,
        "6",
        "a p below its level makes a head valid",
        f"it rejects in {found['skewed']:.0%} of planted worlds whose heads win one half of "
        f"{hh['n']} skewed gaps",
        ARTEFACT,
    )
    low, high = scipy_stats.binomtest(round(rule["share"] * hh["n"]), hh["n"]).proportion_ci(
        method="wilson"
    )
    yield (
        "rule-threshold",
        *system,
        "6",
        f"valid from {rule['share']:.2f}",
        f"a head that wins {rule['share']:.2f} of {hh['n']} pairs has the interval "
        f"[{low:.3f}, {high:.3f}]; ties count as losses",
        ARTEFACT,
    )
    yield ("rule-positive", *system, "6", "a criterion of the text", NOTHING, FAILS)


def _audit_correlations(figures: Figures, runs, found: Mapping[str, float]) -> Iterator[tuple]:
    audit, system = figures["audit"], STRUCTURE
    pairs, spread = stats.rank_pairs(figures), audit["disentanglement"]
    safe = stats.true_names(figures)["readability"]
    about = int(((pairs["called"] == "safety") | (pairs["other_called"] == "safety")).sum())
    truly = int(((pairs["head"] == safe) | (pairs["other"] == safe)).sum())
    yield (
        "pairs-names",
        *system,
        "1, 5",
        f"{len(pairs)} named pairs, {about} of them with safety",
        f"{pairs['renamed'].sum()} were called by labels that they are not; {truly} hold {safe}; "
        f"{pairs['same_source'].sum()} join two labels of one source",
        _whether(not pairs["renamed"].any()),
    )
    yield (
        "pairs-flagged",
        *system,
        "5",
        f"{spread['flagged']} pairs above {spread['threshold']:.1f}",
        f"{(pairs['rho'] > spread['threshold']).sum()} are given, all above it",
        UNTOLD,
    )
    here = stats.levels(runs)
    told = "; ".join(
        f"on {row.dataset} mean |ρ| {row.rho:.2f} pooled and {row.within:.2f} within items, one "
        f"pair {row.largest:.2f} apart"
        for row in here.itertuples()
    )
    yield (
        "pooled",
        *system,
        "5",
        f"mean |ρ| {spread['mean_abs']:.3f} over all responses",
        f"two planted heads with {found['between']:+.2f} between and {found['within']:+.2f} within "
        f"prompts have {found['pooled']:+.2f} pooled; {told or f'not computed: {NO_RUN}'}",
        UNTOLD,
    )
    yield ("groups", *system, "5", f"{spread['groups']} groups of heads", "not computed", UNTOLD)


def _audit_probes(figures: Figures, runs, found: Mapping[str, float], seed: int) -> Iterator[tuple]:
    audit, system = figures["audit"], STRUCTURE
    shares, pca = stats.probe_shares(figures), audit["pca"]
    top, bottom = shares.loc[shares["share"].idxmax()], shares.loc[shares["share"].idxmin()]
    gap = top["accuracy"] - bottom["accuracy"]
    again = stats.probes_again(runs, components=pca["components"], seed=seed)
    left = abs(found["probe"] - found["probe_predicted"])
    told = f"those published differ by {gap:.3f}, and a planted one lies {left:.3f} from what R² "
    told += "predicts; "
    if len(again):
        miss = again["accuracy"] - again["predicted"]
        worst = again.loc[miss.abs().idxmax()]
        told += (
            f"in {len(again)} fits at hand (heads: {again['head'].nunique()}, data sets: "
            f"{again['dataset'].nunique()}) probes lie {miss.abs().median():.3f} (median) and "
            f"{miss.abs().max():.3f} (largest: {worst['head']} on {worst['dataset']}) from it"
        )
        if again.groupby("dataset")["head"].nunique().max() > 1:
            apart = miss.groupby(again["dataset"]).agg(np.ptp).max()
            left = max(left, apart)
            told += f"; of a difference between two heads at most {apart:.3f} isn't predicted"
    else:
        told += f"on real data not computed: {NO_RUN}"
    yield (
        "probes",
        *system,
        "3",
        f"{top['accuracy']:.3f} for {top['called']}, "
        f"{bottom['accuracy']:.3f} for {bottom['called']}",
        f"{top['head']} and {bottom['head']}: R² {top['share']:.2f} and {bottom['share']:.2f} of "
        f"the head inside the components, if its scores are normal; {told}",
        ARTEFACT if left < gap else UNTOLD,
    )
    yield (
        "probes-absent",
        *system,
        "3",
        "accuracy is read as content",
        f"{found['probe']:.3f} in a planted world whose states do not hold it; the kept variance "
        f"predicts {found['probe_predicted']:.3f}",
        ARTEFACT,
    )
    yield (
        "pca",
        *system,
        "3",
        f"{pca['components']} components hold {pca['variance']:.1%} of the states' variance",
        f"of single heads the accuracies imply {shares['share'].min():.0%} to "
        f"{shares['share'].max():.0%}",
        UNTOLD,
    )
    apart = stats.folds_again(runs, components=pca["components"], seed=seed)
    gained = apart["accuracy"] - apart["held_out"]
    yield (
        "folds",
        *system,
        "3",
        "accuracies over folds",
        f"such folds and components add {gained.mean():+.3f} (mean) and {gained.max():+.3f} (most) "
        f"to {len(apart)} accuracies at hand; the lowest published one is "
        f"{bottom['accuracy'] - 0.5:.3f} above one half"
        if len(apart)
        else f"not computed: {NO_RUN}",
        FAILS,
    )


def _audit_geometry(figures: Figures, found: Mapping[str, float], seed: int) -> Iterator[tuple]:
    audit, system = figures["audit"], STRUCTURE
    bounds = stats.geometry_bounds(figures).set_index("quantity")
    geometry = audit["geometry"]
    most, least = bounds.loc["largest RMS correlation"], bounds.loc["smallest RMS cosine"]
    mean = bounds.loc["mean cosine"]
    yield (
        "geometry-gap",
        *system,
        "4",
        f"RMS cosine {geometry['gap']:.3f}",
        f"its regression (slope {geometry['slope']:.3f}, intercept {geometry['intercept']:.3f}, R² "
        f"{geometry['r2']:.2f}) then allows an RMS correlation of {most['value']:.3f} at most "
        f"({most['high']:.3f} with roundings), its mean is {most['published']:.3f}; it needs an "
        f"RMS cosine of {least['value']:.3f} or more, {mean['value']:.3f} if of absolute values",
        _whether(most["high"] >= most["published"]),
    )
    picture = bounds.loc["RMS cosine of the picture"]
    allowed = "allows" if picture["high"] >= least["low"] else "rules out"
    yield (
        "geometry-picture",
        *system,
        "4",
        f"RMS cosine {geometry['gap']:.3f}",
        f"{picture['value']:.2f} [{picture['low']:.3f}, {picture['high']:.3f}] in an independent "
        f"picture, which the regression {allowed} (it needs {least['low']:.3f} or more)",
        _whether(picture["low"] <= geometry["gap"]),
    )
    angle, angles = geometry["random_angle"], stats.random_angles(figures, seed=seed)
    told = "; ".join(
        f"with {row.against} dimensions {row.lowest:.0f}° to {row.largest:.0f}°, "
        f"mean {row.mean:.0f}°"
        for row in angles.itertuples()
    )
    yield (
        "geometry-angles",
        *system,
        "4",
        f"random subspaces are at {angle}°",
        told,
        _whether(bool(((angles["lowest"] <= angle) & (angle <= angles["largest"])).all())),
    )
    heads = len(audit["names"])
    yield (
        "geometry-pairs",
        *system,
        "4",
        f"R² {geometry['r2']:.2f}, without an interval",
        f"{heads * (heads - 1) // 2} pairs of {heads} heads: each head is in {heads - 1} of them",
        UNTOLD,
    )
    yield (
        "geometry-place",
        *system,
        "4",
        "read from cosines",
        f"planted heads have an RMS cosine of {found['gap']:.2f} in one gauge and "
        f"{found['gap_again']:.2f} in another, the same scores to {found['moved']:.0e} of their sd",
        ARTEFACT,
    )


def _rate_of(table: pd.DataFrame, subset: str, name: str) -> pd.Series:
    return table[(table["subset"] == subset) & (table["called"] == name)].iloc[0]


def _passing(figures: Figures, table: pd.DataFrame, subset: str) -> tuple[int, int]:
    """At least and at most how many heads reach the rule's share there."""
    audit = figures["audit"]
    reach = table["win_rate"][table["subset"] == subset] >= audit["rule"]["share"]
    return int(reach.sum()), len(audit["names"]) - int((~reach).sum())


def _audit_reward_bench(figures: Figures) -> Iterator[tuple]:
    audit, system = figures["audit"], BENCHMARKS
    table, true = stats.rates(figures), stats.true_names(figures)
    heads, rule = len(audit["names"]), audit["rule"]
    bench = audit["rewardbench"]
    least, most = _passing(figures, table, "RewardBench")
    yield (
        "bench-valid",
        *system,
        "",
        f"{bench['valid']} of {heads} heads valid on RewardBench",
        f"between {least} and {most} by the rule, from the {len(bench['rates'])} rates given",
        _count(bench["valid"], least, most),
    )
    yield ("bench-mean", *system, "", f"mean {bench['mean_valid']:.2f}", "not computed", UNTOLD)
    complexity = _rate_of(table, "RewardBench", "complexity")
    verbosity = _rate_of(table, "RewardBench", "verbosity")
    yield (
        "bench-complexity",
        *system,
        "",
        f"{complexity['win_rate']:.3f}, below the rule's {rule['share']:.2f}",
        f"{_rate(complexity)}: {complexity['verdict']}",
        _whether(complexity["verdict"] == "chance"),
    )
    yield (
        "bench-verbosity",
        *system,
        "",
        f"{verbosity['win_rate']:.3f}, below the rule's {rule['share']:.2f}",
        f"{_rate(verbosity)}: {verbosity['verdict']}",
        HOLDS if verbosity["verdict"] == "chance" else ARTEFACT,
    )
    safety = _rate_of(table, "RewardBench", "safety")
    yield (
        "bench-safety",
        *system,
        "1",
        f"{safety['win_rate']:.3f}",
        f"{safety['head']}: {_rate(safety)}",
        FAILS,
    )
    subsets = [_rate_of(table, name, "safety") for name in bench["safety_by_subset"]]
    by_verdict = [
        f"{name} {row['win_rate']:.3f} [{row['low']:.2f}, {row['high']:.2f}]"
        for name, row in zip(bench["safety_by_subset"], subsets, strict=True)
    ]
    yield (
        "bench-subsets",
        *system,
        "1, 6",
        f"rates of the head called safety on {len(subsets)} subsets",
        f"{true['safety']}: {'; '.join(by_verdict)}",
        FAILS,
    )
    gpt = _rate_of(table, "llmbar-adver-GPTInst", "safety")
    yield (
        "bench-gptinst",
        *system,
        "6",
        f"{gpt['win_rate']:.3f} of {gpt['n']} pairs",
        f"{_rate(gpt)}: {gpt['verdict']}",
        _whether(gpt["verdict"] == "chance"),
    )


def _audit_type_a(figures: Figures) -> Iterator[tuple]:
    audit, system = figures["audit"], BENCHMARKS
    table, true = stats.rates(figures), stats.true_names(figures)
    heads, rule = len(audit["names"]), audit["rule"]
    type_a = table[table["subset"] == "TYPE A"].set_index("called")
    one_sided = type_a.apply(
        lambda row: scipy_stats.binomtest(row.wins, row.n, alternative="greater").pvalue, axis=1
    )
    a = audit["type_a"]
    least, most = _passing(figures, table, "TYPE A")
    yield (
        "type-a-valid",
        *system,
        "6",
        f"{a['valid']} of {heads} heads valid on TYPE A",
        f"{most} at most by the rule of {rule['share']:.2f}: "
        f"{(type_a['win_rate'] < rule['share']).sum()} of the {len(type_a)} rates given are below "
        f"it; {heads - (one_sided >= rule['alpha']).sum()} at most by a one-sided p alone",
        _count(a["valid"], least, most),
    )
    close = [type_a.loc["helpfulness"], type_a.loc["correctness"]]
    yield (
        "type-a-rule",
        *system,
        "6",
        "a threshold parts " + " from ".join(f"{row['win_rate']:.3f}" for row in close),
        "intervals " + " and ".join(f"[{row['low']:.3f}, {row['high']:.3f}]" for row in close),
        ARTEFACT,
    )
    yield (
        "type-a-readability",
        *system,
        "1, 6",
        f"{type_a['win_rate']['readability']:.3f}, below the rule's {rule['share']:.2f}",
        f"{true['readability']}: {_rate(type_a.loc['readability'])}: "
        f"{type_a['verdict']['readability']}",
        FAILS,
    )
    yield ("type-a-n", *system, "11", f"{a['n']} pairs", NOTHING, UNTOLD)


def _audit_type_b(figures: Figures) -> Iterator[tuple]:
    audit, system = figures["audit"], BENCHMARKS
    table, true = stats.rates(figures), stats.true_names(figures)
    verbose = _rate_of(table, "TYPE B", "verbosity")
    yield (
        "type-b-verbosity",
        *system,
        "12",
        f"{verbose['win_rate']:.3f}",
        f"{_rate(verbose)}; no length baseline, and the largest gaps were kept first",
        UNTOLD,
    )
    others = [_rate_of(table, "TYPE B", k) for k in ("helpfulness", "coherence", "complexity")]
    unknown = [name for name, (_, n) in audit["type_b"].items() if not n]
    yield (
        "type-b-others",
        *system,
        "12",
        ", ".join(f"{row['called']} {row['win_rate']:.3f}" for row in others),
        "; ".join(
            f"{row['called']} [{row['low']:.2f}, {row['high']:.2f}] of {row['n']}" for row in others
        )
        + f"; no number of pairs for {', '.join(unknown)}",
        UNTOLD,
    )
    given = table[table["subset"] == stats.TARGETED].sort_values("win_rate", ascending=False)
    best, own = given.iloc[0], given[given["called"] == "helpfulness"].iloc[0]
    low, high = stats.paired_p(best["wins"], own["wins"], own["n"])
    yield (
        "targeted",
        *system,
        "1, 6",
        f"{best['called']} {best['win_rate']:.3f}, helpfulness {own['win_rate']:.3f}",
        f"{best['head']} to {own['head']}: if these are the same {own['n']} pairs, p between "
        f"{low:.1g} and {high:.2f}, by how many of them both win; the one called harmlessness is "
        f"{true['harmlessness']}",
        UNTOLD,
    )


def _audit_code(figures: Figures, runs) -> Iterator[tuple]:
    audit = figures["audit"]
    system = (AUDIT, "prompts and code")
    told = "; ".join(
        f"{row.cut:.1%} on {row.dataset}" for row in stats.lengths(figures, runs).itertuples()
    )
    prompts = audit["prompts"]
    yield (
        "prompts",
        *system,
        "7",
        "one rendered prompt a response",
        f"one user turn, {prompts['bos']} BOS tokens; responses that a limit of "
        f"{prompts['tokens']:,} tokens cuts: {told or f'not computed: {NO_RUN}'}",
        FAILS,
    )
    yield ("code-rewardbench", *system, "11", "a committed script", NOTHING, FAILS)
    yield ("code-helpsteer2", *system, "11", "a committed script", NOTHING, FAILS)


def _reward_lens(figures: Figures, runs, found) -> Iterator[tuple]:
    lens = figures["reward_lens"]
    system = (LENS, "")
    depth = ", ".join(f"{name} {value:.3f}" for name, value in lens["crystallisation"].items())
    yield ("lens-crystallisation", *system, "9", depth, "not computed", UNTOLD)
    yield ("lens-norm", *system, "9", "a curve that ends at the reward", NOTHING, FAILS)
    yield (
        "lens-agreement",
        *system,
        "9",
        ", ".join(f"{n} {lens['attribution'][n]:.3f}" for n in ("skywork", "armorm")),
        f"no interval: what was correlated over the {lens['attribution']['pairs']} pairs isn't "
        "told",
        UNTOLD,
    )
    table = stats.lengths(figures, runs)
    told = "; ".join(
        f"{row.better_longer:.0%} (into the preferred response) and {row.worse_longer:.0%} (into "
        f"the other) on {row.dataset}"
        for row in table.itertuples()
    )
    yield (
        "lens-alignment",
        *system,
        "9",
        "effects by component",
        "aligned from the left, the last token of a longer target is out of reach; pairs whose "
        f"target is longer: {told or f'not computed: {NO_RUN}'}",
        UNTOLD,
    )
    yield (
        "lens-cascade",
        *system,
        "9",
        "a correlation",
        f"smallest |r| of {lens['cascade_points']} random points in 100 draws: "
        f"{found['cascade']:.3f}",
        ARTEFACT if found["cascade"] > LINE else UNTOLD,
    )
    most = max(lens["probe_pairs"])
    smallest = 2 * 0.5**most
    yield (
        "lens-probes",
        *system,
        "",
        f"effects of hacking probes from {min(lens['probe_pairs'])} to {most} pairs",
        f"the smallest two-sided sign-flip p of {most} pairs is {p_text(smallest)}",
        ARTEFACT if smallest > LEVEL else UNTOLD,
    )
    threshold = lens["divergence"]["threshold"]
    told = ", ".join(
        f"{scipy_stats.chi2.sf(threshold**2, d):.1%} in {d}"
        for d in lens["divergence"]["dimensions"]
    )
    yield (
        "lens-divergence",
        *system,
        "",
        f"activations beyond a Mahalanobis distance of {threshold:.1f} have diverged",
        f"of normal activations that have not, it flags {told} dimensions",
        ARTEFACT,
    )


def _sarm(figures: Figures) -> Iterator[tuple]:
    bench = figures["sarm"]["rewardbench2"]
    mean = np.mean(list(bench["subsets"].values()))
    yield (
        "sarm-score",
        SARM,
        "",
        "",
        f"{bench['score']:.2f}",
        f"{mean:.2f}, the mean of {len(bench['subsets'])} subsets",
        _whether(abs(mean - bench["score"]) <= 0.01),
    )
    told = ", ".join(f"{name} {value:.2f}" for name, value in bench["subsets"].items())
    yield ("sarm-subsets", SARM, "", "", told, "not computed", UNTOLD)


def _tension_overlaps(figures: Figures, seed: int) -> Iterator[tuple]:
    tension = figures["tension"]
    system = (TENSION, "")
    table = stats.overlaps(figures).set_index("sets")
    both = table.loc["helpful and harmless"]
    yield (
        "overlap-mean",
        *system,
        "10",
        f"{both['published']:.4f}",
        f"{both['recomputed']:.4f} over {len(tension['overlap_by_model'])} models",
        _whether(abs(both["recomputed"] - both["published"]) <= 0.0001),
    )
    yield (
        "overlap-level",
        *system,
        "10",
        f"{both['published']:.3f}",
        f"{both['without']:.3f} without gpt2-large; two random sets of that size share "
        f"{tension['top_share'] / (2 - tension['top_share']):.3f}",
        ARTEFACT,
    )
    large, share = tension["gpt2_large"], tension["top_share"]
    everything, overlap = stats.clamped_overlap(figures, seed)
    for sets, row in table.drop(index="helpful and harmless").iterrows():
        yield (
            f"overlap-{sets.replace(' and ', '-')}",
            *system,
            "10",
            f"{row.published:.4f}",
            f"{row.published_without:.3f} without gpt2-large, whose own must have been "
            f"{row.implied:.3f} [{row.low:.3f}, {row.high:.3f}]; all neurons and any true top "
            f"{share:.0%} share {overlap:.3f}",
            ARTEFACT if row.low <= overlap <= row.high else UNTOLD,
        )
    yield (
        "overlap-gpt2-large",
        *system,
        "10",
        f"{tension['overlap_by_model']['gpt2-large']:.4f}",
        f"where at most {share:.0%} of activations are positive the rule takes {everything:,} of "
        f"{large['layers']} × {large['neurons_a_layer']:,} = "
        f"{large['layers'] * large['neurons_a_layer']:,} neurons, and the overlap with any true "
        f"top {share:.0%} is {overlap:.4f}",
        ARTEFACT if round(overlap, 4) == tension["overlap_by_model"]["gpt2-large"] else UNTOLD,
    )


def _tension_ablations(figures: Figures) -> Iterator[tuple]:
    tension = figures["tension"]
    system, share = (TENSION, ""), tension["top_share"]
    kept = tension["retention"]
    drops = ", ".join(
        f"{side} {kept[f'{side}_ablated'] - kept[side]:+.4f} "
        f"({kept[f'{side}_ablated'] / kept[side] - 1:+.1%})"
        for side in ("harmless", "helpful")
    )
    yield (
        "retention",
        *system,
        "",
        f"{kept['harmless']:.4f} and {kept['helpful']:.4f}; with shared neurons ablated "
        f"{kept['harmless_ablated']:.4f} and {kept['helpful_ablated']:.4f}",
        f"{drops}; no number of items, no control of the same size",
        UNTOLD,
    )
    yield (
        "neuron-retention",
        *system,
        "",
        f"{tension['neuron_retention']:.4f}",
        "not computed: the sets are not published",
        UNTOLD,
    )
    told = "; ".join(
        f"{name} {change[1]:+.2f} and {change[3]:+.2f}"
        for name, change in tension["ablation"].items()
    )
    crossing = ", ".join(
        name for name, row in tension["ablation"].items() if min(row[0], row[2]) < 50
    )
    yield (
        "ablation",
        *system,
        "",
        f"points on harmless and on helpful tasks: {told}",
        f"no control of the same size; below 50 on one side before any ablation: {crossing}",
        UNTOLD,
    )
    shared, mixed_change = tension["shared_ablation"], tension["ablation"]["mixed"]
    yield (
        "shared-ablation",
        *system,
        "",
        f"{shared[1]:+.2f} and {shared[3]:+.2f} points",
        f"the two stand as {shared[1] / shared[3]:.1f} to 1; ablating the mixed model's whole top "
        f"{share:.0%} gives {mixed_change[1] / mixed_change[3]:.1f} to 1; no control of the same "
        "size",
        UNTOLD,
    )


def _tension_models(figures: Figures) -> Iterator[tuple]:
    tension = figures["tension"]
    system = (TENSION, "")
    rmsd = np.asarray(list(tension["rmsd"].values()))
    larger = int((rmsd[:, 1] > rmsd[:, 0]).sum())
    between = int(((rmsd[:, 2] > rmsd[:, 0]) & (rmsd[:, 2] < rmsd[:, 1])).sum())
    yield (
        "rmsd",
        *system,
        "",
        "RMSD by model",
        f"in {larger} of {len(rmsd)} models (sign test p = "
        f"{scipy_stats.binomtest(larger, len(rmsd)).pvalue:.3f}); the mixed one lies between in "
        f"{between}",
        _whether(larger == len(rmsd)),
    )
    small = tension["smollm2_135m"]
    told = "; ".join(
        f"{name} {row['safety-refuse']:.2f} + {row['safety-response']:.2f} = "
        f"{row['safety-refuse'] + row['safety-response']:.0f}"
        for name, row in small.items()
    )
    refuse, respond = (
        {name: row[part] for name, row in small.items()}
        for part in ("safety-refuse", "safety-response")
    )
    trade = refuse["harmless"] > refuse["helpful"] and respond["harmless"] < respond["helpful"]
    yield (
        "trade-off",
        *system,
        "",
        "accuracy on prompts to refuse and to answer",
        f"refuse + answer: {told}; 100 is what a model gets that always does one of the two",
        _whether(
            trade
            and refuse["helpful"] < refuse["mixed"] < refuse["harmless"]
            and respond["harmless"] < respond["mixed"] < respond["helpful"]
        ),
    )
    looks = stats.looks(figures)
    subsets = looks["subset"].unique()
    told = "; ".join(
        f"{name} {table['rate'].min():.0f} to {table['rate'].max():.0f}"
        for name, table in looks.groupby("model", sort=False)
    )
    helpful_ones = looks[looks["model"] == "helpful"]
    tested = ", ".join(
        f"{row.subset.rpartition('-')[2]} {row.wins} of {row.n} ({p_text(row.p_adjusted)})"
        for row in helpful_ones.itertuples()
    )
    verdict = HOLDS if (helpful_ones["p_adjusted"] < LEVEL).all() else UNTOLD
    verdict = verdict if (helpful_ones["rate"] < 50).all() else FAILS
    yield (
        "looks",
        *system,
        "",
        "accuracy on LLMBar's adversarial subsets",
        f"{told}; the helpful model's wins, with exact p corrected for {len(subsets)} "
        f"subsets: {tested}",
        verdict,
    )
