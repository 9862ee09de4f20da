"""The commands: parse, call, print."""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Annotated, Literal

import typer
from typer.exceptions import TyperException

import bigiron
from bigiron import cases, kernels, readers, workloads
from bigiron.analysis import conflicts
from bigiron.analysis.verdict import FIRST_LOOK, TOLERANCE
from bigiron.errors import MachineError, UserError
from bigiron.machines import topology as topologies
from bigiron.report import case as case_report
from bigiron.report import (
    comparison,
    dispatch,
    folded,
    gate,
    listing,
    mail,
    markdown,
    overview,
    pprof,
    stacks,
)
from bigiron.report import document as documents
from bigiron.report import explain as explanation
from bigiron.report import growth as growth_report
from bigiron.report import knee as knee_report
from bigiron.report.listing import Listing
from bigiron.report.progress import ProgressBar
from bigiron.simulator import machine_files, machine_measure
from bigiron.study import imported, sequential, simulated, store
from bigiron.study import run as runner
from bigiron.study import spec as specs
from bigiron.study.spec import Spec, Variant
from bigiron.study.store import Study
from bigiron.study.sweep import sweep

app = typer.Typer(
    help="Find, explain and predict scalability regressions of the Linux kernel, without the big machine.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
kernel_app = typer.Typer(help="Kernels to boot: fetch, build, add, list.", no_args_is_help=True)
workload_app = typer.Typer(help="Workloads to run: list, show.", no_args_is_help=True)
app.add_typer(kernel_app, name="kernel")
machine_app = typer.Typer(help="Machines to simulate: list, show, measure.", no_args_is_help=True)
app.add_typer(workload_app, name="workload")
app.add_typer(machine_app, name="machine")


class Format(StrEnum):
    """How a comparison is printed."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"


class ListFormat(StrEnum):
    """How a list is printed."""

    text = "text"
    csv = "csv"
    json = "json"


class ReportFormat(StrEnum):
    """How a report is written."""

    html = "html"
    mail = "mail"
    markdown = "markdown"


class CheckFormat(StrEnum):
    """How a check is printed."""

    text = "text"
    ktap = "ktap"
    junit = "junit"
    csv = "csv"
    json = "json"


class StackFormat(StrEnum):
    """How stacks are written."""

    folded = "folded"
    pprof = "pprof"


class Context(StrEnum):
    """On whose behalf the kernel ran."""

    operation = "operation"
    interrupt = "interrupt"
    kthread = "kthread"
    all = "all"


class Compared(StrEnum):
    """A probe whose counts can be compared."""

    conflicts = "conflicts"
    locks = "locks"
    work = "work"
    operations = "operations"
    functions = "functions"
    blocked = "blocked"
    oncpu = "oncpu"
    efficiency = "efficiency"
    throughput = "throughput"


class Stacked(StrEnum):
    """A probe that records stacks."""

    conflicts = "conflicts"
    work = "work"
    blocked = "blocked"
    oncpu = "oncpu"


class By(StrEnum):
    """Into what stacks are added up."""

    function = "function"
    chain = "chain"


class Weight(StrEnum):
    """What a stack weighs."""

    accesses = "accesses"
    writes = "writes"
    instructions = "instructions"
    microseconds = "microseconds"
    times = "times"
    cost = "cost"
    samples = "samples"


class Scope(StrEnum):
    """Whose memory is recorded."""

    kernel = "kernel"
    user = "user"


class Mode(StrEnum):
    """What tasks are."""

    process = "process"
    thread = "thread"


def main() -> None:
    """Run the command line; failures become one clear line and an exit status."""
    try:
        sys.exit(app(standalone_mode=False))
    except TyperException as error:
        message = " ".join(error.format_message().split())
        if not message:
            sys.exit(2)  # no command: the help was shown
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "bigiron"
        sys.exit(_complain(f"{message} ({command} --help tells more)", 2))
    except UserError as error:
        sys.exit(_complain(str(error), 2))
    except MachineError as error:
        if error.console_tail:
            print(error.console_tail, file=sys.stderr)
        sys.exit(_complain(error.reason, 3))
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output has gone: nothing to say, and nobody to hear it
        sys.exit(141)
    except OSError as error:
        place = f" ({error.filename})" if error.filename else ""
        advice = ": make room and run it again" if error.errno == errno.ENOSPC else ""
        sys.exit(_complain(f"{error.strerror or error}{place}{advice}", 2))


def _say(name: str) -> Callable[[str], None]:
    return lambda step: print(f"{name}: {step}", file=sys.stderr)


def _complain(message: str, status: int) -> int:
    print(f"bigiron: {message}", file=sys.stderr)
    return status


def _version(wanted: bool) -> None:
    if wanted:
        print(f"bigiron {bigiron.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


@kernel_app.command("fetch")
def kernel_fetch(
    name: Annotated[str, typer.Argument(help="debian/6.1, debian/6.1.192-2, …")],
    arch: Annotated[str, typer.Option(help="x86_64 or ppc64le")] = "x86_64",
) -> None:
    """Fetch a kernel of Debian's, its signature verified. What is here is not fetched again.

    Example: `bigiron kernel fetch debian/6.12`
    """
    kernel = kernels.fetch(name, arch, _say(name))
    print(f"{kernel.name}: Linux {kernel.release}, {kernel.version}")


@kernel_app.command("build")
def kernel_build(
    source: Annotated[
        str, typer.Argument(help="a kernel's source tree, TREE@REF of a git tree, or debian/6.1")
    ],
    patch: Annotated[list[Path] | None, typer.Option(help="a patch to apply first; repeat it")] = None,
    config: Annotated[
        list[Path] | None, typer.Option(help="a fragment of kernel configuration to add; repeat it")
    ] = None,
    arch: Annotated[str, typer.Option(help="x86_64 or ppc64le")] = "x86_64",
    name: Annotated[
        str | None, typer.Option(help="what to call it; version and patches unless given")
    ] = None,
) -> None:
    """Build a small kernel from source, with all that the probes need. Only what differs is compiled again.

    Example: `bigiron kernel build ~/linux@v6.1 --patch fix.patch --name fixed`
    """
    try:
        kernel = kernels.build(source, patch or [], config or [], arch, name, _say(source))
    except KeyboardInterrupt:
        raise typer.Exit(_complain("stopped; run it again and it goes on where it was", 130)) from None
    print(f"{kernel.name}: Linux {kernel.release}")


@kernel_app.command("add")
def kernel_add(
    path: Annotated[Path, typer.Argument(help="a bzImage, a vmlinux, a .deb or a built kernel tree")],
    name: Annotated[str | None, typer.Option(help="what to call it; its release unless given")] = None,
) -> None:
    """Add a kernel of your own.

    Example: `bigiron kernel add ~/linux --name patched`
    """
    kernel = kernels.add(path, name)
    print(f"{kernel.name}: Linux {kernel.release}")


@kernel_app.command("list")
def kernel_list(
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """List the kernels that are here."""
    rows = [(k.name, k.arch, k.release, k.version, k.source) for k in kernels.installed()]
    _print(Listing(("kernel", "arch", "release", "version", "source"), rows), format)


@workload_app.command("list")
def workload_list(
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """List the built-in workloads and what each exercises."""
    rows = [(workload.name, workload.description) for workload in workloads.builtin()]
    _print(Listing({"workload": "workload", "operation": "one operation"}, rows), format)


@workload_app.command("show")
def workload_show(name: Annotated[str, typer.Argument(help="a built-in workload")]) -> None:
    """Print a workload's C source."""
    print(workloads.find(name).source.read_text(encoding="utf-8"), end="")


@machine_app.command("list")
def machine_list(
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """List the machines that the simulator knows."""
    columns = {"machine": "machine", "cpus": "CPUs", "nodes": "nodes", "description": "what it is"}
    rows = [
        (machine.name, machine.cpus, machine.nodes, machine.description)
        for machine in machine_files.builtin()
    ]
    _print(Listing(columns, rows), format)


@machine_app.command("show")
def machine_show(name: Annotated[str, typer.Argument(help="a machine, or a file")]) -> None:
    """Print a machine's file: copy it, change it, and give it to --machine. A wrong file is an error.

    Example: `bigiron machine show altix-512`
    """
    machine_files.load(name)
    print(machine_files.text(name), end="")


@machine_app.command("measure")
def machine_measure(
    output: Annotated[Path, typer.Option("-o", "--output", help="the file; made anew")],
) -> None:
    """Measure how long a cache line takes between the CPUs of this machine, and write it as a machine file.

    It takes a few seconds, on CPUs that nobody else uses, please.

    Example: `bigiron machine measure -o here.toml`
    """
    toml = machine_measure.measure(
        machine_measure.Host.here(), output.stem, lambda step: print(step, file=sys.stderr)
    )
    output.write_text(toml, encoding="utf-8")
    machine = machine_files.load(str(output))
    nodes = "1 node" if machine.nodes == 1 else f"{machine.nodes} nodes"
    print(f"{output}: {machine.cpus} CPUs on {nodes}; see `bigiron machine show {output}`")


@app.command()
def run(
    workload: Annotated[
        str | None, typer.Argument(help="a built-in workload, a STUDY.toml, or a study to go on with")
    ] = None,
    kernel: Annotated[list[str] | None, typer.Option(help="debian/6.1, a name or a path; repeat it")] = None,
    workload_file: Annotated[
        Path | None, typer.Option(help="a C file with will-it-scale's testcase() instead of a workload")
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="an external command instead: 'fio --numjobs={tasks} ...'")
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            help="what to read in what it prints: fio, json:PATH, a regular expression with a group"
        ),
    ] = "",
    unit: Annotated[str, typer.Option(help="of the metric")] = "",
    less_is_better: Annotated[bool, typer.Option("--less-is-better", help="of the metric")] = False,
    machine: Annotated[
        str,
        typer.Option(help="vm, host (the machine that bigiron runs on), or another: ssh://USER@HOST:PORT"),
    ] = "vm",
    cpus: Annotated[str | None, typer.Option(help="numbers of CPUs: 2,4,8  [default: 8]")] = None,
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or numbers: 1,8")] = "all",
    mode: Annotated[Mode, typer.Option(help="whether tasks are processes or threads")] = Mode.process,
    topology: Annotated[str, typer.Option(help="sockets=2,nodes=2,cores=4,threads=1, any of them")] = "",
    boot: Annotated[str, typer.Option(help="more kernel parameters")] = "",
    set_: Annotated[list[str] | None, typer.Option("--set", help="PATH=VALUE to write first; repeat")] = None,
    boot_sweep: Annotated[
        list[str] | None,
        typer.Option(help="NAME=V1,V2: a variant for each value of a kernel parameter"),
    ] = None,
    set_sweep: Annotated[
        list[str] | None, typer.Option(help="PATH=V1,V2: a variant for each value of a setting; repeat")
    ] = None,
    reps: Annotated[
        int | None, typer.Option(help="repetitions of every cell  [default: 1; 8 with --until-decided]")
    ] = None,
    until_decided: Annotated[
        bool,
        typer.Option(
            "--until-decided", help="add repetitions until it is known whether throughput differs or not"
        ),
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option(help="a change that does not matter  [default: 0.02, which is 2 %]")
    ] = None,
    max_time: Annotated[
        int | None, typer.Option(min=1, help="seconds after which --until-decided adds nothing more")
    ] = None,
    probe: Annotated[
        str | None,
        typer.Option(
            help="what to record: conflicts,locks,work,functions,blocked,operations,efficiency,throughput  "
            "[default: conflicts; on a real machine throughput]"
        ),
    ] = None,
    scope: Annotated[
        Scope, typer.Option(help="conflicts in the kernel's memory, or the tasks' too")
    ] = Scope.kernel,
    operations: Annotated[int, typer.Option(help="operations a task does while recorded")] = 500,
    functions: Annotated[str, typer.Option(help="kernel functions to trace: NAME,NAME*, or 'auto'")] = "",
    depth: Annotated[int, typer.Option(help="how deep to trace; 1: without what they call")] = 2,
    blocked_min_us: Annotated[
        int, typer.Option(help="microseconds: leave shorter times off the CPU out of the probe blocked")
    ] = 0,
    cpus_to_cycle: Annotated[
        int, typer.Option(min=0, help="CPUs that go or come, in workloads of CPU hotplug; 0: all but one")
    ] = 0,
    allow_hotplug: Annotated[
        bool, typer.Option("--allow-hotplug", help="let them do so on a real machine")
    ] = False,
    arch: Annotated[str, typer.Option(help="architecture of the kernels")] = "x86_64",
    memory: Annotated[int, typer.Option(help="MiB a machine has; 0: by its CPUs")] = 0,
    deadline: Annotated[int, typer.Option(help="seconds a cell may take; 0: by its CPUs")] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="machines side by side; 0: by cores and memory")] = 0,
    live: Annotated[
        bool, typer.Option("--live", help="show the growing report to this machine's browsers meanwhile")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder; made, or gone on with")
    ] = None,
) -> None:
    """Run a workload in virtual machines or on real ones, and keep what was recorded in a study.

    Run it again and only missing or failed cells run.

    Example: `bigiron run open1 --kernel debian/6.1 --kernel debian/6.12 --cpus 8 -o s`
    """
    given = Path(workload) if workload else None
    if given and (given.suffix == ".toml" or (given / "study.toml").is_file()):
        if kernel or workload_file or command or tolerance is not None:
            raise UserError(f"{given} says which kernels, workload and tolerance to use: change them there")
        file = given if given.suffix == ".toml" else given / "study.toml"
        spec = specs.read(file)
        output = output or (given if given.is_dir() else None)
    else:
        if not (workload or workload_file or command):
            raise UserError("no workload: name one (`bigiron workload list`), or give --workload-file F.c")
        if command and workload:
            raise UserError(f"both a workload ({workload}) and --command: give one of them")
        kind = _machine_kind(machine)
        if not kernel and kind == "vm" and not command:
            raise UserError("no kernel: give --kernel debian/6.12, or another (`bigiron kernel list`)")
        if kernel and kind != "vm":
            raise UserError("a real machine runs the kernel that it runs: leave out --kernel, or --machine")
        if workload and workload_file:
            raise UserError(f"both a workload ({workload}) and --workload-file: give one of them")
        shape = topologies.parse(topology)
        spec = Spec(
            workload=workload or "",
            workload_file=str(workload_file) if workload_file else "",
            command=command or "",
            metric=metric,
            unit=unit,
            less_is_better=less_is_better,
            mode=mode.value,
            arch=arch,
            probes=_words(probe or ("metrics" if command else "conflicts" if kind == "vm" else "throughput")),
            machine=kind,
            address=machine if kind == "ssh" else "",
            allow_hotplug=allow_hotplug,
            cpus=_numbers("--cpus", cpus) if cpus is not None else [shape.cpus or 8],
            tasks="all" if tasks == "all" else _numbers("--tasks", tasks),
            topology=str(shape),
            repetitions=(FIRST_LOOK if until_decided else 1) if reps is None else reps,
            tolerance=TOLERANCE if tolerance is None else tolerance,
            operations=operations,
            scope=scope.value,
            cpus_to_cycle=cpus_to_cycle,
            functions=_words(functions),
            depth=depth,
            blocked_min_us=blocked_min_us,
            memory_mib=memory,
            deadline_s=deadline,
            variant=sweep(
                [
                    Variant(name=name or kind, kernel=name, boot=boot, set=set_ or [])
                    for name in kernel or [""]
                ],
                boot_sweep or [],
                set_sweep or [],
            ),
        )
    if output is None:
        raise UserError("no folder for the study: give -o FOLDER")
    if until_decided != (max_time is not None):
        raise UserError("--until-decided and --max-time SECONDS go together: the one ends with the other")
    _run(spec, output, jobs, max_time, live)


