"""Processes that a launcher started to share one extraction, a GPU each.

``accelerate launch`` and ``torchrun`` tell each process its place by environment variables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from lib.errors import ParameterError

NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


@dataclass(frozen=True)
class World:
    """A process among those of its launcher."""

    rank: int  # of ``size``, over all hosts
    local: int  # on its host
    size: int

    @property
    def device(self) -> str | None:
        """A GPU of this process's own; ``None`` where there is none."""
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return f"cuda:{self.local % count}" if count else None

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is inside is done by all before any goes on."""
        from torch import distributed

        distributed.init_process_group("gloo", timeout=timedelta(days=7))
        try:
            yield
            distributed.barrier()
        finally:
            distributed.destroy_process_group()


def world() -> World | None:
    """The place of this process, when a launcher started several; else ``None``.

    Raises
    ------
    ParameterError
        When the launcher's variables are no numbers.
    """
    given = {name: os.environ.get(name, "") for name in NAMES}
    if given["WORLD_SIZE"] in ("", "1"):
        return None
    try:
        rank, local, size = (int(given[name]) for name in NAMES)
    except ValueError:
        raise ParameterError(
            f"numbers in {', '.join(NAMES)}, as a launcher sets them",
            ", ".join(f"{name}={value}" for name, value in given.items()),
            "Start it with accelerate launch, or unset them.",
        ) from None
    return World(rank, local, size)
