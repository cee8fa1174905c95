"""The process that is forked: imports packages, and is then whatever program is asked for.

It has this library imported, too, as it was when the build began: a fork forgets it where a file
of it is another by then, or where it runs elsewhere, so that pages see what a build finds changed.
What is imported is left out of what each fork collects as garbage, and isn't taken down object by
object when one ends, which would take longer than many a page.
Run as ``keep.py PLACE MODULE…``: listens at a socket there, with those modules imported as well,
until its input is closed.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import marshal
import os
import resource
import runpy
import select
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

KERNEL = "ipykernel_launcher"
PACKAGES = ("papermill", "jupyter_client.asynchronous", "yaml", "filelock")  # of a step
PACKAGES += ("ipykernel.kernelapp", "IPython.core.interactiveshell", "pandas", "pyarrow.parquet")
PACKAGES += ("ipykernel.debugger", "IPython.core.completerlib", "IPython.extensions.storemagic")
PACKAGES += ("scipy.stats", "xarray", "altair", "safetensors.numpy", "pygments.lexers")
PACKAGES += ("IPython.core.oinspect", "IPython.core.debugger", "IPython.core.logger")
PACKAGES += ("tornado.platform.asyncio", "myst_nb.ext.glue", "pyarrow.pandas_compat")
PACKAGES += ("pydantic.type_adapter", "sqlite3")
LIBRARY = ("lib.report", "lib.charts", "lib.stats", "lib.book.kernels", "lib.book.site")
LIBRARY += ("huggingface_hub.file_download",)  # which heeds what this library sets
WEIGHTS = "lib.models.backbone"
CHECKOUT = str(Path(__file__).absolute().parents[3])
RECENT = 2_000_000_000  # nanoseconds: a file as new may change again within one tick
FORGOTTEN: list[Any] = []  # modules
BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
READY = b"."  # said to who asks, as ``ask.py`` has it
LENGTH = 8  # bytes that tell how long a request is, as there


def keep(place: str, modules: Collection[str]) -> dict[str, Any] | None:
    """Answer requests until the builder is gone. In a fork, gives the request that it is for."""
    del sys.path[0]  # the folder of this file
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that watch
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(place)
        listening.listen(64)  # who asks meanwhile waits for less than it would take to import
        library = _prepared(modules)
        while True:
            ready, _, _ = select.select([listening, 0], [], [])
            if 0 in ready:
                return None
            connection, _ = listening.accept()
            if not os.fork():
                break
            connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return _watched(connection) | {"library": library}


def _prepared(modules: Collection[str]) -> dict[str, Any]:
    """Import what pages need, once for all; gives what is known of the library."""
    for package in PACKAGES:
        with suppress(Exception):
            importlib.import_module(package)
    with suppress(Exception):  # the schema of notebooks is compiled once
        nbformat = sys.modules["nbformat"]
        nbformat.validate(nbformat.v4.new_notebook())
    with suppress(Exception):  # what starts kernels is looked for among all packages, once
        importlib.import_module("jupyter_client.provisioning").KernelProvisionerFactory.instance()
    library = _imported((*LIBRARY, *modules))
    if WEIGHTS in modules:
        with suppress(Exception):  # pages say what is wrong with them
            _weigh(sys.modules[WEIGHTS])
    for left in list(weakref.finalize._registry):  # of what is imported, which no fork takes down
        left.atexit = False
    gc.collect()
    gc.freeze()
    return library


def _weigh(backbone: ModuleType) -> None:
    """Have the embedded weights digested, which each page that loads them compares with what they
    were; where they aren't at hand yet a fork makes them, since that starts threads.
    """
    before = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        made = os.fork()
        if not made:
            try:
                backbone.dequantised()
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(made, 0)
    finally:
        signal.signal(signal.SIGCHLD, before)
    if not status:
        backbone.dequantised()


def _imported(modules: Collection[str]) -> dict[str, Any]:
    """Import modules of this library; gives its files as they were, and what they set."""
    before, files = dict(os.environ), _files()
    if any(time.time_ns() - changed < RECENT for _, _, changed, _ in files.values()):
        return {"files": {}, "set": {}}  # one may still be written
    sys.path.insert(0, CHECKOUT)
    for module in modules:
        with suppress(Exception):  # pages find by themselves why it can't be
            importlib.import_module(module)
    with suppress(Exception):  # what notebooks declare is remembered by their content
        sys.modules["lib.book.plan"].read()
    with suppress(Exception):  # what charts are judged by is compiled once
        sys.modules["lib.charts.schema"].prepare()
    del sys.path[0]
    return {"files": files, "set": dict(os.environ.items() - before.items())}


def _files() -> dict[str, tuple[int, ...]]:
    """The library's files: size, times and inode of each."""
    found = {}
    for folder, folders, names in os.walk(os.path.join(CHECKOUT, "lib")):
        folders[:] = (name for name in folders if name != "__pycache__")
        for name in names:
            path = os.path.join(folder, name)
            with suppress(OSError):
                held = os.stat(path)
                found[path] = (held.st_size, held.st_mtime_ns, held.st_ctime_ns, held.st_ino)
    return found


