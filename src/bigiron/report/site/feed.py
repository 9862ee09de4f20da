"""An Atom feed (RFC 4287) of what each kernel changed in each workload."""

import uuid
from datetime import datetime
from xml.etree import ElementTree

from bigiron.history.records import KernelRecord, WorkloadRecord
from bigiron.report.site import address, words
from bigiron.report.site.reading import HistoryReader
from bigiron.report.site.workload import why
from bigiron.util.numbers import short_count

FILE = "feed.xml"
_ATOM = "http://www.w3.org/2005/Atom"
_NAMES = uuid.UUID(
    "6f0f8a52-6e5c-5b52-9c40-2f8d1c3f2f6e"
)  # entries keep their identifiers wherever the site is
_MOST = 200


def feed(reading: HistoryReader) -> bytes:
    """The newest entries, the newest kernel's first."""
    root = ElementTree.Element("feed", {"xmlns": _ATOM, "xml:lang": "en"})
    _add(root, "id", _urn("feed"))
    _add(root, "title", "bigiron history: what each kernel changed")
    _add(root, "updated", _time(reading.measured))
    ElementTree.SubElement(_add(root, "author"), "name").text = "bigiron history"
    ElementTree.SubElement(root, "link", {"rel": "self", "href": FILE, "type": "application/atom+xml"})
    ElementTree.SubElement(root, "link", {"rel": "alternate", "href": "index.html", "type": "text/html"})
    for kernel, workload in _changed(reading)[:_MOST]:
        root.append(_entry(reading, kernel, workload))
    ElementTree.indent(root, " ")
    return (
        f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'.encode()
    )


def _changed(reading: HistoryReader) -> list[tuple[KernelRecord, WorkloadRecord]]:
    """The largest change of each kernel first."""
    found: list[tuple[KernelRecord, WorkloadRecord]] = []
    for kernel in reversed(reading.kernels):
        totals = {
            c.workload: abs(c.count_after - c.count_before)
            for c in reading.changes(kernel)
            if c.what == "lines"
        }
        found += [(kernel, reading.workload(one)) for one in sorted(totals, key=lambda one: -totals[one])]
    return found


def _entry(reading: HistoryReader, kernel: KernelRecord, workload: WorkloadRecord) -> ElementTree.Element:
    total = next(c for c in reading.changes(kernel, workload) if c.what == "lines")
    before = reading.kernel(total.before)
    point = reading.point(workload, kernel, total.cpus)
    assert point
    entry = ElementTree.Element("entry")
    _add(entry, "id", _urn("change", workload.name, before.name, kernel.name, str(total.cpus)))
    title = (
        f"{workload.name} on {kernel.name}: {short_count(total.count_before)} → "
        f"{short_count(total.count_after)} "
        f"accesses per operation with {total.cpus} CPUs "
        f"({words.change(total.count_before, total.count_after)} since {before.name})"
    )
    _add(entry, "title", title)
    _add(entry, "updated", _time(point.measured))
    ElementTree.SubElement(
        entry,
        "link",
        {"rel": "alternate", "href": f"{address.workload(workload.name)}.html", "type": "text/html"},
    )
    ElementTree.SubElement(
        entry, "category", {"term": "worse" if total.count_after > total.count_before else "better"}
    )
    _add(entry, "summary", why(reading, workload, kernel))
    return entry


def _add(parent: ElementTree.Element, name: str, text: str | None = None) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, name)
    element.text = text
    return element


def _urn(*names: str) -> str:
    """The same identifier for the same names, in every site and at any time."""
    return uuid.uuid5(_NAMES, "\n".join(names)).urn


def _time(measured: str) -> str:
    """As Atom has it (RFC 3339)."""
    return datetime.fromisoformat(measured).isoformat(timespec="seconds")
