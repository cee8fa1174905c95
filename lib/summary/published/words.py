"""The audit of the published audits in words: claims, evidence, takeaways.

Numbers stand in the tables of ``claims`` and ``stats``; the words
here hold none.
"""

from __future__ import annotations

import pandas as pd

from lib.errors import DataError
from lib.summary.published.claims import ARTEFACT, COLUMNS, FAILS, HOLDS, UNTOLD, VERDICTS, p_text

# Key of lib.summary.published.claims → the claim, and what the verdict rests on.
WORDS: dict[str, tuple[str, str]] = {
    "armorm-heads": (
        "ArmoRM's heads have the names of its model card, in that order",
        "Names, configuration and head matrix agree in number.",
    ),
    "armorm-score": (
        "ArmoRM's score on RewardBench",
        "Mean of the four sections and, at half weight, the prior sets; its parts were not "
        "measured again.",
    ),
    "armorm-checkpoint": (
        "Shapes of the checkpoint follow from its configuration",
        "Compared entry by entry.",
    ),
    "armorm-stage2": (
        "The gate was trained to weigh heads",
        "Read in the released code: the softmax runs over chosen and rejected, and the "
        "debiasing matrix is left out of training rewards. Whether the released weights came "
        "from it can't be seen.",
    ),
    "armorm-example": (
        "Largest coefficients of the model card's example",
        "Needs the model.",
    ),
    "armorm-cosines": (
        "Cosines of the released heads",
        "Read off a public picture; the figures agree with one another.",
    ),
    "names": (
        "Heads are reported under their names",
        "Compared by position with the model card. Some names are swapped, the rest belong to "
        "no row of the model.",
    ),
    "name-readability": (
        "The head called readability is one, and the valid one",
        "By position it is a head for safety; the head that is about readability is one for code.",
    ),
    "name-safety": (
        "The head called safety is one",
        "By position it is an overall score.",
    ),
    "name-harmlessness": (
        "The head called harmlessness is one",
        "By position it is a second head for helpfulness.",
    ),
    "sample": (
        "Heads were tested on hh-rlhf",
        "That split is not shuffled; its first part is the harmlessness one.",
    ),
    "valid-heads-cross": (
        "The helpfulness head is worthless, the one called readability good",
        "On pairs about harm the rates don't say: a head that is right about one thing can go "
        "against people where they chose by another.",
    ),
    "stratified": (
        "Results hold by subset",
        "No committed script makes them.",
    ),
    "hh-valid": (
        "One head is valid by the audit's rule",
        "The rates given could contradict it; to confirm it, the other heads' are needed.",
    ),
    "hh-chance": (
        "One head is above chance",
        "Exact binomial tests, corrected for all heads whatever the unpublished ones show. "
        "Failing a threshold is not being at chance, and several heads point the other way.",
    ),
    "hh-stars": (
        "Starred heads are above chance",
        "Exact binomial tests of the two lowest starred rates, not even corrected.",
    ),
    "hh-helpfulness": (
        "The helpfulness head gives noise on hh-rlhf",
        "It is below one half beyond chance: more often than not it prefers what people rejected "
        "as more harmful.",
    ),
    "hh-best": (
        "The best head ranks these pairs as people did",
        "So does its true name: a safety head, on pairs about harm.",
    ),
    "rule-family": (
        "A small p means that a head was found",
        "No correction for the number of heads.",
    ),
    "rule-wilcoxon": (
        "The test is about ranking",
        "It asks whether gaps are symmetric about nothing, not whether most are above it.",
    ),
    "rule-threshold": (
        "A head at the threshold is valid",
        "The threshold is compared with an estimate that has no interval.",
    ),
    "rule-positive": (
        "The third criterion, a positive effect, is part of the rule",
        "The code never looks at it.",
    ),
    "pairs-names": (
        "Safety is entangled with harmlessness, honesty and truthfulness",
        "Under true names these are labels of one source, an overall score among them; the "
        "model's safety head is in no pair.",
    ),
    "pairs-flagged": (
        "Pairs of heads correlate too much",
        "The others were not published.",
    ),
    "pooled": (
        "Heads are entangled",
        "Over all responses, easy prompts and better responses mix, which can hide or make "
        "correlations; by how much here needs the scores.",
    ),
    "groups": (
        "Heads fall into groups",
        "Needs the scores; no test of the number of groups was published.",
    ),
    "probes": (
        "Concepts are encoded linearly, some better than others",
        "A head's score is linear in the state that is probed, so a probe can only miss what the "
        "components drop of it, whatever the head is about. It is an artefact as long as "
        "what the prediction misses of a difference between two heads is smaller than the "
        "published difference: scores that aren't normal, and few states, lead away from it.",
    ),
    "probes-absent": (
        "A high probe accuracy means that the concept is there",
        "A planted head that reads a direction of the state, in a world where people's choices "
        "leave no trace in it.",
    ),
    "pca": (
        "Few components hold most of the state",
        "Needs the states. The share of the states' variance says nothing about any one head's.",
    ),
    "folds": (
        "Probe accuracies are held out",
        "Read in its code: components are fitted on all rows, and folds part responses to one "
        "prompt. That is a fault of procedure; what it adds is told beside, and need not be what "
        "makes accuracies high.",
    ),
    "geometry-gap": (
        "Heads are nearly orthogonal",
        "A regression passes through the means and splits the variance, which bounds one "
        "figure by the others; they contradict each other.",
    ),
    "geometry-picture": (
        "Heads are nearly orthogonal, seen from elsewhere",
        "A public picture of the same cosines, with its reading error.",
    ),
    "geometry-angles": (
        "Random subspaces set the scale of angles",
        "Drawn at the model's size: in many dimensions they are nearly orthogonal.",
    ),
    "geometry-pairs": (
        "Cosines explain a share of correlations",
        "Pairs that share a head are not independent, so without the matrices no interval can be "
        "given.",
    ),
    "geometry-place": (
        "Entanglement lives in the backbone",
        "A change of coordinates that moves no score moves every cosine.",
    ),
    "bench-valid": (
        "Most heads are valid on RewardBench",
        "The few rates given could contradict it, not confirm it.",
    ),
    "bench-mean": ("Mean rate of the valid heads on RewardBench", "The rates were not published."),
    "bench-complexity": (
        "Complexity does not rank RewardBench",
        "Its whole interval is close to one half, rows taken as independent.",
    ),
    "bench-verbosity": (
        "Verbosity does not rank RewardBench",
        "Below the threshold, and yet above chance: the rule calls both the same.",
    ),
    "bench-safety": (
        "Safety ranks RewardBench",
        "The rate stands; the head is an overall score.",
    ),
    "bench-subsets": (
        "These are a safety head's rates by subset",
        "They are an overall score's, so they say nothing about a safety head.",
    ),
    "bench-gptinst": (
        "That head is at chance on GPTInst",
        "Too few pairs: the interval reaches far on both sides of one half.",
    ),
    "type-a-valid": (
        "Nearly all heads are valid on HelpSteer2, highest against lowest",
        "The count fits a test without the threshold, which is another rule than elsewhere.",
    ),
    "type-a-rule": (
        "Helpfulness passes there and correctness does not, by the threshold",
        "The two intervals overlap almost wholly.",
    ),
    "type-a-readability": (
        "Readability is the head that is not valid there",
        "The head is a safety head, on pairs about quality, and nothing was found.",
    ),
    "type-a-n": (
        "Number of those pairs",
        "Its script sets no limit that would give it.",
    ),
    "type-b-verbosity": (
        "The verbosity head knows its concept",
        "Without the rate of the longer response it can't be told from length.",
    ),
    "type-b-others": (
        "Heads win on their own criterion",
        "Without a length baseline; where as many pairs as the cap were kept, those with the "
        "largest gaps came first.",
    ),
    "targeted": (
        "Other heads know helpfulness better than the helpfulness head",
        "If both heads scored the same pairs, the answer hangs on how often both win, which "
        "was not published; no head is called by its true name but two.",
    ),
    "prompts": (
        "The model saw what it was trained on",
        "Read in its code: turns joined into one with one speaker's name deleted, the start "
        "token doubled, and the end of the response cut where it is long. How many that "
        "is on the runs at hand is counted in their model's tokens.",
    ),
    "code-rewardbench": (
        "The scores on RewardBench come from the committed script",
        "It can't run: swapped return values, a wrong signature.",
    ),
    "code-helpsteer2": (
        "The scores on HelpSteer2 come from the committed script",
        "It takes the first of the states where it expects a single vector.",
    ),
    "lens-crystallisation": (
        "Rewards crystallise late in the network",
        "Needs the models; the published curve skips the final norm.",
    ),
    "lens-norm": (
        "Lens and attribution end at the reward",
        "The final norm is skipped, so they end elsewhere.",
    ),
    "lens-agreement": (
        "Attribution does not agree with patching",
        "Both sides have a fault that could make it so: attribution skips the final norm, "
        "patching aligns from the left.",
    ),
    "lens-alignment": (
        "Patching finds what carries the reward",
        "Read in its code: positions are matched from the start of the sequences, so the last "
        "token of a longer target, where the reward is read, is never patched. What that does to "
        "effects needs the models.",
    ),
    "lens-cascade": (
        "The dimensions of a cascade are correlated",
        "Compared with random points, as many as are correlated by default.",
    ),
    "lens-probes": (
        "Hacking probes show effects",
        "The smallest p that so few pairs can reach, whatever they show, beside the usual level.",
    ),
    "lens-divergence": (
        "A fixed distance tells diverged activations",
        "The distance of normal data grows with the dimension (exact, chi-squared).",
    ),
    "sarm-score": (
        "SARM's score on RewardBench 2",
        "The mean of its subsets; they were not measured again.",
    ),
    "sarm-subsets": ("SARM's scores by subset", "Needs the model."),
    "overlap-mean": (
        "Mean overlap of helpful and harmless neurons",
        "Mean of the published overlaps of single models.",
    ),
    "overlap-level": (
        "Helpful and harmless models share that many neurons",
        "One model's set is all of its neurons. Neurons that are active in the backbone "
        "anyway would be shared too; no such control was published.",
    ),
    "overlap-mixed-harmless": (
        "So do the mixed and the harmless model",
        "What the one model must have had follows from both means; compared with the size of a "
        "top set among all neurons.",
    ),
    "overlap-mixed-helpful": (
        "So do the mixed and the helpful model",
        "What the one model must have had follows from both means; what neurons that are active "
        "anyway add needs a control, and none was published.",
    ),
    "overlap-gpt2-large": (
        "One model shares far fewer neurons",
        "Its harmless set, by clamping and a threshold that ties reach, is everything; the "
        "overlap is then the size of the other set.",
    ),
    "retention": (
        "Shared neurons keep what the mixed model retains",
        "The drops are alike; whether they differ can't be told.",
    ),
    "neuron-retention": ("Neurons are retained", "Needs the sets."),
    "ablation": (
        "Top neurons are specific to a model's task",
        "Any neurons of that number might do the same.",
    ),
    "shared-ablation": (
        "Shared neurons carry both tasks",
        "They hit both sides in the proportion that the whole top set does.",
    ),
    "rmsd": (
        "Activations of chosen and rejected differ more in the harmless model",
        "Counted over models, which share data and recipe.",
    ),
    "trade-off": (
        "A harmless model refuses too much, a helpful one too little",
        "The order holds on both sides; the sums say that the single models mostly move along "
        "one axis.",
    ),
    "looks": (
        "A helpful model prefers the reply that only looks better",
        "Compared with one half on every adversarial subset, with LLMBar's numbers of pairs and a "
        "correction for all subsets (Holm). The rates look like means over runs, which count here "
        "as one run; one model, and what looks better is LLMBar's choice.",
    ),
}
_SHORT = {HOLDS: "holds", FAILS: "fails", ARTEFACT: "artefact", UNTOLD: "untold"}


