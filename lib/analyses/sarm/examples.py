"""Responses that move a feature most, with the end of their text where that may be shown."""

from __future__ import annotations

import pandas as pd

from lib.analyses.sarm import stats
from lib.stats.latents import Sparse

OWN = "stimuli/"  # texts of this project, which may be shown


def contexts(page, found: Sparse, wanted: list[int]) -> pd.DataFrame:
    """``stats.contexts`` of a page's data: with text for our stimuli, with items' names for others.

    Parameters
    ----------
    page
        A ``lib.report.Page``.
    """
    own = str(page.parameters["dataset"]).startswith(OWN) and not found.note
    return stats.contexts(found, wanted, page.items if own else "ids alone")
