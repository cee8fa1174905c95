"""Execute one notebook: checked before, whole after, moved into place only then.

Tables that a page saves wait in a folder of their own, whose name the page finds in
``STAGE``, and are moved together with the page. A page that fails leaves none.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lib import parameters, paths, records
from lib.documents import read_bytes
from lib.errors import AuditError, PageError, ParameterError, unknown
from lib.paths import PLACES, STAGE
from lib.visible import visible

if TYPE_CHECKING:
    import nbformat

TAG = "parameters"
INJECTED = "injected-parameters"
LEFT = re.compile(r"\.(?P<name>.+)\.(?:partial|tables)-(?P<pid>\d+)(?:\.ipynb|-[0-9a-f]+)")
LAST_LINES = 5  # of a dead kernel, that are shown


def declared(notebook: str) -> dict[str, parameters.Parameter]:
    """The parameters of a notebook by its name under ``notebooks/``.

    Raises
    ------
    ParameterError
        When there is no such notebook.
    PageError
        When it hasn't exactly one cell tagged ``parameters``.
    """
    path = paths.NOTEBOOKS / f"{notebook}.ipynb"
    if not path.is_file():
        raise unknown("notebook", notebook, (p.stem for p in paths.NOTEBOOKS.glob("*.ipynb")))
    return dict(_declared(notebook, path, _content(path)))


@lru_cache(maxsize=128)  # a plan asks for the same few notebooks page by page
def _declared(notebook: str, path: Path, content: bytes) -> dict[str, parameters.Parameter]:
    tagged = [cell for cell in _cells(path, content) if TAG in cell.tags]
    if len(tagged) != 1:
        needed = f"one cell tagged {TAG!r} in notebooks/{notebook}.ipynb"
        raise PageError(needed, str(len(tagged)), "Mend it.")
    try:
        return parameters.declared(tagged[0].source)
    except ParameterError:
        raise
    except Exception as error:  # whatever Python's parsers raise for what is no Python
        found = f"{type(error).__name__}: {error}"
        raise PageError(f"parameters in notebooks/{notebook}.ipynb", found, "Mend it.") from None


def imported(notebooks: Iterable[str]) -> list[str]:
    """Modules of this library that cells of notebooks import, sorted.

    Of notebooks and cells that aren't right none: their pages say so.
    """
    found = set()
    for notebook in notebooks:
        with suppress(AuditError):
            for cell in cells(paths.NOTEBOOKS / f"{notebook}.ipynb"):
                if cell.kind == "code":
                    with suppress(SyntaxError):
                        found |= _modules(ast.parse(cell.source))
    return sorted(found)


def _modules(tree: ast.Module) -> set[str]:
    named = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            named |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            named |= {each.name for each in node.names}
    places = {name: paths.ROOT.joinpath(*name.split(".")) for name in named}
    own = (name for name in named if name.partition(".")[0] == paths.LIB.name)
    return {n for n in own if places[n].is_dir() or places[n].with_suffix(".py").is_file()}


@dataclass(frozen=True)
class Cell:
    """What is written in a notebook."""

    kind: str  # code, markdown or raw
    source: str
    tags: Collection[str] = ()


def cells(path: Path) -> list[Cell]:
    """What is written in a notebook's cells; what isn't one is a ``PageError``."""
    return _cells(path, _content(path))


def _cells(path: Path, content: bytes) -> list[Cell]:
    """The package that reads notebooks takes longer to import than a build that is done, so it
    reads those alone that aren't of the format of today, or aren't right.
    """
    with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found = json.loads(content)
        if found["nbformat"] == 4:
            return [
                Cell(each["cell_type"], "".join(each["source"]), each["metadata"].get("tags", ()))
                for each in found["cells"]
            ]
    book = _parsed(path, content)
    return [Cell(each.cell_type, each.source, each.metadata.get("tags", ())) for each in book.cells]


def _content(path: Path) -> bytes:
    return read_bytes(path, what="a notebook", error=PageError)


def _parsed(path: Path, content: bytes) -> nbformat.NotebookNode:
    import nbformat
    from nbformat.validator import ValidationError

    try:
        return nbformat.reads(content.decode(), 4)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as no:
        found = f"{type(no).__name__}: {str(no)[:200]}"
        raise PageError(f"a notebook at {path}", found, "Mend it.") from None


def run_page(
    notebook: str,
    output: str | Path,
    given: Mapping[str, Any],
    title: str = "",
    seconds: float | None = None,
    places: Mapping[str, str] | None = None,
) -> Path:
    """Execute a notebook with parameters.

    Parameters
    ----------
    notebook
        Its name under ``notebooks/``.
    output
        Where the executed page goes, by rename, when every cell completed.
    given
        Parameters; names and types are checked before anything runs.
    title
        Put after the page's own title.
    seconds
        How long all cells together may take; no limit by default.
    places
        Where models and data lie that parameters give by a public name.

    Raises
    ------
    ParameterError
        For a name the notebook doesn't declare, or a value of another type.
    PageError
        When a cell failed or never ran: names notebook, cell and error. The last good page
        at ``output`` and its tables stay.
    """
    import nbformat

    values = parameters.check(declared(notebook), given)
    output = _target(output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(output, str(error)) from None
    partial = output.with_name(_partial(output))
    tables = paths.ROOT / values["tables"] if values.get("tables") else None
    own = f".{output.stem}.tables-{os.getpid()}-{secrets.token_hex(4)}"
    stage = tables / own if tables else None
    try:
        environment = {PLACES: json.dumps(places or {})} | ({STAGE: str(stage)} if stage else {})
        _execute(notebook, partial, values, environment, seconds)
        page = nbformat.read(partial, as_version=4)
        for index, cell in enumerate(page.cells):
            if cell.cell_type == "code" and cell.source.strip() and not cell.execution_count:
                raise _failed(notebook, index, "the cell never ran")
        _finish(page, title)
        nbformat.write(page, partial)
        if stage and stage.is_dir():
            _move(stage, tables, output)
        os.replace(partial, output)
    except OSError as error:
        raise _failed(notebook, None, f"its page can't be written: {error}") from None
    finally:
        with suppress(OSError):
            partial.unlink()
        if stage:
            shutil.rmtree(stage, ignore_errors=True)
    return output


def _execute(
    notebook: str,
    partial: Path,
    values: Mapping[str, Any],
    environment: Mapping[str, str],
    seconds: float | None,
) -> None:
    """Let papermill write the executed notebook to ``partial``."""
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    from lib.book import kernels

    ended: list[int] = []
    limit: dict[str, Any] = {}
    if seconds is not None:
        end = time.monotonic() + seconds
        limit["timeout_func"] = lambda cell: max(1, math.ceil(end - time.monotonic()))
    said = ""
    try:
        with _quiet_kernel() as log:
            try:
                papermill.execute_notebook(
                    str(paths.NOTEBOOKS / f"{notebook}.ipynb"),
                    str(partial),
                    values,
                    engine_name=kernels.ENGINE,
                    kernel_name=kernels.NAME,
                    language="python",
                    kernel_manager_class=kernels.of_this_interpreter(environment, ended),
                    cwd=str(paths.ROOT),
                    progress_bar=False,
                    **limit,
                )
            finally:
                said = _last_lines(log)
    except PapermillExecutionError as error:
        raise _failed(notebook, error.cell_index, f"{error.ename}: {error.evalue}") from None
    except CellTimeoutError:
        found = f"it ran longer than the {seconds / 60:g} minutes that page_minutes allows a page"
        raise _failed(notebook, _reached(partial), found) from None
    except Exception as error:  # a kernel that died, a notebook that isn't one
        found = f"{type(error).__name__}: {error}"
        if ended or isinstance(error, DeadKernelError):
            found = ". ".join(filter(None, [found, _ending(ended), said]))
        raise _failed(notebook, _reached(partial), found) from None


def _move(stage: Path, tables: Path, output: Path) -> None:
    """Put a page's tables in place, and take away those that it no longer writes."""
    own = output.is_file() and tables == output.parent
    before = set(records.tables(output)) if own else set()
    for path in sorted(stage.iterdir()):
        os.replace(path, tables / path.name)
    if before:
        others = (path for path in tables.glob("*.ipynb") if path != output)
        kept = {table for page in (output, *others) for table in records.tables(page)}
        for table in before - kept:
            table.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what pages that were killed left under a folder."""
    for path in folder.rglob(".*"):
        left = LEFT.fullmatch(path.name)
        if left and not _runs(int(left["pid"])):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return True


def _ending(ended: list[int]) -> str:
    """How a kernel ended, in words."""
    if not ended:
        return ""
    if ended[0] >= 0:
        return f"Its process ended with status {ended[0]}"
    try:
        name = signal.Signals(-ended[0]).name
    except ValueError:
        name = f"signal {-ended[0]}"
    memory = ", as when memory runs out" if name == "SIGKILL" else ""
    return f"Its process was ended by {name}{memory}"


def _last_lines(log) -> str:
    """The end of what was written to a file, in one line."""
    log.seek(0)
    text = log.read()[-5000:].decode("utf-8", errors="replace")
    lines = [line.strip() for line in visible(text).splitlines() if line.strip()]
    return " / ".join([line for line in lines if "[IPKernelApp] WARNING" not in line][-LAST_LINES:])


def _reached(partial: Path) -> int | None:
    """The last cell that papermill started, as its copy of the notebook tells."""
    started = None
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for index, cell in enumerate(json.loads(partial.read_bytes())["cells"]):
            if cell["metadata"]["papermill"].get("start_time"):
                started = index
    return started


def _target(output: str | Path) -> Path:
    """Where the page goes, when that is a place for one."""
    path = Path(output).absolute()
    found = ""
    try:
        # What is written first has a longer name than the page.
        path.with_name(_partial(path)).exists()
        if path.suffix != ".ipynb":
            found = "another suffix"
        elif path.is_dir():
            found = "a folder"
        elif paths.NOTEBOOKS.absolute() in path.resolve().parents:
            found = "a place among the notebooks themselves"
        elif any(parent.exists() and not parent.is_dir() for parent in path.parents):
            found = "a file where its folder should be"
    except (OSError, ValueError) as error:  # a name too long, one that no file can have
        found = str(error)
    if found:
        raise _no_place(output, found)
    return path


def _no_place(output: str | Path, found: str) -> PageError:
    needed = f"a path for the page, ending in .ipynb, at {output}"
    return PageError(needed, found, "Choose another.")


def _partial(output: Path) -> str:
    return f".{output.stem}.partial-{os.getpid()}.ipynb"


@contextmanager
def _quiet_kernel() -> Iterator[Any]:
    """Keep what the kernel's own process logs off the console, in a file for when it dies."""
    sys.stderr.flush()
    console = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            sys.stderr.flush()
            os.dup2(console, 2)
            os.close(console)


def _failed(notebook: str, cell: int | None, error: str) -> PageError:
    where = f"cell {cell} of " if cell is not None else ""
    return PageError(
        "every cell to complete",
        f"a failure in {where}notebooks/{notebook}.ipynb: {visible(error).rstrip('.')}",
        "A page made before stays as it was.",
    )


def _finish(page, title: str) -> None:
    """Title with what it is about; no times and paths of this execution, which differ each run."""
    if title:
        for cell in page.cells:
            if cell.cell_type == "markdown" and cell.source.startswith("# "):
                first, *rest = cell.source.split("\n")
                cell.source = "\n".join([f"{first}: {_markdown(title)}", *rest])
                break
    page.metadata.pop("papermill", None)
    for index, cell in enumerate(page.cells):
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        cell["id"] = f"cell-{index}"
        if INJECTED in cell.metadata.get("tags", []):
            cell.metadata["tags"] = [*cell.metadata["tags"], "hide-input"]


def _markdown(text: str) -> str:
    """Text as itself in one line of Markdown."""
    flat = " ".join(text.split())
    return re.sub(r"([\\`*_{}\[\]()<>#+!|$~&-])", r"\\\1", flat)
