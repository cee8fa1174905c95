"""Concepts: what is claimed in worlds where it is so, and in those where it isn't."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lib.analyses.concepts import coverage, stats
from lib.analyses.concepts.divergence import THRESHOLD, threshold
from lib.analyses.concepts.worlds import World, concept_world
from lib.planted.checks import COVERAGE, FALSE, POWER, check, generator, many, parts, seeds

MOST = 250  # worlds of a kind
FLIPS = 499
SIZE = "6 concepts of 24 pairs, 8 heads, 48 features"
WORLDS = {
    "random": f"better and worse exchanged at random; {SIZE}",
    "paid": f"one concept has a direction, one head reads along it; {SIZE}",
    "length": f"of one concept the better response is longer, which states and a head hold; {SIZE}",
    "orthogonal": f"every concept has a direction, orthogonal to the others'; {SIZE}",
    "opposed": f"every concept has a direction, two are opposed; {SIZE}",
}
HELD, DIMENSIONS = 96, (1, 5, 20)


def checks(draws: int, seed: int) -> list[dict]:
    """Rows on concepts found, paid for and in conflict, on cosines, and on states flagged."""
    return [
        *_found(draws, seed),
        *_paid(draws, seed),
        *_conflict(draws, seed),
        *_flags(draws, seed),
    ]


def _drawn(kind: str, draws: int, seed: int) -> Iterator[World]:
    """Worlds of a kind, one at a time; the same for every claim."""
    for one in seeds(seed, f"concepts/{kind}", many(draws, MOST)):
        yield concept_world(kind, seed=one)


def _found(draws: int, seed: int) -> list[dict]:
    claim, false = "a concept is a direction of the states", "false-positive rate"
    verdicts = {
        kind: [stats.found(w.run, flips=FLIPS)["verdict"] for w in _drawn(kind, draws, seed)]
        for kind in ("random", "paid", "length")
    }
    anywhere = np.asarray([(v == "found").any() for v in verdicts["random"]])
    there = np.asarray([v[0] == "found" for v in verdicts["paid"]])
    length = np.asarray([v[0] == "found" for v in verdicts["length"]])
    return [
        check(claim, WORLDS["random"], false, anywhere, at_most=FALSE, note="any of 6 concepts"),
        check(claim, WORLDS["length"], false, length, at_most=FALSE),
        check(claim, WORLDS["paid"], "power", there, at_least=POWER),
    ]


def _paid(draws: int, seed: int) -> list[dict]:
    claim, false = "a head pays for a concept", "false-positive rate"
    tables = {
        kind: [(w, stats.alignment(w.run, w.weight)) for w in _drawn(kind, draws, seed)]
        for kind in ("random", "paid", "length")
    }
    told = ("for", "against")
    anywhere = np.asarray([t["verdict"].isin(told).any() for _, t in tables["random"]])
    length = np.asarray([t["verdict"][0] in told for _, t in tables["length"]])
    there = np.asarray([t["verdict"][0] == "for" for _, t in tables["paid"]])
    held = np.asarray([t["low"][0] <= w.cosine <= t["high"][0] for w, t in tables["paid"]])
    cosine = "the cosine of a head with a concept's direction"
    return [
        check(claim, WORLDS["random"], false, anywhere, at_most=FALSE, note="any of 48"),
        check(claim, WORLDS["length"], false, length, at_most=FALSE),
        check(claim, WORLDS["paid"], "power", there, at_least=POWER),
        check(
            cosine,
            WORLDS["paid"],
            "coverage",
            held,
            at_least=COVERAGE[0],
            note="a little wider than it needs to be: jackknifed",
        ),
    ]


def _conflict(draws: int, seed: int) -> list[dict]:
    claim = "two concepts' directions go together or are opposed"
    tables = {
        kind: [stats.conflict(w.run) for w in _drawn(kind, draws, seed)]
        for kind in ("random", "orthogonal", "opposed")
    }
    told = ("together", "in conflict")
    rows = [
        check(
            claim,
            WORLDS[kind],
            "false-positive rate",
            np.asarray([t["verdict"].isin(told).any() for t in tables[kind]]),
            at_most=FALSE,
            note="any of 15 pairs",
        )
        for kind in ("random", "orthogonal")
    ]
    there = np.asarray([t["verdict"][0] == "in conflict" for t in tables["opposed"]])
    labelled = [
        ((t["form"] == "raw") & t["label"].isin(["aligned", "in conflict"])).any()
        for t in tables["random"]
    ]
    return [
        *rows,
        check(claim, WORLDS["opposed"], "power", there, at_least=POWER),
        check(
            claim,
            WORLDS["random"],
            "false-positive rate",
            np.asarray(labelled),
            at_most=FALSE,
            form="as published",
            note="any of 15 cosines beyond .2",
        ),
    ]


def _flags(draws: int, seed: int) -> list[dict]:
    """Normal states of known mean and covariance: squared distances are χ²."""
    claim, rows = "a state is unlike others", []
    for d in DIMENSIONS:
        random = generator(seed, f"concepts/flags/{d}")
        published, ours = [], []
        for size in parts(draws, 1000):
            distance = np.sqrt(random.chisquare(d, (size, HELD + 1)))
            published += (distance[:, -1] > THRESHOLD).tolist()
            ours += [new > threshold(held) for *held, new in distance]
        world = f"a state like the others, {d} dimension{'s' if d > 1 else ''}, {HELD} held out"
        for happened, form in ((ours, "corrected"), (published, "as published")):
            happened = np.asarray(happened)
            rows.append(
                check(claim, world, "false-positive rate", happened, at_most=FALSE, form=form)
            )
    few = [
        (coverage.coverage(w.run, stats.alignment(w.run), draws=1)["few_low"] >= coverage.HIGH)
        for w in _drawn("random", min(draws, 100), seed)
    ]
    rows.append(
        check(
            "a concept is at high risk",
            f"no concept has a direction, {coverage.FEW} pairs of each; {SIZE}",
            "false-positive rate",
            np.asarray([each.any() for each in few]),
            at_most=FALSE,
            form="as published",
            note=f"any index at or above {coverage.HIGH}",
        )
    )
    return rows
