"""What a comparison is about, and which of them can be asked of the states."""

from __future__ import annotations

from lib.stats import questions


def test_set_and_subset_name_the_concept():
    assert questions._concept("rm-bench", "safety", "safety-response") == "helpfulness"
    assert questions._concept("hh-rlhf/harmless-base", "harmless", "any") == "safety"
    assert questions._concept("file:x.jsonl", "my own", "all") == "my own"
    assert questions._concept("planted/any", "taste", "all") == "taste"