@app.command("import")
def import_(
    format: Annotated[
        str, typer.Argument(help=", ".join(f"{one.name} ({one.description})" for one in readers.formats()))
    ],
    path: Annotated[Path, typer.Argument(help="the file or folder with the figures")],
    output: Annotated[Path, typer.Option("-o", "--output", help="the study's folder; made, or added to")],
    variant: Annotated[
        str | None, typer.Option(help="what the figures are of; the file's name unless given")
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="what was run; as the figures say, or the file's name, unless given")
    ] = None,
    cpus: Annotated[
        int | None,
        typer.Option(min=1, help="of the machine; unless it says so or is given, the most tasks"),
    ] = None,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="how many ran, where the figures do not say so")
    ] = None,
) -> None:
    """Make a study of figures that were measured elsewhere, or add them to one.

    Example: `bigiron import will-it-scale old/open1.csv --variant old -o s`
    """
    source = imported.read(readers.find(format), path)
    study, added = imported.add(source, output, variant=variant, workload=workload, cpus=cpus, tasks=tasks)
    cells = "1 cell" if len(added) == 1 else f"{len(added)} cells"
    print(f"{cells} of {added[0].variant.name} in {study.folder}: see `bigiron compare {study.folder}`")


@app.command()
def simulate(
    design: Annotated[str, typer.Argument(help="a design, or list: every design and its parameters")],
    machine: Annotated[
        str | None, typer.Option(help="a machine to simulate (`bigiron machine list`), or a TOML file")
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(help="numbers of CPUs: 2,4,8, or 2..512 by doubling  [default: all]")
    ] = None,
    tasks: Annotated[str, typer.Option(help="'all' (one a CPU), or numbers: 1,8")] = "all",
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE of a parameter, or NAME=VALUE,VALUE: a variant each; repeat"),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="runs of every cell, by chance apart")] = 1,
    warmup: Annotated[float, typer.Option(help="virtual ms before anything is counted")] = 100,
    duration: Annotated[
        float, typer.Option(help="virtual ms that are counted; 0: to the design's own end")
    ] = 100,
    timeline: Annotated[
        float, typer.Option(help="virtual us after the warmup to keep a Perfetto timeline of")
    ] = 0,
    jobs: Annotated[int, typer.Option(min=0, help="runs side by side; 0: by cores")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the study's folder; made, or gone on with")
    ] = None,
    format: Annotated[ListFormat, typer.Option(help="how to print the list")] = ListFormat.text,
) -> None:
    """Simulate a design on a machine of any size, and keep what it did in a study.

    Example: `bigiron simulate rcu-flat --machine altix-512 --set mask=0,3,7 --seeds 3 -o s`
    """
    if design == "list":
        columns = {"design": "design", "name": "", "default": "default", "meaning": "what it is"}
        _print(Listing(columns, simulated.listing()), format)
        return
    if not machine:
        raise UserError("no machine: give --machine altix-512, or another (`bigiron machine list`)")
    if output is None:
        raise UserError("no folder for the study: give -o FOLDER")
    spec = simulated.asking(
        design,
        machine,
        _doublings("--cpus", cpus) if cpus is not None else None,
        "all" if tasks == "all" else _numbers("--tasks", tasks),
        set_,
        seeds=seeds,
        warmup_ms=warmup,
        duration_ms=duration,
        timeline_us=timeline,
    )
    _run(spec, output, jobs)


