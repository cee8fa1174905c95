"""Every path the project uses, in one place.

``ROOT`` is the checkout. What models and data need beside it (downloads, converted weights,
extracted states) lies under ``cache()``, which ``REWARD_AUDIT_CACHE`` moves and several
checkouts may share. What a build makes for its own book (runs, stamps of finished parts,
locks) lies under ``.cache`` in the checkout and stays there.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

STAGE = "REWARD_AUDIT_STAGE"  # names a folder where an executed page's tables wait
PLACES = "REWARD_AUDIT_PLACES"  # a page's names of what lies elsewhere, and where, as JSON
LIB = Path(__file__).parent
ROOT = LIB.parent
NOTEBOOKS = ROOT / "notebooks"
AUDIT = ROOT / "audit.yml"
TOC = ROOT / "_toc.yml"
BOOK = ROOT / "book"
RUNS = BOOK / "runs"
CALIBRATION = BOOK / "calibration"  # committed: what planted worlds gave
RESULTS = BOOK / "results"
SITE = BOOK / "_build" / "html"
STIMULI = LIB / "data" / "stimuli"


def embedded(name: str) -> Path:
    """Where the weights and the card of an embedded model are."""
    return LIB / "models" / name.replace("-", "_")


def cache() -> Path:
    """Where downloads, converted weights and extracted states go."""
    given = os.environ.get("REWARD_AUDIT_CACHE")
    if given:
        return Path(given).expanduser()
    if (ROOT / "audit.yml").exists():
        return ROOT / ".cache"
    return Path.home() / ".cache" / "reward-audit"


def cache_folder() -> Path:
    """The cache, made when it isn't there."""
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def lock(name: str) -> Path:
    """The file that locks something of this checkout, wherever the cache is."""
    folder = ROOT / ".cache"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.lock"


def tables(folder: str | Path) -> Path:
    """Where a page writes what it keeps in a folder: there, or where that waits for its end."""
    return Path(os.environ.get(STAGE) or found(folder))


def found(path: str | Path) -> Path:
    """A path as given when it is absolute or there; else within the checkout."""
    path = Path(path)
    return path if path.is_absolute() or path.exists() else ROOT / path


def public(name: str) -> str:
    """A model, dataset or source as the site names it.

    Of a path outside of the checkout, which can name a user, the last part and a digest.
    """
    is_file, path = name.startswith("file:"), name.removeprefix("file:")
    if not Path(path).is_absolute():
        return name
    own, digest = Path(path).name, hashlib.sha256(os.fsencode(path)).hexdigest()[:8]
    if is_file:
        return f"file:{Path(own).stem}-{digest}{Path(own).suffix}"
    return f"{own}-{digest}"


def place(name: str) -> str:
    """Where what a page is given under a public name lies; any other name as it is."""
    return _places().get(name, name)


def shown(text: str) -> str:
    """A text with the places that a page was given by public names under those names."""
    for name, place in sorted(_places().items(), key=lambda each: -len(each[1])):
        text = text.replace(place, name)
        text = text.replace(place.removeprefix("file:"), name.removeprefix("file:"))
    return text


def _places() -> dict[str, str]:
    return json.loads(os.environ.get(PLACES, "{}"))


def slug(name: str) -> str:
    """A folder name for a model or dataset name: readable, safe, distinct.

    Letters, digits, dots, dashes and underscores stay; a slash becomes a folder. Any name
    that this would change, or that a path could abuse, gets a digest of the original, so
    that two names never share a folder.
    """
    parts = [re.sub(r"[^A-Za-z0-9._-]+", "-", part).strip(".-") for part in name.split("/")]
    parts = [part[:60] for part in parts if part]
    plain = "/".join(parts)
    if plain and plain == name:
        return plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else digest
