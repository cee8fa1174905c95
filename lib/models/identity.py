"""Which model a name means at present, to tell whether a run is still of it.

A fingerprint takes loading the model. So it is remembered in the cache, under all that
decides it: the model's files by size, times and inode, the options, the versions of what
computes, and the code of this package. Where any of these is another, it is found again.

``at_hand``      the fingerprint of what a name loads now
``differences``  what was another when a run was made
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from lib import documents, paths
from lib.atomic import replacing
from lib.errors import ModelError
from lib.models import files

PARTS = {
    "backbone": "weights",
    "configuration": "configuration",
    "tokenizer": "tokenizer",
    "template": "chat template",
    "tokens": "tokens",
    "heads": "heads",
}
LARGE = 4e9  # bytes of files that aren't loaded for the sake of a fingerprint alone


def versions() -> dict[str, str]:
    """Of what computes states, and tokens."""
    return {name: version(name).split("+")[0] for name in ("torch", "transformers", "tokenizers")}


def at_hand(
    name: str, *, dtype: str = "", date: str = "", heads: Sequence[str] | None = None
) -> dict[str, str]:
    """The fingerprint of the model that a name loads now; loaded on the CPU to find out.

    Raises
    ------
    ModelError
        When the model isn't on this machine, is damaged, or is too large (``LARGE``) to be
        loaded for this.
    """
    from lib.models import load_model

    note = place(name, dtype=dtype, date=date, heads=heads)
    with FileLock(f"{note}.lock"):
        if (known := _remembered(note)) is not None:
            return known
        if sum(path.stat().st_size for path in _files(name)) > LARGE:
            raise ModelError(
                f"the fingerprint of {name}", "none remembered", "Extract a run of it again."
            )
        model = load_model(name, device="cpu", dtype=dtype or None, date=date or None, heads=heads)
        remember(note, model.fingerprint)
        return model.fingerprint


def remember(note: Path, fingerprint: Mapping[str, str]) -> None:
    """Keep the fingerprint of a model at what ``place`` gave before it was loaded."""
    with replacing(note) as partial:
        partial.write_text(json.dumps(dict(fingerprint)) + "\n")


def place(
    name: str, *, dtype: str = "", date: str = "", heads: Sequence[str] | None = None
) -> Path:
    """Where the fingerprint of a model as it lies on disk now is remembered.

    A ``ModelError`` when it isn't on this machine.
    """
    held = []
    for path in _files(name):
        stat = path.stat()
        held.append((str(path), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
    here = sorted(Path(__file__).parent.glob("*.*"))  # code, and names of heads
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in here if path.is_file()))
    options = [name, dtype or "float32", date, list(heads or ())]
    digest.update(json.dumps([held, options, versions()], sort_keys=True).encode())
    folder = paths.cache() / "identities"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{digest.hexdigest()[:32]}.json"


def _remembered(note: Path) -> dict[str, str] | None:
    try:
        found = documents.read_json(note, what="a remembered fingerprint", error=ModelError)
    except ModelError:
        return None
    return found if set(found) == set(PARTS) else None


def _files(name: str) -> list[Path]:
    """All files that a model is loaded from."""
    folder = files.local(name)
    if folder is None:
        raise ModelError(f"the model {name} on this machine", "none", "Name a folder of it.")
    found = sorted(path for path in folder.iterdir() if path.is_file())
    return [*found, files.gguf()] if files.is_folder_of_heads(folder) else found


def differences(made: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names of the parts that were others when a run was made (``weights``, ``tokens``, …).

    A part that one of the two fingerprints doesn't have counts as another.
    """
    return [word for part, word in PARTS.items() if made.get(part) != now.get(part)]
