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

    Of its ``rows`` the tensor holds those that are ``kept``, ascending, or all; the others
    are NaN.
    """

    path: Path
    name: str
    rows: int
    kept: np.ndarray | None

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


def piece(path: Path, name: str, rows: int) -> Piece:
    """The piece that a run on disk holds of a variable."""
    with safe_open(path, framework="numpy") as file:
        sampled = f"{name}.rows" in file.keys()  # noqa: SIM118
        return Piece(path, name, rows, file.get_tensor(f"{name}.rows") if sampled else None)


class _OnDisk(BackendArray):
    """Pieces as one array, for xarray."""

    def __init__(self, pieces: Sequence[Piece], of_a_row: tuple[int, ...]):
        self.pieces, self.dtype = pieces, np.dtype(np.float32)
        self.starts = np.cumsum([0, *(piece.rows for piece in pieces)]).tolist()
        self.shape = (self.starts[-1], *of_a_row)

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        basic = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, basic, self._rows)

    def _rows(self, key: tuple) -> np.ndarray:
        first, *rest = key
        wanted = np.arange(self.shape[0])[first]
        low, high = (wanted.min(), wanted.max() + 1) if wanted.size else (0, 0)
        rows = np.empty((high - low, *self.shape[1:]), np.float32)
        for piece, start in zip(self.pieces, self.starts, strict=False):
            begin, end = max(low, start), min(high, start + piece.rows)
            if begin < end:
                rows[begin - low : end - low] = piece.read(begin - start, end - start)
        return rows[wanted - low][(slice(None),) * wanted.ndim + tuple(rest)]


def variable(
    dims: Sequence[str], pieces: Sequence[Piece], of_a_row: tuple[int, ...]
) -> xr.Variable:
    """A float32 variable that reads its pieces, in order along the first dim, when indexed."""
    return xr.Variable(dims, indexing.LazilyIndexedArray(_OnDisk(pieces, of_a_row)))