@app.command()
def case(
    name: Annotated[str, typer.Argument(help=f"a published regression: {', '.join(cases.names())}")],
    quick: Annotated[bool, typer.Option("--quick", help="fewer CPUs: minutes instead of an hour")] = False,
    jobs: Annotated[int, typer.Option(min=0, help="machines side by side; 0: by cores and memory")] = 0,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the case's folder  [default: case-NAME]")
    ] = None,
) -> None:
    """Reproduce a published regression: run its studies, and put the figures beside the published ones.

    Example: `bigiron case hotplug-debugfs --quick`
    """
    chosen = cases.find(name)
    folder = output or Path(f"case-{name}{'-quick' if quick else ''}")
    specs_of = {study: chosen.spec(study, quick) for study in chosen.studies}
    cases.get_kernels(chosen, specs_of.values(), _say(name))
    for study, spec in specs_of.items():
        _run(spec, folder / study, jobs)
    studies = {study: store.open_study(folder / study) for study in chosen.studies}
    report = chosen.measure_up(studies)
    (folder / "report.md").write_text(case_report.markdown(chosen, studies, report), encoding="utf-8")
    print(case_report.text(chosen, studies, report), end="")
    print(f"\nThe report is {folder / 'report.md'}")


def _run(spec: Spec, output: Path, jobs: int, max_time_s: int | None = None, live: bool = False) -> None:
    """Measure what a study lacks; with a time also what it takes to decide how its variants compare."""
    until = monotonic() + (max_time_s or 0)
    workload = programs = None
    if spec.machine == "simulated":
        spec = simulated.resolve(spec)
    else:
        spec, workload = specs.resolve(spec)
        programs = runner.prepare(spec, workload)
    if max_time_s:
        sequential.refuse_undecidable(spec)
    study = store.create(output, spec, workload)
    missing = runner.missing(study)
    if not missing and not max_time_s:
        print(f"every cell of {output} is measured: see `bigiron compare {output}`")
        return
    jobs, undecided = jobs or runner.default_jobs(spec), None
    try:
        with ProgressBar(missing) as bar, _watched(study, bar, live) as progress:
            if max_time_s and programs:
                records, undecided = sequential.run(study, programs, jobs, progress, until)
            else:
                records = runner.run(study, programs, jobs, progress)
    except KeyboardInterrupt:
        raise typer.Exit(_complain(f"stopped; run it again and {output} goes on where it was", 130)) from None
    failures = [record.failure for record in records if record.failure]
    print(
        f"{len(records) - len(failures)} of {len(records)} cells measured{_decided(undecided)}: "
        f"see `bigiron compare {output}`"
    )
    if failures:
        raise typer.Exit(3 if any(failure.kind == "machine" for failure in failures) else 2)