def _forget() -> None:
    """Take the library out of what is imported, but not down."""
    names = [name for name in sys.modules if name.partition(".")[0] == "lib"]
    FORGOTTEN.extend(map(sys.modules.pop, names))


def _watched(connection: socket.socket) -> dict[str, Any]:
    """Fork again and, in the process that doesn't become the program, watch both ends and exit."""
    with suppress(OSError):
        connection.sendall(READY)
    head, streams, *_ = socket.recv_fds(connection, LENGTH, 3)
    length, content = int.from_bytes(head, "big"), b""
    while len(content) < length and (more := connection.recv(length - len(content))):
        content += more
    request = marshal.loads(content)
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
    """Be the program that was asked for, with the streams, limits and surroundings of who asked."""
    kept: list[Any] = []  # frozen, too, where the program freezes what there is
    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    # Those of the process that was forked know of a place in what its streams were.
    sys.stdin = sys.__stdin__ = _stream(0, "r")
    sys.stdout = sys.__stdout__ = _stream(1, "w")
    sys.stderr = sys.__stderr__ = _stream(2, "w", buffering=1, errors="backslashreplace")
    for limit, values in request["limits"].items():
        with suppress(OSError, ValueError):  # more than was allowed when this was started
            resource.setrlimit(limit, values)
    os.chdir(request["folder"])
    ours = _given_path()
    os.environ.clear()
    os.environ.update(request["environment"])
    others = [place for place in sys.path if place not in ours]
    sys.path[:] = [os.getcwd(), *_given_path(), *others]  # as python -m has it
    if torch := sys.modules.get("torch"):  # which read this when it was imported
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1))
    if os.getcwd() == CHECKOUT and request["library"]["files"] == _files():
        os.environ.update(request["library"]["set"])
    else:
        _forget()
    module, *arguments = request["program"]
    if module == KERNEL:  # it ends with the process that watches
        arguments.append(f"--IPKernelApp.parent_handle={os.getppid()}")
    sys.argv = [module, *arguments]
    status = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code
        if not isinstance(status, int | None):
            raise
    _end(status or 0, kept)


def _end(status: int, kept: list[Any]) -> None:
    """End as Python does, but for the objects that are left: the system frees them at once."""
    threading._shutdown()
    atexit._run_exitfuncs()
    found = gc.get_objects()  # without frozen ones, to count which takes long
    if not any(each is kept for each in found):
        gc.unfreeze()
        found = gc.get_objects()
    for left in found:  # files that nobody closed, with what waits to be written
        if type(left) in BUFFERED:
            with suppress(OSError, ValueError):
                left.flush()
    os._exit(status)


def _given_path() -> list[str]:
    return [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]


if __name__ == "__main__":
    if wanted := keep(sys.argv[1], sys.argv[2:]):
        _become(wanted)
