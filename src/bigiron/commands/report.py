"""`bigiron report`: a study as one page."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bigiron.commands.options import Context, MeasuredThere, OneTask, contexts, refuse_rate
from bigiron.errors import UserError
from bigiron.readers import measured_points
from bigiron.report.formats import markdown
from bigiron.report.study import document as documents
from bigiron.report.study import mail
from bigiron.results import prediction
from bigiron.study import store


class ReportFormat(StrEnum):
    """How a report is written."""

    html = "html"
    mail = "mail"
    markdown = "markdown"


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
    context: Annotated[Context, typer.Option(help="on whose behalf the kernel ran")] = Context.process,
    machine: Annotated[
        str | None,
        typer.Option(help="predict throughput there too, and rank lines by what they cost there"),
    ] = None,
    one_task: OneTask = None,
    measured: MeasuredThere = None,
) -> None:
    """Write a report to show to others: question and answer, curves, tables, flame graphs, environments.

    Example: `bigiron report s -o report.html`
    """
    from bigiron.report.formats import html  # here, as no other command should wait for its templates

    if output is None and format is ReportFormat.html and sys.stdout.isatty():
        raise UserError("a page is no text to read here: give a file with -o report.html")
    opened = store.open_study(study)
    predicted = None
    if machine:
        refuse_rate(one_task)
        there = measured_points.read(measured, one_task) if measured else None
        predicted = prediction.predict(opened, machine, [], one_task=one_task, measured=there)
    elif one_task is not None or measured:
        raise UserError("--one-task and --measured are of a machine: name it with --machine")
    document = documents.document_of(opened, base, contexts(context), predicted)
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