def _decided(undecided: int | None) -> str:
    if undecided is None:
        return ""
    plural = "" if undecided == 1 else "s"
    return f", {undecided} comparison{plural} undecided" if undecided else ", every comparison decided"


@contextmanager
def _watched(study: Study, progress: runner.Progress, live: bool) -> Iterator[runner.Progress]:
    if not live:
        yield progress
        return
    from bigiron.report.live import LiveReport  # here, as no other command should wait for it

    with LiveReport(study, progress) as report:
        print(f"live report: {report.address}", file=sys.stderr, flush=True)
        yield report


@app.command()
def compare(
    study: Annotated[Path, typer.Argument(help="a study")],
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.operation,
    probe: Annotated[
        Compared | None,
        typer.Option(help="what to compare; conflicts if they were recorded, else what was"),
    ] = None,
    paths: Annotated[int, typer.Option(help="call paths to show for each line, in text")] = 0,
    tolerance: Annotated[
        float | None,
        typer.Option(help="of throughput: a change that does not matter; the study's unless given"),
    ] = None,
    metric: Annotated[str | None, typer.Option(help="of throughput: one metric; all unless given")] = None,
    by: Annotated[
        By | None, typer.Option(help="compare what was recorded with stacks by function, or by call chain")
    ] = None,
) -> None:
    """Compare a study's variants: one row a shared cache line, a lock or a function; counts per operation.

    Throughput, which has noise, gets a verdict: changed, unchanged or undecided.

    Example: `bigiron compare s --base debian/6.1 --format markdown`
    """
    opened = store.open_study(study)
    how = dispatch.CompareOptions(
        format.value, base, _contexts(context), paths, by.value if by else None, tolerance, metric
    )
    print(dispatch.compare(opened, (probe or _recorded(opened.spec)).value, how), end="")


