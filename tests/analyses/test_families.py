"""Each page counts the tests that it corrects together, and a null says what it could have found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from lib import stats
from lib.analyses.disentanglement import stats as tables
from lib.analyses.disentanglement import words
from lib.analyses.disentanglement.worlds import independent_world
from lib.analyses.gating import stats as gating
from lib.analyses.gating import words as on_gating
from lib.analyses.gating.worlds import gating_world
from lib.analyses.labels import stats as labels
from lib.analyses.labels import words as on_labels
from lib.analyses.labels.worlds import label_world
from lib.analyses.protocols import stats as protocols
from lib.analyses.protocols import words as on_protocols
from lib.analyses.protocols.worlds import protocol_world
from lib.analyses.separability import stats as separability
from lib.analyses.separability import words as on_separability
from lib.analyses.validity import words as on_validity
from lib.planted.worlds import make_run, validity_world


def coin(pairs: int = 60, heads: int = 2, **given):
    return make_run(np.random.default_rng(0).standard_normal((2 * pairs, heads)), **given)


def test_validity_counts_heads_and_subsets_and_leaves_out_what_has_no_test():
    table = stats.validity(coin(subset=["a"] * 30 + ["b"] * 30))
    (told,) = on_validity.family(table)
    assert "one family of 6 tests" in told
    nulls = table[table["verdict"] == "inconclusive"]
    assert f"for the {len(nulls)} that found nothing" in told
    assert f"{nulls['mde'].min():.3f} to {nulls['mde'].max():.3f}" in told
    # one head of five is constant, and the only subset repeats "all"
    (told,) = on_validity.family(stats.validity(validity_world(100)))
    assert "one family of 4 tests" in told
    assert on_validity.family(stats.validity(make_run(np.zeros((8, 1))))) == []
    # a part that is called "all" is a question of its own, beside the whole and the other part
    (told,) = on_validity.family(stats.validity(coin(subset=["all", "hard"] * 30)))
    assert "one family of 6 tests" in told


def test_a_head_at_chance_says_what_it_would_have_shown():
    gaps = np.resize([1.0, -1.0], 3000)
    table = stats.validity(make_run(np.column_stack([gaps, -gaps]).reshape(-1, 1)))
    row = next(table.itertuples())
    assert row.verdict == "chance"
    assert f"a win rate {row.mde:.3f} away from one half would be found" in on_validity.verdict(row)


def test_labels_count_both_families_and_tell_the_difference_they_would_find():
    run = label_world("correct", pairs=40)
    check = labels.label_check(run)
    (told,) = on_labels.family(check, labels.mtmm(run))
    assert "6 exchanges of two names, and 12 heads beside another criterion" in told
    said = " ".join(on_labels.takeaways(check))
    for table in (check.pairs, check.centred):
        least, most = table["mde"].min(), table["mde"].max()
        assert f"a difference of {least:.2f} to {most:.2f}, depending on the pair," in said
    single = labels.label_check(make_run(np.zeros((8, 1))))
    assert on_labels.family(single, labels.mtmm(make_run(np.zeros((8, 1))))) == []


def test_names_that_are_not_told_from_random_ones_say_what_would_have_been():
    check = labels.label_check(label_world("nothing", pairs=40, seed=3))
    (family,) = check.families.itertuples()
    assert family.p > 0.05
    assert f"On average {family.mde:.3f} more wins" in " ".join(on_labels.takeaways(check))
    few = labels.label_check(label_world("nothing", concepts=2, pairs=40))
    assert "can't reach p = .05" in " ".join(on_labels.takeaways(few))


def test_protocols_count_cells_and_say_how_large_a_component_would_be_found():
    runs = protocol_world("main", heads=3, protocols=4, prompts=60)
    matrix, components = protocols.protocol_matrix(runs), protocols.variance_components(runs)
    told = on_protocols.takeaways(matrix, components)
    assert any("one family of 12 tests" in sentence for sentence in told)
    logit = components[components["scale"] == "logit"].set_index("component")
    hidden = [name for name in ("head", "protocol", "interaction") if not logit.loc[name, "found"]]
    assert "interaction" in hidden
    for name in hidden:
        size = f"{logit.loc[name, 'mde']:.3f} would have been found with power .8"
        assert any(size in sentence for sentence in told)


def test_cells_of_one_prompt_have_no_sizes_to_tell():
    tested = pd.DataFrame({"p": [0.5, 0.5], "mde": [np.nan, np.nan]})
    none = pd.DataFrame({"estimate": [np.nan]})
    assert on_protocols.family(tested, none) == [
        "Cells are tested against one half as one family of 2 tests, corrected by Holm; no win rate "
        "would be told from one half with power .8."
    ]
    (told,) = on_protocols.family(tested.assign(mde=[0.1, np.nan]), none)
    assert told.endswith(
        "0.100 away from one half would be found with power .8, none by 1 of them."
    )


def test_without_a_factor_the_page_says_from_where_on_there_would_be_one():
    run = independent_world(pairs=60, heads=4)
    found = tables.factors(run, draws=99)
    assert not found["kept"].any()
    pairs = tables.disentanglement(run, draws=20)
    groups = tables.clusters(run, draws=5)
    published = tables.disentanglement_as_published(run)
    overview = tables.overview(published, pairs, groups, found)
    text = " ".join(words.takeaways(overview, pairs, groups))
    assert "finds no factor" in text and "a smaller factor can't be ruled out" in text


def test_the_gate_is_told_on_each_part_with_what_would_have_been_found():
    rules = gating.rules(gating_world(pairs=200, informed=False))
    told = on_gating.parts(rules)
    assert [sentence.split(" the gate")[0] for sentence in told] == ["On one", "On two"]
    missed = rules[(rules["subset"] == "one") & ~(rules["p_adjusted"] < 0.05) & rules["mde"].gt(0)]
    differ = (missed["gain_low"] > 0) | (missed["gain_high"] < 0)
    assert 0 < differ.sum() < len(missed)
    least, most = (f"{size:.3f}" for size in missed.loc[~differ, "mde"].agg(["min", "max"]))
    assert told[0].endswith(f", where {least} to {most} would have been found.")
    assert on_gating.parts(rules[rules["subset"].isin(["all", "one"])]) == []


@pytest.mark.parametrize("shape", [(2, 1), (2, 2), (40, 1)])
def test_with_next_to_nothing_no_family_sentence_holds_a_nan(shape):
    run = make_run(np.random.default_rng(0).standard_normal(shape))
    told = on_validity.family(stats.validity(run))
    matrix, parts = protocols.protocol_matrix([run]), protocols.variance_components([run])
    told += on_protocols.family(matrix, parts)
    told += on_separability.family(separability.readout(run, repeats=1, flips=2, plants=0))
    pairs, found = tables.disentanglement(run, draws=9), tables.factors(run)
    told += words.family(pairs, found)
    assert told and not any("nan" in sentence for sentence in told)
