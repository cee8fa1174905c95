"""A dataset in a few lines of text: ``python -m lib describe DATASET``."""

from __future__ import annotations

from lib.data.items import Items, count

SHOWN = 80  # characters of a name


def describe(items: Items) -> str:
    """Counts, drops, missing subsets, licence and citation of a dataset.

    Control characters of names that come from a file are escaped, and long names are cut.
    """
    lines = [
        f"{items.name}: {count(len(items), 'item')}, {count(len(items.responses), 'response')}, "
        f"{count(len(items.comparisons), 'comparison')} (fingerprint {items.fingerprint})"
    ]
    by = items.comparisons.groupby(["subset", "criterion"], sort=False).size()
    for (subset, criterion), number in by.items():
        lines.append(
            f"  {_plain(subset)}, judged by {_plain(criterion)}: {count(number, 'comparison')}"
        )
    ratings = [c for c in items.responses.columns if c not in ("item", "slot", "text")]
    if ratings:
        lines.append("ratings: " + ", ".join(map(_plain, ratings)))
    dropped = ", ".join(f"{number} {reason}" for reason, number in items.dropped.items())
    lines.append(f"dropped: {dropped or 'none'}")
    lines.append(f"missing subsets: {', '.join(items.missing) or 'none'}")
    for key in ("layout", "not read", "licence", "origin", "citation"):
        if key in items.about:
            lines.append(f"{key}: {items.about[key]}")
    return "\n".join(lines)


def _plain(text: str) -> str:
    text = str(text)
    plain = text[:SHOWN].encode("unicode_escape").decode("ascii")
    return f"{plain}…" if len(text) > SHOWN else plain
