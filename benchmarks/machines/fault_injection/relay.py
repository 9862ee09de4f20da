"""What stands between the agent and bigiron, and harms what the agent says: a program of its own.

    relay.py HARM SEED FOLDER COMMAND...    starts the command, and hands on what it says

It stands in for `ssh` (by BIGIRON_SSH) or for QEMU (by PATH), and knows where the agent's messages come: on
the standard output, or by the socket that QEMU is given as the chardev `agent`. Everything else goes through
as it is. The machines of a study are numbered by files in FOLDER, and each is harmed, or not, by a chance of
its own.
"""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

START = b"@bigiron "
AGENT = re.compile(r"(socket,id=agent,fd=)(\d+)")
LIKELY = 0.7  # that a machine is harmed: the others show that a cell's failure is its own
NONSENSE: list[Any] = [
    *(None, True, -1, 0, 1.5, 1e308, float("nan"), 10**40, 2**63, 2**64),
    *("", "x" * 70000, "\0\x1b[2J\r\n\u202e", "\udcff", "{}", "@bigiron end 2 0"),
    *([], {}, [[]], [None], {"": None}, [1, "a", {}], list(range(5000))),
]


def frame(type: bytes, payload: bytes, length: int | None = None) -> bytes:
    """One message (docs/contributing/protocol.md), with another length than its own if one is given."""
    header = START + type + b" %d %08x\n" % (len(payload) if length is None else length, zlib.crc32(payload))
    return header + payload + b"\n"


def pieces(stream: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The stream as it is, cut into messages and what stands between; whether it is one."""
    pending = b""
    for data in stream:
        pending += data
        while found := re.search(rb"@bigiron \w+ (\d+) [0-9a-f]{8}\n", pending):
            end = found.end() + int(found[1]) + 1
            if len(pending) < end:
                break
            yield pending[: found.start()], False
            yield pending[found.start() : end], True
            pending = pending[end:]
        if START not in pending:  # nor its first bytes, perhaps
            keep = max(0, len(pending) - len(START))
            yield pending[:keep], False
            pending = pending[keep:]
    yield pending, False


class EndOfStreamError(Exception):
    """Nothing more is handed on, and the stream ends, sooner than who speaks."""


class SilenceError(Exception):
    """Nothing more is handed on, and the stream stays open."""


Harm = Callable[[random.Random, bytes], Iterator[bytes]]


def cut(chance: random.Random, message: bytes) -> Iterator[bytes]:
    """A part of the message; then what follows, or nothing, or silence."""
    yield message[: chance.randrange(len(message))]
    after = chance.random()
    if after < 0.4:
        raise EndOfStreamError
    if after < 0.45:
        raise SilenceError


def doubled(chance: random.Random, message: bytes) -> Iterator[bytes]:
    """The message, and then again, or what it is in, or as the start of itself."""
    yield message[: chance.choice([len(message), len(message), chance.randrange(len(message))])]
    for _ in range(chance.choice([1, 1, 1, 50])):
        yield message


def garbled(chance: random.Random, message: bytes) -> Iterator[bytes]:
    """Some bytes of it changed, lost or put in, or noise before it."""
    harmed = bytearray(message)
    for _ in range(chance.choice([1, 2, 20])):
        at, how = chance.randrange(len(harmed)), chance.random()
        if how < 0.5:
            harmed[at] ^= 1 << chance.randrange(8)
        elif how < 0.75:
            del harmed[at]
        else:
            harmed.insert(at, chance.randrange(256))
        if not harmed:
            break
    if chance.random() < 0.3:
        yield chance.randbytes(chance.choice([1, 100, 70000]))
    yield bytes(harmed)


def enormous(chance: random.Random, message: bytes) -> Iterator[bytes]:
    """Before it one that is too long, or says so, or is as long as may be, or as deep."""
    way = chance.randrange(6)
    if way == 0:
        yield START + b"stage " + b"9" * chance.choice([19, 30, 50, 5000]) + b" 00000000\n"
    elif way == 1:
        yield frame(b"stage", b"{}", (16 << 20) - chance.randrange(2))
    elif way == 2:
        yield frame(b"stage", b'{"stage":"' + b"a" * (17 << 20) + b'"}')
    elif way == 3:
        yield frame(b"stage", b'{"stage":"' + b"a" * (15 << 20) + b'"}')
    elif way == 4:
        yield frame(b"stage", b'{"stage":' + b"[" * 200000 + b"]" * 200000 + b"}")
    else:
        yield b"a" * (40 << 20)
    yield message


def nonsense(chance: random.Random, message: bytes) -> Iterator[bytes]:
    """A message that is well formed, and makes no sense."""
    header, _, payload = message.partition(b"\n")
    type, content = header.split()[1], json.loads(payload)
    way = chance.randrange(7)
    if way == 0:
        yield frame(type, json.dumps(chance.choice(NONSENSE)).encode())
    elif way == 1:
        yield frame(
            chance.choice([b"frob", b"end", b"error", b"sample", b"command", b"file", b"hello"]), payload[:-1]
        )
    elif way == 2:
        for _ in range(chance.choice([1, 2000])):
            yield frame(type, b'{"kind":"machine","text":"\\u001b[2J' + b"x" * 5000 + b'"}')
    elif way == 3:
        yield frame(type, b"[" * 200000 + b"]" * 200000)
    else:
        for _ in range(chance.choice([1, 1, len(content)])):
            key = chance.choice(list(content) or [""])
            if chance.random() < 0.4:
                content.pop(key, None)
            else:
                content[key] = chance.choice(NONSENSE)
        yield frame(type, json.dumps(content).encode())


HARMS: dict[str, Harm] = {
    "cut": cut,
    "doubled": doubled,
    "garbled": garbled,
    "enormous": enormous,
    "nonsense": nonsense,
}


def harmed(
    name: str, chance: random.Random, stream: Iterator[bytes], on_harm: Callable[[], None] = lambda: None
) -> Iterator[bytes]:
    """The stream with one message harmed, or with all from one on."""
    at, all_from_there = chance.randrange(6), chance.random() < 0.15
    number, held = 0, b""
    for piece, is_message in pieces(stream):
        harms = is_message and (number == at or (all_from_there and number > at))
        number += is_message
        if harms:
            on_harm()
        if held and is_message:
            yield piece
            piece, held = held, b""
        elif harms and name == "reordered":
            held = piece
            continue
        elif harms:
            yield from HARMS[name](chance, piece)
            continue
        yield piece
    yield held


def babble(chance: random.Random) -> Iterator[bytes]:
    """What a program says that is no agent: for a while, or until it is ended."""
    for _ in range(chance.choice([0, 3, 100, 10**9])):
        way = chance.randrange(3)
        if way == 0:
            yield chance.randbytes(5000)
        elif way == 1:
            yield frame(b"stage", json.dumps({"stage": chance.choice(NONSENSE)}).encode())
        else:
            yield START * 500
        time.sleep(0.01)


def received(fd: int) -> Iterator[bytes]:
    """What can be read until it ends."""
    while True:
        try:
            data = os.read(fd, 1 << 16)
        except OSError:
            return
        if not data:
            return
        yield data


def hand_on(stream: Iterator[bytes], fd: int) -> None:
    """Write it all, as far as anybody reads."""
    try:
        for data in stream:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
    except (EndOfStreamError, BrokenPipeError, ConnectionResetError):
        pass


def number_of_machine(folder: Path) -> int:
    """How many were started before; two at once get two numbers."""
    for number in range(1000):
        try:
            (folder / f"machine-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return number
    raise SystemExit("too many machines")


def start(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start the command so that it dies with this process."""
    return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], **options)


