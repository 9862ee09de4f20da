"""CPU hotplug on real kernels: what each operation took, and in which functions."""

import re
import subprocess
from pathlib import Path
from subprocess import PIPE

import polars as pl
import pytest
from conftest import SAFETY_NET_S, bigiron, measured
from hypothesis import given
from hypothesis import strategies as st

import bigiron as package
from bigiron import compile, workloads
from bigiron.cases import hotplug_debugfs
from bigiron.machines.messages import Decoder
from bigiron.probes.graph import calls

REBUILD = "partition_sched_domains_locked,update_sched_domain_debugfs,no_such_function*"
STUDY = """
workload = "{workload}"
cpus = [{cpus}]
arch = "{arch}"
probes = {probes}
functions = {functions}
depth = {depth}
"""
VARIANT = """
[[variant]]
name = "{name}"
kernel = "{kernel}"
set = {set}
"""
EXPEDITED = "/sys/kernel/rcu_expedited=1"


def study_file(
    folder: Path,
    workload: str,
    probes: list[str],
    *variants: tuple[str, str, list[str]],
    functions: str = "",
    depth: int = 2,
    cpus: int = 4,
    arch: str = "x86_64",
) -> Path:
    named = functions.split(",") if functions else []
    text = STUDY.format(workload=workload, arch=arch, cpus=cpus, probes=probes, functions=named, depth=depth)
    text += "".join(
        VARIANT.format(name=name, kernel=kernel, set=settings) for name, kernel, settings in variants
    )
    file = folder / "study.toml"
    file.write_text(text.replace("'", '"'))
    return file


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("offline")
    file = study_file(
        folder,
        "hotplug-offline",
        ["operations", "instructions", "functions"],
        ("5.10", "debian/5.10", []),
        ("6.1", "debian/6.1", []),
        ("6.12 verbose", "debian/6.12", ["/sys/kernel/debug/sched/verbose=Y", EXPEDITED]),
        ("6.12", "debian/6.12", []),
        functions=REBUILD,
        depth=1,
    )
    measured(file, "-o", folder / "s")
    return folder / "s"


def rows(study: Path, probe: str, variant: str) -> pl.DataFrame:
    return package.open_study(study).tables(probe).filter(variant=variant)


@pytest.mark.slow
def test_each_cpu_is_an_operation(offline: Path) -> None:
    for variant in "5.10", "6.1", "6.12":
        operations = rows(offline, "operations", variant)
        assert operations["cpu"].to_list() == [1, 2, 3]
        assert operations["operation"].to_list() == [0, 1, 2]
        assert operations["nanoseconds"].min() > 0
        assert operations["grace_periods"].min() > 0  # each CPU that goes waits for one at least
        assert operations["expedited"].to_list() == [0, 0, 0]


@pytest.mark.slow
def test_expedited_grace_periods_are_distinguished(offline: Path) -> None:
    operations = rows(offline, "operations", "6.12 verbose")
    assert operations["grace_periods"].to_list() == [0, 0, 0]
    assert operations["expedited"].min() > 0


@pytest.mark.slow
def test_the_work_of_a_round_is_recorded(offline: Path) -> None:
    for record in package.open_study(offline).records():
        assert record.facts["instructions"]["operations"] == [3]
    work = rows(offline, "instructions", "6.1")
    assert work.filter(function="partition_sched_domains_locked")["instructions"].sum() > 0


@pytest.mark.slow
def test_the_files_of_debugfs_are_rebuilt_where_the_mail_says(offline: Path) -> None:
    """3b87f136f8fc is in 6.1 and not in 5.10; since 6.3 the files are made on demand."""
    variants = ("5.10", "6.1", "6.12", "6.12 verbose")
    called = {variant: set(rows(offline, "functions", variant)["function"]) for variant in variants}
    assert all("partition_sched_domains_locked" in each for each in called.values())
    # Named functions alone, the one inside the other too.
    assert set[str]().union(*called.values()) <= set(REBUILD.split(","))
    timed = rows(offline, "functions", "6.1")
    debugfs = timed.filter(function="update_sched_domain_debugfs")
    assert set(debugfs["path"]) == {"partition_sched_domains_locked"}
    # How much of the time it takes goes with the host.
    around = timed.filter(function="partition_sched_domains_locked")["nanoseconds"].sum()
    assert 0 < debugfs["nanoseconds"].sum() < around
    absent = {r.variant: r.facts["functions"]["absent"] for r in package.open_study(offline).records()}
    assert absent["5.10"] == ["update_sched_domain_debugfs", "no_such_function*"]
    assert absent["6.1"] == ["no_such_function*"]
    # The function that remains in 6.12 does nothing unless a program reads the files.
    share = {
        variant: instructions(offline, variant, hotplug_debugfs.DEBUGFS)
        / instructions(offline, variant, hotplug_debugfs.REBUILD, hotplug_debugfs.DEBUGFS)
        for variant in variants
    }
    assert share["5.10"] == 0.0 and share["6.12"] < 0.05 < 0.2 < min(share["6.1"], share["6.12 verbose"])


