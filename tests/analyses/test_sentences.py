"""All sentences of each analysis' page on one planted world, as ``<analysis>/sentences.txt`` has them.

What single sentences hang on is asserted in the folders' own tests. ``assert_rendered`` says how
to write the files again.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lib import stats
from lib.analyses.attribution import stats as parts
from lib.analyses.attribution import words as attribution
from lib.analyses.attribution.worlds import parts_world
from lib.analyses.bases import few
from lib.analyses.bases import stats as latent
from lib.analyses.bases import words as bases
from lib.analyses.bases.worlds import planted_people
from lib.analyses.cascade import stats as cascading
from lib.analyses.cascade import words as cascade
from lib.analyses.cascade.worlds import factor_world
from lib.analyses.concepts import stats as directions
from lib.analyses.concepts import words as concepts
from lib.analyses.concepts.worlds import concept_world
from lib.analyses.disentanglement import stats as separation
from lib.analyses.disentanglement import words as disentanglement
from lib.analyses.disentanglement.worlds import copies_world
from lib.analyses.exploits import stats as surfaces
from lib.analyses.exploits import words as exploits
from lib.analyses.exploits.worlds import text_world
from lib.analyses.gating import stats as gates
from lib.analyses.gating import words as gating
from lib.analyses.gating.worlds import gating_world
from lib.analyses.geometry import stats as places
from lib.analyses.geometry import words as geometry
from lib.analyses.geometry.worlds import heads_world
from lib.analyses.labels import stats as names
from lib.analyses.labels import words as labels
from lib.analyses.labels.worlds import label_world
from lib.analyses.lens import orders
from lib.analyses.lens import stats as depths
from lib.analyses.lens import words as lens
from lib.analyses.lens.worlds import settled_world
from lib.analyses.model import stats as weights
from lib.analyses.model import words as model
from lib.analyses.protocols import stats as cells
from lib.analyses.protocols import words as protocols
from lib.analyses.protocols.worlds import protocol_world
from lib.analyses.selection import stats as choosing
from lib.analyses.selection import words as selection
from lib.analyses.selection.worlds import candidate_world
from lib.analyses.separability import stats as probing
from lib.analyses.separability import words as separability
from lib.analyses.separability.worlds import separability_world
from lib.analyses.tension import stats as silencing
from lib.analyses.tension import words as tension
from lib.analyses.tension.worlds import network
from lib.analyses.validity import words as validity
from lib.planted.worlds import make_run, validity_world


def of_validity() -> list:
    run = validity_world(100)
    table = stats.validity(run)
    return [
        validity.takeaways(table, stats.baselines(run), run),
        validity.ties(table, {"dtype": "bfloat16"}),
        validity.published(table, stats.validity_as_published(run)),
        validity.glued(table),
    ]


def of_cascade() -> list:
    run = factor_world(0.9, loaded=("a", "b", "c"))
    found, apart = (cascading.correlations(each, draws=9_999) for each in (run, factor_world(0)))
    told = cascade.takeaways(cascading.dimensions(run), found, cascading.as_published(run))
    nothing = cascading.correlations(make_run(np.zeros((8, 1))), draws=9).together
    return [told, [cascade.answer(apart.together), cascade.answer(nothing)]]


def of_selection() -> list:
    marked = choosing.candidates(candidate_world(100, strength=[2.0, -2.0, 0.0]))
    rated = choosing.candidates(candidate_world(12, strength=[0.0], rated=True))
    pairs = choosing.candidates(make_run(np.zeros((20, 1))))
    return [
        *(selection.takeaways(choosing.selection(each), each) for each in (marked, rated, pairs)),
        [selection.answer(choosing.selection(pairs))],
    ]


def of_exploits() -> list:
    run, clean = text_world("keyword", 3.0), text_world(heads=1)
    told = [
        exploits.takeaways(surfaces.exploits(each), surfaces.baselines(each), surfaces.dose(each))
        for each in (run, clean)
    ]
    nothing = surfaces.exploits(make_run(np.zeros((8, 1))))
    return [*told, [exploits.answer(nothing)], exploits.glued(surfaces.exploits(run))]


def of_bases() -> list:
    told = []
    for world in ({"seed": 5}, {"rewards": 1, "users": 12}, {"users": 6, "pairs": 12}):
        given, stimuli, *_ = planted_people(**world)
        study = latent.study(given, stimuli, most=4)
        methods, count = (few.BASES, few.ONE, few.ALONE), max(2, study.count)
        table = few.few_shot(given, study.pairs, count, trials=1, methods=methods)
        told.append(bases.takeaways([study], table.assign(whose=given.kind)))
    nothing = latent.study(latent.people([]))
    return [*told, [bases.answer(nothing)], bases.glued([study])]


def of_disentanglement() -> list:
    run = copies_world()
    published, pairs = separation.disentanglement_as_published(run), separation.disentanglement(run)
    clusters, factors = separation.clusters(run), separation.factors(run)
    overview = separation.overview(published, pairs, clusters, factors, separation.sizes(run))
    return [
        disentanglement.takeaways(overview, pairs, clusters),
        disentanglement.family(pairs, factors),
        disentanglement.published(overview, published),
        [disentanglement.answer(overview, clusters, pairs)],
        disentanglement.glued(overview),
    ]


def of_gating() -> list:
    run = gating_world(pairs=200)
    rules, debiasing = gates.rules(run), gates.debiasing(run)
    alone = [table(run) for table in (gates.identity, gates.coefficients, gates.entropy)]
    alone[0]["largest"] = 0.0  # rounding error, as is a correlation after debiasing
    debiasing["after"] = debiasing["after"].round(9) + 0.0
    return [
        gating.takeaways(*alone, rules, debiasing),
        gating.family(rules),
        gating.longer(gates.with_length(run, rules)),
        [gating.answer(rules)],
        gating.glued(rules),
    ]


def of_geometry() -> list:
    world = heads_world()
    identity = places.identity(world.run, world.weight)
    gauges = places.gauges(world.run, world.weight, world.gain)
    location = places.location(gauges, identity)
    published = places.geometry_as_published(world.run, world.weight)
    return [
        geometry.takeaways(location, gauges, identity.assign(error=0.0)),
        geometry.published(published, places.mantel(world.run, world.weight)),
        geometry.glued(location),
    ]


def of_labels() -> list:
    run = label_world("swap", pairs=200)
    check, agreement = names.label_check(run), names.mtmm(run)
    return [
        labels.takeaways(check),
        labels.family(check, agreement),
        labels.agreement(agreement),
        [labels.answer(check)],
        [labels.limits(check)],
        [labels.beaten(check)],
        labels.glued(check),
    ]


def of_protocols() -> list:
    runs = protocol_world("interaction", sd=1.0, heads=3, protocols=3, prompts=200)
    matrix, components = cells.protocol_matrix(runs), cells.variance_components(runs)
    without = cells.leave_one_out(runs)
    return [
        protocols.takeaways(matrix, components, without),
        protocols.longer(cells.longer(runs)),
        [protocols.answer(matrix)],
        [protocols.shares(components, without)],
        protocols.left_out(["stimuli/controlled"]),
    ]


def of_separability() -> list:
    run = separability_world("not read out", pairs=400)
    published, ceiling = probing.separability_as_published(run), probing.ceiling(run)
    probes = probing.probes(run, repeats=1, flips=5)
    losses = probing.readout(run, repeats=1, flips=5)
    return [
        separability.takeaways(published, ceiling, probes, losses),
        separability.family(losses),
        [separability.answer(probes, losses)],
        [separability.lost(losses)],
        separability.glued(probes, losses),
    ]


def of_concepts() -> list:
    world = concept_world("opposed", strength=2.5)
    run, weight = world.run, world.weight
    found, aligned = directions.found(run, flips=199), directions.alignment(run, weight)
    conflict, slopes = directions.conflict(run), directions.slopes(run, weight, None)
    return [
        concepts.takeaways(found, aligned, conflict, slopes),
        concepts.family(found, aligned, conflict),
        concepts.covered(directions.coverage(run, aligned, draws=50)),
        concepts.flagged(directions.tail(), directions.calibrated(run)),
        concepts.glued(found),
    ]


def of_model() -> list:
    """Three heads, one with no weights and no concept, and a card of two scores."""
    names, weight = ["first", "second", "third"], np.array([[3.0, 4.0], [0, 1], [0, 0]])
    heads = weights.norms(weight, names)
    heads = heads.assign(source=["card", "card", "unnamed"], concept=["safety", "tone", ""])
    numbers = {"held_out": [0.7, 0.6, 0.8], "cross_validated": [0.7, 0.75, 0.8]}
    scores = pd.DataFrame({"head": names, "score": ["win rate"] * 2 + ["Spearman's rho"]} | numbers)
    scores = scores.assign(held_out_low=scores["held_out"] - 0.1, note="")
    scores["kind"] = ["preference", "preference", "measure"]
    scores["held_out_high"] = scores["held_out"] + 0.1
    rules = pd.DataFrame({"rule": ["gate", "mean", "best head"], "score": [0.8, 0.6, 0.7]})
    rules = rules.assign(low=0.75, high=0.85, rows=400, note="")
    return [
        model.takeaways(heads, weights.cosines(weight, names), scores, rules, "2024-07-26"),
        model.glued(heads, scores),
    ]


def of_lens() -> list:
    effects = settled_world(8)
    found, curves = depths.depths(effects), depths.curves(effects)
    order = orders.order(effects, orders=199)
    return [
        lens.takeaways(found, depths.published(effects, curves), order, 0.0),
        [lens.answer(depths.depths(settled_world(12)))],
        lens.glued(found),
    ]


def of_attribution() -> list:
    effects = parts_world(0.8, seed=2)
    table, totals = parts.parts(effects), parts.totals(effects)
    return [
        attribution.takeaways(table, totals, 0.0),
        [attribution.answer(parts.parts(parts_world(pairs=40)))],
        attribution.glued(table),
        attribution.takeaways(table, totals, 0.0, whole=False),
    ]


def of_tension() -> list:
    found = []
    for study in (network(20, seed=1), network(0, seed=1)):
        names = ("accuracy", "silenced", "overlaps", "lengths", "helps", "against")
        tables = {name: getattr(silencing, name)(study) for name in names}
        found.append(tension.takeaways(**tables))
    return [*found, tension.glued(**tables)]


PAGES = {
    "model": of_model,
    "validity": of_validity,
    "cascade": of_cascade,
    "selection": of_selection,
    "exploits": of_exploits,
    "bases": of_bases,
    "disentanglement": of_disentanglement,
    "gating": of_gating,
    "geometry": of_geometry,
    "labels": of_labels,
    "protocols": of_protocols,
    "separability": of_separability,
    "lens": of_lens,
    "attribution": of_attribution,
    "concepts": of_concepts,
    "tension": of_tension,
}


@pytest.mark.parametrize("page", PAGES)
def test_rendering_of_a_page(page, assert_rendered):
    assert_rendered(Path(__file__).parent / page / "sentences.txt", *PAGES[page]())


# ---- What a rendering doesn't show ----


def test_a_head_changes_sides_only_after_correction():
    rows = [("a", 0.65, 0.01), ("a", 0.35, 0.01), ("b", 0.65, 0.01), ("b", 0.35, 0.2)]
    matrix = pd.DataFrame(rows, columns=["head", "win_rate", "p_adjusted"]).assign(protocol="p")
    (row,) = cells.changing(matrix).itertuples()
    assert (row.head, row.best, row.worst) == ("a", 0, 1)
    assert protocols.answer(matrix).startswith("1 of 2 heads goes with")
    assert protocols.answer(matrix[1:]).startswith("0 of 2 heads go with")


def test_a_head_that_others_beat_is_named_though_its_name_fits():
    result = names.label_check(label_world("correct", pairs=200))
    for beaten, starts in (
        ([2, 0, 0, 0], "On what they claim, these heads win less often than some"),
        ([0] * 4, "On what it claims no head wins less"),
        ([np.nan, 0, np.nan, np.nan], "On what it claims no head wins less"),
        ([np.nan] * 4, "No head could be tested"),
    ):
        result.heads["beaten_by"] = beaten
        assert labels.beaten(result).startswith(starts)
    assert "No name is called wrong" in labels.answer(result)
    one = make_run(np.ones((18, 1)), heads=["safety"], criterion=["safety"] * 9)
    assert labels.beaten(names.label_check(one)).startswith("No head could be tested")


def test_concepts_and_readouts_are_counted_of_those_that_were_judged():
    rows = [("safety", 0.9, 0.001, ""), ("honesty", 0.5, 0.4, ""), ("tone", np.nan, np.nan, "few")]
    concepts = pd.DataFrame(rows, columns=["concept", "accuracy", "p_adjusted", "note"])
    rows = [("safety", 0.8, 0.01), ("honesty", 0.5, 0.4), ("tone", np.nan, np.nan)]
    without = pd.DataFrame(rows, columns=["concept", "probe", "probe_p"])
    answer = separability.answer(concepts, without)
    assert answer == "Beyond length, a linear probe finds 1 of 2 concepts in the state: safety."
    assert separability.answer(concepts[2:], without).endswith("probed: few.")
    alone = separability.answer(
        concepts.assign(length=0.9), without.assign(probe=0.497, probe_p=0.6)
    )
    assert "finds 0 of 2 concepts in the state. safety is found only as length: 0.900" in alone
    assert alone.endswith("length alone 0.900, with length taken out 0.497.")
    verdicts = ["read out", "not measurable", "undefined", "read out"]
    losses = pd.DataFrame({"verdict": verdicts, "note": "no head claims it", "head": list("abcd")})
    losses = losses.assign(loss=0.4, p_adjusted=0.2, probe=0.9, probe_p=0.01, concept="safety")
    assert "Of 3 readouts" in separability.lost(losses)
    assert separability.lost(losses).endswith("2 read out, 1 not measurable.")
    assert separability.lost(losses[2:3]).endswith("no head claims it.")
    shown = losses.assign(p_adjusted=0.01, low=0.3, high=0.5)
    assert separability.lost(shown).endswith(
        "1 loses at least part of it, 2 read out. "
        "b loses at least 0.400 [0.300, 0.500] of safety; how much more can't be measured."
    )
    assert separability.told(shown)["verdict"].tolist() == [verdicts[0], "at least", *verdicts[2:]]
    hidden = separability.lost(shown.assign(probe_p=0.2))
    assert hidden.endswith("2 read out, 1 not measurable."), "what no probe finds can't be lost"


def test_without_a_gate_nothing_is_compared():
    answer = gating.answer(gates.rules(make_run(np.zeros((20, 2)))))
    assert answer.startswith("The gate can't be compared") and "nan" not in answer