def start_ssh(command: list[str]) -> tuple[subprocess.Popen[bytes], int, int]:
    """Its process, where it speaks, and where what it says is to go."""
    child = start(command, stdout=subprocess.PIPE)
    assert child.stdout
    os.close(0)  # the command's alone
    return child, child.stdout.fileno(), 1


def start_qemu(command: list[str]) -> tuple[subprocess.Popen[bytes], int, int]:
    """The same of a machine, which is given another socket for its agent than bigiron's."""
    ((at, found),) = ((at, found) for at, word in enumerate(command) if (found := AGENT.fullmatch(word)))
    out = int(found[2])
    ours, theirs = socket.socketpair()
    others = [fd for fd in range(3, 1024) if fd not in (ours.fileno(), out) and is_open(fd)]
    child = start([*command[:at], f"{found[1]}{theirs.detach()}", *command[at + 1 :]], pass_fds=others)
    for fd in others:
        os.close(fd)
    # What bigiron tells the machine is not harmed: the agent is started by it.
    threading.Thread(target=hand_on, args=(received(out), ours.fileno()), daemon=True).start()
    return child, ours.detach(), out


def is_open(fd: int) -> bool:
    """Whether there is such a descriptor."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def run(name: str, seed: str, folder: Path, command: list[str]) -> int:
    """Stand between; the command's exit status."""
    is_ssh = Path(command[0]).name == "ssh"
    if "--version" in command or (is_ssh and "./agent job" not in command[-1]):
        os.execvp(command[0], command)  # it is only asked what it is
    chance = random.Random(f"{seed}/{number_of_machine(folder)}")
    child, source, out = start_ssh(command) if is_ssh else start_qemu(command)
    said = stream = received(source)
    if chance.random() < LIKELY:
        babbles = name == "nonsense" and chance.random() < 0.2
        harms = folder / "harmed"
        stream = babble(chance) if babbles else harmed(name, chance, said, harms.touch)
        if babbles:
            harms.touch()
    try:
        hand_on(stream, out)
    except SilenceError:
        signal.pause()
    os.close(out)
    for _ in said:
        pass  # nothing receives it, and still it must not delay the sender
    return child.wait()


if __name__ == "__main__":
    status = run(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:])
    if status < 0:
        os.kill(os.getpid(), -status)
    sys.exit(status)
