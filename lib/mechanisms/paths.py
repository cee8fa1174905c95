"""Path patching: what one component's own write at the last token does to a reward.

The better response's write x_c there is replaced by the worse one's, x_c', what every other
component wrote is held, and the norm and the heads read the sum again::

    direct_c = reward(h + x_c' − x_c) − reward(h),   h = Σ_c x_c

Unlike attribution the norm's scale is computed again; unlike activation patching nothing that
reads the component in between is. A gate is held.

Source: path patching along the residual stream's direct path alone (Goldowsky-Dill et al.
2023). Checked against: the model's own final norm, given a stream that was changed by hand
(``tests/mechanisms``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from lib.models.anatomy import Anatomy


def direct(
    anatomy: Anatomy, weight: np.ndarray, better: Sequence[torch.Tensor], worse
) -> np.ndarray:
    """Direct effects on the better response's rewards, (components, heads), float64.

    Parameters
    ----------
    weight
        Of the heads, (heads, features).
    better, worse
        What each component but the constant wrote at the last token, (features,) each, in the
        order of ``anatomy.components``. The constant is the same in both, so its effect is 0.
    """
    better, worse = (torch.stack([x.double().cpu() for x in each]) for each in (better, worse))
    stream = better.sum(dim=0)
    states = anatomy.norm(torch.cat([stream + worse - better, stream[None]]))
    rewards = states.numpy() @ weight.astype(np.float64).T
    return np.concatenate([rewards[:-1] - rewards[-1], np.zeros((1, len(weight)))])
