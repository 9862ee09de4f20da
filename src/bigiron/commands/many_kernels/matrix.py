"""`bigiron matrix`: find the pairs of commuting system calls that share cache lines."""

import dataclasses
import sys
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from bigiron.architectures import X86_64
from bigiron.commands.common.complaints import stopped
from bigiron.commands.common.options import Jobs, RunByDefault, choice
from bigiron.commands.common.output import say
from bigiron.errors import MachineError, UserError
from bigiron.matrix import listing, machine, store
from bigiron.matrix import run as runner
from bigiron.matrix.model import situations
from bigiron.matrix.model.calls import CALLS
from bigiron.matrix.run import MatrixProgress
from bigiron.report import matrix as report
from bigiron.util.english import plural

_MOST_BYTES = 64 << 20


app = typer.Typer(
    cls=RunByDefault,
    no_args_is_help=True,
    help="Find commuting system calls that share cache lines: `bigiron matrix KERNEL... -o DIR`.",
)

_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="the matrix's folder")]
_Arch = Annotated[str, typer.Option(help="architecture of the kernels: x86_64, aarch64 or ppc64le")]
_Number = Annotated[int, typer.Argument(metavar="TEST", help="the test's number")]


@app.command()
def run(
    kernel: Annotated[list[str], typer.Argument(help="one or more kernels: debian/6.12, a name or a path")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="the matrix's folder: a new one, or one to continue")
    ],
    fs: Annotated[
        str, typer.Option(help="file system of the tests' files: tmpfs, ext4, btrfs, ...")
    ] = "tmpfs",
    tests: Annotated[
        Path | None,
        typer.Option(
            help="run the tests in this file (docs/explanation/commutativity.md) instead of all situations"
        ),
    ] = None,
    extended: Annotated[
        bool,
        typer.Option(
            "--extended", help="instead of the 18 calls test others: futexes, epoll, fork, sockets, ..."
        ),
    ] = False,
    cpus: Annotated[
        int,
        typer.Option(help="more than 2: repeat the tests that are conflict-free on 2 CPUs on this many CPUs"),
    ] = store.PAIR,
    arch: _Arch = X86_64.name,
    jobs: Jobs = 0,
) -> None:
    """Run the tests that have not yet run on these kernels, and show all results.

    Example: `bigiron matrix debian/6.12 -o m`
    """
    if tests and extended:
        raise UserError("--extended and --tests both choose the tests to run: give one of them")
    family = situations.EXTENDED if extended else situations.COMMUTER
    places = runner.places(kernel, arch, fs, say("kernel"), cpus)
    try:
        matrix = store.create(output, _tests(tests, output, family), runner.identity(arch))
        with matrix.writing():
            pairs = [dataclasses.replace(place, cpus=store.PAIR) for place in places]
            left_out = 0
            for wanted in dict.fromkeys((tuple(pairs), tuple(places))):
                at_once = jobs or machine.side_by_side(wanted[0].cpus)
                left_out = left_out or runner.run_missing(matrix, wanted, at_once, _show)
    except KeyboardInterrupt:
        raise stopped(output) from None
    print(report.as_text(report.document(matrix)), end="")
    if left_out:
        raise MachineError(f"{plural(left_out, 'test')} left out: the same command tries them again")


@app.command()
def show(
    folder: _Folder,
    pair: Annotated[str, typer.Option(help="show the tests of two calls, for instance open/unlink")] = "",
    format: Annotated[str, choice(report.FORMATS, "output format")] = "text",
) -> None:
    """Show the results: the table of pairs, the shares, the shared objects and the changes.

    Example: `bigiron matrix show m --pair open/unlink`
    """
    matrix = store.open_matrix(folder)
    if not pair:
        print(report.FORMATS[format](report.document(matrix)), end="")
        return
    one, other = sorted(pair.split("/")) if pair.count("/") == 1 else ("", "")
    document = report.document(matrix, (one, other))
    if not document.tests:
        raise UserError(
            f"--pair {pair}: {folder} has no test of this pair; its calls are {', '.join(document.calls)}"
        )
    print(
        report.pair_as_text(document, (one, other)) if format == "text" else report.FORMATS[format](document),
        end="",
    )


