"""Labels: names called wrong that aren't, exchanges that are found, heads said to agree."""

from __future__ import annotations

import numpy as np

from lib.calibration.checks import FALSE, POWER, check, generator, many, parts, seeds
from lib.planted.labels import agreement_gaps, label_wins, label_world
from lib.planted.worlds import make_run
from lib.stats import labels

ALPHA = 0.05
GAP = labels.GAP
WITHIN = 0.05  # of the power that the page tells
ACCUSATIONS = {"swap": "two names are exchanged", "centred": "a head follows another criterion"}
EITHER = "either accusation"
STEP = 2_000_000  # cells of an array
AGREEING = ["a-safety", "b-safety", "a-honesty", "b-honesty"]


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on labels."""
    return [
        *_accusations(draws, seed),
        *_order(draws, seed),
        *_swaps(draws, seed),
        *_agreement(draws, seed),
    ]


def _judged(draws: int, seed: int, name: str, **world):
    """Adjusted p of each accusation, by form, and p of the order of names, over many worlds."""
    source = generator(seed, name)
    concepts = world.get("concepts", 4)
    own = np.arange(concepts)
    orders = labels.name_orders(concepts, 2000)
    adjusted: dict[str, list[np.ndarray]] = {form: [] for form in labels.FORMS}
    order = []
    for part in parts(draws, max(1, STEP // (concepts**2 * world["pairs"]))):
        won, criterion = label_wins(source, part, gap=GAP, **world)
        found = labels.moments(won, criterion, np.arange(len(criterion)))
        swaps = labels.swap_contrasts(found, own, *labels.swap_family(own))
        centred = labels.centred_contrasts(found, own, *labels.centred_family(own, concepts))
        for form, contrasts in (("swap", swaps), ("centred", centred)):
            adjusted[form].append(labels.accused(labels.one_sided(*contrasts)))
        if concepts <= labels.ENUMERATED:
            order.append(labels.names_p(found.rate, own, orders))
    whole = {form: np.concatenate(parts) for form, parts in adjusted.items()}
    return whole, np.concatenate(order) if order else None


def _accusations(draws: int, seed: int) -> list[dict]:
    kinds = {
        "correct": f"all 4 names are right (gap {GAP})",
        "nothing": "4 heads follow nothing",
    }
    sizes = {(100, 0.0): "100 pairs a criterion", (20, 0.5): "20 pairs, heads alike in half"}
    found: dict[str, list[tuple[str, np.ndarray]]] = {words: [] for words in ACCUSATIONS.values()}
    found[EITHER] = []
    for kind, says in kinds.items():
        for (pairs, shared), size in sizes.items():
            adjusted, _ = _judged(
                many(draws, 10_000),
                seed,
                f"labels/accusations/{kind}/{pairs}",
                kind=kind,
                pairs=pairs,
                shared=shared,
            )
            made = {form: (p < ALPHA).any(axis=1) for form, p in adjusted.items()}
            for form, words in ACCUSATIONS.items():
                found[words].append((f"{says}; {size}", made[form]))
            found[EITHER].append((f"{says}; {size}", np.any(list(made.values()), axis=0)))
    return [
        check(words, world, "false-positive rate", happened, at_most=FALSE)
        for words, worlds in found.items()
        for world, happened in worlds
    ]


def _order(draws: int, seed: int) -> list[dict]:
    claim = "names beat random ones (p < .05)"
    rows = []
    for kind, says in (("derangement", "every name is wrong"), ("random", "names are dealt")):
        _, p = _judged(
            many(draws, 10_000), seed, f"labels/{kind}", kind=kind, concepts=5, pairs=100
        )
        rows.append(
            check(
                claim,
                f"{says}; 5 heads, 100 pairs a criterion, gap {GAP}",
                "false-positive rate",
                p < ALPHA,
                at_most=FALSE,
            )
        )
    _, p = _judged(many(draws, 10_000), seed, "labels/right", kind="correct", concepts=5, pairs=100)
    rows.append(
        check(
            claim,
            f"all names are right; 5 heads, 100 pairs a criterion, gap {GAP}",
            "power",
            p < ALPHA,
            at_least=POWER,
        )
    )
    return rows


def _swaps(draws: int, seed: int) -> list[dict]:
    """The first two heads are exchanged; the first pair of the family is theirs."""
    rows = []
    for concepts, pairs, most in ((4, 100, 10_000), (9, 100, 1_000), (4, 40, 10_000)):
        adjusted, _ = _judged(
            many(draws, most),
            seed,
            f"labels/exchanged/{concepts}/{pairs}",
            kind="swap",
            concepts=concepts,
            pairs=pairs,
        )
        table = labels.label_check(label_world("correct", concepts=concepts, pairs=pairs)).pairs
        told = float(table["power"].mean())
        few = pairs < 100
        rows.append(
            check(
                "two names are exchanged; power as told" if few else "two names are exchanged",
                f"1 exchange among {concepts} heads; {pairs} pairs a criterion, gap {GAP}",
                "power",
                adjusted["swap"][:, 0] < ALPHA,
                at_least=told - WITHIN if few else POWER,
                at_most=told + WITHIN if few else 1.0,
                note=f"power that the page tells: {told:.2f}",
            )
        )
    return rows


def _agreement(draws: int, seed: int) -> list[dict]:
    claim, other = "heads agree in a concept, not across", "heads agree in a concept"
    size = "2 concepts of 2 heads, 200 pairs"
    both = ("convergent and discriminant",)
    cases = (
        (claim, "HTMT exactly .85", 0.85, 0.8, both, 200, {"at_most": FALSE}),
        (claim, "HTMT .5", 0.5, 0.8, both, 50, {"at_least": POWER}),
        (other, "no two heads correlate", 0.0, 0.0, (*both, "convergent"), 100, {"at_most": FALSE}),
    )
    rows = []
    for said, world, ratio, loading, verdicts, most, target in cases:
        found = []
        for one in seeds(seed, f"labels/agreement/{world}", many(draws, most)):
            gaps = agreement_gaps(np.random.default_rng(one), 1, ratio=ratio, loading=loading)[0]
            score = np.zeros((2 * len(gaps), len(AGREEING)))
            score[::2] = gaps
            concepts = [head.split("-")[1] for head in AGREEING]
            run = make_run(score, heads=AGREEING, concepts=concepts)
            found.append(labels.mtmm(run, draws=1000, seed=one)["verdict"].isin(verdicts).any())
        measure = "power" if "at_least" in target else "false-positive rate"
        rows.append(check(said, f"{world}; {size}", measure, np.asarray(found), **target))
    return rows
