"""`bigiron doctor`: check what this machine has and lacks."""

from typing import Annotated

import typer

from bigiron.commands.common.output import InListFormat, print_list
from bigiron.errors import UserError
from bigiron.report.formats.listing import Listing


def doctor(
    format: InListFormat = "text",
    report: Annotated[
        bool, typer.Option("--report", help="versions and states for a bug report, without what is private")
    ] = False,
) -> None:
    """Check what this machine has and lacks, and how to get what is missing."""
    from bigiron import doctor as diagnosis

    if report and format != "text":
        raise UserError("--report is a text: leave out --format")
    checks = diagnosis.examine()
    if report:
        from bigiron.report import doctor as bug_report

        print(bug_report.as_text(checks), end="")
        return
    if format == "text":  # advice below what was found, so that lines stay below 100 columns
        columns = {"state": "", "name": "what", "found": "found, and how to get what is missing"}
        rows = [
            row
            for check in checks
            for row in ((check.state, check.name, check.found), ("", "", f"-> {check.advice}"))
            if row[0] or check.advice
        ]
        print_list(Listing(columns, rows, width=100), format)
    else:
        columns = {"state": "", "name": "what", "found": "found", "advice": "how to get it"}
        print_list(
            Listing(columns, [(check.state, check.name, check.found, check.advice) for check in checks]),
            format,
        )
    if not diagnosis.can_run(checks):
        raise UserError("this machine cannot run bigiron yet: see above")
