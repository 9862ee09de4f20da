"""What the tests share: the command as a user runs it, and studies that several tests read."""

import gc
import inspect
import json
import os
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any, TypeVar

import forked
import pytest
from hypothesis import settings

from bigiron import analysis, machines
from bigiron.util.cache_dir import locked

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# Tests look into modules themselves, and not into what stands for one until it is loaded (bigiron.util.lazy).
for package in (analysis, machines):
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        import_module(found.name)

# An example may take long on a busy machine. The same examples each time: whether a change is to blame for a
# failure must not be chance. `--hypothesis-profile=wide` looks for new ones; make check takes a few of them.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("wide", deadline=None, max_examples=2000)
settings.load_profile("repeatable")

# All that they boot takes more than the 8 GiB that are kept: each run would boot it again.
os.environ.setdefault("BIGIRON_SNAPSHOTS_MIB", "16384")

BIGIRON = Path(sys.executable).with_name("bigiron")
WORKLOADS = Path(__file__).with_name("workloads")
Waited = TypeVar("Waited")
SAFETY_NET_S = 1200  # ends what hangs: on a busy machine everything takes many times as long


@dataclass(frozen=True)
class Answer:
    """What the command said."""

    status: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line in which it said what is wrong; anything else on stderr is a failure."""
        lines = self.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("bigiron: "), self.err
        return lines[0].removeprefix("bigiron: ")


def python_s(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


PYTHON_S = python_s(os.environ)
run_folder: list[Path] = []  # of this run of pytest, and all its workers


def is_first(name: str) -> bool:
    """Whether no worker has asked this before."""
    try:
        (run_folder[0] / f"first-{name}").touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def bigiron(*arguments: str | Path, timeout_s: int = SAFETY_NET_S, **environment: str) -> Answer:
    """Run the command; `environment` is added to this process's own."""
    command, env = [BIGIRON, *arguments], os.environ | environment
    # Python looks at its own when it starts. The first of each command is started as a user does.
    if python_s(env) != PYTHON_S or is_first(str(arguments[0]) if arguments else ""):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=env,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    else:
        done = forked.run(command, env, timeout_s)
    assert "Traceback" not in done.stderr, done.stderr
    return Answer(done.returncode, done.stdout, done.stderr)


def measured(*arguments: str | Path, **environment: str) -> Answer:
    """`bigiron run` with these arguments, which must measure every cell."""
    answer = bigiron("run", *arguments, **environment)
    assert answer.status == 0, answer
    return answer


