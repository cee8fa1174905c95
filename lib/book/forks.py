"""Steps of pages, and their kernels, as forks of one process that has imported what they need.

A build of many pages keeps such a process beside it (``kept``). What a page needs run is then
started as a small one (``ask``), which asks for a fork and lives as long as that does: its exit
status is the fork's, a signal to end is passed on, and when it ends the fork is killed. Where
nobody answers, it becomes that program as ever.

Only packages are imported before, none of this library: what a build finds changed, pages see.
This file is run by its path, on the standard library alone, as ``forks.py keep PLACE`` and
``forks.py ask PLACE MODULE ARGUMENT…``; ``PLACE`` is that of a socket.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

VARIABLE = "REWARD_AUDIT_FORKS"  # holds the place, for the steps of a build
KERNEL = "ipykernel_launcher"
PACKAGES = ("papermill", "jupyter_client.asynchronous", "yaml", "filelock")  # of a step
PACKAGES += ("ipykernel.kernelapp", "IPython.core.interactiveshell", "pandas", "pyarrow.parquet")
PACKAGES += ("scipy.stats", "xarray", "altair", "safetensors.numpy", "pygments.lexers")
LEAST = 3  # pages for which it is worth its start
LENGTH = 8  # bytes that tell how long a request is
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def kept(pages: int) -> Iterator[dict[str, str]]:
    """Keep a process to fork pages from; gives what their steps need in their environment.

    It ends with the block, and with the process that it was kept by however that ends.
    """
    import subprocess
    import tempfile

    if pages < LEAST or "SNAKEMAKE_PROFILE" in os.environ:  # that may send pages elsewhere
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "forks")
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


def command(module: str) -> list[str]:
    """What runs a module as a program, by a fork where one can be had; its arguments follow."""
    place = os.environ.get(VARIABLE)
    if not place:
        return [sys.executable, "-m", module]
    return [sys.executable, "-E", "-S", "-P", __file__, "ask", place, module]


# ---- The process that is forked ----


def keep(place: str) -> dict[str, Any] | None:
    """Answer requests until the builder is gone. In a fork, gives the request that it is for."""
    del sys.path[0]  # the folder of this file
    for package in PACKAGES:
        with suppress(ImportError):
            importlib.import_module(package)
    with suppress(Exception):  # the schema of notebooks is compiled once
        nbformat = sys.modules["nbformat"]
        nbformat.validate(nbformat.v4.new_notebook())
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
    """Fork again and, in the process that doesn't become the program, watch both ends and exit."""
    head, streams, *_ = socket.recv_fds(connection, LENGTH, 3)
    length, content = int.from_bytes(head, "big"), b""
    while len(content) < length and (more := connection.recv(length - len(content))):
        content += more
    request = json.loads(content)
    program = os.fork()
    if not program:
        os.setsid()
        connection.close()
        return request | {"streams": streams}
    for stream in streams:
        os.close(stream)
    status = None
    while status is None:
        told, _, _ = select.select([connection], [], [], 0.05)
        wanted = _received(connection) if told else b""
        gone = told and not wanted  # who asked has ended
        if gone:
            for end in (os.killpg, os.kill):  # the first, once the program has a group
                with suppress(OSError):
                    end(program, signal.SIGKILL)
        for number in wanted:
            with suppress(OSError):
                os.kill(program, number)
        ended, how = os.waitpid(program, 0 if gone else os.WNOHANG)
        status = os.waitstatus_to_exitcode(how) if ended else None
    with suppress(OSError):
        connection.sendall(str(status).encode())
    os._exit(0)


def _received(connection: socket.socket) -> bytes:
    with suppress(OSError):
        return connection.recv(LENGTH)
    return b""


def _stream(number: int, mode: str, **options) -> TextIO:
    return os.fdopen(number, mode, closefd=False, **options)


def _become(request: dict[str, Any]) -> None:
    """Be the program that was asked for, with the streams and surroundings of who asked."""
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    # Those of the process that was forked know of a place in what its streams were.
    sys.stdin = sys.__stdin__ = _stream(0, "r")
    sys.stdout = sys.__stdout__ = _stream(1, "w")
    sys.stderr = sys.__stderr__ = _stream(2, "w", buffering=1, errors="backslashreplace")
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    module, *arguments = request["program"]
    if module == KERNEL:  # it ends with the process that watches
        arguments.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    sys.argv = [module, *arguments]
    sys.path.insert(0, os.getcwd())  # as python -m has it
    runpy.run_module(module, run_name="__main__", alter_sys=True)


# ---- The process that asks ----


def ask(place: str, program: list[str]) -> int:
    """Ask for a program, wait for its end and give its status; die of what it died of."""
    parent = os.getppid()
    if program[0] == KERNEL:  # which messages interrupt
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = {"folder": os.getcwd(), "environment": dict(os.environ), "program": program}
    content = json.dumps(request).encode()
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until they can be passed on
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(place)
            socket.send_fds(connection, [len(content).to_bytes(LENGTH, "big")], [0, 1, 2])
            connection.sendall(content)
        except OSError:
            if program[0] == KERNEL:
                signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            os.execv(sys.executable, [sys.executable, "-m", *program])
        if program[0] != KERNEL:
            _pass_on(connection)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
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


def _pass_on(connection: socket.socket) -> None:
    """Send the signals to end that come here to who watches."""

    def send(number: int, frame) -> None:
        with suppress(OSError):
            connection.send(bytes([number]))

    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup's stay ignored
            signal.signal(number, send)


if __name__ == "__main__":
    if sys.argv[1] == "ask":
        sys.exit(ask(sys.argv[2], sys.argv[3:]))
    if wanted := keep(sys.argv[2]):
        _become(wanted)
