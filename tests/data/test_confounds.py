"""What length alone wins on the real sets, in the embedded model's tokens.

The expected shares were measured before this code was written, on the same files.
"""

import numpy as np
import pytest

from lib.data import load_items


@pytest.mark.parametrize(
    ("dataset", "subset", "same_style", "expected"),
    [
        ("hh-rlhf/harmless-base", "harmless-base", False, 0.448),
        ("hh-rlhf/helpful-base", "helpful-base", False, 0.602),
        ("llmbar", "Neighbor", False, 0.112),
        ("rm-bench", "safety-refuse", True, 0.134),
        ("rm-bench", "safety-response", True, 0.764),
    ],
)
def test_the_longer_response_wins_as_measured(
    shared_data, embedded_tokenizer, dataset, subset, same_style, expected
):
    items = load_items(dataset, source=shared_data / dataset.split("/")[0])
    rows = items.comparisons[items.comparisons["subset"] == subset]
    slot = items.responses["slot"].to_numpy()
    if same_style:  # RM-Bench's slots 0–2 are the chosen styles, 3–5 the rejected ones
        rows = rows[slot[rows["better"]] == slot[rows["worse"]] - 3]
    texts = items.responses["text"]
    better, worse = (
        embedded_tokenizer(texts[rows[side]].tolist(), add_special_tokens=False)["input_ids"]
        for side in ("better", "worse")
    )
    gap = np.asarray([len(a) - len(b) for a, b in zip(better, worse, strict=True)])
    wins = ((gap > 0) + (gap == 0) / 2).mean()
    assert abs(wins - expected) < 0.005