@app.command()
def explain(
    study: Annotated[Path, typer.Argument(help="a study")],
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.operation,
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """Say in words what changed between variants, or what will limit the only one, and how to confirm it.

    Example: `bigiron explain s`
    """
    result = comparison.compare_study(store.open_study(study), base, _contexts(context))
    print(explanation.FORMATS[format.value](result), end="")


@app.command()
def check(
    study: Annotated[Path, typer.Argument(help="a study")],
    baseline: Annotated[Path | None, typer.Option(help="hold the study against this file")] = None,
    record: Annotated[Path | None, typer.Option(help="write this file from the study, or renew it")] = None,
    format: Annotated[CheckFormat, typer.Option(help="how to print what was found")] = CheckFormat.text,
) -> None:
    """Fail, with exit status 1, if an operation has more conflicts than a baseline has.

    Example: `bigiron check s --record open1.toml`, and later `bigiron check t --baseline open1.toml`
    """
    if (baseline is None) == (record is None):
        raise UserError("give either --baseline FILE, to check, or --record FILE, to make one")
    opened = store.open_study(study)
    if record:
        print(gate.record(opened, record))
        return
    assert baseline
    checked = gate.check_study(opened, baseline)
    print(gate.FORMATS[format.value](opened.spec.workload, checked), end="")
    if any(point.worse for point in checked):
        raise typer.Exit(1)


@app.command()
def growth(
    study: Annotated[
        Path, typer.Argument(help="a study with three numbers of CPUs or more; five are better")
    ],
    variant: Annotated[str | None, typer.Option(help="one variant; all unless given")] = None,
    at: Annotated[
        int | None, typer.Option(min=2, help="CPUs to predict for; 8 times the most measured unless given")
    ] = None,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.operation,
    probe: Annotated[Compared, typer.Option(help="whose counts grow")] = Compared.conflicts,
) -> None:
    """Tell how the accesses to each shared line, or a function's work, grow with the CPUs, the worst first.

    Example: `bigiron growth s --at 512`
    """
    opened = store.open_study(study)
    counted = "simulation" if opened.spec.machine == "simulated" else probe.value
    result = growth_report.growth_study(opened, variant, at, counted, _contexts(context))
    print(growth_report.FORMATS[format.value](result), end="")


@app.command("knee")
def knee_command(
    study: Annotated[Path, typer.Argument(help="a study with several numbers of tasks; five are better")],
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=2, help="tasks to predict for; twice the most measured unless given")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="one metric; all unless given")] = None,
    format: Annotated[Format, typer.Option(help="how to print it")] = Format.text,
) -> None:
    """Tell how throughput grows with the tasks: its knee, where variants part, and which law it follows.

    Example: `bigiron knee s --at 128`
    """
    scaling = knee_report.knee_study(store.open_study(study), base, at, metric)
    print(knee_report.FORMATS[format.value](scaling), end="")


