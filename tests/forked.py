"""The command, started as a copy of a process that has loaded all of it already.

To load Python's libraries takes longer than most commands do, and the tests run hundreds. Only that part
is left out, and that Python takes all of it apart again at the end: each command is a process of its own,
with its own arguments, environment, folder and files. What Python and libraries look at when they are
loaded (PYTHON*, LC_ALL, FORCE_COLOR, ...) is that of the first one.
"""

import atexit
import gc
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import NoReturn

_MOST_BYTES = 1 << 20  # of a request: an environment may be long
_NOT_MISSED = "jemalloc_bg_thd", "polars-ooc-clea"  # the first copes with fork, the second clears files away
_asking = Lock()


def run(
    command: Sequence[str | Path], environment: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` makes of it, without input. Raises subprocess.TimeoutExpired."""
    words = [os.fspath(word) for word in command]
    request = {"command": words, "environment": dict(environment), "folder": str(Path.cwd())}
    status, out, err = pipes = [os.pipe() for _ in range(3)]
    said = {reads: b"" for reads, _ in pipes}
    try:
        try:
            with _asking:
                socket.send_fds(_server()[0], [json.dumps(request).encode()], [writes for _, writes in pipes])
        finally:
            for _, writes in pipes:
                os.close(writes)
        if not _read_all(said, timeout_s):
            raise subprocess.TimeoutExpired(words, timeout_s)
    except BaseException:
        if process := said[status[0]].split():
            with suppress(ProcessLookupError):
                os.kill(int(process[0]), signal.SIGKILL)
        raise
    finally:
        for reads, _ in pipes:
            os.close(reads)
    assert said[status[0]].count(b"\n") == 2, "what starts commands (tests/forked.py) has ended"
    returned = int(said[status[0]].split()[1])
    texts = [said[reads].decode().replace("\r\n", "\n").replace("\r", "\n") for reads, _ in (out, err)]
    return subprocess.CompletedProcess(words, returned, *texts)


def _read_all(said: dict[int, bytes], timeout_s: float) -> bool:
    """Until no process can write any more: neither the command nor its children."""
    end = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for file in said:
            selector.register(file, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(end - time.monotonic())
            if not ready:
                return False
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                said[key.fd] += piece
                if not piece:
                    selector.unregister(key.fd)
    return True


@cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Where to ask it; it ends when this process does, and with it the socket's other end."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        )
    return ours, server


def _load() -> None:
    sys.path.pop(0)  # this folder, which the command does not have there
    import numpy  # noqa: F401
    import polars  # noqa: F401

    import bigiron

    for found in pkgutil.walk_packages(bigiron.__path__, "bigiron."):
        if not found.name.endswith("__main__") and ".fleet" not in found.name:
            import_module(found.name)
    threads = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
    threads -= {Path("/proc/self/comm").read_text().strip(), *_NOT_MISSED}
    assert not threads, f"threads, which would not live on in a copy: {threads}"
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
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _stands_for(request: dict[str, object], tells: int, out: int, err: int) -> bool:
    """Wait for the command and tell how it ended; returns True in the command itself."""
    process = os.fork()
    if process:
        for file in out, err:
            os.close(file)
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


def _end(status: int) -> NoReturn:
    """As Python ends, but for taking apart all that was loaded: shared memory would be copied for that."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in sys.stdout, sys.stderr:
        try:
            if not stream.closed:
                stream.flush()
        except OSError:
            status = 120
    os._exit(status)


if __name__ == "__main__":
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
    from bigiron.__main__ import main

    try:
        main()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            _end(ended.code or 0)
        raise
    _end(0)
