"""How --check-shape changes a machine, to find the shared cache lines that depend on its shape."""

from dataclasses import dataclass

_SEED = 1


@dataclass(frozen=True)
class ShapeChange:
    """One change; all else stays. `name` is part of a cell's id, `of` what a line would depend on."""

    name: str
    of: str
    times_memory: int = 1
    times_nodes: int = 1
    time_slice: str = "operation"  # what ends a CPU's time slice on the emulator's one thread
    time_slice_job: tuple[str, ...] = ()  # of the agent, to have it so (docs/contributing/protocol.md)
    times_slice: int = 1  # the same of time slices by instructions: how many times longer
    slice_seed: int = 0  # of their random lengths; 0: all are as long
    boots: bool = False  # a boot of its own, of other random numbers: objects lie elsewhere in their slabs


AS_ASKED = ShapeChange("", "")
CHANGES = (
    ShapeChange("4x-memory", "memory", times_memory=4),
    ShapeChange("2x-nodes", "nodes", times_nodes=2),
    ShapeChange(
        "time-slices-of-10",
        "time slices",
        time_slice="10 operations",
        time_slice_job=("time_slice_operations 10",),
        times_slice=10,
    ),
    ShapeChange(
        "time-slices-at-random",
        "time slices",
        time_slice="random",
        time_slice_job=(f"time_slice_seed {_SEED}",),
        slice_seed=_SEED,
    ),
    ShapeChange("booted-again", "the boot", boots=True),
)


def change(name: str) -> ShapeChange:
    """The change of that name; none for an empty one."""
    return next(one for one in (AS_ASKED, *CHANGES) if one.name == name)
