"""Ask for a program as a fork, wait for its end and give its status; die of what it died of.

Run as ``ask.py PLACE MODULE ARGUMENT…``; ``PLACE`` is the socket of who keeps the process that is
forked. Each step and kernel of a build starts as one of these, so what it imports is compiled into
Python: ``signal`` and ``socket``, which name constants as enumerations, take longer than its start.
"""

from __future__ import annotations

import _signal as signal
import _socket as socket
import marshal
import os
import resource
import sys
from select import select

KERNEL = "ipykernel_launcher"
READY = b"."  # said by who keeps the process
LENGTH = 8  # bytes that tell how long a request is
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_DATA, resource.RLIMIT_AS, resource.RLIMIT_CPU)
STREAMS = b"".join(stream.to_bytes(4, sys.byteorder) for stream in range(3))


def ask(place: str, program: list[str]) -> int:
    """Ask for a program; gives its exit status."""
    parent = os.getppid()
    if program[0] == KERNEL:  # which messages interrupt
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    elif signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until there is something to pass it on to
    limits = {limit: resource.getrlimit(limit) for limit in LIMITS}
    request = {"folder": os.getcwd(), "environment": dict(os.environ), "program": program}
    content = marshal.dumps(request | {"limits": limits})
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(place)
        while not select([connection], [], [], 1.0)[0]:
            if os.getppid() != parent:
                return 1
        answered = connection.recv(1) == READY
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until they can be passed on
        if answered:
            streams = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, STREAMS)]
            connection.sendmsg([len(content).to_bytes(LENGTH, "big")], streams)
            connection.sendall(content)
    except OSError:
        answered = False
    if not answered:
        connection.close()
        if program[0] == KERNEL:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        os.execv(sys.executable, [sys.executable, "-m", *program])
    if program[0] != KERNEL:
        _pass_on(connection)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    while not select([connection], [], [], 1.0)[0]:
        if os.getppid() != parent:
            return 1
    try:
        told = connection.recv(LENGTH)
    except OSError:  # reset by one that was killed
        told = b""
    status = int(told or -signal.SIGKILL)
    if status < 0:
        if -status != signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    return status


def _pass_on(connection: socket.socket) -> None:
    """Send the signals to end that come here to who watches."""

    def send(number: int, frame) -> None:
        try:  # noqa: SIM105 (contextlib takes as long to import as all else)
            connection.send(bytes([number]))
        except OSError:
            pass

    for number in ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup's stay ignored
            signal.signal(number, send)


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2:]))
