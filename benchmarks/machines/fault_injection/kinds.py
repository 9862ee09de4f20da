"""The kinds of faults: each does its harm to one run of a trial's study."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sshd import PROGRAM, Server

from fault_injection.trial import FIGURE, RELAY, UNHURRIED_S, Trial, children, kill


@dataclass(frozen=True)
class Kind:
    """One kind, and how often it is chosen where machines are virtual, and where they are reached by ssh."""

    name: str
    weights: dict[str, int]
    harm: Callable[[Trial], None]


def end_controller(trial: Trial, ends: Sequence[signal.Signals]) -> None:
    """End bigiron itself."""
    started = trial.start()
    trial.wait_for_moment(started)
    trial.hit = started.process.poll() is None
    started.process.send_signal(trial.chance.choice(ends))
    trial.finish(started, killed=trial.hit)


def end_machine(trial: Trial, name: str) -> None:
    """End one of the processes of that name."""
    started = trial.start()
    trial.wait_for_moment(started)
    trial.until(lambda: trial.processes(name) != [] or started.process.poll() is not None, UNHURRIED_S)
    found = trial.processes(name)
    trial.hit = bool(found) and kill(trial.chance.choice(found), signal.SIGKILL)
    trial.finish(started)


def end_server(trial: Trial) -> None:
    """End sshd's side of the connection, or all of sshd, which is started again."""
    server = trial.place.server
    assert server
    started = trial.start()
    trial.wait_for_moment(started)
    trial.until(lambda: descendants(server.pid) != [] or started.process.poll() is not None, UNHURRIED_S)
    connections = descendants(server.pid)
    victims = [server.pid, *connections] if trial.chance.random() < 0.3 else connections[:1]
    trial.hit = bool(connections)
    for victim in victims:
        kill(victim, signal.SIGKILL)
    trial.finish(started)
    if server.pid in victims:
        with started_again(server):
            trial.resume()


def descendants(pid: int) -> list[int]:
    """Processes of sshd's own below this one: what they started is theirs to end, or to leave behind."""
    own = [child for child in children(pid) if Path(f"/proc/{child}/comm").read_text().startswith("sshd")]
    return [one for child in own for one in (child, *descendants(child))]


@contextmanager
def started_again(server: Server) -> Iterator[None]:
    """The same sshd."""
    assert PROGRAM
    with (server.folder / "log").open("a") as log:
        again = subprocess.Popen([PROGRAM, "-D", "-e", "-f", server.folder / "server"], stderr=log)
    try:
        yield
    finally:
        again.terminate()
        again.wait()


def stop_machine(trial: Trial) -> None:
    """Stop, without an end, the machine or the connection to it: silence."""
    started = trial.start()
    trial.wait_for_moment(started)
    server = trial.place.server
    victims = descendants(server.pid) if server else trial.processes("qemu-system")
    stopped = [victim for victim in victims[:1] if kill(victim, signal.SIGSTOP)]
    trial.hit = bool(stopped)
    trial.until(lambda: started.process.poll() is not None, trial.limit_s)
    for victim in stopped:
        kill(victim, signal.SIGCONT)
    trial.finish(started)


def fill_disk(trial: Trial) -> None:
    """Too little room for the study, for temporary files here, or for those on the other machine."""
    study, here = trial.study.parent, trial.folder / "small"
    disks: list[Path] = [study, here]
    if trial.place.server:
        disks.append(trial.place.server.temporary)
    disk = trial.chance.choice(disks)
    most = (48 << 10) if disk == study else (2 << 20) if trial.place.server else (8 << 20)
    room = int(math.exp(trial.chance.uniform(math.log(4 << 10), math.log(most))))
    with small_disk(disk, room):
        tmp = here if disk == here else None
        run = trial.finish(trial.start(tmp=tmp))
        trial.hit = run.status != 0
        mount("-o", "remount,size=256m", disk)
        trial.resume()  # as what lies on it is gone when it is unmounted


@contextmanager
def small_disk(folder: Path, room: int) -> Iterator[None]:
    """A file system of so many bytes; in a mount namespace of this program, so that it cannot be left."""
    folder.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", f"size={room}", "none", folder)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def mount(*words: str | Path) -> None:
    """The program of that name."""
    subprocess.run(["mount", *words], check=True)


