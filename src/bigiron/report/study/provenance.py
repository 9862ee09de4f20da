"""How a study was measured: environments, commands, and the source of its workload."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bigiron import probes
from bigiron.probes.probe import Contexts
from bigiron.results.layout import PROBE as LAYOUT
from bigiron.results.prediction import Prediction
from bigiron.study import caveats, reproduce
from bigiron.study.spec import Spec
from bigiron.study.store import CellRecord, Study
from bigiron.util import sanitize


@dataclass(frozen=True)
class Environments:
    """What all cells have in common, and a row for each cell with what differs."""

    common: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def environments(spec: Spec, cells: Sequence[tuple[str, CellRecord | None]]) -> Environments:
    """What produced the cells."""
    known = {name: _flat(record) for name, record in cells if record}
    keys = list(dict.fromkeys(key for each in known.values() for key in each))
    values = {key: [each.get(key, "") for each in known.values()] for key in keys}
    shared = [key for key in keys if len(set(values[key])) == 1 and len(known) > 1]
    differing = [key for key in keys if key not in shared]
    rows = tuple(
        (name, _state(record), *(known.get(name, {}).get(key, "") for key in differing))
        for name, record in cells
    )
    usual = _uninformative(spec)
    common = tuple(
        (_label(key), values[key][0]) for key in shared if values[key][0] and values[key][0] != usual.get(key)
    )
    return Environments(common, ("cell", "state", *map(_label, differing)), rows)


def _uninformative(spec: Spec) -> dict[str, str]:
    """Values that say nothing about a study if all cells have them."""
    recorded = {kind.options for kind in probes.named(spec.probes)}
    others = {probe.options for probe in probes.probes() if probe.options} - recorded
    unused = {key: _text(value) for kind in others for key, value in spec.options[kind].environment().items()}
    return {**unused, "cpus_to_cycle": "0", "from_snapshot": "True"}


def _flat(record: CellRecord) -> dict[str, str]:
    """What produced a cell, as text."""
    texts = {key: _text(value) for key, value in record.environment.items()}
    return {**texts, "started": record.started, "seconds": f"{record.seconds:.1f}"}


def _text(value: Any) -> str:
    match value:
        case dict():
            return ", ".join(f"{key}={one}" for key, one in value.items())
        case list():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def _state(record: CellRecord | None) -> str:
    return caveats.why_missing(record).partition(":")[0] or "measured"


def _label(key: str) -> str:
    return key.replace("_mib", ", MiB").replace("_", " ").replace("sha256", "SHA-256")


def commands(
    study: Study, base: str, measured: Sequence[str], contexts: Contexts, prediction: Prediction | None
) -> Iterator[tuple[str, str]]:
    """What each command makes, and the command."""
    name = shlex.quote(study.name)
    options = f" --context {'all' if len(contexts) > 1 else contexts[0]}" if contexts != ("process",) else ""
    if base != study.base(None):
        options += f" --base {shlex.quote(base)}"
    for kernel in reproduce.fetched_kernels(study):
        yield "the kernels", f"bigiron kernel fetch {kernel}"
    if study.spec.engine.is_imported:
        yield from (("the figures", f"{command} -o {name}") for command in _imports(study))
    else:
        yield "every cell", f"bigiron run study.toml -o {name}"
    if study.spec.engine.is_model:
        yield "the figures", f"bigiron compare {name}{options}"
        measured = ()
    ranked = f" --machine {shlex.quote(prediction.machine_file)}" if prediction else ""
    if "conflicts" in measured:
        yield "the answer", f"bigiron explain {name}{options}{ranked}"
    for probe in measured:
        if probe == LAYOUT:
            yield "where objects can lie", f"bigiron layout {name} 'struct NAME'"
            continue
        by = ranked if probe == "conflicts" else ""
        yield f"{probe} in full", f"bigiron compare {name} --probe {probe}{options}{by}"
    if prediction and prediction.one_task:
        ranked += f" --one-task {prediction.one_task!r}"
    if prediction and prediction.measured:
        ranked += f" --measured {shlex.quote(prediction.measured.file)}"
    yield "this report", f"bigiron report {name}{options}{ranked} -o report.html"


def _imports(study: Study) -> Iterator[str]:
    """The commands that import each file or folder of a study's figures again."""
    sources: dict[tuple[str, str, str, str, int], set[int]] = {}
    for record in study.records():
        format, file, workload = (str(record.environment[key]) for key in ("format", "file", "workload"))
        source = format, file, workload, record.variant, record.cpus
        sources.setdefault(source, set()).add(record.tasks)
    for (format, file, workload, variant, cpus), tasks in sources.items():
        words = ["bigiron", "import", format, file, "--variant", variant, "--workload", workload]
        # A file with figures for several task counts names them itself.
        given = ["--tasks", str(min(tasks))] if len(tasks) == 1 else []
        yield shlex.join([*words, "--cpus", str(cpus), *given])


def source(study: Study) -> str:
    """The workload's C file, where the user gave one: it is part of what was measured."""
    file = study.folder / "workload.c"
    if not study.spec.workload_file or not file.is_file() or file.is_symlink():
        return ""
    return sanitize.sanitize(file.read_text(encoding="utf-8", errors="replace"))
