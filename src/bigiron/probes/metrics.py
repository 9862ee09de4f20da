"""metrics: the figures that an external command prints (docs/workload.md)."""

from bigiron import readers
from bigiron.errors import MachineError, UserError
from bigiron.machines.messages import Message
from bigiron.probes.probe import CellRequest, Probe, RawOutput, Table
from bigiron.readers import Figure
from bigiron.sanitize import sanitize

_TAIL = 20  # lines of the output to show where a cell fails

SCHEMA = readers.SCHEMA


def _job(request: CellRequest) -> list[str]:
    return [f"word {word}" for word in request.command]


def _collect(raw: RawOutput) -> Table:
    """UserError and MachineError say why there are no figures; the latter with the output's last lines."""
    (ended,) = (message.content for message in raw.messages if message.type == "command")
    output = "\n".join(_printed(raw.messages, stream) for stream in ("stdout", "stderr")).strip()
    tail = "\n".join(sanitize(output).splitlines()[-_TAIL:])
    if ended["signal"] or ended["status"]:
        how = (
            f"was killed by signal {ended['signal']}"
            if ended["signal"]
            else f"failed: status {ended['status']}"
        )
        raise MachineError(f"the command {how}", tail)
    request = raw.request
    try:
        figures = _at(
            readers.reader(request.metric, request.unit, request.less_is_better)(output), request.tasks
        )
        if not figures:
            raise UserError(f"metric {request.metric} is nowhere in what the command printed")
        return Table(readers.table(figures), {"seconds": ended["nanoseconds"] / 1e9})
    except UserError as error:
        raise MachineError(str(error), tail) from None


def _at(figures: list[Figure], tasks: int) -> list[Figure]:
    """Of a table by numbers of tasks, the row that was asked for."""
    if len({figure.tasks for figure in figures}) > 1:
        return [figure for figure in figures if figure.tasks == tasks]
    return figures


def _printed(messages: list[Message], stream: str) -> str:
    lines = next(
        message.content["lines"]
        for message in messages
        if message.type == "file" and message.content["path"] == stream
    )
    # The agent knows bytes, not characters.
    return "\n".join(lines).encode("latin-1", "replace").decode(errors="replace")


PROBE = Probe(
    name="metrics",
    description="the figures that an external command prints",
    needs_recorder=False,
    job=_job,
    collect=_collect,
)
