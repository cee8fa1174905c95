"""One figure of each analysis, worked out again from the text of book/methods.md alone.

Nothing here calls what it checks: formulas are written as the text has them, with loops where
it has sums.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from lib.analyses.disentanglement import stats as tables
from lib.analyses.gating import stats as gating
from lib.analyses.gating.worlds import HEADS, LAMBDAS, gating_world, transform
from lib.analyses.geometry import stats as geometry
from lib.analyses.labels import stats as labels
from lib.analyses.labels.multitrait import mtmm
from lib.analyses.protocols import stats as protocols
from lib.analyses.separability import stats as separability
from lib.planted.worlds import from_gaps, make_run
from lib.stats import winrates
from lib.training.gate import debias

PROMPTS = np.asarray([0, 0, 0, 1, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9])  # of 14 pairs, ten prompts


@pytest.fixture(scope="module")
def run():
    """Three heads on 14 pairs of ten prompts; the third ties three times."""
    generator = np.random.default_rng(3)
    score = generator.standard_normal((28, 3)) + np.tile([[0.6], [0.0]], (14, 1))
    score[[1, 7, 13], 2] = score[[0, 6, 12], 2]
    tokens = generator.integers(5, 60, 28)
    return make_run(score, prompt=PROMPTS, subset=["one"] * 14, tokens=tokens)


def outcome(run, head: int) -> np.ndarray:
    """1 for a win, one half for a tie, 0 for a loss, a pair at a time."""
    gap = run["score"].values[::2, head] - run["score"].values[1::2, head]
    return np.where(gap > 0, 1.0, np.where(gap == 0, 0.5, 0.0))


def interval(won: np.ndarray, prompt: np.ndarray) -> tuple[float, float]:
    """Wilson's interval at the effective sample size of the text."""
    n, clusters = len(won), sorted(set(prompt))
    t = [won[prompt == c].sum() for c in clusters]
    size = [(prompt == c).sum() for c in clusters]
    G, mean = len(clusters), n / len(clusters)
    N = n + mean / 4
    p = (sum(t) + mean / 8) / N
    S = sum((a - b * p) ** 2 for a, b in zip(t, size, strict=True))
    S += mean**2 / 8 * (p**2 + (1 - p) ** 2)
    V = (G + 1 / 4) / (G + 1 / 4 - 1) * S / N**2
    n_eff = min(max(p * (1 - p) / V - 1 / 4, 1), n)
    rate, q = won.mean(), stats.t.ppf(0.975, G - 1)
    half = q * math.sqrt(rate * (1 - rate) / n_eff + q**2 / (4 * n_eff**2))
    centre = rate + q**2 / (2 * n_eff)
    return (centre - half) / (1 + q**2 / n_eff), (centre + half) / (1 + q**2 / n_eff)


def sign_flip(won: np.ndarray, prompt: np.ndarray) -> float:
    """Every pattern of signs, one by one."""
    D = [2 * won[prompt == c].sum() - (prompt == c).sum() for c in sorted(set(prompt))]
    seen = abs(sum(D))
    patterns = itertools.product((1, -1), repeat=len(D))
    return float(np.mean([abs(np.dot(e, D)) >= seen - 1e-12 for e in patterns]))


def holm(p: list[float]) -> list[float]:
    order = sorted(range(len(p)), key=lambda k: p[k])
    out, so_far = [0.0] * len(p), 0.0
    for rank, k in enumerate(order):
        so_far = max(so_far, min(1.0, (len(p) - rank) * p[k]))
        out[k] = so_far
    return out


def test_validity_a_win_rate_its_interval_and_its_p(run):
    table = winrates.validity(run)
    whole = table[table["subset"] == "all"]
    for head, row in enumerate(whole.itertuples()):
        won = outcome(run, head)
        assert row.win_rate == pytest.approx(won.mean())
        assert (row.low, row.high) == pytest.approx(interval(won, PROMPTS))
        assert row.p == pytest.approx(sign_flip(won, PROMPTS))


def test_validity_rows_of_a_single_subset_count_once_in_the_family(run):
    table = winrates.validity(run)
    p = [sign_flip(outcome(run, head), PROMPTS) for head in range(3)]
    for subset in ("all", "one"):
        rows = table[table["subset"] == subset]
        assert rows["p_adjusted"].tolist() == pytest.approx(holm(p))


