"""How --check-shape changes a machine, to find which shared lines are its shape's and which the kernel's."""

from dataclasses import dataclass

_SEED = 1


@dataclass(frozen=True)
class ShapeChange:
    """One change; all else stays. `name` is part of a cell's id, `of` what a line would depend on."""

    name: str
    of: str
    times_memory: int = 1
    times_nodes: int = 1
    turn: str = "operation"  # what ends a CPU's turn on the emulator's one thread
    turn_job: tuple[str, ...] = ()  # of the agent, to have it so (docs/protocol.md)
    boots: bool = False  # a boot of its own, of other random numbers: objects lie elsewhere in their slabs


AS_ASKED = ShapeChange("", "")
CHANGES = (
    ShapeChange("4x-memory", "memory", times_memory=4),
    ShapeChange("2x-nodes", "nodes", times_nodes=2),
    ShapeChange("turns-of-10", "turns", turn="10 operations", turn_job=("turn_operations 10",)),
    ShapeChange("turns-at-random", "turns", turn="random", turn_job=(f"turn_seed {_SEED}",)),
    ShapeChange("booted-again", "the boot", boots=True),
)


def change(name: str) -> ShapeChange:
    """The change of that name; none for an empty one."""
    return next(one for one in (AS_ASKED, *CHANGES) if one.name == name)
