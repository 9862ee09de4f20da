"""The agent's parsers alone, with the compiler's sanitizers: known answers, and what a fuzzer found."""

import doctest
import re
import subprocess
from pathlib import Path

import pytest
from conftest import bigiron

from bigiron.machines import limits

AGENT = Path(__file__).with_name("agent")
GUEST = Path(__file__).parent.parent / "guest"
SOURCES = {
    "switches": ["tracing/switches.c"],
    "hot_functions": ["tracing/hot_functions.c", "tracing/graph.c"],
    "job": ["protocol/job.c"],
}
SANITIZED = ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
DEADLINE_S = 120  # only a safety net


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("parsers")
    return {name: compiled(name, folder / name) for name in SOURCES}


def compiled(parser: str, program: Path) -> Path:
    sources = [AGENT / "parse.c", AGENT / f"parse_{parser}.c", *(GUEST / name for name in SOURCES[parser])]
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *SANITIZED, *warnings, "-iquote", GUEST, *sources, "-o", program], check=True)
    return program


def rows(program: Path, text: bytes, folder: Path) -> list[str]:
    (folder / "text").write_bytes(text)
    return run(program, folder / "text").splitlines()


def run(program: Path, *files: Path) -> str:
    done = subprocess.run([program, *files], capture_output=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stderr.decode(errors="replace")) == (0, "")
    return done.stdout.decode(errors="replace")


@pytest.mark.slow
@pytest.mark.parametrize("parser", SOURCES)
def test_what_a_fuzzer_found(parser: str, programs: dict[str, Path]) -> None:
    corpus = sorted((AGENT / "corpus" / parser).glob("[0-9]*"))
    assert len(corpus) > 20
    run(programs[parser], *corpus)


def switch(us: int, prev: str, state: str, then: str, cpu: int = 0) -> str:
    """A switch between two tasks, each given as NAME-PID."""
    (prev_comm, _, prev_pid), (next_comm, _, next_pid) = prev.rpartition("-"), then.rpartition("-")
    return (
        f"{prev:>20}   [{cpu:03}] d..2. {us / 1e6:.6f}: sched_switch: prev_comm={prev_comm} "
        f"prev_pid={prev_pid} prev_prio=120 prev_state={state} ==> next_comm={next_comm} "
        f"next_pid={next_pid} next_prio=120\n"
    )


def stack(us: int, task: str, *innermost_first: str, cpu: int = 0) -> str:
    functions = "".join(f" => {function}\n" for function in innermost_first)
    return f"{task:>20}   [{cpu:03}] d..2. {us / 1e6:.6f}: <stack trace>\n{functions}"


MARK = "     init-1   [000] ..... 0.000001: tracing_mark_write: counting is switched on\n"


@pytest.mark.parametrize(
    ("trace", "absences"),
    [
        ([], []),
        # The largest number is only ever next, where prev is the largest so far.
        ([switch(1, "a-60", "S", "b-75000"), switch(9, "c-5", "S", "a-60")], ["60,a,S,8,"]),
        ([switch(1, "a-60", "S", "b-75000"), switch(9, "b-75000", "S", "a-60")], ["60,a,S,8,"]),
        ([switch(1, "a-4194303", "D", "b-5"), switch(2, "b-5", "D", "a-4194303")], ["4194303,a,D,1,"]),
        # Not a number that a task can have.
        ([switch(1, "a-4194304", "D", "b-5"), switch(2, "b-5", "D", "a-4194304")], []),
        (
            [
                switch(1, "a-6", "S", "x-7"),
                stack(1, "a-6", "__schedule", "schedule", "do_syscall_64"),
                switch(2, "b-8", "S", "y-9", cpu=1),
                stack(2, "b-8", "__schedule", "do_exit", cpu=1),
                switch(5, "y-9", "R+", "a-6", cpu=1),
                switch(6, "x-7", "R", "b-8"),
            ],
            ["6,a,S,4,do_syscall_64;schedule;__schedule", "8,b,S,4,do_exit;__schedule"],
        ),
        # No task has left yet when counting begins; idle tasks wait for nothing; the dead stay away.
        ([switch(1, "a-6", "S", "b-7"), MARK, switch(5, "b-7", "R", "a-6")], []),
        ([switch(1, "swapper/0-0", "R", "a-6"), switch(5, "a-6", "X", "swapper/0-0")], []),
        ([switch(1, "a-6", "X", "b-7"), switch(5, "b-7", "Z", "a-6")], []),
        # A task may call itself anything.
        (
            [switch(1, "sched_switch: -6", "S", "b-7"), switch(4, "b-7", "Z", "sched_switch: -6")],
            ["6,sched_switch: ,S,3,"],
        ),
        (
            [switch(1, "x prev_pid=1-6", "S", "y next_pid=2-7"), switch(4, "y-7", "Z", "z-6")],
            ["6,x prev_pid=1,S,3,"],
        ),
        (["sched_switch: prev_comm=\n", "[-1] d 1.1: sched_switch: prev_comm=a prev_pid=1\n"], []),
    ],
)  # fmt: skip
def test_absences(trace: list[str], absences: list[str], programs: dict[str, Path], tmp_path: Path) -> None:
    text = "".join(["# tracer: nop\n", *trace]).encode()
    assert rows(programs["switches"], text, tmp_path) == absences


