"""`bigiron doctor`: what this machine has and lacks."""

from typing import Annotated

import typer

from bigiron.commands.options import ListFormat
from bigiron.commands.output import print_list
from bigiron.errors import UserError
from bigiron.report.formats.listing import Listing


def doctor(format: Annotated[ListFormat, typer.Option(help="how to print it")] = ListFormat.text) -> None:
    """Say what this machine has and lacks, and how to get it."""
    from bigiron import doctor as diagnosis

    checks = diagnosis.examine()
    columns = {"state": "", "name": "what", "found": "found", "advice": "how to get it"}
    print_list(
        Listing(columns, [(check.state, check.name, check.found, check.advice) for check in checks]), format
    )
    if not diagnosis.can_run(checks):
        raise UserError("this machine cannot run bigiron yet: see above")
