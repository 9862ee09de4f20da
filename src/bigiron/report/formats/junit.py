"""A check as JUnit XML, which most CI systems show."""

import re
from xml.etree import ElementTree

from bigiron.gate.check_lines import UNDECIDED, CheckedPoint

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 has no way to write, not even escaped."""


def as_junit(workload: str, checked: list[CheckedPoint]) -> str:
    """A suite for each point, in it a case for each finding."""
    root = ElementTree.Element("testsuites", {"name": "bigiron check"} | _totals(checked))
    for point in checked:
        name = _written(f"{workload}, {point.place}")
        group = name.replace(".", "_")  # readers take what stands before a dot for a package
        suite = ElementTree.SubElement(root, "testsuite", {"name": name} | _totals([point]))
        if point.skipped:
            case = ElementTree.SubElement(suite, "testcase", classname=group, name="all of it")
            ElementTree.SubElement(case, "skipped", message=_written(point.skipped))
        if point.failed:
            case = ElementTree.SubElement(suite, "testcase", classname=group, name="all of it")
            ElementTree.SubElement(case, "error", message=_written(point.failed))
        for probe, why in point.left_out.items():
            case = ElementTree.SubElement(suite, "testcase", classname=group, name=_written(probe))
            ElementTree.SubElement(case, "skipped", message=_written(f"not compared: {why}"))
        for finding in point.findings:
            case = ElementTree.SubElement(suite, "testcase", classname=group, name=_written(finding.name))
            if finding.worse:
                failure = ElementTree.SubElement(case, "failure", message=_written(finding.words))
                failure.text = _written(finding.by)
            if finding.may_be_worse:
                ElementTree.SubElement(case, "skipped", message=f"may be worse: {UNDECIDED}")
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _totals(checked: list[CheckedPoint]) -> dict[str, str]:
    left_out = sum(bool(point.skipped) + len(point.left_out) for point in checked)
    skipped = left_out + sum(len(point.undecided) for point in checked)
    errors = sum(bool(point.failed) for point in checked)
    return {
        "tests": str(left_out + errors + sum(len(point.findings) for point in checked)),
        "failures": str(sum(len(point.worse) for point in checked)),
        "errors": str(errors),
        "skipped": str(skipped),
    }


def _written(text: str) -> str:
    return _NOT_XML.sub("?", text)