def claims(checks: pd.DataFrame, crossed: pd.DataFrame) -> pd.DataFrame:
    """The table of claims.

    Parameters
    ----------
    checks
        From ``claims.checks``.
    crossed
        From ``stats.crossed``: what heads at hand do is part of one claim's
        evidence.

    Returns
    -------
    pandas.DataFrame
        ``system``, ``part``, ``claim``, ``published``, ``recomputed``, ``verdict``,
        ``evidence``, ``points``.

    Raises
    ------
    DataError
        When a row has no words here.
    """
    lacking = [key for key in checks["key"] if key not in WORDS]
    if lacking:
        raise DataError("words for every claim", f"none for {lacking[0]!r}", "Add them to WORDS.")
    table = checks[list(COLUMNS)].copy()
    table["claim"] = [WORDS[key][0] for key in table["key"]]
    table["evidence"] = [WORDS[key][1] for key in table["key"]]
    table.loc[table["key"] == "valid-heads-cross", "evidence"] += f" {crossover(crossed)}"
    order = ["system", "part", "claim", "published", "recomputed", "verdict", "evidence", "points"]
    return table[order]


def of(table: pd.DataFrame, system: str, part: str = "") -> pd.DataFrame:
    """What is shown of one system's claims, or of one part of them: the verdict next to the
    claim, since further columns may lie beyond a narrow screen.
    """
    rows = table[(table["system"] == system) & (table["part"] == part)]
    return rows[["claim", "verdict", "published", "recomputed", "evidence"]]


