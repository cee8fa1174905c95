"""A dataset in a few lines of text: ``python -m lib describe DATASET``."""

from __future__ import annotations

from lib.data.items import Items

SHOWN = 80  # characters of a name


def describe(items: Items) -> str:
    """Counts, drops, missing subsets, licence and citation of a dataset.

    Control characters of names that come from a file are escaped, and long names are cut.
    """
    lines = [
        f"{items.name}: {len(items)} items, {len(items.responses)} responses, "
        f"{len(items.comparisons)} comparisons (fingerprint {items.fingerprint})"
    ]
    by = items.comparisons.groupby(["subset", "criterion"], sort=False).size()
    for (subset, criterion), count in by.items():
        lines.append(f"  {_plain(subset)}, judged by {_plain(criterion)}: {count} comparisons")
    ratings = [c for c in items.responses.columns if c not in ("item", "slot", "text")]
    if ratings:
        lines.append("ratings: " + ", ".join(map(_plain, ratings)))
    dropped = ", ".join(f"{count} {reason}" for reason, count in items.dropped.items())
    lines.append(f"dropped: {dropped or 'none'}")
    lines.append(f"missing subsets: {', '.join(items.missing) or 'none'}")
    for key in ("licence", "origin", "citation"):
        if key in items.about:
            lines.append(f"{key}: {items.about[key]}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    text = str(text)
    plain = text[:SHOWN].encode("unicode_escape").decode("ascii")
    return f"{plain}…" if len(text) > SHOWN else plain
