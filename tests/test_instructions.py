"""Work: instruction counts that add up, and call chains that the kernel itself agrees with."""

import threading
from pathlib import Path

import polars as pl
import pytest
from conftest import WORKLOADS, measured
from conftest import bigiron as command

import bigiron
from bigiron import compile, kernels, probes, workloads
from bigiron.analysis.probes import instructions
from bigiron.architectures import architecture
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology
from bigiron.probes.instructions import SCHEMA

TRACING = "/sys/kernel/tracing"
TRACED = ("security_file_open", "inode_permission", "__fput", "dput", "apparmor_file_free_security")


def counts(*rows: tuple[str, str, int], context: str = "process", instruction: str = "") -> pl.DataFrame:
    """Path, function, instructions: all of one CPU."""
    full = [(0, context, path, function, instruction, executed) for path, function, executed in rows]
    return pl.DataFrame(full, schema=SCHEMA, orient="row")


def test_self_and_total_instructions() -> None:
    ran = counts(
        ("", "entry", 10), ("entry", "open", 20), ("entry;open", "lookup", 30), ("entry", "lookup", 5)
    )
    found = {row[0]: row[1:] for row in instructions.profile(ran, operations=5).iter_rows()}
    assert found == {"lookup": (7, 7), "open": (4, 10), "entry": (2, 13)}


def test_recursion_counts_once() -> None:
    ran = counts(("walk", "walk", 10), ("walk;walk", "walk", 10))
    assert instructions.profile(ran, operations=1).rows() == [("walk", 20.0, 20.0)]


def test_other_contexts_are_apart() -> None:
    ran = counts(("", "tick", 10), context="interrupt")
    assert instructions.profile(ran, operations=1).is_empty()
    assert instructions.profile(ran, 1, ("interrupt",))["self_per_op"].sum() == 10


def test_the_sum_of_all_functions_is_the_recorder_s_total(open1: Path) -> None:
    study = bigiron.open_study(open1)
    for record in study.records():
        table, facts = study.table(record, "instructions"), record.facts["instructions"]
        assert facts["lost_instructions"] == 0
        for context, total in facts["instructions"].items():
            assert table.filter(pl.col("context") == context)["instructions"].sum() == total


def test_total_at_the_root_is_the_recorder_s_count(open1: Path) -> None:
    """What a path begins with is where the kernel was entered: all that each entry led to is all there is."""
    study = bigiron.open_study(open1)
    for record in study.records():
        begins = pl.col("path").str.split(";").list.first()
        table = study.table(record, "instructions").with_columns(
            root=pl.when(pl.col("path") == "").then("function").otherwise(begins)
        )
        for context, total in record.facts["instructions"]["instructions"].items():
            inclusive = 0.0
            for (root,), entered in table.filter(pl.col("context") == context).group_by("root"):
                profile = instructions.profile(entered, 1, (context,))
                inclusive += profile.filter(pl.col("function") == root)["total_per_op"].item()
            assert inclusive == total, context


def test_what_an_operation_executes_repeats_exactly(open1: Path) -> None:
    """On the way from openat to its file there is no clock: every task executes the same instructions."""
    study = bigiron.open_study(open1)
    for record in study.records():
        found = {
            row[0]: row[1]
            for row in instructions.profile(study.table(record, "instructions"), 8 * 500).iter_rows()
        }
        assert found["do_dentry_open"] == {"debian/6.1": 168, "debian/6.12": 176}[record.variant]


def test_an_interrupt_s_handler_that_returns_to_itself_stays_one(tmp_path: Path) -> None:
    """sync_core() before SERIALIZE is an iret to the next instruction."""
    workload = ("--workload-file", WORKLOADS / "sync_core.c", "--mode", "thread", "--operations", "100")
    measured(
        *workload, "--kernel", "debian/6.1", "--cpus", "4", "--probe", "instructions", "-o", tmp_path / "s"
    )
    study = bigiron.open_study(tmp_path / "s")
    (record,) = study.records()
    table = study.table(record, "instructions")
    stack = pl.concat_str("path", "function", separator=";")
    in_handler = table.filter(stack.str.contains("sysvec_call_function|flush_smp_call_function_queue"))
    assert "interrupt" in in_handler["context"] and "process" not in in_handler["context"]
    # What a task's own path begins with is its system call.
    begins = table.filter(context="process").select(stack.str.strip_prefix(";").str.split(";").list.first())
    assert all("SYS" in function or "syscall" in function for function in begins.to_series().unique())


def test_compare_shows_which_functions_grew(open1: Path) -> None:
    answer = command("compare", open1, "--probe", "instructions")
    assert answer.status == 0
    assert "make_vfsuid" in answer.out.split("all functions")[0]
    assert max(map(len, answer.out.splitlines())) <= 100


@pytest.fixture(
    scope="module",
    params=[("debian/6.1", "x86_64"), ("debian/7.2", "x86_64"), ("debian/6.1", "ppc64le")],
    ids=lambda param: " ".join(param),
)
def traced(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[set[str], list[str]]:
    """Chains that the recorder saw, and those that the kernel's own tracer printed, in one run of open1."""
    kernel, arch = request.param
    target = architecture(arch)
    results = tmp_path_factory.mktemp("results")
    job = [
        "mode process", "cpus 2", "tasks 2", "warmup 5", "patience_s 100",
        "operations 20", "record instructions",
        f"set {TRACING}/buffer_size_kb=16384", f"set {TRACING}/options/func_stack_trace=1",
        f"set {TRACING}/current_tracer=function", f"read {TRACING}/trace",
    ]  # fmt: skip
    machine = vm.VirtualMachine(
        architecture=target,
        kernel=kernels.find(kernel, arch).image,
        agent=compile.agent(workloads.find("open1"), target.compiler),
        job="\n".join(job) + "\n",
        topology=Topology(cores=2),
        memory_mib=vm.memory_mib(2),
        deadline_s=250,
        boot=f"ftrace_filter={','.join(TRACED)}",
        plugin=compile.recorder(),
        results=results,
    )
    outcome = vm.run(machine, threading.Event(), lambda _stage: None)
    ask = probes.CellRequest(2, 2, 20, "process")
    raw = probes.RawOutput(outcome.messages, results, target, machine.agent, ask)
    rows = probes.probe("instructions").collect(raw).rows
    ours = {
        f"{path};{function}" if path else function
        for path, function in rows.select("path", "function").iter_rows()
    }
    (trace,) = [message.content["lines"] for message in outcome.messages if message.type == "file"]
    return ours, chains_in(trace)


def chains_in(trace: list[str]) -> list[str]:
    """The stack dumps of an operation's own functions, outermost first."""
    chains: list[list[str]] = []
    for line in trace:
        if "<stack trace>" in line:
            chains.append([])
        elif line.startswith(" => ") and chains and not line.startswith((" => 0x", " => [")):
            chains[-1].insert(0, line.removeprefix(" => ").strip())
    found = [";".join(chain) for chain in chains]
    return [chain for chain in found if ("openat" in chain or "close" in chain or "task_work_run" in chain)
            and not any(word in chain for word in ("do_exit", "clone", "execve", "asm_"))]  # fmt: skip


def test_the_kernel_s_own_stack_dumps_agree(traced: tuple[set[str], list[str]]) -> None:
    ours, dumped = traced
    assert len(dumped) > 500
    agree = sum(chain in ours for chain in dumped)
    strangers = sorted({chain for chain in dumped if chain not in ours})
    assert agree >= 0.99 * len(dumped), strangers[:5]
