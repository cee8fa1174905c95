"""Files of the user's that a run is made from, so that a change of theirs makes it again.

``weights``  of a model's folder
``data``     of a source
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

WEIGHTS = (".safetensors", ".json", ".jinja", ".txt", ".model")
# Datasets are published in few files and in few folders. What is more is some other tree, of
# which no more is looked at.
DEEPEST = 5
MOST_FILES = 500
MOST_LOOKS = 20_000


def weights(folder: Path) -> list[Path]:
    """Weights, settings and tokenizer, sorted; none where there is no such folder."""
    if not folder.is_dir():
        return []
    return [path for path in sorted(folder.iterdir()) if path.suffix in WEIGHTS]


def data(folder: Path) -> list[Path]:
    """Data files below a folder, those less deep first; hidden ones are nobody's.

    At most ``MOST_FILES``, from ``DEEPEST`` levels and ``MOST_LOOKS`` entries.
    """
    from lib.data.sources import READABLE  # imports pandas, which a plan without sources spares

    looked_at = itertools.islice(_levels(folder), MOST_LOOKS)
    found = (path for path in looked_at if path.name.endswith(READABLE) and path.is_file())
    return list(itertools.islice(found, MOST_FILES))


def _levels(folder: Path) -> Iterator[Path]:
    level = [folder]
    for _ in range(DEEPEST):
        below = []
        for place in filter(Path.is_dir, level):
            try:
                inside = sorted(path for path in place.iterdir() if not path.name.startswith("."))
            except OSError:
                continue
            yield from inside
            below += inside
        level = below
