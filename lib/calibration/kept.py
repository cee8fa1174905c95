"""Calibration that was computed before, kept under the code and the options that made it.

A document holds the rows of one analysis with what made them: a digest of the code, draws, seed,
versions and day. The committed ones lie in ``paths.CALIBRATION``; where those don't match the
code at hand, rows are computed and kept in the cache. Rows are a function of all that the digest
covers, so what is kept is what would be computed.
"""

from __future__ import annotations

import ast
import datetime
import hashlib
import importlib.metadata
import json
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from lib import documents, paths
from lib.atomic import replacing
from lib.errors import AuditError, DataError
from lib.planted.checks import COLUMNS

PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "xarray")
LARGEST = 10_000_000  # bytes of a document
FIELDS = {"rows": list[dict[str, Any]], "made": str, "seconds": float}
NUMBERS = ("rate", "low99", "high99", "at_least", "at_most")
ROW = dict.fromkeys(COLUMNS, str) | dict.fromkeys(NUMBERS, float) | {"draws": int}


def identity(module: str, draws: int, seed: int) -> dict[str, Any]:
    """All that an analysis' rows depend on."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"code": code_digest(module), "draws": draws, "seed": seed, "versions": versions}


def rows(
    name: str, module: str, compute: Callable[[int, int], list[dict]], draws: int, seed: int
) -> dict[str, Any]:
    """The document of an analysis: a kept one that matches, else computed now and kept.

    Parameters
    ----------
    name
        Of the analysis.
    module
        That holds its checks, such as ``lib.analyses.geometry.calibration``.
    compute
        ``checks(draws, seed)`` of that module.
    """
    wanted = identity(module, draws, seed)
    own = f"{name}-{draws}-{seed}"
    for path in (paths.CALIBRATION / f"{name}.json", _cached() / f"{own}.json"):
        if (kept := matches(path, wanted)) is not None:
            return kept
    return write(_cached(), own, wanted, compute)


def _cached() -> Path:
    return paths.cache() / "calibration"


def write(
    folder: Path, name: str, wanted: dict[str, Any], compute: Callable[[int, int], list[dict]]
) -> dict[str, Any]:
    """Compute the rows of an analysis and keep them in a folder, by rename."""
    started = time.process_time()  # a machine that others share takes longer by the clock
    found = compute(wanted["draws"], wanted["seed"])
    document = wanted | {
        "made": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "seconds": round(time.process_time() - started, 1),
        "rows": found,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False, default=_plain) + "\n"
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / f"{name}.json") as partial:
        partial.write_text(text, encoding="utf-8")
    return json.loads(text)


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    return value.item()


def matches(path: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The document kept at a path, when it was made from just this; else ``None``."""
    try:
        found = documents.read_json(
            path, what="kept calibration", error=DataError, limit=LARGEST, fields=FIELDS
        )
        for row in found.get("rows", ()):
            documents.check_fields(row, ROW, what="a row", error=DataError)
    except AuditError:
        return None
    whole = FIELDS.keys() <= found.keys() and all(ROW.keys() <= row.keys() for row in found["rows"])
    same = all(found.get(key) == value for key, value in wanted.items())
    return found if whole and same else None


@cache
def code_digest(module: str) -> str:
    """Sixteen hex digits of a module and of all of this package that it imports, in turn.

    Docstrings, comments and layout don't count.
    """
    seen: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = _path(name)
        if name in seen or path is None:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        waiting += imported(tree)
        seen[name] = ast.dump(_bare(tree))
    digest = hashlib.sha256()
    for name in sorted(seen):
        digest.update(f"{name} {seen[name]}\0".encode())
    return digest.hexdigest()[:16]


def _path(name: str) -> Path | None:
    place = paths.ROOT.joinpath(*name.split("."))
    return next(filter(Path.is_file, (place.with_suffix(".py"), place / "__init__.py")), None)


def imported(tree: ast.AST) -> list[str]:
    """Modules of this package that a module's tree imports, lazily or not."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            # A module that is imported from its package counts for itself alone.
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name if _path(name) else node.module for name in inside]
    return [name for name in found if name == "lib" or name.startswith("lib.")]


def _bare(tree: ast.AST) -> ast.AST:
    """The tree without docstrings."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0] = ast.Pass()
    return tree
