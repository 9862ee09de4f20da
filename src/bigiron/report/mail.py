"""What was read of a report, before it is judged."""

from collections.abc import Sequence

from bigiron.judge.regressions import NamedRegression
from bigiron.readers.robot_mail import RobotMail


def understood(mail: RobotMail, further: Sequence[NamedRegression] = ()) -> str:
    """What is wrong with a mail, its lines that were not understood, and what else it names."""
    lines = [f"{note}\n" for note in mail.notes]
    lines += [f"not understood, line {at}: {text}\n" for at, text in mail.unknown]
    if mail.more_unknown:
        lines.append(f"not understood: {mail.more_unknown} more lines\n")
    if not mail.figures and not mail.notes:
        lines.append("the report has no table of figures: it may be truncated\n")
    lines += [f"also reported: {one.described}: --metric {one.number} judges it\n" for one in further]
    return "".join(lines)