def instructions(study: Path, variant: str, *functions: str) -> float:
    """Of these functions and of all that they call."""
    return float(
        hotplug_debugfs.inside(rows(study, "instructions", variant), functions)["instructions"].sum()
    )


@pytest.mark.slow
def test_functions_that_take_the_time_are_found(tmp_path: Path) -> None:
    of_one = ("6.1", "debian/6.1", [])
    file = study_file(tmp_path, "hotplug-offline", ["functions"], of_one, functions="auto", cpus=2)
    measured(file, "-o", tmp_path / "s")
    calls = rows(tmp_path / "s", "functions", "6.1")
    paths = [f"{path};{function}" for path, function in calls.select("path", "function").iter_rows()]
    # Who asks, and who does it: found by narrowing, not by name. What they wait for depends on the host.
    for way in ("online_store;device_offline", "_cpu_down;"):
        assert any(way in path for path in paths), (way, paths)
    roots = {path.lstrip(";").split(";")[0] for path in paths}
    assert not {r for r in roots if not re.match("__x64_sys_|process_one_work$|cpuhp_thread_fun$", r)}


@pytest.mark.slow
def test_all_go_and_all_come(tmp_path: Path) -> None:
    file = study_file(tmp_path, "hotplug-cycle", ["operations"], ("6.1", "debian/6.1", []))
    measured(file, "-o", tmp_path / "s")
    operations = rows(tmp_path / "s", "operations", "6.1")
    assert operations.select("state", "cpu").rows() == [
        (state, cpu) for state in ("offline", "online") for cpu in (1, 2, 3)
    ]
    text = printed(tmp_path / "s", "--probe", "operations")
    assert "4 CPUs, offline: 3 operations" in text and "4 CPUs, online: 3 operations" in text


def printed(study: Path, *options: str) -> str:
    answer = bigiron("compare", study, *options)
    assert answer.status == 0, answer
    return answer.out


@pytest.mark.slow
def test_each_probe_prints_its_comparison(offline: Path) -> None:
    text = printed(offline, "--probe", "operations")
    assert "hotplug-offline, 4 CPUs, offline: 3 operations" in text
    text = printed(offline, "--probe", "functions", "--paths", "1")
    assert "5.10: the kernel has no" not in text and "the kernel has no update_sched_domain_debugfs" in text
    assert "    update_sched_domain_debugfs  3 calls" in text
    for probe in "operations", "functions":
        for format in "csv", "json", "markdown":
            assert "6.12" in printed(offline, "--probe", probe, "--format", format)


def test_second_threads_go_at_once(tmp_path: Path) -> None:
    options = ("--topology", "cores=2,threads=2", "--probe", "operations", "-o", tmp_path / "s")
    measured("smt-off", "--kernel", "debian/6.12", *options)
    operations = package.open_study(tmp_path / "s").tables("operations")
    assert operations["cpu"].to_list() == [None]


def test_second_threads_come_at_once(tmp_path: Path) -> None:
    """With one probe its only round shows the work: in the kernel as booted, the control is "on" already."""
    options = ("--topology", "cores=1,threads=2", "--probe", "instructions", "-o", tmp_path / "s")
    measured("smt-on", "--kernel", "debian/6.12", *options)
    assert instructions(tmp_path / "s", "debian/6.12", "_cpu_up") > 0


def test_smt_is_on_again_before_its_threads(tmp_path: Path) -> None:
    """As long as it is off, the kernel refuses to bring second threads online."""
    agent, cpus, program = Path(__file__).with_name("agent"), tmp_path / "cpu", tmp_path / "states"
    files = [cpus / "smt" / "control", cpus / "cpu1" / "online", cpus / "cpu2" / "online"]
    guest = Path(package.__file__).parent / "guest"
    command = ["gcc", "-Wall", "-Wextra", "-Werror", '-DCPU_FOLDER="cpu"', "-Wl,--wrap=write"]
    sources = [agent / "hotplug_states.c", guest / "workload" / "hotplug.c"]
    subprocess.run([*command, "-iquote", guest, *sources, "-o", program], check=True)
    for file, text in zip(files, ("on", "1", "0"), strict=True):
        file.parent.mkdir(parents=True)
        file.write_text(f"{text}\n")
    with subprocess.Popen(program, cwd=tmp_path, stdin=PIPE, stdout=PIPE, text=True) as run:
        assert run.stdin and run.stdout and run.stdout.readline() == "remembered\n"
        for file, text in zip(files, ("off", "0", "0"), strict=True):
            file.write_text(f"{text}\n")
        written, _ = run.communicate("\n", SAFETY_NET_S)
    assert (run.returncode, written.split()) == (0, [f"{files[0]}=on", f"{files[1]}=1"])