def rated(rates: pd.DataFrame) -> pd.DataFrame:
    """What is shown of ``stats.rates``, each p as text."""
    shown = rates[["subset", "called", "head", "n", "win_rate", "low", "high", "verdict", "note"]]
    shown.insert(shown.columns.get_loc("verdict"), "p", rates["p"].map(p_text))
    return shown


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """Claims by ``system``, ``part`` and ``verdict``: every verdict, ``claims`` maybe 0."""
    groups = list(dict.fromkeys(zip(table["system"], table["part"], strict=True)))
    found = table.groupby(["system", "part", "verdict"]).size()
    return pd.DataFrame(
        [
            {
                "system": system,
                "part": part,
                "verdict": verdict,
                "claims": int(found.get((system, part, verdict), 0)),
            }
            for system, part in groups
            for verdict in VERDICTS
        ]
    )


def published(
    table: pd.DataFrame,
    names: pd.DataFrame,
    rates: pd.DataFrame,
    bounds: pd.DataFrame,
    overlaps: pd.DataFrame,
) -> list[str]:
    """Takeaways: verdicts, names, the two rates that were read wrongly, geometry, overlap."""
    hh = rates[rates["subset"] == "hh-rlhf"].set_index("called")
    helpful = hh.loc["helpfulness"]
    bound = bounds.set_index("quantity")
    most, least = bound.loc["largest RMS correlation"], bound.loc["smallest RMS cosine"]
    both = overlaps.iloc[0]
    return [
        answer(table),
        misnamed(names, rates),
        f"On hh-rlhf {_above(hh)} of the {len(hh)} heads given are above one half and "
        f"{_below(hh)} below it, beyond chance; helpfulness at {helpful['win_rate']:.3f} is not "
        f"noise (p = {helpful['p']:.1g}) but what a helpfulness head can show on these pairs, "
        "which are about harm.",
        f"A published RMS cosine of {least['published']:.3f} contradicts the regression beside "
        f"it, which allows an RMS correlation of {most['high']:.3f} at most where the mean is "
        f"{most['published']:.3f}; {least['value']:.2f} or more is needed.",
        f"The overlap of helpful and harmless neurons is {both['without']:.3f} without the one "
        f"model whose top set is all of its neurons, and {both['published']:.3f} with it.",
    ]


