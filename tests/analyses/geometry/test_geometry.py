"""Geometry: a place is claimed where gauges agree, never after a change of gauge."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import linalg
from scipy import stats as scipy_stats

from lib.analyses.geometry import stats, worlds
from lib.errors import DataError
from lib.planted.worlds import make_run
from lib.stats import subspaces

WORLDS = {"backbone": worlds.backbone_world, "heads": worlds.heads_world}


def placed(world, weight="given", gain="given"):
    weight = world.weight if isinstance(weight, str) else weight
    gain = world.gain if isinstance(gain, str) else gain
    table = stats.location(stats.gauges(world.run, weight, gain), stats.identity(world.run, weight))
    return table.set_index("kind")


# ---- Where entanglement lives ----


@pytest.mark.parametrize("place", WORLDS)
def test_a_planted_place_is_found_at_both_levels(place):
    assert placed(WORLDS[place]())["location"].tolist() == [place, place]


@pytest.mark.parametrize("place", WORLDS)
def test_after_a_change_of_gauge_no_place_is_claimed(place):
    table = placed(WORLDS[place](regauged=True))
    assert table["location"].tolist() == ["none", "none"]
    assert table["note"].str.contains("the gauges disagree").all()


@pytest.mark.parametrize("place", WORLDS)
def test_a_change_of_gauge_changes_no_score_and_no_correlation(place):
    plain, changed = WORLDS[place](), WORLDS[place](regauged=True)
    assert changed.run["score"].values == pytest.approx(
        plain.run["score"].values, rel=1e-4, abs=1e-4
    )
    one, other = (stats.gauges(w.run, w.weight, w.gain)["rms_r"] for w in (plain, changed))
    assert other.to_numpy() == pytest.approx(one.to_numpy(), abs=1e-5)


def test_places_are_found_in_worlds_of_other_seeds():
    for seed in range(1, 11):
        for place, make in WORLDS.items():
            assert placed(make(pairs=200, seed=seed)).loc["pooled", "location"] == place
            changed = placed(make(pairs=200, seed=seed, regauged=True))
            assert changed.loc["pooled", "location"] == "none"


def test_one_gauge_claims_nothing():
    table = placed(worlds.heads_world(), gain=None)
    assert table["location"].eq("none").all() and table["note"].eq(stats.ONE_GAUGE).all()


def test_uncorrelated_heads_have_nothing_to_place():
    generator = np.random.default_rng(0)
    hidden = generator.standard_normal((1000, 16))
    weight = np.linalg.qr(generator.standard_normal((16, 16)))[0][:4]
    run = make_run(hidden @ weight.T, hidden=hidden)
    table = placed(worlds.World(run, weight, np.ones(16)))
    assert table["location"].eq("none").all() and table["note"].str.contains("hardly").all()


def test_weights_that_did_not_make_the_scores_claim_nothing():
    world = worlds.heads_world()
    wrong = world.weight[::-1].copy()
    assert stats.identity(world.run, wrong)["verdict"].eq("fails").all()
    table = placed(world, weight=wrong)
    assert table["location"].eq("none").all() and table["note"].eq(stats.BROKEN).all()


# ---- The identity ----


@pytest.mark.parametrize("place", WORLDS)
def test_the_identity_holds_on_stored_scores(place):
    table = stats.identity(WORLDS[place]().run, WORLDS[place]().weight)
    assert table["verdict"].eq("holds").all() and (table["error"] <= 1e-5).all()


def test_it_holds_for_the_embedded_heads_as_the_model_computes_them():
    from lib.models.weights import head_weights

    weight = head_weights("smol-armo").weight
    hidden = np.random.default_rng(0).standard_normal((400, weight.shape[1])).astype(np.float32)
    run = make_run(hidden @ weight.T + np.float32(0.3), hidden=hidden)
    assert (stats.identity(run, weight)["error"] <= 1e-5).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("place", WORLDS)
def test_states_in_a_shorter_type_are_judged_alike(place, dtype):
    world = WORLDS[place](dtype=dtype)
    exact = WORLDS[place]()
    assert (world.run["hidden"].values != exact.run["hidden"].values).mean() > 0.9, "rounded"
    table = stats.identity(world.run, world.weight)
    assert table["dtype"].eq(dtype).all() and table["verdict"].eq("holds").all()
    assert placed(world)["location"].tolist() == [place, place]
    table = placed(world, weight=np.roll(world.weight, 1, axis=0))
    assert table["location"].eq("none").all() and table["note"].eq(stats.BROKEN).all()


def test_scores_of_states_that_are_not_those_stored_fail():
    """Rounded after they were read, at most one part in 256 away."""
    world = worlds.heads_world()
    world.run["hidden"] = worlds.heads_world(dtype="bfloat16").run["hidden"]
    table = stats.identity(world.run, world.weight)
    assert table["verdict"].eq("fails").all() and (table["error"] < 1e-2).all()


def test_heads_that_vary_between_prompts_alone_are_not_judged_within():
    generator = np.random.default_rng(0)
    hidden = np.repeat(generator.standard_normal((50, 6)), 2, axis=0)
    weight = generator.standard_normal((3, 6))
    run = make_run(hidden @ weight.T, hidden=hidden)
    table = stats.identity(run, weight).set_index("kind")
    assert table["verdict"].to_dict() == {"pooled": "holds", "within": "undefined"}
    assert table.loc["within", "note"] == stats.CONSTANT and np.isnan(table.loc["within", "error"])


# ---- The spectral form ----


def test_the_spectral_form_ends_at_the_correlation_in_every_gauge():
    world = worlds.backbone_world(regauged=True)
    last = stats.spectrum(world.run, world.weight, world.gain).groupby(
        ["kind", "gauge", "head", "other"], sort=False
    )
    ends = last["r"].last().unstack("gauge")
    expected = stats.pairs(world.run, world.weight).set_index(["kind", "head", "other"])["r"]
    for gauge in (stats.POST_NORM, stats.FOLDED):
        assert ends[gauge].reindex(expected.index).to_numpy() == pytest.approx(
            expected.to_numpy(), abs=1e-5
        )
    assert last["added"].sum().to_numpy() == pytest.approx(last["r"].last().to_numpy())


def test_the_spectral_form_by_hand():
    """Σ = diag(4, 1) and heads (1, 1), (1, −1): (4 − 1)/5, after 4/5 and then −1/5."""
    corner = np.array([[2.0, 1], [-2, 1], [2, -1], [-2, -1]]) * np.sqrt(3 / 4)
    weight = np.array([[1.0, 1], [1, -1]])
    table = stats.spectrum(make_run(corner @ weight.T, hidden=corner), weight)
    pooled = table[table["kind"] == "pooled"]
    assert pooled["added"].to_numpy() == pytest.approx([0.8, -0.2], abs=1e-6)
    assert pooled["r"].to_numpy() == pytest.approx([0.8, 0.6], abs=1e-6)
    assert pooled["variance"].to_numpy() == pytest.approx([0.8, 1], abs=1e-6)


@pytest.mark.parametrize("shape", [(30, 8), (8, 30)])
def test_principal_directions_are_those_of_the_singular_value_decomposition(shape):
    states = np.random.default_rng(1).standard_normal(shape)
    directions, variance = subspaces.principal(states)
    _, sigma, right = np.linalg.svd(states, full_matrices=False)
    assert variance == pytest.approx(sigma**2)
    assert np.abs(directions @ right.T) == pytest.approx(np.eye(8), abs=1e-6)


def test_readings_of_a_large_matrix_are_those_of_its_eigenvectors(monkeypatch):
    generator = np.random.default_rng(3)
    states = generator.standard_normal((150, 60)) * np.geomspace(30, 0.1, 60)
    covariance, weight = states.T @ states, generator.standard_normal((5, 60))
    values, vectors = np.linalg.eigh(covariance)
    monkeypatch.setattr(subspaces, "LARGE", 10)
    before = covariance.copy()
    found, products = subspaces.readings(covariance, weight)
    assert np.array_equal(covariance, before)
    assert found == pytest.approx(values[::-1], rel=1e-9, abs=1e-9)
    assert products**2 == pytest.approx((weight @ vectors[:, ::-1]) ** 2, rel=1e-6, abs=1e-12)
    directions, variance = subspaces.leading(states, 7)
    assert variance == pytest.approx(values[:-8:-1])
    assert np.abs(directions @ vectors[:, :-8:-1]) == pytest.approx(np.eye(7), abs=1e-9)


def test_the_spectrum_is_the_same_whichever_way_it_is_computed(monkeypatch):
    generator = np.random.default_rng(4)
    gain = generator.uniform(0.5, 2, 40)
    for pairs in (60, 15):  # more states than features, and fewer
        hidden = generator.standard_normal((2 * pairs, 40)) * np.geomspace(9, 0.3, 40)
        weight = generator.standard_normal((4, 40))
        run = make_run(hidden @ weight.T, hidden=hidden)
        monkeypatch.setattr(subspaces, "LARGE", 1000)
        expected = stats.spectrum(run, weight, gain)
        monkeypatch.setattr(subspaces, "LARGE", 5)
        found = stats.spectrum(run, weight, gain)
        for column in ("added", "r", "variance"):
            assert found[column].to_numpy() == pytest.approx(expected[column], abs=1e-9)
        assert len(found) == len(expected) and set(found["gauge"]) == {
            stats.POST_NORM,
            stats.FOLDED,
        }


# ---- As published ----


def test_published_measures_by_hand():
    """Rows (2, 0, 0) and (0, 1, 0) against the plane of the first and third axis."""
    found = stats.shape_of(np.array([[[2.0, 0, 0], [0, 1, 0]]]), np.eye(3)[[0, 2]])
    found = {name: value[0] for name, value in found.items()}
    p = np.array([0.8, 0.2])
    expected = {
        "rms_cosine": 0,
        "participation": 9 / 5,
        "entropy_rank": np.exp(-(p * np.log(p)).sum()),
        "condition": 2,
        "k90": 2,
        "angle_smallest": 0,
        "angle_largest": 90,
        "projection": 0.8,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_the_same_head_twice_has_one_angle():
    found = stats.shape_of(np.array([[[1.0, 0, 0, 0], [1, 0, 0, 0]]]), np.eye(4)[:2])
    assert [found[f"angle_{which}"][0] for which in ("smallest", "mean", "largest")] == [0, 0, 0]


@given(
    rank=st.integers(1, 4),
    copies=st.integers(0, 3),
    many=st.integers(1, 6),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=60)
def test_angles_are_scipys_whether_heads_depend_or_not(rank, copies, many, seed):
    assume(rank + copies > 1)
    generator = np.random.default_rng(seed)
    own = generator.standard_normal((rank, 12))
    weight = np.vstack([own, generator.standard_normal((copies, rank)) @ own])
    basis = np.linalg.qr(generator.standard_normal((12, many)))[0].T
    found = stats.shape_of(weight[None], basis)
    angles = np.degrees(linalg.subspace_angles(linalg.orth(own.T), basis.T))
    for which, expected in (
        ("smallest", angles.min()),
        ("mean", angles.mean()),
        ("largest", angles.max()),
    ):
        assert found[f"angle_{which}"][0] == pytest.approx(expected, abs=1e-6)


def test_random_heads_lie_within_their_own_band_and_far_from_45_degrees():
    generator = np.random.default_rng(3)
    hidden = generator.standard_normal((400, 256))
    weight = generator.standard_normal((6, 256))
    run = make_run(hidden @ weight.T, hidden=hidden)
    table = stats.geometry_as_published(run, weight, components=6).set_index("measure")
    row = table.loc["angle_mean"]
    assert row["low"] > 75
    assert row["low"] - 3 < row["value"] < row["high"] + 3


def test_nearest_orthonormal_rows_are_orthonormal_and_leave_such_rows_alone():
    weight = np.random.default_rng(4).standard_normal((3, 7))
    near = stats.nearest_orthonormal(weight)
    assert near @ near.T == pytest.approx(np.eye(3), abs=1e-12)
    assert stats.nearest_orthonormal(near * 5) == pytest.approx(near)


# ---- Mantel ----


def test_the_mantel_p_is_that_of_all_orders():
    generator = np.random.default_rng(5)
    one, other = (np.corrcoef(generator.standard_normal((5, 9))) for _ in range(2))
    i, j = np.triu_indices(5, 1)
    null = [
        np.corrcoef(one[i, j], other[np.ix_(o, o)][i, j])[0, 1]
        for o in map(list, itertools.permutations(range(5)))
    ]
    statistic, p, smallest, _ = stats.mantel_test(one, other)
    assert statistic == pytest.approx(null[0])
    assert p == pytest.approx(np.mean(np.abs(null) >= abs(null[0]) - 1e-12))
    assert smallest == 1 / 120


def test_random_orders_agree_with_all_of_them():
    generator = np.random.default_rng(6)
    one, other = (np.corrcoef(generator.standard_normal((6, 9))) for _ in range(2))
    exact, drawn = stats.mantel_test(one, other)[1], stats.mantel_test(one, other, draws=700)[1]
    assert drawn == pytest.approx(exact, abs=0.08)


def test_fewer_than_six_heads_are_not_tested():
    five, six = (
        stats.mantel(w.run, w.weight).iloc[0]
        for w in (worlds.heads_world(heads=5), worlds.heads_world(heads=6))
    )
    assert np.isnan(five["p"]) and five["note"].startswith("not tested")
    assert six["smallest_p"] == 1 / 720 and six["p"] >= six["smallest_p"]


# ---- Bad input ----


def every_table(run, weight, gain=None):
    gauges, identity = stats.gauges(run, weight, gain), stats.identity(run, weight)
    return {
        "gauges": gauges,
        "identity": identity,
        "location": stats.location(gauges, identity),
        "published": stats.geometry_as_published(run, weight, draws=5),
        "pairs": stats.pairs(run, weight, gain),
        "spectrum": stats.spectrum(run, weight, gain),
        "mantel": stats.mantel(run, weight),
    }


def test_without_weights_there_is_the_whitened_gauge_and_a_note():
    tables = every_table(worlds.heads_world().run, None)
    whitened = tables["gauges"].query("gauge == 'whitened'")
    assert whitened["rms_r"].gt(0.4).all()
    assert tables["location"]["note"].eq(stats.NO_WEIGHTS).all()
    assert tables["published"]["value"].isna().all() and tables["spectrum"].empty


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_few_states_give_notes(kept):
    world = worlds.heads_world(pairs=20)
    world.run["hidden"].values[kept:] = np.nan
    tables = every_table(world.run, world.weight, world.gain)
    assert tables["location"]["note"].eq(stats.NO_STATES).all()
    assert tables["identity"]["verdict"].eq("undefined").all()


def test_too_few_states_claim_nothing():
    world = worlds.heads_world()
    world.run["hidden"].values[40:] = np.nan
    assert placed(world)["note"].eq(stats.FEW).all()


def test_single_responses_leave_within_undefined():
    world = worlds.heads_world()
    world.run["hidden"].values[::2] = np.nan
    table = placed(world)
    assert table.loc["within", "note"] == stats.SINGLE
    assert table.loc["pooled", "location"] == "heads"


def test_one_head_gives_notes():
    hidden = np.random.default_rng(7).standard_normal((40, 4))
    tables = every_table(make_run(hidden[:, :1], hidden=hidden), np.eye(4)[:1])
    assert tables["location"]["note"].eq(stats.ONE_HEAD).all()
    assert np.isnan(tables["mantel"]["statistic"].iloc[0])


def test_a_constant_head_and_one_of_nan_are_left_out():
    world = worlds.heads_world()
    weight = world.weight.copy()
    weight[0] = 0
    world.run["score"].values[:, 0] = 1.0
    world.run["score"].values[3, 1] = np.nan
    tables = every_table(world.run, weight, world.gain)
    assert tables["gauges"]["heads"].eq(6).all()
    assert tables["location"]["location"].eq("heads").all()


def test_copies_are_said_to_be_dependent():
    world = worlds.heads_world()
    weight = world.weight.copy()
    weight[1] = weight[0]
    world.run["score"].values[:, 1] = world.run["score"].values[:, 0]
    table = stats.gauges(world.run, weight, world.gain)
    assert table.loc[table["gauge"] == stats.POST_NORM, "note"].eq(stats.COLLAPSED).all()


def test_a_gain_of_zero_hides_its_feature_and_breaks_nothing():
    world = worlds.heads_world()
    gain = world.gain.copy()
    gain[0] = 0
    world.run["hidden"].values[:, 0] = 0
    score = world.run["hidden"].values.astype(float) @ world.weight.T
    world.run["score"].values[:] = score
    table = stats.gauges(world.run, world.weight, gain)
    assert np.isfinite(table["rms_backbone"]).all()


def test_weights_of_another_model_are_refused():
    world = worlds.heads_world()
    with pytest.raises(DataError, match=r"head weights of shape \(8, 64\)"):
        stats.gauges(world.run, world.weight[:, :5])
    world.weight[0, 0] = np.nan
    with pytest.raises(DataError, match="NaN"):
        stats.identity(world.run, world.weight)


# ---- What would have been found ----


def test_few_columns_stand_for_many_features():
    """The measures of matrices of 19 × 300 and of their turned forms are drawn alike."""
    generator = np.random.default_rng(7)
    turned = stats.random_heads(generator, 2000, (6, 300), 10)
    assert turned.shape == (2000, 6, 16)
    whole = generator.standard_normal((2000, 6, 300))
    one = stats.shape_of(turned, np.eye(10, 16))
    other = stats.shape_of(whole, np.eye(10, 300))
    for name in set(one) - {"k90"}:
        assert scipy_stats.ks_2samp(one[name], other[name]).pvalue > 1e-4, name


def test_little_room_is_drawn_as_it_is():
    assert stats.random_heads(np.random.default_rng(0), 3, (4, 9), 6).shape == (3, 4, 9)


def test_what_mantels_test_would_find_is_beyond_its_95th_percentile():
    generator = np.random.default_rng(8)
    one, other = (np.corrcoef(generator.standard_normal((7, 9))) for _ in range(2))
    i, j = np.triu_indices(7, 1)
    null = [
        np.corrcoef(one[i, j], other[np.ix_(o, o)][i, j])[0, 1]
        for o in map(list, itertools.permutations(range(7)))
    ]
    mde = stats.mantel_test(one, other)[3]
    assert mde == pytest.approx(np.quantile(np.abs(null), 0.95) + 0.8416 * np.std(null), abs=1e-3)


def test_no_correlation_beyond_one_is_said_to_be_detectable_by_mantels_test():
    one = np.corrcoef(np.random.default_rng(0).standard_normal((4, 9)))
    # Of four heads 24 orders: some come to ±.8 and more, and z.8 of their spread lies beyond 1.
    *_, smallest, mde = stats.mantel_test(one, one)
    assert smallest == pytest.approx(1 / 24) and np.isnan(mde)


@pytest.mark.parametrize("seed", [0, 1])
def test_rounding_of_scores_with_a_large_offset_is_no_other_weight(seed):
    # Float32 rounds a sum of 4,096 products near 3 by more than 1e-5 of a spread of .05.
    generator = np.random.default_rng(seed)
    weight = generator.standard_normal((3, 4096)).astype(np.float32) / 64
    offset = np.full(4096, 3.0)
    offset[:4] *= 30
    hidden = (offset + 0.05 * generator.standard_normal((400, 4096))).astype(np.float32)
    own = make_run(hidden @ weight.T, hidden=hidden)
    found = stats.identity(own, weight)
    assert (found["verdict"] == "holds").all(), found
    other = make_run(hidden @ np.roll(weight, 1, axis=1).T, hidden=hidden)
    assert (stats.identity(other, weight)["verdict"] == "fails").all()
