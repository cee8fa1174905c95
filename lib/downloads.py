"""A table as links that hold it, to be saved from the page: CSV, and Parquet with its types."""

from __future__ import annotations

import base64
import gzip
import html
import io
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pandas as pd

from lib.visible import visible

LARGE = 200_000  # characters of CSV from which the link holds it compressed
LONGEST = 2000  # characters of a text
SPACES = {0x2028: " ", 0x2029: " ", ord("\n"): " ", ord("\t"): " "}


def links(frame: pd.DataFrame, name: str, longest: int | None = None) -> str:
    """Markup of links to a table as CSV and Parquet, for files of that name.

    Texts are cut after ``LONGEST`` characters; a link of more than ``longest`` is left out.
    """
    found = []
    for label, link in (("CSV", csv_link(frame)), ("Parquet", parquet_link(frame))):
        packed = ".gz" if link.startswith("data:application/gzip") else ""
        file = html.escape(f"{name}.{label.lower()}{packed}")
        if longest is None or len(link) <= longest:
            found.append(f'<a class="data-link" download="{file}" href="{link}">{label}</a>')
    return ", ".join(found)


def csv_link(frame: pd.DataFrame) -> str:
    """A table as a ``data:`` link to CSV, ready for an attribute.

    Names that a spreadsheet would take for a formula get a leading apostrophe. A long one is
    compressed.
    """
    safe = frame.apply(lambda column: _mapped(column, _cell))
    text = safe.to_csv(index=False, float_format="%.9g", lineterminator="\n")
    if len(text) > LARGE:
        packed = gzip.compress(text.encode(), mtime=0)
        return "data:application/gzip;base64," + base64.b64encode(packed).decode()
    return "data:text/csv;charset=utf-8," + quote(text, safe=",.-_~*:;/()[]|=")


def parquet_link(frame: pd.DataFrame) -> str:
    """A table as a ``data:`` link to Parquet; a column of mixed types is one of texts."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {}
    for name, values in frame.items():
        values = _mapped(values, _cut)
        try:
            column = pa.Array.from_pandas(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            column = pa.Array.from_pandas(values.map(str, na_action="ignore"))
        columns[str(name)] = column
    file = io.BytesIO()
    # Statistics of columns would be larger than most of these tables.
    parquet.write_table(pa.table(columns), file, compression="zstd", write_statistics=False)
    packed = base64.b64encode(file.getvalue()).decode()
    return f"data:application/vnd.apache.parquet;base64,{packed}"


def _mapped(column: pd.Series, change: Callable[[Any], Any]) -> pd.Series:
    """The column with its texts changed; one of numbers holds none."""
    return column if column.dtype in (float, int, bool) else column.map(change)


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    value = visible(_cut(value).translate(SPACES))
    return f"'{value}" if value.startswith(("=", "+", "-", "@")) else value


def _cut(value: Any) -> Any:
    long = isinstance(value, str) and len(value) > LONGEST
    return f"{value[: LONGEST - 1]}…" if long else value
