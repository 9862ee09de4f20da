"""locks: which locks are acquired, in which functions, how often, and their hold time in instructions.

Counted by the QEMU plugin in plugin/, for the same operations as conflicts: an acquisition is a call of one
of the kernel's lock functions, and the hold time is from its return to the call that releases the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bigiron.analysis.probes import locks
from bigiron.errors import UserError
from bigiron.introspect.symbols import SymbolTable
from bigiron.kernels.kernel import Kernel
from bigiron.probes.probe import CellRequest, Probe, ProbeTable, RawOutput
from bigiron.probes.recording import recorded
from bigiron.util import lazy
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

if TYPE_CHECKING:
    from bigiron.kernels import image
else:
    image = lazy.LazyModule("bigiron.kernels.image")

SCHEMA = Schema(
    lambda: {
        "cpu": pl.UInt32,  # that took it
        "context": pl.String,  # process, interrupt or kthread, in which it was taken
        "lock": pl.UInt64,  # its address
        "object": pl.String,  # what it is (docs/reference/schema.md)
        "function": pl.String,  # of the kernel, that took it: _raw_spin_lock, down_read
        "path": pl.String,  # functions whose calls led there, outermost first, ";" between them
        "acquisitions": pl.UInt64,  # over all recorded operations
        "instructions": pl.UInt64,  # executed while it was held, outside of interrupts that came meanwhile
        "longest": pl.UInt64,  # instructions of the acquisition that held it longest
    }
)

_LOCKS = {"_raw_spin": "spinlock_t", "_raw_": "rwlock_t", "mutex_": "mutex", "down_": "rw_semaphore"}
"""The type of the lock that a function takes, by how its name starts."""


_SPIN_LOCK = "_raw_spin_lock"
"""Kernels that are not preemptible inline it on arm64: arch/arm64/Kconfig."""


def _job(request: CellRequest) -> list[str]:
    return ["stay", f"operations {request.operations}", "record locks"]


def check_spinlocks(probe: str) -> Callable[[Kernel], None]:
    """A probe's `check_kernel`: UserError for a kernel whose image says that its spinlocks are inlined."""

    def check(kernel: Kernel) -> None:
        if image.has_inlined_spinlocks(kernel.image):
            raise _inlined_spinlocks(probe, kernel.name)

    return check


def refuse_uncounted_spinlocks(probe: str, symbols: SymbolTable) -> None:
    """The same by the symbols of a kernel that booted: not all images say it.

    Spinlocks that are mutexes are refused too: their functions are those of kernel/locking/spinlock_rt.c.
    """
    if "rt_spin_lock" in symbols.names:
        raise UserError(
            f"probe {probe}: this kernel's spinlocks are mutexes (CONFIG_PREEMPT_RT), which are not counted: "
            "use a kernel without it, or leave the probe out"
        )
    if _SPIN_LOCK not in symbols.names:
        raise _inlined_spinlocks(probe, "this kernel")


def _inlined_spinlocks(probe: str, kernel: str) -> UserError:
    return UserError(
        f"probe {probe}: {kernel} has its spinlocks inlined (CONFIG_INLINE_SPIN_LOCK): use a kernel with "
        "CONFIG_PREEMPTION, such as debian/7.2 or one of `bigiron kernel build --config` with "
        "CONFIG_PREEMPT=y, or leave the probe out"
    )


def _collect(raw: RawOutput) -> ProbeTable:
    found = recorded(raw)
    refuse_uncounted_spinlocks("locks", found.symbols)
    recording, chains = found.recording, found.chains
    counts = pl.read_csv(raw.results / "locks.csv", schema_overrides={"lock": pl.String})
    rows = []
    for cpu, context, chain, lock, function, *figures in counts.iter_rows():
        rows.append((cpu, context, int(lock, 16), "", function, chains.path(chain), *figures))
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    wholes = [(lock, found.objects.size(lock_type(function))) for lock, function in _locks(frame)]
    names = found.objects.names(wholes)
    frame = frame.with_columns(object=pl.Series([names[whole].name for whole in wholes], dtype=pl.String))
    keys = ["cpu", "context", "lock", "object", "function", "path"]
    # Several places of a call in one function are one path.
    sums = frame.group_by(keys).agg(pl.col("acquisitions", "instructions").sum(), pl.col("longest").max())
    return ProbeTable(
        sums.sort(keys),
        {
            **found.operations,
            "lost_acquisitions": recording.lost["acquisitions"],
            "unreleased": recording.unreleased,
        },
        recording.losses,
    )


def _locks(frame: pl.DataFrame) -> list[tuple[int, str]]:
    return list(frame.select("lock", "function").iter_rows())


def lock_type(function: str) -> str:
    """The type of the lock that a function takes.

    >>> lock_type("_raw_spin_lock_irqsave"), lock_type("_raw_read_lock"), lock_type("down_write_trylock")
    ('spinlock_t', 'rwlock_t', 'rw_semaphore')
    """
    return next(type for start, type in _LOCKS.items() if function.startswith(start))


PROBE = Probe(
    name="locks",
    description="locks: how often each is taken per operation, and its hold time in instructions",
    columns=SCHEMA,
    units={"instructions": "instructions", "longest": "instructions"},
    job=_job,
    collect=_collect,
    compare=lambda read, options: locks.compare(read, options),
    has_verdicts=True,
    needs_recorder=True,
    measures=("unbounded", "bounded", "program"),
    by_default="vm",
    only_on=("x86_64",),
    if_asked_on=("aarch64",),
    check_kernel=check_spinlocks("locks"),
)
