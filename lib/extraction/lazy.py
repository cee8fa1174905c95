"""Arrays of a Run that stay on disk until a part of them is asked for.

An ``xarray`` variable over safetensors files that follow one another along the first
dimension. Slices read the files that they touch and no others; ``.values`` reads them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from safetensors import safe_open
from xarray.backends import BackendArray
from xarray.core import indexing


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of an array, in one file.

    Attributes
    ----------
    path, name
        The file and its tensor.
    rows
        How many rows the piece stands for.
    kept
        Which of them the file holds, ascending; ``None`` for all. The others are NaN.
    """

    path: Path
    name: str
    rows: int
    kept: np.ndarray | None = None

    def read(self, start: int, stop: int) -> np.ndarray:
        """Rows ``start:stop``, float32."""
        low, high = start, stop
        if self.kept is not None:
            low, high = np.searchsorted(self.kept, (start, stop))
        with safe_open(self.path, framework="numpy") as file:
            tensor = file.get_slice(self.name)
            shape = tensor.get_shape()
            # An empty slice at a tensor's end is refused.
            found = tensor[int(low) : int(high)] if low < high else np.empty((0, *shape[1:]))
        if self.kept is None:
            return found
        whole = np.full((stop - start, *found.shape[1:]), np.nan, np.float32)
        whole[self.kept[low:high] - start] = found
        return whole


class _OnDisk(BackendArray):
    """Pieces as one array, for xarray."""

    def __init__(self, pieces: Sequence[Piece], shape: tuple[int, ...]):
        self.pieces, self.shape = pieces, shape
        self.dtype = np.dtype(np.float32)
        self.starts = np.cumsum([0, *(piece.rows for piece in pieces)])[:-1].tolist()

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        basic = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, basic, self._rows)

    def _rows(self, key: tuple) -> np.ndarray:
        first, *rest = key
        single = not isinstance(first, slice)
        wanted = range(self.shape[0])[first] if not single else range(first, first + 1)
        low, high = (min(wanted), max(wanted) + 1) if wanted else (0, 0)
        parts = [
            piece.read(max(low, start) - start, min(high, start + piece.rows) - start)
            for piece, start in zip(self.pieces, self.starts, strict=True)
            if start < high and start + piece.rows > low
        ]
        rows = np.concatenate(parts) if parts else np.empty((0, *self.shape[1:]), np.float32)
        rows = rows[np.asarray(wanted, np.int64) - low]
        rows = rows[0] if single else rows
        return rows[(*([] if single else [slice(None)]), *rest)]


def variable(dims: Sequence[str], pieces: Sequence[Piece], shape: tuple[int, ...]) -> xr.Variable:
    """A float32 variable that reads its pieces when it is indexed.

    Parameters
    ----------
    dims
        Names of the dimensions.
    pieces
        In order along the first of them.
    shape
        Of all together.
    """
    data = indexing.LazilyIndexedArray(_OnDisk(pieces, tuple(shape)))
    return xr.Variable(dims, data)
