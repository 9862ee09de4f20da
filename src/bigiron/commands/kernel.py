"""`bigiron kernel`: the kernels to boot."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import kernels
from bigiron.commands.complaints import complain
from bigiron.commands.options import Fragments, ListFormat
from bigiron.commands.output import print_list, say
from bigiron.report.formats.listing import Listing

app = typer.Typer(help="Kernels to boot: fetch, build, add, list.", no_args_is_help=True)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="debian/6.1, debian/6.1.192-2, …")],
    arch: Annotated[str, typer.Option(help="x86_64 or ppc64le")] = "x86_64",
) -> None:
    """Fetch a kernel of Debian's, its signature verified. What is here is not fetched again.

    Example: `bigiron kernel fetch debian/6.12`
    """
    kernel = kernels.fetch(name, arch, say(name))
    print(f"{kernel.name}: Linux {kernel.release}, {kernel.version}")


@app.command("build")
def build(
    source: Annotated[
        str, typer.Argument(help="a kernel's source tree, TREE@REF of a git tree, or debian/6.1")
    ],
    patch: Annotated[list[Path] | None, typer.Option(help="a patch to apply first; repeat it")] = None,
    config: Fragments = None,
    arch: Annotated[str, typer.Option(help="x86_64 or ppc64le")] = "x86_64",
    name: Annotated[
        str | None, typer.Option(help="what to call it; version and patches unless given")
    ] = None,
) -> None:
    """Build a small kernel from source, with all that the probes need. Only what differs is compiled again.

    Example: `bigiron kernel build ~/linux@v6.1 --patch fix.patch --name fixed`
    """
    try:
        kernel = kernels.build(source, patch or [], config or [], arch, name, say(source))
    except KeyboardInterrupt:
        raise typer.Exit(complain("stopped; run it again and it goes on where it was", 130)) from None
    print(f"{kernel.name}: Linux {kernel.release}")


@app.command("add")
def add(
    path: Annotated[Path, typer.Argument(help="a bzImage, a vmlinux, a .deb or a built kernel tree")],
    name: Annotated[str | None, typer.Option(help="what to call it; its release unless given")] = None,
) -> None:
    """Add a kernel of your own.

    Example: `bigiron kernel add ~/linux --name patched`
    """
    kernel = kernels.add(path, name)
    print(f"{kernel.name}: Linux {kernel.release}")


@app.command("list")
def list_(format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text) -> None:
    """List the kernels that are here."""
    rows = [(k.name, k.arch, k.release, k.version, k.source) for k in kernels.installed()]
    print_list(Listing(("kernel", "arch", "release", "version", "source"), rows), format)
