"""Execute one notebook: checked before, whole after, moved into place only then."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat

from lib import parameters, paths
from lib.errors import PageError, unknown

TAG = "parameters"
INJECTED = "injected-parameters"


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
    tagged = [
        cell
        for cell in nbformat.read(path, as_version=4).cells
        if TAG in cell.metadata.get("tags", [])
    ]
    if len(tagged) != 1:
        raise PageError(
            f"one cell tagged {TAG!r} in notebooks/{notebook}.ipynb",
            str(len(tagged)),
            "Mend it.",
        )
    return parameters.declared(tagged[0].source)


def run_page(notebook: str, output: str | Path, given: Mapping[str, Any], title: str = "") -> Path:
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

    Raises
    ------
    ParameterError
        For a name the notebook doesn't declare, or a value of another type.
    PageError
        When a cell failed or never ran: names notebook, cell and error. The last good page
        at ``output`` stays.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    values = parameters.check(declared(notebook), given)
    output = _target(output)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_place(output, str(error)) from None
    partial = output.with_name(_partial(output))
    source = paths.NOTEBOOKS / f"{notebook}.ipynb"
    try:
        with _quiet_kernel():
            papermill.execute_notebook(
                str(source), str(partial), values, cwd=str(paths.ROOT), progress_bar=False
            )
    except PapermillExecutionError as error:
        raise _failed(notebook, error.cell_index, f"{error.ename}: {error.evalue}") from None
    except Exception as error:  # a kernel that died, a notebook that isn't one
        raise _failed(notebook, None, f"{type(error).__name__}: {error}") from None
    else:
        page = nbformat.read(partial, as_version=4)
        for index, cell in enumerate(page.cells):
            if cell.cell_type == "code" and cell.source.strip() and not cell.execution_count:
                raise _failed(notebook, index, "the cell never ran")
        _finish(page, title)
        nbformat.write(page, partial)
        os.replace(partial, output)
    finally:
        partial.unlink(missing_ok=True)
    return output


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
    return PageError(
        f"a path for the page, ending in .ipynb, at {output}", found, "Choose another."
    )


def _partial(output: Path) -> str:
    return f".{output.stem}.partial-{os.getpid()}.ipynb"


@contextmanager
def _quiet_kernel() -> Iterator[None]:
    """Keep what the kernel's own process logs off the console; cells' output isn't touched."""
    sys.stderr.flush()
    console = os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(console, 2)
            os.close(console)


def _failed(notebook: str, cell: int | None, error: str) -> PageError:
    where = f"cell {cell} of " if cell is not None else ""
    return PageError(
        "every cell to complete",
        f"a failure in {where}notebooks/{notebook}.ipynb: {error.rstrip('.')}",
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