@pytest.fixture(scope="session")
def module(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A module's file, of which only .modinfo is read."""
    file = tmp_path_factory.mktemp("module") / "brd.ko"
    source = '__attribute__((section(".modinfo"), used)) static const char depends[] = "depends=";'
    subprocess.run(["gcc", "-xc", "-", "-c", "-o", file], input=source, text=True, check=True)
    return file.read_bytes()


def says(what: object) -> str:
    """The setting that tells a workload of these tests something: for a boot parameter it would boot."""
    return f"/proc/sys/kernel/domainname={what}"


def compared(study: Path, *options: str) -> dict[str, Any]:
    """What `bigiron compare --format json` says of a study."""
    answer = bigiron("compare", study, "--format", "json", *options)
    assert (answer.status, answer.err) == (0, ""), answer
    document: dict[str, Any] = json.loads(answer.out)
    return document


def machines_of(mark: Path) -> list[int]:
    """The process ids of the virtual machines whose command line names a path under `mark`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        program = Path(os.fsdecode(command.partition(b"\0")[0]))
        if program.name.startswith("qemu-system") and os.fsencode(mark) in command:
            found.append(int(process.name))
    return found


def wait_until(true: Callable[[], Waited]) -> Waited:
    """What it says then."""
    end = time.monotonic() + SAFETY_NET_S
    while not (said := true()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return said


def started(study: Path) -> subprocess.Popen[str]:
    """Two cells one after the other in the background; its machines' command lines name a path in TMPDIR."""
    temporary = study.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        [BIGIRON, "run", "getppid1", "--kernel", "debian/6.1", "--cpus", "1", "--reps", "2", "--jobs", "1",
         "-o", study],
        env=os.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


# What boots a virtual machine, serves, measures on this machine, compiles kernels or reaches the network.
NEEDS_MORE = {
    "measured", "started", "left_by", "served", "small_disk", "debian_source", "download_source", "fetch",
    "examine", "try_again", "vm", "real", "kernels", "Members", "members", "--fleet",
}  # fmt: skip
COMMANDS_THAT_DO = {"run", "history", "case", "fetch", "build", "measure", "doctor"}

# The files that take longest, in that order: a worker that began one of them last would leave others idle.
LONGEST = (
    "wheel", "cases", "programs_in_vms", "bad_input", "machine", "fleet", "judge", "blocked", "hotplug",
    "recorder", "objects", "file_systems", "matrix_run", "kernel_build", "snapshot", "workloads",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out: tests whose code, or whose fixtures', comes to what needs more.

    Their files come first, those that take longest before the others: one worker runs all of a file, and
    short ones fill the others' time at the end.
    """
    for item in items:
        if isinstance(item, pytest.Function) and not item.get_closest_marker("needs_more"):
            fixtures = [one.func for name in asked_for(item) for one in definitions(item, name)]
            words = set[str]().union(*map(all_words_of, (item.function, *fixtures)))
            runs = {"bigiron", "BIGIRON"} & words and COMMANDS_THAT_DO & words
            if runs or NEEDS_MORE & (words | set(item.fixturenames)):
                item.add_marker(pytest.mark.needs_more)
    long = {item.path for item in items if item.get_closest_marker("needs_more")}
    rank = {f"test_{name}.py": number for number, name in enumerate(LONGEST, -len(LONGEST))}
    items.sort(key=lambda item: rank.get(item.path.name, 0) if item.path in long else 1)


def pytest_collection_finish() -> None:
    """What was loaded stays to the end: the garbage collector need not look through it each time."""
    gc.collect()
    gc.freeze()


def asked_for(item: pytest.Function) -> list[str]:
    """Its fixtures, and those that one of them is a choice of."""
    choices = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return [*item.fixturenames, *(name for name in choices if isinstance(name, str))]


def definitions(item: pytest.Function, fixture: str) -> Sequence["pytest.FixtureDef[Any]"]:
    return item.session._fixturemanager.getfixturedefs(fixture, item) or ()


@cache
def all_words_of(function: Callable[..., object]) -> set[str]:
    """Once for all parameters of a test, and for all tests with a fixture."""
    return words_of(function, set())


def words_of(function: Callable[..., object], seen: set[object]) -> set[str]:
    """Names and strings in a function's code, and in that of the tests' functions that it names."""
    function = inspect.unwrap(function)
    function = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    code = getattr(function, "__code__", None)
    if code is None or code in seen or Path(code.co_filename).parent != Path(__file__).parent:
        return set()
    seen.add(code)
    words = set[str]()
    codes = [code]
    while codes:
        one = codes.pop()
        words.update(one.co_names, (each for each in one.co_consts if isinstance(each, str)))
        words.update(*(each for each in one.co_consts if isinstance(each, tuple | frozenset)))
        codes += [each for each in one.co_consts if isinstance(each, CodeType)]
    for name in one_level(function, words):
        words |= words_of(name, seen)
    return words


def one_level(function: Callable[..., object], words: set[str]) -> list[Callable[..., object]]:
    scope = getattr(function, "__globals__", {})
    return [scope[word] for word in words if callable(scope.get(word))]


@pytest.fixture(scope="session", autouse=True)
def folder_of_this_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that all workers share."""
    workers_own = tmp_path_factory.getbasetemp()
    folder = (workers_own.parent if "PYTEST_XDIST_WORKER" in os.environ else workers_own) / "session"
    folder.mkdir(exist_ok=True)
    run_folder.append(folder)
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator["Browser"]:
    """The Chromium that `make setup` installs."""
    from playwright.sync_api import expect, sync_playwright  # here, as few tests need it

    chromium = shutil.which("chromium-headless-shell")
    if not chromium:
        pytest.skip("no chromium-headless-shell on PATH")
    with sync_playwright() as playwright:
        safety_net_ms = SAFETY_NET_S * 1000
        expect.set_options(timeout=safety_net_ms)
        launched = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"], timeout=safety_net_ms
        )
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def open1(folder_of_this_run: Path) -> Path:
    """The main job's study, twice over: open1 on 6.1 and 6.12 with 8 CPUs. Only to be read: copy it."""
    kernels = ("--kernel", "debian/6.1", "--kernel", "debian/6.12")
    probes = ("--probe", "conflicts,instructions")
    folder = folder_of_this_run
    with locked(folder, lambda: None):  # later processes find every cell measured
        measured("open1", *kernels, *probes, "--cpus", "8", "--reps", "2", "-o", folder / "open1")
    return folder / "open1"


@pytest.fixture
def settings_are_ours() -> Iterator[None]:
    """No other test sets anything of this machine meanwhile: it would put back what this one has set."""
    folder = Path(tempfile.gettempdir(), f"bigiron-tests-settings-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    with locked(folder, lambda: None):
        yield


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 4 MiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a file system")
    yield disk
    subprocess.run(["umount", disk], check=True)