GRAPH = """\
# tracer: function_graph
 0)    sh-12     |               |  __x64_sys_read() {
 0)    sh-12     |   1.250 us    |    rw_verify_area();
 0)    sh-12     |               |    vfs_read() {
 1)  <idle>-0    |   2.000 us    |  schedule();
 0)    sh-12     | + 50.000 us   |    } /* vfs_read */
 0)    sh-12     | ! 60.000 us   |  } /* __x64_sys_read */
 -----------------------------------------
 0)    sh-12     |               |  process_one_work() {
 0)    sh-12     |   9.000 us    |    wake_up();
"""


def test_what_functions_took_and_which_are_chosen(programs: dict[str, Path], tmp_path: Path) -> None:
    # Duration's marks (+, !) are switched off in the guest: funcgraph-overhead.
    text = GRAPH.replace("+ ", "  ").replace("! ", "  ").encode()
    assert rows(programs["hot_functions"], text, tmp_path) == [
        "vfs_read,0,50.000", "wake_up,0,9.000", "__x64_sys_read,1,8.750", "schedule,1,2.000",
        "rw_verify_area,0,1.250", "process_one_work,1,0.000",
        "chosen vfs_read", "chosen wake_up", "chosen __x64_sys_read",
        "next vfs_read", "next wake_up", "lost 0",
    ]  # fmt: skip


def test_what_finds_no_room_is_counted(programs: dict[str, Path], tmp_path: Path) -> None:
    def call(task: int, name: str, us: int = 1) -> str:
        return f" 0)    sh-{task}     |   {us}.000 us    |  {name}();\n"

    functions = "".join(call(12, f"f{number}", 10**8 - number) for number in range(4096 + 5))
    assert rows(programs["hot_functions"], functions.encode(), tmp_path)[-1] == f"lost {5 + 3687 - 64}"
    tasks = "".join(call(number, "f") for number in range(1, 1024 + 8))
    assert rows(programs["hot_functions"], tasks.encode(), tmp_path)[-1] == "lost 7"
    assert rows(programs["hot_functions"], call(1, "f" * 96).encode(), tmp_path) == ["lost 1"]
    assert rows(programs["hot_functions"], call(1, "f" * 95).encode(), tmp_path)[-1] == "lost 0"


def test_a_time_that_is_none_counts_nothing(programs: dict[str, Path], tmp_path: Path) -> None:
    text = "".join(f" 0)    sh-1     |  {us} us    |  f();\n" for us in ("nan", "inf", "-5", "1e300", "2"))
    assert rows(programs["hot_functions"], text.encode(), tmp_path)[0] == "f,1,2.000"


PLAIN = "tasks 2, threads 0, record 0, operations 0, patience 60 s"