def answer(table: pd.DataFrame) -> str:
    """In short: how many claims got each verdict."""
    found = _counted(table)
    return (
        f"Of {len(table)} claims {found[HOLDS]} hold and {found[FAILS]} fail; {found[ARTEFACT]} "
        f"are artefacts of the method, and {found[UNTOLD]} can't be told without the weights."
    )


def misnamed(names: pd.DataFrame, rates: pd.DataFrame) -> str:
    """In short: how many heads had a wrong name, and which one was valid on hh-rlhf."""
    best = rates[(rates["subset"] == "hh-rlhf") & (rates["called"] == "readability")].iloc[0]
    return (
        f"{int((~names['right']).sum())} of {len(names)} heads were called by a name that isn't "
        f"theirs. The only head that the audit found valid on hh-rlhf, its readability, is "
        f"{best['head']}."
    )


def crossover(crossed: pd.DataFrame) -> str:
    """What the head that follows people best on one part of hh-rlhf does on the other.

    Parameters
    ----------
    crossed
        From ``stats.crossed``.
    """
    if crossed.empty:
        return "No head of the model at hand was seen to follow people on a part of hh-rlhf."
    return " ".join(map(_crossed, crossed.itertuples()))


def _crossed(row) -> str:
    against, with_them = row.high < 0.5, row.low > 0.5
    side = "against them" if against else "with them too" if with_them else "neither way for sure"
    part = row.part.rpartition("/")[2]
    return (
        f"On {part}, {row.head} goes with people best ({row.own:.3f}); on the other part it goes "
        f"{side} ({row.other:.3f} [{row.low:.3f}, {row.high:.3f}])."
    )


