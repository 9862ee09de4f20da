"""A check in KTAP, the kernel's own test format: Documentation/dev-tools/ktap.rst, version 1."""

from bigiron.gate.check_lines import UNDECIDED, CheckedPoint


def as_ktap(workload: str, checked: list[CheckedPoint]) -> str:
    """A test for each point, in it one for each finding; diagnostics stand before what they are about."""
    lines = ["KTAP version 1", f"1..{len(checked)}"]
    for number, point in enumerate(checked, 1):
        if point.findings or point.left_out:
            lines += ["  " + line for line in _lines_of(point)]
        if point.failed:
            lines.append(f"# {_plain(point.failed)}")
        result = "not ok" if point.worse or point.failed else "ok"
        skip = f" # SKIP {_plain(point.skipped)}" if point.skipped else ""
        lines.append(f"{result} {number} {_plain(f'{workload}, {point.place}')}{skip}")
    return "\n".join(lines) + "\n"


def _lines_of(point: CheckedPoint) -> list[str]:
    lines = ["KTAP version 1", f"1..{len(point.findings) + len(point.left_out)}"]
    for number, finding in enumerate(point.findings, 1):
        if finding.worse:
            lines.append(f"# {_plain(finding.words)}")
            lines.append(f"# {_plain(finding.by)}")
        skip = f" # SKIP may be worse: {UNDECIDED}" if finding.may_be_worse else ""
        lines.append(f"{'not ok' if finding.worse else 'ok'} {number} {_plain(finding.name)}{skip}")
    for number, (probe, why) in enumerate(point.left_out.items(), len(point.findings) + 1):
        lines.append(f"ok {number} {_plain(probe)} # SKIP not compared: {_plain(why)}")
    return lines


def _plain(text: str) -> str:
    """One line without a hash sign, after which a parser would look for a directive."""
    return " ".join(text.replace("#", " ").split())