@app.command()
def export(
    study: Annotated[Path, typer.Argument(help="a study")],
    probe: Annotated[Stacked, typer.Option(help="whose stacks")] = Stacked.conflicts,
    format: Annotated[StackFormat, typer.Option(help="for which tool")] = StackFormat.folded,
    variant: Annotated[str | None, typer.Option(help="which variant, of several")] = None,
    base: Annotated[
        str | None,
        typer.Option(help="another variant: write what both weigh, for a differential flame graph"),
    ] = None,
    cpus: Annotated[int | None, typer.Option(help="number of CPUs; the most measured unless given")] = None,
    tasks: Annotated[int | None, typer.Option(help="number of tasks; the most measured unless given")] = None,
    weight: Annotated[
        Weight | None, typer.Option(help="of a stack; accesses, instructions or microseconds unless given")
    ] = None,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.operation,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the file; standard output unless given")
    ] = None,
) -> None:
    """Write call stacks for flame graphs (flamegraph.pl, inferno, speedscope) or for pprof.

    Example: `bigiron export s --variant debian/6.1 | flamegraph.pl >s.svg`
    """
    opened = store.open_study(study)

    def of(variant: str | None, cpus: int | None, tasks: int | None) -> stacks.Stacks:
        return stacks.stacks_of(
            opened,
            probe.value,
            _contexts(context),
            variant=variant,
            cpus=cpus,
            tasks=tasks,
            weight=weight.value if weight else None,
        )

    chosen = of(variant, cpus, tasks)
    if base is not None:
        if format is StackFormat.pprof:
            raise UserError("pprof compares two files itself (-diff_base): export each without --base")
        encoded = folded.encode_difference(of(base, chosen.cpus, chosen.tasks), chosen)
    else:
        encoded = {StackFormat.folded: folded.encode, StackFormat.pprof: pprof.encode}[format](chosen)
    if output:
        output.write_bytes(encoded)
    elif format is StackFormat.pprof and sys.stdout.isatty():
        raise UserError("pprof's format is no text: give a file with -o FILE")
    else:
        sys.stdout.buffer.write(encoded)
        sys.stdout.buffer.flush()
    print(chosen.summary, file=sys.stderr)


