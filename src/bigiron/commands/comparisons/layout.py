"""`bigiron layout`: where the fields of a struct lie, what that costs, and where they should lie."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron.analysis.layout import change
from bigiron.architectures import architecture
from bigiron.commands.common.options import Context, InContext, choice, contexts
from bigiron.report import layout as layout_report
from bigiron.results import layout as layout_results
from bigiron.study import store


def layout(
    study: Annotated[Path, typer.Argument(help="folder of a study with the probe layout")],
    what: Annotated[str, typer.Argument(help="'struct NAME', or the name of a variable")],
    move: Annotated[
        list[str] | None,
        typer.Option(help="a field to move: FIELD:after:FIELD or FIELD:before:FIELD; may be repeated"),
    ] = None,
    pad: Annotated[
        list[str] | None,
        typer.Option(help="a field to keep alone in a block of bytes: FIELD:64; may be repeated"),
    ] = None,
    align: Annotated[int | None, typer.Option(help="begin each object at a multiple of these bytes")] = None,
    split: Annotated[
        str | None,
        typer.Option(help="fields to keep apart from all others, in cache lines of their own: FIELD,FIELD"),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="the kernel's source tree: changes are then shown as a diff of the declaration"),
    ] = None,
    variant: Annotated[str | None, typer.Option(help="the variant to look at  [default: the first]")] = None,
    machine: Annotated[
        str | None,
        typer.Option(help="predict what transfers take on this machine (`bigiron machine list`)"),
    ] = None,
    context: InContext = Context.process,
    format: Annotated[str, choice(layout_report.FORMATS, "output format")] = "text",
) -> None:
    """Show where the fields of a struct lie in cache lines, what that costs, and where they should lie.

    Example: `bigiron layout s 'struct inode' --move i_sb:after:i_flags`
    """
    opened = store.open_study(study)
    line_bytes = architecture(opened.spec.arch).line_bytes
    changes: list[change.Change] = [
        *map(change.move, move or []),
        *map(change.pad, pad or []),
        *([change.split(split, line_bytes)] if split is not None else []),
        *([change.align(align)] if align is not None else []),
    ]
    found = layout_results.layout_study(opened, what, changes, variant, contexts(context), machine, source)
    print(layout_report.FORMATS[format](found), end="")
