"""`bigiron root`: list, make and drop the root file systems of virtual machines."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from bigiron import roots
from bigiron.commands.common.output import InListFormat, print_list, say
from bigiron.errors import UserError
from bigiron.report.formats.listing import Listing
from bigiron.util.numbers import size

_COLUMNS = ("root", "arch", "size, MiB", "packages", "made (UTC)", "image")
_DIGITS = 12  # of a checksum, as shown

app = typer.Typer(
    help="List, make and drop the root file systems that programs run in.", no_args_is_help=True
)


@app.command("list")
def list_(format: InListFormat = "text") -> None:
    """List the roots in the cache."""
    rows = [
        (
            record.name,
            record.arch,
            str(record.size_bytes >> 20),
            str(len(record.packages) or ""),
            f"{datetime.fromtimestamp(record.made, UTC):%Y-%m-%d %H:%M}",
            record.sha256[:_DIGITS],
        )
        for record in roots.records()
    ]
    print_list(Listing(_COLUMNS, rows), format)


@app.command("make")
def make(
    spec: Annotated[
        str,
        typer.Argument(
            help="debian:SUITE+PACKAGE+..., a folder, a tar archive, or a container's image as an archive"
        ),
    ],
    arch: Annotated[str, typer.Option(help="x86_64 or ppc64le")] = "x86_64",
    again: Annotated[
        bool, typer.Option("--again", help="make it even if it is here, of newer packages")
    ] = False,
) -> None:
    """Make a root, if it is not here yet. `bigiron run --root` does so too.

    Example: `bigiron root make debian:trixie+stress-ng`
    """
    root = roots.resolve(spec, arch, say(spec), again=again)
    print(f"{root.name}: {size(root.size_bytes)}, {root.sha256[:_DIGITS]}")


@app.command("drop")
def drop(
    name: Annotated[
        str | None, typer.Argument(help="a root's name, or the start of its image's checksum")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="drop all roots")] = False,
) -> None:
    """Drop a root: the next cell that needs it makes it again.

    Example: `bigiron root drop debian:trixie+stress-ng`
    """
    if (name is None) != all_:
        raise UserError("give the name of a root (`bigiron root list`), or --all")
    dropped = roots.drop(name)
    print(
        "\n".join(f"dropped {one.name}: {size(one.size_bytes)}" for one in dropped) or "there were no roots"
    )