@app.command()
def report(
    study: Annotated[Path, typer.Argument(help="a study, finished or not")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="the file; standard output unless given")
    ] = None,
    format: Annotated[
        ReportFormat, typer.Option(help="a page that opens offline, a mail of 72 columns, or Markdown")
    ] = ReportFormat.html,
    base: Annotated[
        str | None, typer.Option(help="the variant to compare with; the first unless given")
    ] = None,
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.operation,
) -> None:
    """Write a report to show to others: question and answer, curves, tables, flame graphs, environments.

    Example: `bigiron report s -o report.html`
    """
    from bigiron.report import html  # here, as no other command should wait for its templates

    if output is None and format is ReportFormat.html and sys.stdout.isatty():
        raise UserError("a page is no text to read here: give a file with -o report.html")
    document = documents.document_of(store.open_study(study), base, _contexts(context))
    written = {
        ReportFormat.html: html.render,
        ReportFormat.mail: mail.text,
        ReportFormat.markdown: markdown.text,
    }
    text = written[format](document)
    if output:
        output.write_text(text, encoding="utf-8")
    else:
        print(text, end="")


@app.command()
def show(
    study: Annotated[Path, typer.Argument(help="a study")],
    format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text,
) -> None:
    """Show what a study asks, and the identity and state of its cells."""
    print(overview.FORMATS[format.value](store.open_study(study)), end="")


