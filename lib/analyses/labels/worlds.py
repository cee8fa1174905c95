"""Planted label worlds: heads whose names are right, exchanged, all wrong, or dealt at random.

Beside heads that are each named for a criterion there may be rivals, heads without a claim.

``label_wins`` draws many worlds at once as arrays; ``label_world`` is one of them as a Run.
``agreement_gaps`` plants heads of two concepts whose HTMT is known.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from lib.data.concepts import QUALITIES
from lib.planted.worlds import make_run

KINDS = ("correct", "swap", "spill", "derangement", "random", "nothing", "length")
KINDS += ("rival", "taken")
NAMES = tuple(name for name in QUALITIES if name != "overall")  # one thing each


def rates(
    kind: str,
    concepts: int,
    rivals: int,
    gap: float,
    generator: np.random.Generator,
    draws: int = 1,
) -> np.ndarray:
    """Win rate of each head on each criterion, shape (draws, concepts, concepts + rivals).

    Criteria come first. Head k is named for criterion k; rivals, which come last, for none.
    """
    own = np.tile(np.arange(concepts + rivals), (draws, 1))  # criterion that a head follows
    own[:, concepts:] = -1
    if kind in ("swap", "spill"):
        own[:, :2] = [1, 0]
    elif kind == "derangement":
        own[:, :concepts] = (own[:, :concepts] + 1) % concepts
    elif kind == "random":
        own = np.argsort(generator.random(own.shape), axis=1)
    elif kind == "nothing":
        own[:] = -1
    elif kind in ("rival", "taken"):
        own[:, concepts] = 0
    if kind in ("taken", "length"):
        own[:, 0] = -1
    rate = 0.5 + gap * (own[:, None, :] == np.arange(concepts)[None, :, None])
    if kind == "length":
        rate[:, 1, 0] = 1
    if kind == "spill":
        rate[:, 2, 0] = 0.5 + 2.25 * gap
    return rate


def label_wins(
    generator: np.random.Generator,
    draws: int,
    *,
    concepts: int = 4,
    pairs: int = 100,
    gap: float = 0.2,
    kind: str = "correct",
    shared: float = 0.0,
    general: float = 0.0,
    rivals: int = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of targeted comparisons for one head a concept, and for rivals.

    Parameters
    ----------
    concepts, pairs
        Criteria, and comparisons of each (each of its own prompt).
    gap
        A head wins ½ + gap on the criterion that it follows and ½ on others.
    kind
        ``correct``; ``swap`` (the first two exchanged); ``spill`` (that, and the head that bears
        the first name wins more on the third criterion than the head that is rightly named for
        it); ``derangement`` (every name wrong); ``random`` (names dealt at random); ``nothing``
        (no head follows any criterion); ``length`` (the first is replaced by the length of
        the response, which the second criterion is about); ``rival`` (the first rival
        follows the first criterion as much as the head that is named for it); ``taken`` (the
        first head is exchanged with a rival, and follows nothing).
    shared
        Share of comparisons in which all heads ask the same uniform variable: they then agree
        as far as their win rates allow.
    general
        How much more every head wins, on all criteria.
    rivals
        Heads without a claim; they follow nothing where the kind doesn't say otherwise.

    Returns
    -------
    won, criterion
        0 or 1, shape (draws, comparisons, heads), and integers, shape (comparisons,).
    """
    criterion = np.repeat(np.arange(concepts), pairs)
    rate = rates(kind, concepts, rivals, gap, generator, draws)[:, criterion] + general
    chance = generator.random(rate.shape)
    together = generator.random(rate.shape[:2]) < shared
    chance = np.where(together[..., None], chance[..., :1], chance)
    return (chance < rate).astype(float), criterion


def label_world(
    kind: str = "correct",
    *,
    concepts: int = 4,
    pairs: int = 100,
    gap: float = 0.2,
    rivals: int = 0,
    seed: int = 0,
) -> xr.Dataset:
    """One world of ``label_wins`` as a Run.

    Its heads are named ``planted-safety`` and so on, its rivals ``rival-0``.
    """
    generator = np.random.default_rng(seed)
    won, criterion = label_wins(
        generator, 1, concepts=concepts, pairs=pairs, gap=gap, kind=kind, rivals=rivals
    )
    size = generator.exponential(1, won[0].shape)
    score = np.zeros((2 * len(criterion), concepts + rivals))
    score[::2] = np.where(won[0] > 0, size, -size)
    names = list(NAMES[:concepts])
    words = [names[c] for c in criterion]
    return make_run(
        score,
        heads=[f"planted-{name}" for name in names] + [f"rival-{k}" for k in range(rivals)],
        concepts=[*names, *[""] * rivals],
        criterion=words,
        subset=words,
        name="stimuli/planted",
    )


def agreement_gaps(
    generator: np.random.Generator,
    draws: int,
    *,
    pairs: int = 200,
    ratio: float = 0.85,
    loading: float = 0.8,
    sources: int = 2,
) -> np.ndarray:
    """Gaps of ``sources`` heads for each of two concepts, shape (draws, pairs, 2·sources).

    g = loading · t + √(1 − loading²) · noise, where the two t correlate ``ratio``: r within a
    concept is loading², across it ratio · loading², so HTMT is exactly ``ratio``.
    """
    trait = generator.standard_normal((draws, pairs, 2))
    trait[..., 1] = ratio * trait[..., 0] + np.sqrt(1 - ratio**2) * trait[..., 1]
    noise = generator.standard_normal((draws, pairs, 2 * sources))
    return loading * np.repeat(trait, sources, axis=-1) + np.sqrt(1 - loading**2) * noise
