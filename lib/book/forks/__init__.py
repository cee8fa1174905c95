"""Steps of a build, and kernels, as forks of one process that has imported what they need.

A build of many pages, or models, keeps such a process beside it (``kept``, which runs ``keep.py``).
What is to be run is then started as a small one (``command``, which runs ``ask.py``): it asks for
a fork and lives as long as that does. Its exit status is the fork's, a signal to end is passed on,
and when it ends the fork is killed. Where nobody answers, or whoever would ends while it imports,
it becomes that program as ever.

Both files are run by their paths, on the standard library alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "REWARD_AUDIT_FORKS"  # holds the place of a socket, for the steps of a build
KERNEL = "ipykernel_launcher"
LOADING = ("lib.mechanisms.tokens", "transformers.models.llama.modeling_llama")  # of a model
WEIGHTS = "lib.models.backbone"  # named where pages load an embedded model
LEAST = 3  # pages for which it is worth its start
LEAST_LOADING = 2  # steps that load a model, the same
KEEP, ASK = (str(Path(__file__).with_name(name)) for name in ("keep.py", "ask.py"))


@contextmanager
def kept(pages: int, modules: Collection[str] = (), loading: int = 0) -> Iterator[dict[str, str]]:
    """Keep a process to fork steps from; gives what they need in their environment.

    ``modules`` are those of the library that the pages name, ``loading`` is how many steps load a
    model. It ends with the block, and with the process that it was kept by however that ends.
    Where the environment says of such a process already, it is left to whoever keeps it.
    """
    import subprocess
    import tempfile

    few = pages < LEAST and loading < LEAST_LOADING
    if few or {VARIABLE, "SNAKEMAKE_PROFILE"} & set(os.environ):  # that may send steps elsewhere
        yield {}
        return
    modules = (*modules, *(LOADING if loading >= LEAST_LOADING else ()))
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "forks")
        process = subprocess.Popen(
            [sys.executable, KEEP, place, *modules],
            stdin=subprocess.PIPE,  # closed when this process ends
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"OMP_NUM_THREADS": "1"},  # as pages have; threads can't be forked
            start_new_session=True,
        )
        try:
            yield {VARIABLE: place}
        finally:
            process.stdin.close()
            process.kill()
            process.wait()


def command(module: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """What runs a module as a program, by a fork where one can be had; its arguments follow."""
    place = environment.get(VARIABLE)
    if not place:
        return [sys.executable, "-m", module]
    return [sys.executable, "-E", "-S", "-P", ASK, place, module]
