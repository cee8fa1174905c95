"""Kinds of correlation by name, and the menu that chooses one."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from lib.charts.render import menu

WITHIN = "within items"
KIND_NAMES = {"pooled": "pooled", "between": "between items", "within": WITHIN}


def kinds_menu(kinds: Sequence[str]) -> alt.Parameter:
    """A menu of kinds of correlation, opened within items where it may be: choices are there."""
    names = [KIND_NAMES[kind] for kind in kinds]
    return menu("kind", "Correlation", names, names.index(WITHIN) if WITHIN in names else 0)
