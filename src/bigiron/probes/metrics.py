"""metrics: the figures that an external command prints (docs/howto/machines/real-machine.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from bigiron.analysis.probes import throughput
from bigiron.errors import MachineError, UserError
from bigiron.machines.messages import Message
from bigiron.probes.options import ProbeOptions
from bigiron.probes.probe import CellRequest, Metric, MetricSamples, Probe, ProbeTable, RawOutput
from bigiron.util import lazy
from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl
from bigiron.util.sanitize import sanitize

if TYPE_CHECKING:
    from bigiron import readers
    from bigiron.readers import Figure
else:
    readers = lazy.LazyModule("bigiron.readers")

_TAIL = 20  # lines of the output to show where a cell fails

SCHEMA = Schema(lambda: readers.SCHEMA)


class MetricsOptions(ProbeOptions, frozen=True, kw_only=True):
    """What to read, and what it means."""

    WRONG_PROBE_MESSAGE: ClassVar[str] = "metric and unit describe an external command: give --command"

    metric: Annotated[
        str,
        typer.Option(
            help="what to read in the command's output: a format of `bigiron import`, json:PATH or a regular "
            "expression with a group. In a virtual machine: a number of operations, all matches added up"
        ),
    ] = ""
    unit: Annotated[str, typer.Option(help="unit of the metric")] = ""
    less_is_better: Annotated[
        bool, typer.Option("--less-is-better", help="smaller values of the metric are better")
    ] = False

    def check(self) -> None:
        """A metric that can be read."""
        if not self.metric:
            raise UserError("no metric: give --metric, which says what to read in the command's output")
        readers.reader(self.metric, self.unit, self.less_is_better)


def _job(request: CellRequest) -> list[str]:
    return [f"word {word}" for word in request.command]


@dataclass(frozen=True)
class Output:
    """What a command that succeeded printed."""

    text: str
    seconds: float

    @property
    def tail(self) -> str:
        """Its last lines."""
        return "\n".join(sanitize(self.text).splitlines()[-_TAIL:])


def output_of(messages: list[Message]) -> Output:
    """What the command printed; MachineError, with the last lines of it, if it failed."""
    ended = next((message.content for message in messages if message.type == "command"), None)
    if ended is None:
        raise MachineError("the agent did not report the command's exit status")
    text = "\n".join(_printed(messages, stream) for stream in ("stdout", "stderr")).strip()
    output = Output(text, ended["nanoseconds"] / 1e9)
    if ended["signal"] or ended["status"]:
        how = (
            f"was killed by signal {ended['signal']}"
            if ended["signal"]
            else f"failed: status {ended['status']}"
        )
        raise MachineError(f"the command {how}", output.tail)
    return output


def operations_in(output: Output, request: CellRequest) -> tuple[int, str]:
    """The operations that the command did, and the name of one; MachineError if it does not say so."""
    asked = request.options[MetricsOptions]
    try:
        found = readers.operations(asked.metric, asked.unit)(output.text)
    except UserError as error:
        raise MachineError(str(error), output.tail) from None
    if not found[0]:
        why = f"the command's output has no number of operations for {asked.metric}"
        raise MachineError(why, output.tail)
    return found


def _collect(raw: RawOutput) -> ProbeTable:
    """Raises UserError or MachineError if there are no figures; the latter with the output's last lines."""
    printed = output_of(raw.messages)
    output, tail = printed.text, printed.tail
    asked = raw.request.options[MetricsOptions]
    try:
        read = readers.reader(asked.metric, asked.unit, asked.less_is_better)
        figures = _at(read(output), raw.request.tasks)
        if not figures:
            raise UserError(f"the command's output has no metric {asked.metric}")
        return ProbeTable(readers.table(figures), {"seconds": printed.seconds})
    except UserError as error:
        raise MachineError(str(error), tail) from None


def _at(figures: list[Figure], tasks: int) -> list[Figure]:
    """The row for the requested number of tasks, of a table by numbers of tasks."""
    if len({figure.tasks for figure in figures}) > 1:
        return [figure for figure in figures if figure.tasks == tasks]
    return figures


def _printed(messages: list[Message], stream: str) -> str:
    files = (message.content for message in messages if message.type == "file")
    lines = next((file["lines"] for file in files if file["path"] == stream), None)
    if lines is None:
        raise MachineError(f"the agent did not hand over the command's {stream}")
    # The agent knows bytes, not characters.
    return "\n".join(lines).encode("latin-1", "replace").decode(errors="replace")


def _samples(table: pl.DataFrame) -> MetricSamples:
    metrics = table.sort("sample").group_by("metric", "unit", "better", maintain_order=True)
    for (name, unit, better), rows in metrics:
        metric = Metric(str(name), str(unit), "less" if better == "less" else "more")
        yield metric, tuple(rows["value"])


PROBE = Probe(
    name="metrics",
    description="the figures that an external command prints",
    columns=SCHEMA,
    options=MetricsOptions,
    job=_job,
    collect=_collect,
    compare=lambda read, options: throughput.compare(read, options),
    measures=("command",),
    measures_time=True,
    samples=_samples,
)