@app.command()
def test(
    folder: _Folder,
    number: _Number,
    kernel: Annotated[
        str,
        typer.Option(help="run the test again, alone, on this kernel instead of showing its stored result"),
    ] = "",
    fs: Annotated[
        str, typer.Option(help="with --kernel: file system of the test's files  [default: tmpfs]")
    ] = "",
    cpus: Annotated[
        int, typer.Option(help="with --kernel: number of CPUs that make calls at once")
    ] = store.PAIR,
    arch: Annotated[
        str, typer.Option(help="with --kernel: its architecture: x86_64, aarch64 or ppc64le")
    ] = X86_64.name,
) -> None:
    """Show one test, its calls and the cache lines that they share, or run it alone.

    Example: `bigiron matrix test m 17 --kernel debian/6.12`
    """
    matrix = store.open_matrix(folder)
    found = next((one for one in matrix.tests if one.number == number), None)
    if not found:
        raise UserError(f"{folder} has no test {number}: it has {len(matrix.tests)}, see bigiron matrix show")
    for option, given, usual in (("fs", fs, ""), ("cpus", cpus, store.PAIR), ("arch", arch, X86_64.name)):
        if given != usual and not kernel:
            raise UserError(f"--{option} {given}: needs --kernel, which runs the test again")
    if kernel:
        (place,) = runner.places([kernel], arch, fs or "tmpfs", say("kernel"), cpus)
        (outcome,) = machine.run(place, [found], 0, Event(), lambda _stage: None)
        name = store.PlaceRecord.of(place.kernel, place.file_system.name, cpus).name
        print(report.test_as_text(found, {name: outcome}), end="")
        return
    outcomes = {
        column.place.name: column.outcomes[number] for column in matrix.columns if number in column.outcomes
    }
    print(report.test_as_text(found, outcomes), end="")


@app.command()
def page(
    folder: _Folder,
    output: Annotated[Path, typer.Option("-o", "--output", help="the HTML file to write")],
) -> None:
    """Write the results as one HTML page that needs no network, from pairs to tests to cache lines.

    Example: `bigiron matrix page m -o matrix.html`
    """
    from bigiron.report import matrix_page  # imported here, as its templates take time to load

    matrix = store.open_matrix(folder)
    output.write_text(matrix_page.as_html(report.document(matrix), str(folder)), encoding="utf-8")


def _tests(file: Path | None, output: Path, family: situations.Family) -> str:
    """The tests of the file; else those of the folder; else all tests of the family."""
    if file:
        try:
            content = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file} cannot be read: {error.strerror}") from None
        if len(content) > _MOST_BYTES:
            raise UserError(f"{file} has more than {_MOST_BYTES >> 20} MiB")
        text = content.decode(errors="replace")
        listing.read(text, str(file))
        return text
    if (output / "matrix.json").exists():
        matrix = store.open_matrix(output)
        if family is situations.EXTENDED and {test.a[0].name for test in matrix.tests} <= CALLS.keys():
            raise UserError(f"--extended: {output} was made with other tests: use another folder")
        return matrix.text
    print("finding all situations in which two calls commute", file=sys.stderr)
    return "\n".join(map(str, situations.tests(family)))


def _show(progress: MatrixProgress) -> None:
    if sys.stderr.isatty():
        end = "\n" if progress.stage == "kept" else "\r"
        print(
            f"{progress.place}: {progress.done} of {progress.all} tests; {progress.stage:<40}",
            end=end,
            file=sys.stderr,
        )
    elif progress.stage == "kept":
        print(f"{progress.place}: {progress.done} of {progress.all} tests", file=sys.stderr)
