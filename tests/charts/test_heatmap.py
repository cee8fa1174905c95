"""Heat maps in words."""

from __future__ import annotations

import pandas as pd
import pytest

from lib.charts.heatmap import TOLD, preferences


@pytest.mark.parametrize("more", [0, 3])
def test_heads_that_the_words_leave_out_are_counted(more):
    rows = [
        {"head": f"h{k}", "by": "a", "n": 9, "prompts": 9, "win_rate": 0.5, "low": 0.2, "high": 0.8}
        for k in range(TOLD + more)
    ]
    chart = preferences(pd.DataFrame(rows).assign(note=""), "by", "safe answer", "x")
    assert f"h{TOLD - 1}: a 0.50 [0.20, 0.80]" in chart.alternative
    assert chart.alternative.endswith("; and 3 more.") == (more > 0)