@app.command()
def doctor(format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text) -> None:
    """Say what this machine has and lacks, and how to get it."""
    from bigiron import doctor as diagnosis

    checks = diagnosis.examine()
    columns = {"state": "", "name": "what", "found": "found", "advice": "how to get it"}
    _print(
        Listing(columns, [(check.state, check.name, check.found, check.advice) for check in checks]), format
    )
    if not diagnosis.can_run(checks):
        raise UserError("this machine cannot run bigiron yet: see above")


def _recorded(spec: Spec) -> Compared:
    """What a study is about, where nobody says what to compare."""
    if "metrics" in spec.probes:
        return Compared.throughput
    recorded = [Compared(name) for name in spec.probes if name in set(Compared)]
    if Compared.conflicts in recorded:
        return Compared.conflicts
    return recorded[0] if recorded else Compared.throughput if spec.has_metrics else Compared.conflicts


def _machine_kind(machine: str) -> Literal["vm", "host", "ssh"]:
    if machine.startswith("ssh://"):
        return "ssh"
    if machine == "vm":
        return "vm"
    if machine == "host":
        return "host"
    raise UserError(f"--machine {machine!r}: use vm, host or ssh://USER@HOST")


def _print(list: Listing, format: ListFormat) -> None:
    print(listing.FORMATS[format.value](list), end="")


def _contexts(context: Context) -> tuple[str, ...]:
    return conflicts.CONTEXTS if context is Context.all else (context.value,)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _numbers(option: str, text: str) -> list[int]:
    words = _words(text)
    if not words or not all(word.isdecimal() for word in words):
        raise UserError(f"{option} {text!r}: use whole numbers with commas, for instance 2,4,8")
    return [int(word) for word in words]


def _doublings(option: str, text: str) -> list[int]:
    """Numbers, or FIRST..LAST: the first, its doubles, and the last."""
    first, dots, last = text.partition("..")
    if not dots:
        return _numbers(option, text)
    if not (first.isdecimal() and last.isdecimal()) or not 0 < int(first) <= int(last):
        raise UserError(f"{option} {text!r}: use FIRST..LAST, for instance 2..512, or numbers with commas")
    doubles = range((int(last) // int(first)).bit_length())
    return list(dict.fromkeys([*(int(first) << power for power in doubles), int(last)]))
