"""Texts of our own that patches and effects are tried on: prompt, better and worse response."""

from __future__ import annotations

TEXTS = [
    ("Name three words for beautiful.", "Pretty, lovely, fair.", "No."),
    ("And the capital of Spain?", "Madrid, since 1561, in the middle of the country.", "Rome"),
    ("What is two and two?", "Four.", "It depends on who asks, and when."),
]