def test_protocols_the_interaction_component():
    """On the scale of win rates, with one comparison a prompt."""
    generator = np.random.default_rng(5)
    runs = [
        make_run(generator.standard_normal((2 * n, 3)), prompt=offset + np.arange(n), name=name)
        for n, offset, name in ((30, 0, "a"), (45, 100, "b"), (25, 200, "c"), (40, 300, "d"))
    ]
    H, P = 3, len(runs)
    y, V, C = np.empty((H, P)), [], []
    for p, run in enumerate(runs):
        won = np.column_stack([outcome(run, head) for head in range(H)])
        y[:, p] = won.mean(axis=0)
        covariance = np.cov(won, rowvar=False, ddof=1) / len(won)
        V += np.diag(covariance).tolist()
        C += [covariance[i, j] for i, j in itertools.permutations(range(H), 2)]
    rest = [
        (y[h, p] - y[h].mean() - y[:, p].mean() + y.mean()) ** 2 for h in range(H) for p in range(P)
    ]
    M_i = sum(rest) / ((H - 1) * (P - 1))
    M_p = H * sum((y[:, p].mean() - y.mean()) ** 2 for p in range(P)) / (P - 1)
    M_h = P * sum((y[h].mean() - y.mean()) ** 2 for h in range(H)) / (H - 1)
    table = protocols.variance_components(runs, draws=20)
    found = table[table["scale"] == "win rate"].set_index("component")["estimate"]
    assert found["interaction"] == pytest.approx(M_i - (np.mean(V) - np.mean(C)))
    assert found["protocol"] == pytest.approx((M_p - M_i) / H - np.mean(C))
    assert found["head"] == pytest.approx((M_h - M_i) / P)


@pytest.fixture(scope="module")
def named():
    """Four heads of two concepts from two sources, on pairs of two criteria."""
    generator = np.random.default_rng(8)
    words = ["safety"] * 60 + ["honesty"] * 60
    trait = generator.standard_normal((120, 2))
    gaps = trait[:, [0, 0, 1, 1]] + generator.standard_normal((120, 4))
    gaps[:60, :2] += 0.8
    gaps[60:, 2:] += 0.8
    return from_gaps(
        gaps,
        heads=["a-safety", "b-safety", "a-honesty", "b-honesty"],
        concepts=["safety", "safety", "honesty", "honesty"],
        criterion=words,
        subset=words,
        name="stimuli/planted",
    )


def test_labels_what_an_exchange_would_gain(named):
    won = np.column_stack([outcome(named, head) for head in range(4)])
    A = {"safety": won[:60].mean(axis=0), "honesty": won[60:].mean(axis=0)}
    pairs = labels.label_check(named).pairs.set_index(["head", "other"])
    delta = A["honesty"][0] + A["safety"][2] - A["safety"][0] - A["honesty"][2]
    assert pairs.loc[("a-safety", "a-honesty"), "delta"] == pytest.approx(delta)


def test_labels_the_heterotrait_monotrait_ratio(named):
    g = named["score"].values[::2] - named["score"].values[1::2]

    def r(i, j):
        return (g[:, i] @ g[:, j]) / math.sqrt((g[:, i] @ g[:, i]) * (g[:, j] @ g[:, j]))

    across = np.mean([abs(r(0, 3)), abs(r(1, 2))])  # pairs from one source left out
    row = mtmm(named, draws=50).iloc[0]
    assert row["htmt"] == pytest.approx(across / math.sqrt(r(0, 1) * r(2, 3)), rel=1e-6)


def test_disentanglement_a_correlation_within_and_between_and_the_effective_heads():
    generator = np.random.default_rng(4)
    prompt = np.sort(generator.integers(0, 15, 40))
    group = np.repeat(prompt, 2)
    s = generator.standard_normal((80, 3)) + generator.standard_normal((15, 3))[group]
    s[:, 1] += s[:, 0] / 2
    run = make_run(s, prompt=prompt)
    s = run["score"].values.astype(float)
    n, groups = len(s), sorted(set(group))
    G, sizes = len(groups), [np.sum(group == g) for g in groups]
    means = {g: s[group == g].mean(axis=0) for g in groups}
    within = sum(np.outer(a - means[g], a - means[g]) for a, g in zip(s, group, strict=True))
    within = within / (n - G)
    square = sum(
        k * np.outer(means[g] - s.mean(axis=0), means[g] - s.mean(axis=0))
        for g, k in zip(groups, sizes, strict=True)
    ) / (G - 1)
    n_0 = (n - sum(k**2 for k in sizes) / n) / (G - 1)
    between = (square - within) / n_0
    table = tables.disentanglement(run, draws=20).set_index(["kind", "head", "other"])
    for kind, covariance in (("within", within), ("between", between)):
        expected = covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])
        row = table.loc[(kind, "head_0", "head_1")]
        assert row["r"] == pytest.approx(np.clip(expected, -1, 1))
    R = within / np.sqrt(np.outer(np.diag(within), np.diag(within)))
    eigenvalues = np.linalg.eigvalsh(R)
    size = tables.sizes(run, draws=20).set_index("kind").loc["within", "effective"]
    assert size == pytest.approx(eigenvalues.sum() ** 2 / (eigenvalues**2).sum())


