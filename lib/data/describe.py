"""A dataset in a few lines of text: ``python -m lib describe DATASET``."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterable

from lib.data.items import FINGERPRINTED, Items, count

OWN = ["item", "slot", "text"]  # columns of responses that are no ratings
SHOWN = 80  # characters of a name
BLOCK = 1 << 20  # bytes read back at a time


def describe(pieces: Items | Iterable[Items]) -> str:
    """Counts, drops, missing subsets, licence and citation of a dataset, whole or in pieces.

    Control characters of names that come from a file are escaped, and long names are cut.
    Of pieces one is in memory at a time; what the fingerprint takes last waits on disk.
    """
    by, dropped, n = Counter(), Counter(), Counter()
    ratings: dict[str, None] = {}
    missing: dict[str, None] = {}
    digest = hashlib.sha256()
    with tempfile.TemporaryFile() as responses, tempfile.TemporaryFile() as comparisons:
        takes = (digest.update, responses.write, comparisons.write)
        for items in [pieces] if isinstance(pieces, Items) else pieces:
            before = n["responses"]
            for table, take in zip(FINGERPRINTED, takes, strict=True):
                for block in items.blocks(table, before):
                    take(block)
                n[table] += len(getattr(items, table))
            by.update(items.comparisons[["subset", "criterion"]].itertuples(index=False, name=None))
            dropped.update(items.dropped)
            missing.update(dict.fromkeys(items.missing))
            ratings.update(dict.fromkeys(items.responses.columns.difference(OWN, sort=False)))
        for waiting in (responses, comparisons):
            digest.update(b"\0")
            waiting.seek(0)
            while block := waiting.read(BLOCK):
                digest.update(block)
        digest.update(b"\0")
    lines = [
        f"{items.name}: {count(n['prompts'], 'item')}, {count(n['responses'], 'response')}, "
        f"{count(n['comparisons'], 'comparison')} (fingerprint {digest.hexdigest()[:16]})"
    ]
    for (subset, criterion), number in by.items():
        lines.append(
            f"  {_plain(subset)}, judged by {_plain(criterion)}: {count(number, 'comparison')}"
        )
    if ratings:
        lines.append("ratings: " + ", ".join(map(_plain, ratings)))
    told = ", ".join(f"{number} {reason}" for reason, number in dropped.items())
    lines.append(f"dropped: {told or 'none'}")
    lines.append(f"missing subsets: {', '.join(missing) or 'none'}")
    for key in (
        "layout",
        "not read",
        "ties",
        "manipulated",
        "not manipulated",
        "licence",
        "origin",
        "citation",
    ):
        if key in items.about:
            lines.append(f"{key}: {items.about[key]}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    text = str(text)
    plain = text[:SHOWN].encode("unicode_escape").decode("ascii")
    return f"{plain}…" if len(text) > SHOWN else plain
