"""The process that executes a page: this interpreter, whatever kernels are installed.

In a build of many pages it is a fork of one that has imported what they need: ``lib.book.forks``.
"""

from __future__ import annotations

from collections.abc import Mapping

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

from lib.book import forks

NAME = "python3"
ENGINE = "at the end"  # papermill's name of it


class AtTheEnd(NBClientEngine):
    """Papermill's engine, which writes the notebook before the first cell and after the last alone.

    Its own writes, and validates, all of it at the start and the end of every cell, which for a
    page with charts takes longer than many a cell. Who reads it when a cell failed reads it after.
    """

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, **options
    ) -> None:
        """Execute every cell."""
        nb_man.save = lambda **given: None
        try:
            super().execute_managed_notebook(nb_man, kernel_name, **options)
        finally:
            del nb_man.save


papermill_engines.register(ENGINE, AtTheEnd)


def of_this_interpreter(given: Mapping[str, str], ended: list[int]) -> type[AsyncKernelManager]:
    """A kernel manager that looks up no kernel; ``given`` is more of its environment.

    The exit status of a kernel that ends by itself goes into ``ended``: below 0 for a signal.
    """
    start = forks.command(forks.KERNEL)

    class Kernel(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(
                argv=[*start, "-f", "{connection_file}"],
                display_name="Python 3",
                language="python",
                env=dict(given),
            )

        async def is_alive(self) -> bool:
            process = getattr(self.provisioner, "process", None)
            status = process.poll() if process else None
            if status is not None and not ended:
                ended.append(status)
            return await super().is_alive()

    return Kernel