def test_power(tmp_path: Path) -> None:
    """CPUs come online on POWER; the one before it is the last that was brought up."""
    file = study_file(
        tmp_path, "hotplug-online", ["operations"], ("6.1", "debian/6.1", [EXPEDITED]), arch="ppc64le"
    )
    measured(file, "-o", tmp_path / "s")
    assert package.open_study(tmp_path / "s").tables("operations")["cpu"].to_list() == [1, 2, 3]


def test_a_workload_that_goes_on_is_traced_too(tmp_path: Path) -> None:
    measured(
        "getppid1", "--kernel", "debian/6.12", "--cpus", "2", "--probe", "functions",
        "--functions", "__do_sys_getppid", "--depth", "1", "--deadline", "250", "-o", tmp_path / "s",
    )  # fmt: skip
    traced = package.open_study(tmp_path / "s").tables("functions").filter(path="")
    assert len(traced.filter(function="__do_sys_getppid")) >= 500


def test_what_an_interrupt_calls_is_traced_where_it_is_named(tmp_path: Path) -> None:
    for depth in ("1", "2"):
        measured(
            "page_fault1", "--kernel", "debian/6.12", "--cpus", "1", "--operations", "50",
            "--probe", "functions", "--functions", "update_process_times", "--depth", depth,
            "-o", tmp_path / depth,
        )  # fmt: skip
        traced = rows(tmp_path / depth, "functions", "debian/6.12")
        assert len(traced.filter(path="", function="update_process_times")), depth


def test_what_named_functions_call_is_traced_unless_it_is_not_asked_for(tmp_path: Path) -> None:
    for depth in ("1", "2"):
        measured(
            "getppid1", "--kernel", "debian/6.12", "--cpus", "2", "--probe", "functions",
            "--functions", "__do_sys_getppid", "--depth", depth, "-o", tmp_path / depth,
        )  # fmt: skip
        (record,) = package.open_study(tmp_path / depth).records()
        assert record.environment["accelerator"] == "tcg,thread=single"  # whose code is patched while it runs
    traced = {depth: rows(tmp_path / depth, "functions", "debian/6.12") for depth in ("1", "2")}
    called = {depth: set(calls["path"]) for depth, calls in traced.items()}
    assert called == {"1": {""}, "2": {"", "__do_sys_getppid"}}
    assert len(traced["2"].filter(path="", function="__do_sys_getppid")) >= 100
    assert len(traced["2"].filter(path="__do_sys_getppid")) >= 100


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["hotplug-offline", "--tasks", "4", "--probe", "operations"], "hotplug-offline runs as one"),
        (["hotplug-offline", "--probe", "throughput"], "probe throughput is for workloads that run"),
        (
            ["hotplug-offline", "--probe", "operations", "--cpus-to-cycle", "8"],
            "cpus_to_cycle = 8: at most 7 of 8 CPUs",
        ),
        (["open1", "--probe", "operations"], "probe operations measures CPU-hotplug workloads, not open1"),
        (["open1", "--cpus-to-cycle", "2"], "cpus_to_cycle = 2: open1 takes no CPU"),
        (["open1", "--probe", "functions"], "no function to trace"),
        (["open1", "--functions", "vfs_read"], "functions are traced by the probe functions"),
        (["open1", "--probe", "functions", "--functions", "a;b"], "function 'a;b'"),
        (["open1", "--probe", "locks", "--arch", "ppc64le"], "probe locks is not supported on ppc64le yet"),
    ],
)  # fmt: skip
def test_bad_input(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    answer = bigiron("run", *arguments, "--kernel", "debian/6.1", "-o", tmp_path / "s")
    assert answer.status == 2
    assert answer.complaint.startswith(complaint)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["smt-off", "--probe", "operations"], "this machine has 0 second threads of cores"),
        (
            ["hotplug-offline", "--probe", "functions", "--functions", "no_such*"],
            "the kernel has none of the functions to trace, such as no_such*",
        ),
    ],
)  # fmt: skip
def test_what_only_the_machine_can_tell(tmp_path: Path, arguments: list[str], complaint: str) -> None:
    answer = bigiron("run", *arguments, "--kernel", "debian/6.12", "--cpus", "2", "-o", tmp_path / "s")
    assert answer.status == 2
    assert complaint in answer.err


