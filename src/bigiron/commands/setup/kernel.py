"""`bigiron kernel`: fetch, build, add and list kernels."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import kernels
from bigiron.commands.common.complaints import stopped
from bigiron.commands.common.options import Fragments
from bigiron.commands.common.output import InListFormat, print_list, say
from bigiron.report.formats.listing import Listing

app = typer.Typer(help="Fetch, build, add and list kernels to boot.", no_args_is_help=True)


@app.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(help="debian/6.12, ubuntu/24.04, fedora/43, …")],
    arch: Annotated[str, typer.Option(help="x86_64, aarch64 or ppc64le")] = "x86_64",
) -> None:
    """Fetch a distribution's kernel and verify its signature. A kernel that is present is not fetched again.

    Example: `bigiron kernel fetch debian/6.12`
    """
    kernel = kernels.fetch(name, arch, say(name))
    print(f"{kernel.name}: Linux {kernel.release}, {kernel.version}")


@app.command("build")
def build(
    source: Annotated[
        str, typer.Argument(help="a kernel source tree, TREE@REF in a git tree, or debian/6.1")
    ],
    patch: Annotated[list[Path] | None, typer.Option(help="a patch to apply first; may be repeated")] = None,
    config: Fragments = None,
    arch: Annotated[str, typer.Option(help="x86_64, aarch64 or ppc64le")] = "x86_64",
    name: Annotated[
        str | None, typer.Option(help="name of the kernel  [default: its version and patches]")
    ] = None,
) -> None:
    """Build a small kernel from source with what the probes need. Only what changed is compiled again.

    Example: `bigiron kernel build ~/linux@v6.1 --patch fix.patch --name fixed`
    """
    try:
        kernel = kernels.build(source, patch or [], config or [], arch, name, say(source))
    except KeyboardInterrupt:
        raise stopped("the build") from None
    print(f"{kernel.name}: Linux {kernel.release}")


@app.command("add")
def add(
    path: Annotated[
        Path,
        typer.Argument(
            help="a bzImage, an Image, a vmlinux, a .deb, .rpm, .pkg.tar.zst, or a built kernel tree"
        ),
    ],
    name: Annotated[str | None, typer.Option(help="name of the kernel  [default: its release]")] = None,
) -> None:
    """Add your own kernel.

    Example: `bigiron kernel add ~/linux --name patched`
    """
    kernel = kernels.add(path, name)
    print(f"{kernel.name}: Linux {kernel.release}")
    if lacks := kernels.lacks(path):
        say(kernel.name)(f"its package has no {'; no '.join(lacks)}")


@app.command("list")
def list_(format: InListFormat = "text") -> None:
    """List the installed kernels."""
    rows = [(k.name, k.arch, k.release, k.version, k.source) for k in kernels.installed()]
    print_list(Listing(("kernel", "arch", "release", "version", "source"), rows), format)
