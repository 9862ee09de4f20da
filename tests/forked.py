"""The command, started as a copy of a process that has loaded all of it already.

To load Python's libraries takes longer than most commands do, and the tests run hundreds. Only that part is left out: each
command is a process of its own, with its own arguments, environment, folder and files, and ends as any other does.
"""

import gc
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock

_MOST_BYTES = 1 << 20  # of a request: an environment may be long
_asking = Lock()


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` makes of it, without input. Raises subprocess.TimeoutExpired."""
    asked = {"command": [os.fspath(word) for word in command], "environment": dict(environment)}
    told, tells = os.pipe()
    with TemporaryFile() as out, TemporaryFile() as err, os.fdopen(told) as status:
        try:
            _ask(asked | {"folder": os.getcwd()}, [out.fileno(), err.fileno(), tells])
        finally:
            os.close(tells)
        process = int(status.readline())
        if not select.select([status], [], [], timeout_s)[0]:
            os.kill(process, signal.SIGKILL)
            raise subprocess.TimeoutExpired(list(command), timeout_s)
        returned = int(status.readline())
        texts = []
        for file in out, err:
            file.seek(0)
            texts.append(file.read().decode().replace("\r\n", "\n"))
    return subprocess.CompletedProcess(list(command), returned, *texts)


def _ask(request: object, files: list[int]) -> None:
    with _asking:
        socket.send_fds(_server(), [json.dumps(request).encode()], files)


@cache
def _server() -> socket.socket:
    """It ends when this process does, and with it the socket's other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    # The libraries' own threads would not live on in a copy.
    subprocess.Popen(
        [sys.executable, __file__, str(theirs.fileno())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    theirs.close()
    return ours


def _load() -> None:
    import numpy  # noqa: F401
    import polars  # noqa: F401

    import bigiron

    for found in pkgutil.walk_packages(bigiron.__path__, "bigiron."):
        if not found.name.endswith("__main__") and ".fleet" not in found.name:
            import_module(found.name)
    gc.collect()
    gc.freeze()


def _serve(control: socket.socket) -> None:
    """Returns in each process that is to become a command."""
    while True:
        message, files, _, _ = socket.recv_fds(control, _MOST_BYTES, 3)
        if not message:
            os._exit(0)
        if not os.fork():
            control.close()
            if _stands_for(json.loads(message), *files):
                return
        for file in files:
            os.close(file)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def _stands_for(request: dict[str, object], out: int, err: int, tells: int) -> bool:
    """Wait for the command and tell how it ended; returns True in the command itself."""
    process = os.fork()
    if process:
        os.write(tells, f"{process}\n".encode())
        _, status = os.waitpid(process, 0)
        os.write(tells, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    os.close(tells)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for file in out, err:
        os.close(file)
    command, environment, folder = request["command"], request["environment"], request["folder"]
    assert isinstance(command, list) and isinstance(environment, dict) and isinstance(folder, str)
    sys.argv = command
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    return True


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from bigiron.__main__ import main

    main()