def harm_messages(trial: Trial, name: str) -> None:
    """Let a relay stand between the agent and bigiron."""
    machines = trial.folder / "machines"
    machines.mkdir()
    relay = [sys.executable, "-S", "-E", str(RELAY), name, trial.mark, str(machines)]
    boots: list[str] = []
    if trial.place.server:
        environment = {"BIGIRON_SSH": " ".join([*relay, trial.place.environment["BIGIRON_SSH"]])}
    else:
        qemu = shutil.which("qemu-system-x86_64")
        stand_in = trial.folder / "bin" / "qemu-system-x86_64"
        stand_in.parent.mkdir()
        stand_in.write_text(f'#!/bin/sh\nexec {" ".join(relay)} {qemu} "$@"\n')
        stand_in.chmod(0o755)
        environment = {"PATH": f"{stand_in.parent}:{os.environ['PATH']}"}
        # Snapshots are of one QEMU: each trial's would make them again, and all others would report it.
        boots = ["--fresh-boot"]
    trial.truthful = name != "nonsense"
    trial.finish(trial.start(*trial.question, *boots, environment=environment))
    trial.hit = (machines / "harmed").exists()


def race(trial: Trial) -> None:
    """Two or three at once; perhaps one that asks something else, perhaps one that is killed."""
    another = [word.replace(f"echo {FIGURE}", f"echo {FIGURE} ") for word in trial.question]
    if "--operations" in another:
        another[another.index("--operations") + 1] = "19"
    started = []
    for number in range(trial.chance.choice([2, 2, 3])):
        asks_else = number > 0 and trial.chance.random() < 0.4
        started.append(trial.start(*(another if asks_else else [])))
        trial.until(lambda: False, trial.chance.choice([0, 0, trial.calm.run_s]) * trial.chance.random())
    killed = trial.chance.choice(started) if trial.chance.random() < 0.3 else None
    if killed:
        trial.wait_for_moment(killed)
        kill(killed.process.pid, signal.SIGKILL)
    trial.hit = True
    trial.until(lambda: all(one.process.poll() is not None for one in started), trial.limit_s)
    for one in started:
        run = trial.finish(one, killed=one is killed)
        if run.status == 2 and not any(
            why in run.err for why in ("another bigiron is running", "asks something else")
        ):
            trial.violations.append(f"refused for another reason: {run.err[-300:]}")
    asked = trial.study / "study.toml"
    if asked.exists() and re.search(rf"^operations = 19$|echo {FIGURE} '", asked.read_text(), re.MULTILINE):
        trial.overtaken_by = tuple(another)  # who asks something else was first, and the study is theirs


KINDS = (
    Kind("bigiron: SIGKILL", {"vm": 6, "ssh": 6}, partial(end_controller, ends=(signal.SIGKILL,))),
    Kind("bigiron: Ctrl-C, SIGTERM", {"vm": 3, "ssh": 3},
         partial(end_controller, ends=(signal.SIGINT, signal.SIGTERM))),
    Kind("QEMU: SIGKILL", {"vm": 6, "ssh": 0}, partial(end_machine, name="qemu-system")),
    Kind("agent: SIGKILL", {"vm": 0, "ssh": 8}, partial(end_machine, name="agent")),
    Kind("ssh: SIGKILL", {"vm": 0, "ssh": 4}, partial(end_machine, name="ssh")),
    Kind("sshd: SIGKILL", {"vm": 0, "ssh": 6}, end_server),
    Kind("QEMU, sshd: silent", {"vm": 1, "ssh": 1}, stop_machine),
    Kind("full disk", {"vm": 5, "ssh": 6}, fill_disk),
    Kind("messages cut", {"vm": 2, "ssh": 5}, partial(harm_messages, name="cut")),
    Kind("messages doubled", {"vm": 2, "ssh": 3}, partial(harm_messages, name="doubled")),
    Kind("messages reordered", {"vm": 2, "ssh": 3}, partial(harm_messages, name="reordered")),
    Kind("messages garbled", {"vm": 2, "ssh": 5}, partial(harm_messages, name="garbled")),
    Kind("messages enormous", {"vm": 2, "ssh": 5}, partial(harm_messages, name="enormous")),
    Kind("agent speaks nonsense", {"vm": 4, "ssh": 8}, partial(harm_messages, name="nonsense")),
    Kind("several at once", {"vm": 4, "ssh": 6}, race),
)  # fmt: skip
