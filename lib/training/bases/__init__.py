"""Latent bases: many people's choices as mixtures of a few shared rewards.

The reward of user u is h·V π_u, with V of shape (features, bases) and π_u = softmax(w_u): a point
of the simplex (LoRe: Bose et al., 2025, whose own protocol is ``lib.training.lore``). A pair is
x = h_chosen − h_rejected, and is chosen with probability σ(x·V π_u).

``grouping``    ``grouped``: pairs by user, checked, in few coordinates
``fitting``     ``fit``: V and all users' weights together, each basis anchored
``newcomers``   ``weigh``: weights alone, of users that V never saw; ``heads``: a head a user,
                alone, what bases have to beat; ``judge``: how well either serves
``spans``       ``angles``: principal angles between two sets of bases, as rewards of these pairs
``steadiness``  ``stability``: do restarts, and halves of the items, give the same bases?
``support``     ``choose``: the penalty, by held-out users; ``ranks``: loss on held-out items of
                held-out users, by number of bases; ``supported``: how many of them

**Anchor.** V_b = v₀ + D_b, where v₀ is the one head that all pairs share, fitted first, and D_b is
penalised: what the data don't say of a basis is what everybody wants.

**Scale.** ``spread`` is the standard deviation that a head's margin x·v has before anything is
known of it, over these pairs: a normal prior on each coefficient, of variance
spread²·features/tr E[xxᵀ] in the units of the states. It is the one penalty of v₀, of D_b and of
heads alone.

**Angles** are between rewards, not between directions: cos = v·Σv′/√(v·Σv · v′·Σv′) with
Σ = E[xxᵀ], which no change of the states' coordinates moves.

**What can be known.** The span of V, at best. Which corners the simplex has in it is told only by
users near them: a mixture of rewards looks like another reward.
"""

from lib.training.bases.fitting import LOGIT, SPREAD, Bases, fit
from lib.training.bases.grouping import LEAST, Pairs, dealt, grouped
from lib.training.bases.newcomers import by_user, heads, judge, judges, weigh
from lib.training.bases.spans import angles, cosines, matched
from lib.training.bases.steadiness import stability
from lib.training.bases.support import choose, gains, ranks, supported

__all__ = [
    "LEAST",
    "LOGIT",
    "SPREAD",
    "Bases",
    "Pairs",
    "angles",
    "by_user",
    "choose",
    "cosines",
    "dealt",
    "fit",
    "gains",
    "grouped",
    "heads",
    "judge",
    "judges",
    "matched",
    "ranks",
    "stability",
    "supported",
    "weigh",
]
