"""oncpu: which functions of the kernel and the program the CPUs execute, by sampling.

Samples are taken by perf events, after a number of cycles where the CPU counts them, else after a time,
and added up by a BPF program in the machine's kernel.
"""

from __future__ import annotations

from bigiron.analysis import kernel_functions
from bigiron.analysis.probes import oncpu
from bigiron.errors import MachineError
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput, StackSource
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

CONTEXTS = ("process", "interrupt", "kthread", "other", "idle")

SCHEMA = Schema(
    lambda: {
        "cpu": pl.UInt32,
        "context": pl.String,  # one of CONTEXTS; an interrupt is one whomever it interrupts
        "task": pl.String,  # the task's name
        "pid": pl.UInt32,
        "tgid": pl.UInt32,
        "path": pl.String,  # functions in the kernel, outermost first; "" in user space
        "user_path": pl.String,  # of the program
        "samples": pl.UInt64,
        "cost": pl.UInt64,  # what the CPU counted in them: cycles, or nanoseconds
    }
)

_REAL_PERIOD_US, _REAL_SAMPLES = 1000, 3000
_SAMPLES = 500  # of each CPU

# An emulator's CPUs share one: the more there are, the fewer samples leave them time for anything else.
_LEAST_PERIOD_US, _PERIOD_US_PER_CPU = 4000, 500


def _job(request: CellRequest) -> list[str]:
    period_us, samples = _REAL_PERIOD_US, _REAL_SAMPLES
    if request.in_vm:
        period_us, samples = max(_LEAST_PERIOD_US, _PERIOD_US_PER_CPU * request.cpus), _SAMPLES
    return [
        f"oncpu {request.files_at}oncpu.bpf.o",
        f"oncpu_period_us {period_us}",
        f"oncpu_ms {period_us * samples // 1000}",
    ]


def _collect(raw: RawOutput) -> ProbeTable:
    summaries = [message.content for message in raw.messages if message.type == "oncpu_summary"]
    if not summaries:
        raise MachineError("the agent reported no samples")
    rows = [
        {
            **message.content,
            "context": _context(message.content["kind"], message.content["path"]),
            "cost": message.content["samples"] * summaries[-1]["period"],
        }
        for message in raw.messages
        if message.type == "oncpu"
    ]
    frame = pl.DataFrame([{name: row[name] for name in SCHEMA} for row in rows], schema=SCHEMA)
    lost = {"samples or their stacks for which there was no room": summaries[-1]["lost"]}
    return ProbeTable(frame.sort("cpu", "samples", descending=[False, True]), summaries[-1], lost)


def _context(kind: str, path: str) -> str:
    """The task or interrupt for which the CPU ran.

    >>> _context("workload", "do_syscall_64;__x64_sys_close")
    'process'
    >>> _context("idle", "do_idle;acpi_idle_enter;asm_sysvec_apic_timer_interrupt;irq_exit_rcu;__do_softirq")
    'interrupt'
    >>> _context("kthread", "ret_from_fork;kthread;smpboot_thread_fn;run_ksoftirqd")
    'kthread'
    """
    if kernel_functions.INTERRUPT_ENTRY.search(path):
        return "interrupt"
    return {"workload": "process", "kthread": "kthread", "idle": "idle"}.get(kind, "other")


PROBE = Probe(
    name="oncpu",
    description="which functions of the kernel and the program run on each CPU, sampled",
    columns=SCHEMA,
    job=_job,
    collect=_collect,
    measures=("unbounded",),
    measures_time=True,
    changes_code=True,
    lasts_seconds=True,
    needs_bpf=True,
    stacks=StackSource(
        lambda table, done, contexts: oncpu.stacks(table, done, contexts),
        "{unit} on the CPU",
        ("cost", "samples"),
        ("task", "path"),
        unit=lambda facts: oncpu.UNITS.get(facts.get("event", ""), ""),
    ),
)