@pytest.mark.parametrize(
    ("job", "answer"),
    [
        (b"tasks 2\n", [PLAIN]),
        (b"tasks 2\nset /a=b c\nset /d=\nset /e=1", [PLAIN, "set /a=b c", "set /d=", "set /e=1"]),
        (b"mode thread\ntasks 2\nrecord locks\nrecord instructions\noperations 7\npatience_s 9\n",
         ["tasks 2, threads 1, record 18, operations 7, patience 9 s"]),
        (b"tasks 2\npatience_s 150\ndilated 16\n",
         ["tasks 2, threads 0, record 0, operations 0, patience 9.38 s of VM time"]),
        (b"tasks 2\nblocked a\nblocked b\n", [PLAIN, "program b", "program ", "program "]),
        (b"tasks 2\nset " + b"x" * 4000 + b"\n", [PLAIN, "set " + "x" * 4000]),
        (b"set " + b"x" * 4001 + b"\n",
         ["error: the agent takes no value of more than 4000 bytes, as in 'set " + "x" * 60 + "'"]),
        (b"set " + b"x" * 100000 + b"\n",
         ["error: the agent takes no value of more than 4000 bytes, as in 'set " + "x" * 60 + "'"]),
        (b"frob 1\n", ["error: the agent does not know 'frob 1'"]),
        (b"mode fork\n", ["error: the agent does not know 'mode fork'"]),
        (b"tasks -1\n", ["error: the agent finds no number in 'tasks -1'"]),
        (b"tasks 18446744073709551616\n",
         ["error: the agent finds no number in 'tasks 18446744073709551616'"]),
        (b"cpus 2x\n", ["error: the agent finds no number in 'cpus 2x'"]),
        (b"set a\0b\n", ["error: the agent takes no NUL, as in 'set a b'"]),
    ],
)  # fmt: skip
def test_jobs(job: bytes, answer: list[str], programs: dict[str, Path], tmp_path: Path) -> None:
    found = rows(programs["job"], job, tmp_path)
    assert [line for line in found if line != "program "] == [line for line in answer if line != "program "]


def test_the_controller_has_the_same_limits() -> None:
    text = (GUEST / "protocol/job.h").read_text()
    found = dict(re.findall(r"^#define (MAX_\w+) (\d+)", text, re.MULTILINE))
    assert {name: int(most) for name, most in found.items() if name not in ("MAX_READS", "MAX_MODULES")} == {
        name: most for name, most in vars(limits).items() if name.startswith("MAX_")
    }
    assert doctest.testmod(limits).failed == 0


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--set", "/sys/x=" + 2000 * "é"],
         "variant debian/6.1: settings: one is 4007 bytes long, and at most 4000 are possible"),
        ([f"--set=/sys/{number}=1" for number in range(65)],
         "variant debian/6.1: settings: 65 are given, and at most 64 are possible"),
        (["--set", "/sys/x=a\nb"], "variant debian/6.1: settings: '/sys/x=a\\nb' is not a single line"),
        (["--probe", "functions", "--functions", ",".join(f"f{number}" for number in range(257))],
         "functions: 257 are given, and at most 256 are possible"),
    ],
)  # fmt: skip
def test_what_the_agent_would_refuse_is_refused_before(
    options: list[str], complaint: str, tmp_path: Path
) -> None:
    answer = bigiron("run", "open1", "--kernel", "debian/6.1", *options, "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (2, complaint)


def test_a_command_s_words_are_counted_in_bytes(tmp_path: Path) -> None:
    def complaint(command: str) -> str:
        options = ("--machine", "host", "--metric", "(.)", "-o", tmp_path / "s")
        return bigiron("run", "--command", command, *options).complaint

    assert (
        complaint("echo " + 2001 * "é")
        == "the command's words: one is 4002 bytes long, and at most 4000 are possible"
    )
    assert (
        complaint("echo " + 256 * " x") == "the command's words: 257 are given, and at most 256 are possible"
    )


@pytest.mark.parametrize(("key", "most"), [("set", 64), ("word", 256), ("function", 256), ("read", 16)])
def test_more_than_it_has_room_for(key: str, most: int, programs: dict[str, Path], tmp_path: Path) -> None:
    lines = [f"{key} /{number}".encode() for number in range(most + 1)]
    assert rows(programs["job"], b"\n".join(lines[:most]), tmp_path)[0].startswith("tasks 0")
    refused = f"error: the agent takes no more lines such as '{key} /{most}'"
    assert rows(programs["job"], b"\n".join(lines), tmp_path)[0] == refused
