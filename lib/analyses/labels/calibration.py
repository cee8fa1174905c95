"""Labels: names shown to fit or accused, wrong ones that are found, heads said to agree."""

from __future__ import annotations

import numpy as np

from lib.analyses.labels import stats
from lib.analyses.labels.worlds import agreement_gaps, label_wins, label_world
from lib.planted.checks import FALSE, POWER, check, generator, many, parts, seeds
from lib.planted.worlds import from_gaps

ALPHA = 0.05
GAP = stats.GAP
GAP_MARKED = 0.35  # of names that are shown to fit with a hundred pairs
WITHIN = 0.05  # of the power that the page tells
CLAIMS = {
    "wrong": "a name is wrong",
    "doubted": "a name is in doubt",
    "pairs": "two names don't both fit",
    "any": "either accusation",
}
STEP = 2_000_000  # cells of an array
AGREEING = ["a-safety", "b-safety", "a-honesty", "b-honesty"]


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on labels."""
    return [
        *_fits(draws, seed),
        *_accusations(draws, seed),
        *_order(draws, seed),
        *_found(draws, seed),
        *_agreement(draws, seed),
    ]


def _fits(draws: int, seed: int) -> list[dict]:
    """Two kinds of heads whose names are right, or dealt at random within each kind."""
    family, own = np.repeat([0, 1], [4, 3]), np.arange(7)
    dealt, right = "names are dealt within 2 kinds of heads", "all names are right"
    spill, nothing = "every head wins .7 elsewhere", "heads win alike everywhere"
    worlds = (
        (f"{dealt}, 100 pairs a criterion, gap {GAP}", True, {"pairs": 100}),
        (f"{dealt}, 20 pairs a criterion, gap {GAP}", True, {"pairs": 20}),
        (f"{dealt}, {spill}; 100 pairs, gap {GAP}", True, {"pairs": 100, "general": 0.2}),
        (f"{nothing}, .5; 100 pairs", None, {"pairs": 100, "gap": 0}),
        (f"{nothing}, .7; 100 pairs", None, {"pairs": 100, "gap": 0, "general": 0.2}),
        (f"{right}; 250 pairs a criterion, gap {GAP}", False, {"pairs": 250}),
        (f"{right}; 100 pairs a criterion, gap {GAP_MARKED}", False, {"gap": GAP_MARKED}),
    )
    rows = []
    for says, moved, world in worlds:
        source, said = generator(seed, f"labels/fits/{says}"), []
        world = {"gap": GAP, "pairs": 100} | world
        for part in parts(many(draws, 2_000), max(1, STEP // (49 * world["pairs"]))):
            won, criterion = label_wins(source, part, concepts=7, **world)
            order = np.tile(own, (part, 1))
            if moved:
                order = np.argsort(family + source.random(order.shape), axis=1)
                won = np.take_along_axis(won, order[:, None], axis=-1)
            prompt = np.arange(len(criterion))
            half = stats.beyond_half(won, criterion, prompt, own)
            p = stats.fits_p(stats.moments(won, criterion, prompt), own, family, half)
            fits = stats.fits_adjusted(p, own, family) < ALPHA
            false = (order != own) if moved else np.ones_like(fits)
            said.append(fits[:, 0] if moved is False else (fits & false).any(axis=1))
        measure, target = "false-positive rate", {"at_most": ALPHA}
        if moved is False:
            measure, target = "power", {"at_least": POWER}
        rows.append(check("a name is shown to fit", says, measure, np.concatenate(said), **target))
    return rows


def _judged(draws: int, seed: int, name: str, order: bool = False, **world):
    """What the page says of many worlds, world by world.

    ``wrong`` and ``doubted`` of each head, ``pairs`` (adjusted p of each exchange); or ``order``
    (p of the names as a whole).
    """
    source = generator(seed, name)
    concepts, rivals = world.get("concepts", 4), world.get("rivals", 0)
    own = np.asarray([*range(concepts), *[stats.RIVAL] * rivals])
    orders = stats.name_orders(len(own), 2000)
    out: dict[str, list[np.ndarray]] = {}
    for part in parts(draws, max(1, STEP // (concepts * len(own) * world["pairs"]))):
        won, criterion = label_wins(source, part, gap=GAP, **world)
        found = stats.moments(won, criterion, np.arange(len(criterion)))
        if order:
            said = {"order": stats.names_p(*stats.named(found.rate, own), orders)}
        else:
            verdicts = stats.verdicts(found, own, ALPHA)
            said = {"wrong": verdicts.wrong, "doubted": verdicts.doubted}
            said["pairs"] = verdicts.swap.adjusted
        for key, values in said.items():
            out.setdefault(key, []).append(values)
    return {key: np.concatenate(values) for key, values in out.items()}


def _accusations(draws: int, seed: int) -> list[dict]:
    """Worlds in which what is said is false: of all heads, or of those that nobody touched."""
    right, swapped = f"all 4 names are right (gap {GAP})", "2 of 5 names are exchanged"
    large, small = {"pairs": 100}, {"pairs": 20, "shared": 0.5}
    few, told = "20 pairs, heads alike in half", "100 pairs a criterion"
    own, pair = ("wrong", "pairs", "any"), ("wrong", "doubted", "pairs")
    five = large | {"concepts": 5}
    worlds = (
        (own, "correct", 0, right, told, large),
        (own, "correct", 0, right, few, small),
        (own, "nothing", 0, "4 heads follow nothing", told, large),
        (own, "nothing", 0, "4 heads follow nothing", few, small),
        (own, "rival", 0, f"{right}, a rival does as well", told, large | {"rivals": 2}),
        (own, "nothing", 0, "4 heads and 2 rivals follow nothing", told, large | {"rivals": 2}),
        (pair, "swap", 2, f"{swapped}; the others", told, five),
        (pair[:2], "spill", 2, f"{swapped}, one beats an innocent; the others", told, five),
        (pair, "taken", 1, "1 of 4 names is a rival's; the others", told, large | {"rivals": 1}),
        (pair, "length", 1, "1 of 4 heads is replaced by length; the others", told, large),
    )
    found: dict[str, list[tuple[str, np.ndarray]]] = {words: [] for words in CLAIMS.values()}
    for which, kind, touched, says, size, world in worlds:
        name = f"labels/accusations/{kind}/{world['pairs']}/{world.get('rivals', 0)}"
        most = 10_000 if kind == "nothing" else 2_000  # elsewhere nearly none is accused
        said = _judged(many(draws, most), seed, name, kind=kind, **world)
        concepts, rivals = world.get("concepts", 4), world.get("rivals", 0)
        heads = np.asarray([*range(concepts), *[stats.RIVAL] * rivals])
        sides = np.stack(stats.swap_family(heads, np.ones((len(heads), concepts), bool)))
        made = {
            "wrong": said["wrong"][:, touched:].any(axis=1),
            "doubted": said["doubted"][:, touched:].any(axis=1),
            "pairs": (said["pairs"][:, (sides >= touched).all(axis=0)] < ALPHA).any(axis=1),
        }
        made["any"] = made["wrong"] | made["pairs"]
        for claim in which:
            found[CLAIMS[claim]].append((f"{says}; {size}", made[claim]))
    return [
        check(words, world, "false-positive rate", happened, at_most=FALSE)
        for words, worlds in found.items()
        for world, happened in worlds
    ]


def _order(draws: int, seed: int) -> list[dict]:
    claim = "names beat random ones (p < .05)"
    size = f"100 pairs a criterion, gap {GAP}"
    false = {"at_most": FALSE}
    worlds = (
        ("derangement", 5, 0, "every name is wrong; 5 heads", false),
        ("random", 5, 0, "names are dealt; 5 heads", false),
        ("random", 4, 2, "names are dealt; 4 heads, 2 rivals", false),
        ("correct", 5, 0, "all names are right; 5 heads", {"at_least": POWER}),
        ("correct", 4, 2, "all names are right; 4 heads, 2 rivals", {"at_least": POWER}),
    )
    rows = []
    for kind, concepts, rivals, says, target in worlds:
        world = {"kind": kind, "concepts": concepts, "rivals": rivals, "pairs": 100}
        p = _judged(many(draws, 10_000), seed, f"labels/{kind}/{rivals}", order=True, **world)[
            "order"
        ]
        measure = "power" if "at_least" in target else "false-positive rate"
        rows.append(check(claim, f"{says}, {size}", measure, p < ALPHA, **target))
    return rows


def _found(draws: int, seed: int) -> list[dict]:
    """The first head's name is wrong: exchanged with the second or a rival, or it is length."""
    rows = []
    worlds = (
        ("swap", 4, 0, 100, 10_000, "1 exchange among 4 heads"),
        ("swap", 9, 0, 100, 4_000, "1 exchange among 9 heads"),
        ("swap", 4, 0, 40, 10_000, "1 exchange among 4 heads"),
        ("taken", 4, 1, 250, 2_000, "1 of 4 names is a rival's"),
        ("taken", 4, 1, 100, 5_000, "1 of 4 names is a rival's"),
        ("length", 4, 0, 100, 2_000, "1 of 4 heads is replaced by length"),
    )
    for kind, concepts, rivals, pairs, most, says in worlds:
        world = {"kind": kind, "concepts": concepts, "rivals": rivals, "pairs": pairs}
        name = f"labels/found/{kind}/{concepts}/{pairs}"
        said = _judged(many(draws, most), seed, name, **world)
        size = f"{says}; {pairs} pairs a criterion, gap {GAP}"
        if kind == "length":
            rows.append(check(CLAIMS["wrong"], size, "power", said["wrong"][:, 0], at_least=POWER))
            continue
        right = label_world("correct", concepts=concepts, pairs=pairs, rivals=rivals)
        power = stats.label_check(right, draws=100).pairs["power"]
        place = 0 if kind == "swap" else concepts * (concepts - 1) // 2
        told = float(power.iloc[place])
        few = pairs < (100 if kind == "swap" else 200)
        rows.append(
            check(
                f"{CLAIMS['pairs']}; power as told" if few else CLAIMS["pairs"],
                size,
                "power",
                said["pairs"][:, place] < ALPHA,
                at_least=told - WITHIN if few else POWER,
                at_most=told + WITHIN if few else 1.0,
                note=f"power that the page tells: {told:.2f}",
            )
        )
        if not few:
            accused = (said["wrong"] | said["doubted"])[:, : 2 if kind == "swap" else 1]
            claim = "a name is wrong or in doubt"
            rows.append(check(claim, size, "power", accused.any(axis=1), at_least=POWER))
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
            concepts = [head.split("-")[1] for head in AGREEING]
            run = from_gaps(gaps, heads=AGREEING, concepts=concepts)
            found.append(stats.mtmm(run, draws=1000, seed=one)["verdict"].isin(verdicts).any())
        measure = "power" if "at_least" in target else "false-positive rate"
        rows.append(check(said, f"{world}; {size}", measure, np.asarray(found), **target))
    return rows