def glued(
    table: pd.DataFrame,
    names: pd.DataFrame,
    rates: pd.DataFrame,
    bounds: pd.DataFrame,
    overlaps: pd.DataFrame,
) -> dict[str, str]:
    """Values of the page for other pages."""
    hh = rates[rates["subset"] == "hh-rlhf"].set_index("called")
    bound = bounds.set_index("quantity")
    most, least = bound.loc["largest RMS correlation"], bound.loc["smallest RMS cosine"]
    both = overlaps.iloc[0]
    return {
        "claims": str(len(table)),
        **{f"claims-{_SHORT[verdict]}": str(n) for verdict, n in _counted(table).items()},
        "heads": str(len(names)),
        "heads-misnamed": str(int((~names["right"]).sum())),
        "readability-is": hh.loc["readability", "head"],
        "rate-helpfulness": f"{hh.loc['helpfulness', 'win_rate']:.3f}",
        "p-helpfulness": f"{hh.loc['helpfulness', 'p']:.1g}",
        "rates-given": str(len(hh)),
        "rates-above": str(_above(hh)),
        "rates-below": str(_below(hh)),
        "gap-published": f"{least['published']:.3f}",
        "gap-needed": f"{least['value']:.2f}",
        "rms-allowed": f"{most['high']:.3f}",
        "mean-published": f"{most['published']:.3f}",
        "overlap-published": f"{both['published']:.3f}",
        "overlap-without": f"{both['without']:.3f}",
    }


def _counted(table: pd.DataFrame) -> dict[str, int]:
    return {verdict: int((table["verdict"] == verdict).sum()) for verdict in VERDICTS}


def _above(rates: pd.DataFrame) -> int:
    return int(rates["verdict"].isin(["strong", "tracks"]).sum())


def _below(rates: pd.DataFrame) -> int:
    return int((rates["verdict"] == "inverted").sum())
