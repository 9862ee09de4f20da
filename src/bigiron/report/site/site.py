"""A history as a site: static pages that need no server and no network (docs/howto/follow-releases.md)."""

from collections.abc import Iterator
from pathlib import Path

import bigiron
from bigiron.history.database import History
from bigiron.report.formats.html import source, style_of
from bigiron.report.site import feed, folder, home, objects, release, workload
from bigiron.report.site import object as objects_page
from bigiron.report.site.page import SitePage, files
from bigiron.report.site.reading import HistoryReader


def write(history: History, to: Path) -> tuple[int, int]:
    """Write a history's site to a folder, whole or not at all; how many pages it has, and bytes."""
    reading = HistoryReader(history)
    every = list(pages(reading))
    kernels = ", ".join(kernel.name for kernel in reading.kernels)
    about = {"made_by": f"bigiron {bigiron.__version__}", "measured": reading.measured}
    return len(every), folder.write(to, _files(reading, every, kernels), about)


def pages(reading: HistoryReader) -> Iterator[SitePage]:
    """Every page of a site."""
    yield home.page(reading)
    yield objects.page(reading)
    yield from (release.page(reading, kernel) for kernel in reading.kernels)
    yield from (workload.page(reading, one) for one in reading.workloads if reading.most_cpus(one))
    yield from (objects_page.page(reading, name) for name in reading.objects)


def _files(reading: HistoryReader, every: list[SitePage], kernels: str) -> Iterator[tuple[str, bytes]]:
    for page in every:
        yield from files(page, kernels)
    yield feed.FILE, feed.feed(reading)
    yield "style.css", (style_of("page") + _source("site.css")).encode()
    yield "site.js", (source("page.js") + _source("site.js")).encode()


def _source(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