@pytest.fixture(scope="module")
def linear():
    """Scores W h of 200 stretched states; rows of W have lengths 1, 5 and .2."""
    generator = np.random.default_rng(1)
    hidden = (generator.standard_normal((400, 6)) * [6, 3, 1, 1, 1, 1]).astype(np.float32)
    weight = generator.standard_normal((3, 6)) * [[1.0], [5.0], [0.2]]
    weight = weight.astype(np.float32)
    return make_run(hidden @ weight.T, hidden=hidden), weight.astype(float)


def test_geometry_heads_alone_and_backbone_alone(linear):
    run, W = linear
    h = run["hidden"].values.astype(float)
    h = h - h.mean(axis=0)
    unit = np.asarray([w / np.linalg.norm(w) for w in W])
    U, _, Vt = np.linalg.svd(unit, full_matrices=False)
    pairs = [(0, 1), (0, 2), (1, 2)]

    def rms(matrix):
        return math.sqrt(np.mean([matrix[i, j] ** 2 for i, j in pairs]))

    Q = U @ Vt
    covariance = Q @ (h.T @ h) @ Q.T
    correlation = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    row = geometry.gauges(run, W).set_index(["kind", "gauge"]).loc[("pooled", "post-norm")]
    assert row["rms_heads"] == pytest.approx(rms(unit @ unit.T))
    assert row["rms_backbone"] == pytest.approx(rms(correlation))
    plain = np.linalg.svd(W, full_matrices=False)
    other = (plain[0] @ plain[2]) @ (h.T @ h) @ (plain[0] @ plain[2]).T
    other = other / np.sqrt(np.outer(np.diag(other), np.diag(other)))
    assert np.abs(other - correlation).max() > 0.05  # the rows' lengths would matter


def test_separability_the_accuracy_that_the_kept_share_predicts(linear):
    run, _ = linear
    h, s = run["hidden"].values.astype(float), run["score"].values[:, 0].astype(float)
    h, s = h - h.mean(axis=0), s - s.mean()
    direction = np.linalg.svd(h, full_matrices=False)[2][:2]
    kept = h @ direction.T
    fit = kept @ np.linalg.lstsq(kept, s, rcond=None)[0]
    share = (fit @ fit) / (s @ s)
    row = separability.ceiling(run, components=(2,)).iloc[0]
    assert row["predicted"] == pytest.approx(1 - math.acos(math.sqrt(share)) / math.pi, abs=1e-6)


def test_gating_the_score_is_the_sum_of_rewards_times_coefficients():
    run = gating_world(40)
    M, verbosity = np.eye(3), HEADS.index("verbosity")
    M[verbosity] -= LAMBDAS
    assert np.array_equal(M, transform())
    r = run["score"].values.astype(float)
    g = np.repeat(run["gate"].values.astype(float), 2, axis=0) @ np.linalg.pinv(M.T)
    # verbosity's own gate is multiplied by 1 − λ = 0, whatever it was
    score = [sum(a[k] * (b @ M)[k] for k in range(3)) for a, b in zip(g, r, strict=True)]
    assert np.allclose(score, run["final"].values, atol=1e-5)
    assert bool(gating.identity(run)["holds"].iloc[0])


def test_debiasing_takes_the_first_of_the_grid_that_is_low_enough():
    generator = np.random.default_rng(2)
    length = generator.standard_normal(400)
    quality = generator.standard_normal(400) + 0.4 * length
    grid = [0, 0.01, 0.025, 0.05, 0.075, 0.1, 0.125, 0.15]
    grid += [round(0.2 + 0.05 * k, 2) for k in range(16)]
    first = next(g for g in grid if stats.spearmanr(quality - g * length, length).statistic <= 0.03)
    found = debias(np.column_stack([quality, length]), against=1)
    assert found.lambdas[0] == pytest.approx(first) and 0 < first < 0.95
