"""One forward pass per item: ``extract`` turns a model and items into a Run.

States are kept in the cache under what made them (weights, tokenizer, template, items,
dtype, device, versions), so heads that change are scored again without running the model.

``job``       what is to be computed (``prepare``), and under which name it is kept
``shards``    its states, shard by shard; ``store`` has them on disk, ``sealed`` checksums them
``forward``   tokens in, states out: rows from ``pack``, attention from ``attention``, what
              else to keep from ``taps``, what to leave out in ``last_mlp``, a trial of the
              packing in ``parity``
``scoring``   the Run that they make, whose schema ``lib.run`` has; ``disk`` writes and reads it
``stream``    sets that don't fit in memory, ``lazy`` what is read of them when asked for
``workers``   processes that share one extraction; ``verify`` does a few items of a run again
``folders``   locks, and whose a folder is
``estimate``  how long scoring takes
``command``   ``python -m lib extract``
"""

from __future__ import annotations

from pathlib import Path

import xarray as xr

from lib.extraction import disk, stream
from lib.extraction.disk import check_target, save_run
from lib.extraction.scoring import extract, extract_part, is_stored
from lib.extraction.stream import extract_stream
from lib.run import TRAINED, align, check, comparisons, pool

__all__ = [
    "TRAINED",
    "align",
    "check",
    "check_target",
    "comparisons",
    "extract",
    "extract_part",
    "extract_stream",
    "is_stored",
    "load_run",
    "pool",
    "save_run",
]


def load_run(folder: str | Path) -> xr.Dataset:
    """Read a run that ``save_run`` or ``extract_stream`` wrote.

    Raises
    ------
    StoreError
        When the folder holds no run, a damaged one, or one of another format.
    """
    return stream.load(folder) if stream.is_stream(folder) else disk.load(folder)