def test_a_real_machine_must_be_allowed_to_lose_cpus(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("mode process\ntasks 1\nwatch\n")
    agent = compile.agent(workloads.find("hotplug-offline"), "gcc")
    command = [agent, tmp_path / "job"]
    said = subprocess.run(command, stdout=subprocess.PIPE, timeout=SAFETY_NET_S, check=False)
    # Other tests' agents may have been waited for.
    messages = [each for each in Decoder().feed(said.stdout) if each.type != "waiting"]
    assert [message.type for message in messages] == ["hello", "error", "end"]
    assert "--allow-hotplug" in messages[1].content["text"]


# The tracer's text


@given(st.data())
def test_calls_of_tasks_that_alternate(data: st.DataObject) -> None:
    """Whatever the interleaving, each task's calls nest as they did, and what is own adds up to the whole."""
    queues = []
    roots = {}
    for task in range(data.draw(st.integers(1, 3))):
        lines: list[tuple[int, str]] = []
        roots[task] = _write(data, lines, task, depth=0)
        queues.append(lines)
    text = []
    while any(queues):
        queue = data.draw(st.sampled_from([queue for queue in queues if queue]))
        text.append(queue.pop(0))
    found = list(calls(line for _, line in text))
    for task, total in roots.items():
        mine = [call for call in found if call.task == f"task{task}"]
        assert sum(call.self_ns for call in mine) == total
        assert [call.nanoseconds for call in mine if not call.path] == [total]


def _write(data: st.DataObject, lines: list[tuple[int, str]], task: int, depth: int) -> int:
    """Lines of one call and those in it; what it took."""
    own = data.draw(st.integers(1, 999))
    head, pad = f" {task})  task{task}-{task + 10} |", "  " * depth
    if depth == 3 or data.draw(st.booleans()):
        lines.append((task, f"{head}   {own / 1000:.3f} us    |  {pad}leaf{depth}();"))
        return own
    lines.append((task, f"{head}               |  {pad}outer{depth}() {{"))
    total = own + sum(_write(data, lines, task, depth + 1) for _ in range(data.draw(st.integers(0, 3))))
    lines.append((task, f"{head}   {total / 1000:.3f} us    |  {pad}}} /* outer{depth} */"))
    return total


def test_what_the_trace_cut_off_is_left_out() -> None:
    trace = [
        "# tracer: function_graph",
        " 0)  sh-12 |   9.000 us    |  } /* began before */",
        " 0)  sh-12 |               |  vfs_write() {",
        " ------------------------------------------",
        " 0)   sh-12   =>  kworke-9",
        " 0) kworke-9 |   1.000 us    |  schedule [mod]();",
        " 0)  sh-12 |   2.000 us    |    inner();",
    ]
    assert [(call.function, call.path) for call in calls(trace)] == [("schedule", ""), ("inner", "vfs_write")]


def test_a_cpu_that_refuses_to_go(tmp_path: Path) -> None:
    """The kernel's own way to make one of a CPU's callbacks fail: 197 is workqueue:online in Debian's 6.1."""
    answer = bigiron(
        *("run", "hotplug-offline", "--kernel", "debian/6.1", "--cpus", "4", "--probe", "operations"),
        *("--set", "/sys/devices/system/cpu/cpu2/hotplug/fail=197", "-o", tmp_path / "s"),
    )
    assert answer.status == 3
    assert answer.complaint.endswith("CPU 2 does not go offline: Resource temporarily unavailable")


@pytest.mark.parametrize(
    ("probe", "complaint"),
    [
        ("functions", "the kernel has no function graph tracer: No such file or directory"),
        ("blocked", "blocked time cannot be measured: no BPF "),
    ],
)
def test_a_kernel_that_shows_nothing_of_itself(probe: str, complaint: str, tmp_path: Path) -> None:
    """In lockdown it has neither tracefs nor BPF."""
    functions = ("--functions", "vfs_read") if probe == "functions" else ()
    answer = bigiron(
        *("run", "getppid1", "--kernel", "debian/6.1", "--cpus", "2", "--probe", probe, *functions),
        *("--boot", "lockdown=confidentiality", "-o", tmp_path / "s"),
    )
    assert answer.status == 2 and complaint in answer.complaint, answer
