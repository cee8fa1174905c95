"""Kernels as forks of one process that has imported what most pages import.

A build of many pages keeps such a process beside it (``kept``). Each page then starts a small one
of its own (``ask``), which asks for a fork and lives as long as that does: its exit status is the
kernel's, and when it ends the kernel is killed. Where nobody answers, it becomes a kernel as ever.

Only packages are imported before, none of this library: what a build finds changed, pages see.
This file is run by its path, on the standard library alone, as ``forks.py keep PLACE`` and
``forks.py ask PLACE ARGUMENT…``; ``PLACE`` is that of a socket.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

VARIABLE = "REWARD_AUDIT_KERNELS"  # holds the place, for the steps of a build
PACKAGES = ("ipykernel.kernelapp", "IPython.core.interactiveshell", "pandas", "pyarrow.parquet")
PACKAGES += ("scipy.stats", "xarray", "altair", "safetensors.numpy", "pygments.lexers")
LEAST = 4  # pages for which it is worth its start
LENGTH = 8  # bytes that tell how long a request is


@contextmanager
def kept(pages: int) -> Iterator[dict[str, str]]:
    """Keep a process to fork kernels from; gives what pages need in their environment.

    It ends with the block, and with the process that it was kept by however that ends.
    """
    import subprocess
    import tempfile

    if pages < LEAST or "SNAKEMAKE_PROFILE" in os.environ:  # that may send pages elsewhere
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "kernels")
        process = subprocess.Popen(
            [sys.executable, __file__, "keep", place],
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


def command(place: str) -> list[str]:
    """What asks for a kernel there; its arguments follow."""
    return [sys.executable, "-E", "-S", "-P", __file__, "ask", place]


# ---- The process that is forked ----


def keep(place: str) -> dict[str, Any] | None:
    """Answer requests until the builder is gone. In a fork, gives the request that it is for."""
    del sys.path[0]  # the folder of this file
    for package in PACKAGES:
        with suppress(ImportError):
            importlib.import_module(package)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen(64)
        while True:
            ready, _, _ = select.select([listening, 0], [], [])
            if 0 in ready:
                return None
            connection, _ = listening.accept()
            if not os.fork():
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return _watched(connection)


def _watched(connection: socket.socket) -> dict[str, Any]:
    """Fork the kernel and, in the process that doesn't become it, watch both ends and exit."""
    head, streams, *_ = socket.recv_fds(connection, LENGTH, 3)
    with connection.makefile("rb") as file:
        request = json.loads(file.read(int.from_bytes(head, "big")))
    kernel = os.fork()
    if not kernel:
        os.setsid()
        connection.close()
        return request | {"streams": streams}
    for stream in streams:
        os.close(stream)
    status = None
    while status is None:
        gone, _, _ = select.select([connection], [], [], 0.05)
        if gone:  # who asked says nothing more: it has ended
            for end in (os.killpg, os.kill):  # the first, once the kernel has a group
                with suppress(OSError):
                    end(kernel, signal.SIGKILL)
        ended, told = os.waitpid(kernel, 0 if gone else os.WNOHANG)
        status = os.waitstatus_to_exitcode(told) if ended else None
    with suppress(OSError):
        connection.sendall(str(status).encode())
    os._exit(0)


def _become(request: dict[str, Any]) -> None:
    """Be the kernel that was asked for, with the streams and surroundings of who asked."""
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    from ipykernel import kernelapp

    parent = f"--IPKernelApp.parent_handle={os.getppid()}"
    kernelapp.launch_new_instance([*request["arguments"], parent])


# ---- The process that a page starts ----


def ask(place: str, arguments: list[str]) -> int:
    """Ask for a kernel, wait for its end and give its status; die of what it died of."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a kernel does
    request = {"folder": os.getcwd(), "environment": dict(os.environ), "arguments": arguments}
    content = json.dumps(request).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(place)
            socket.send_fds(connection, [len(content).to_bytes(LENGTH, "big")], [0, 1, 2])
            connection.sendall(content)
        except OSError:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            launcher = [sys.executable, "-m", "ipykernel_launcher", *arguments]
            os.execv(sys.executable, launcher)
        while not select.select([connection], [], [], 1.0)[0]:
            if os.getppid() != parent:
                return 1
        told = connection.recv(LENGTH)
    status = int(told or -signal.SIGKILL)
    if status < 0:
        with suppress(OSError):  # nothing else can be done about SIGKILL
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        sys.exit(ask(sys.argv[2], sys.argv[3:]))
    if wanted := keep(sys.argv[2]):
        _become(wanted)
