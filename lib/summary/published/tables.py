"""The tables that every row of ``claims.yaml`` may name, each made once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import xarray as xr
from scipy import stats as scipy_stats

from lib.data.published import BLOCKS
from lib.summary.published import explained, stars, stats, words
from lib.summary.published.planted import planted_evidence
from lib.summary.published.stats import Figures
from lib.training.tension.kept import Study

Facts = Mapping[str, Any]
# Evaluations with the audit's rule, and their blocks.
RULED = {"hh-rlhf": "hh", "RewardBench": "rewardbench", "TYPE A": "type_a"}


@dataclass(frozen=True)
class Tables:
    """The published figures, the runs at hand, and what is made of both."""

    figures: Figures
    runs: Sequence[xr.Dataset] = ()
    seed: int = 0
    explained: Sequence[xr.Dataset] = ()  # effects of models' parts (``lib.effects``)
    study: Study | None = None  # of alignment tension

    @cached_property
    def depths(self) -> pd.DataFrame:
        """``explained.depths`` of the effects at hand."""
        return explained.depths(self.explained)

    @cached_property
    def patches(self) -> pd.DataFrame:
        """``explained.patches`` of the effects at hand."""
        return explained.patches(self.explained)

    @cached_property
    def rates(self) -> pd.DataFrame:
        """Published win rates, as a row shows and judges them."""
        table = stats.rates(self.figures)
        return table.assign(
            shown=[words.tested(row) for row in table.to_dict("records")],
            chance=table["verdict"] == "chance",
            tracks=table["verdict"].isin(["strong", "tracks"]),
            inverted=table["verdict"] == "inverted",
            apart=table["verdict"].isin(["strong", "tracks", "inverted"]),
            invalid=table["win_rate"] < self.figures["audit"]["rule"]["share"],
            wins_p=scipy_stats.binom.sf(table["wins"] - 1, table["n"], 0.5),
            star_p=list(map(stars.p_range, table["wins"], table["n"])),
        )

    @cached_property
    def names(self) -> pd.DataFrame:
        """``stats.head_names`` by the name used."""
        return stats.head_names(self.figures).set_index("called", drop=False)

    @cached_property
    def bounds(self) -> dict[str, Facts]:
        """``stats.geometry_bounds`` by quantity."""
        return stats.geometry_bounds(self.figures).set_index("quantity").to_dict("index")

    @cached_property
    def shares(self) -> dict[str, Facts]:
        """The published probes of the largest and of the smallest variance share."""
        table = stats.probe_shares(self.figures)
        ends = {"top": table["share"].idxmax(), "bottom": table["share"].idxmin()}
        return {end: table.loc[row].to_dict() for end, row in ends.items()}

    @cached_property
    def probed(self) -> list[pd.DataFrame]:
        """``stats.probed`` of the runs, with as many components as the audit."""
        components = self.figures["audit"]["pca"]["components"]
        return stats.probed(self.runs, components, self.seed)

    @cached_property
    def every(self) -> dict[str, Any]:
        """What every row may name: the figures by block, and tables by their keys."""
        return {
            **{block: self.figures[block] for block in BLOCKS},
            "heads": len(self.names),
            "names": self.names.to_dict("index"),
            "rates": {
                subset: rows.set_index("called", drop=False).to_dict("index")
                for subset, rows in self.rates.groupby("subset")
            },
            "passing": self._passing(),
            "shares": self.shares,
            "overlaps": stats.overlaps(self.figures).set_index("sets").to_dict("index"),
            "lengths": stats.lengths(self.figures, self.runs),
            "planted": planted_evidence(self.figures, seed=self.seed),
        }

    def _passing(self) -> dict[str, Facts]:
        """How many heads may be valid by the audit's rule, by evaluation.

        A head surely is where its rate reaches the share and even the largest p that the rate
        leaves open is small; it surely isn't where the rate falls short.
        """
        audit, found = self.figures["audit"], {}
        rule = audit["rule"]
        for subset, block in RULED.items():
            given = self.rates[self.rates["subset"] == subset]
            claimed, heads = audit[block]["valid"], len(self.names)
            sure = (given["win_rate"] >= rule["share"]) & (given["star_p"].str[1] < rule["alpha"])
            below, weaker = ((given["win_rate"] < rule[level]).sum() for level in ("share", "weak"))
            found[subset] = {
                **self.counted(claimed, int(sure.sum()), heads - int(below)),
                "given": len(given),
                "absent": heads - len(given),
                "reach": len(given) - int(below),
                "below": int(below),
                "most_weak": heads - int(weaker),
                "contradicted_weak": claimed > heads - weaker,
            }
        return found

    @staticmethod
    def counted(claimed: int, least: int, most: int) -> Facts:
        """Of a count that the published part of what it counts puts between two others."""
        return {
            "least": least,
            "most": most,
            "contradicted": not least <= claimed <= most,
            "settled": least == most,
        }
