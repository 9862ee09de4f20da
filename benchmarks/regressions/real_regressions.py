"""How `bigiron judge` answers reports whose cause is public: docs/validation/regressions/real-regressions.md.

    python benchmarks/regressions/real_regressions.py -o FOLDER            # judges all that are left
    python benchmarks/regressions/real_regressions.py -o FOLDER 03 36      # cases whose names begin so
    python benchmarks/regressions/real_regressions.py -o FOLDER --again 03 # by today's rules, from its counts
    python benchmarks/regressions/real_regressions.py --page               # judges nothing

Cases, patches and mails are in tests/corpus/real. The judgement gets a mail and two kernels that are
called by a checksum. Kernels take a quarter of an hour for each source, then a minute or more for each
patch. Answers are kept in real_regressions.jsonl beside this file, which the page is made from. A case whose
patches and mail have not changed is not judged again; studies and kernels that are there are used.
"""

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec
from corpus import figures, hidden_name, in_words, judged, say

from bigiron import kernels
from bigiron.errors import UserError
from bigiron.judge import second_opinion
from bigiron.judge.second_opinion import Opinion
from bigiron.kernels.configuration import of_root
from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import RobotMail
from bigiron.report import reply_json
from bigiron.study import store
from bigiron.util.numbers import percent_change

HERE = Path(__file__).parent
CORPUS = HERE.parents[1] / "tests" / "corpus" / "real"
PAGE = HERE.parents[1] / "docs/validation/regressions/real-regressions.md"
KEPT = HERE / "real_regressions.jsonl"
CONFIG = [*of_root(), CORPUS / "real.config"]

INTRODUCTION = """\
# Judged on published regressions

Made by `benchmarks/regressions/real_regressions.py`. `tests/corpus/real` has {all} published regressions and
improvements: a patch each that puts the published mechanism back on Debian's source, or takes it
away, and a mail in the kernel test robot's form with the published change. What must be said was
written down before any was measured. The judge gets the mail and two kernels named by checksums.
{apart} cases were held out, and eight judged once: the kind was right in 1 of 5, and none of 3 that
are *neither* was called something. Then a rule was changed: a lock that is held longer by the
instructions of functions under it belongs to the finding of these instructions. **So all that are
judged are cases of development now**, and do not tell how often the rule is right.

**{judged} of {all} are judged.** What was judged with which revision is in
`benchmarks/regressions/real_regressions.jsonl`. By the new rule those were whose counts are kept: 01,
04, 05, 11 and those that were held out. The others have their older answers. Of these the rule
changes 28: on two other builds of its kernels it says *instructions*, `_find_next_zero_bit`, under
`file_lock`, which is not the kind that must be said. With it, the kind is right in one case fewer
than below.

| of those that are judged | all | were held out |
|---|--:|--:|
{scores}
## Judgements

*Report* is the published change of throughput.

| case | report | must be | judged | object named | before, after | right |
|---|--:|---|---|---|--:|---|
"""
PREDICTED = """
## Predicted, and instructions per operation

Predictions are of throughput, from traces, on a machine of the report's shape, with 90 % intervals.
*Inside*: whether the published change is. The report's path-length includes the program's own
instructions; counted are the kernel's.

| case | report | predicted | inside | path-length: report, counted |
|---|--:|--:|---|--:|
"""
WRONG = """
## Wrong, and why

| case | why |
|---|---|
"""
AGAIN = """
## Judged again

| case | why |
|---|---|
"""
WAITING = """
## Not judged yet

{rows}
"""
OURS = """
## What the mails have that was not published

Absolute figures, names, titles and commits are made up: only changes are published, but for 36, 39
and 59. Where a publication does not say more, the mail has what is common:

{rows}
"""


@lru_cache
def _mail_in(file: Path) -> RobotMail:
    return robot_mail.read(file.read_bytes(), file.name)


class Case(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A published report (tests/corpus/real/real.toml says what the fields are)."""

    name: str
    row: str
    what: str
    published: str
    source: str
    kinds: tuple[str, ...]
    objects: tuple[str, ...] = ()
    better: bool | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    held_out: bool = False
    ours: str = ""
    reason: str = ""
    again: str = ""

    @property
    def mail_file(self) -> Path:
        """The mail as a file."""
        return CORPUS / f"{self.name}.eml"

    @property
    def mail(self) -> RobotMail:
        """What is read of it."""
        return _mail_in(self.mail_file)

    @property
    def patches(self) -> tuple[list[Path], list[Path]]:
        """Those of the old kernel, and those of the new one."""
        before, after = ([CORPUS / f"{name}.patch" for name in of] for of in (self.before, self.after))
        return before, after

    @property
    def inputs(self) -> str:
        """A checksum of the mail and of what both kernels are built from."""
        files = [self.mail_file, *self.patches[0], CORPUS / "real.config", *self.patches[1]]
        content = b"\0".join(file.read_bytes() for file in files)
        return hashlib.sha256(self.source.encode() + content).hexdigest()[:16]


class Cases(msgspec.Struct, forbid_unknown_fields=True):
    """real.toml."""

    case: list[Case]


class Answer(msgspec.Struct, frozen=True):
    """The answer to a case."""

    name: str
    inputs: str
    kind: str  # "": the judge failed, or a kernel did
    failure: str = ""
    better: bool | None = None
    object: str = ""
    figures: str = ""
    path_length: tuple[float, float] | None = None  # reported, counted
    predicted: tuple[float, float, float] | None = None  # the change, low and high
    not_predicted: str = ""
    seconds: float = 0.0  # of judging
    building: float = 0.0  # seconds
    date: str = ""
    revision: str = ""


def main() -> None:
    """Judge what is asked for, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("real"), help="where the studies go")
    parser.add_argument("--page", action="store_true", help="judge nothing")
    parser.add_argument(
        "--again", action="store_true", help="from the counts that are there, without predictions"
    )
    parser.add_argument("names", nargs="*", help="how names of cases begin; all unless given")
    asked = parser.parse_args()
    cases = read_cases()
    kept = answers(cases)
    for case in cases:
        wanted = not asked.names or case.name.startswith(tuple(asked.names))
        is_judged = case.name in kept and bool(kept[case.name].kind)
        if wanted and asked.again and is_judged and (asked.output / case.inputs / "study.toml").is_file():
            kept[case.name] = judged_again(case, asked.output / case.inputs, kept[case.name])
            keep(kept)
        elif wanted and not (asked.again or asked.page or is_judged):
            kept[case.name] = answer(case, asked.output)
            keep(kept)
    PAGE.write_text(page(cases, kept), encoding="utf-8")


def read_cases() -> list[Case]:
    """All cases, in the order in which they are judged."""
    return msgspec.toml.decode((CORPUS / "real.toml").read_bytes(), type=Cases).case


def answers(cases: Sequence[Case]) -> dict[str, Answer]:
    """What has been judged, by case, unless its mail or patches have changed since."""
    if not KEPT.exists():
        return {}
    kept = (msgspec.json.decode(line, type=Answer) for line in KEPT.read_bytes().splitlines())
    inputs = {case.name: case.inputs for case in cases}
    return {one.name: one for one in kept if inputs.get(one.name) == one.inputs}


def keep(kept: Mapping[str, Answer]) -> None:
    """A line each."""
    KEPT.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in kept.values()))


def answer(case: Case, output: Path) -> Answer:
    """Build both kernels of a case and judge its mail, blind."""
    began = monotonic()
    try:
        base, new = (_built(case, patches) for patches in case.patches)
    except UserError as error:
        return _dated(Answer(case.name, case.inputs, "", str(error)))
    built = monotonic()
    found, failure = judged(case.mail_file, (base, new), output / case.inputs)
    failed = Answer(case.name, case.inputs, "", failure.replace(f"{output}/", ""))
    one = of_json(case, found) if found else failed
    took = {"seconds": round(monotonic() - built), "building": round(built - began)}
    return _dated(msgspec.structs.replace(one, **took))


def judged_again(case: Case, folder: Path, before: Answer) -> Answer:
    """What a study's counts say of a mail by today's rules, with the prediction that was made of them."""
    study = store.open_study(folder)
    base, new = (variant.name for variant in study.spec.variant)
    opinion = Opinion(case.mail, (base, new), "", "", second_opinion.judged(study, case.mail))
    kept = {name: getattr(before, name) for name in ("predicted", "not_predicted", "seconds", "building")}
    found = of_json(case, msgspec.json.decode(reply_json.as_json(opinion)))
    return _dated(msgspec.structs.replace(found, **kept))


def of_json(case: Case, found: Mapping[str, Any]) -> Answer:
    """What `bigiron judge --format json` says, as far as it is scored."""
    first = found["changes"][0] if found["changes"] else None
    path, predicted = found["path_length"], found["predicted"]
    both = (path["reported"], path["counted"]) if path and path["counted"] is not None else None
    return Answer(
        case.name,
        case.inputs,
        found["kind"],
        better=found["better"],
        object=first["object"] if first else "",
        figures=figures(first) if first else "",
        path_length=both,
        predicted=(predicted["change"], predicted["low"], predicted["high"]) if predicted else None,
        not_predicted=found["not_predicted"] or "",
    )


def _built(case: Case, patches: Sequence[Path]) -> str:
    name = hidden_name(f"real-{case.source.removeprefix('debian/')}", [*patches, CORPUS / "real.config"])
    kernels.build(case.source, patches, CONFIG, "x86_64", name, say)
    return name


def _dated(one: Answer) -> Answer:
    """With the date and our revision; shown as it will be kept."""
    done = subprocess.run(
        ["git", "-C", HERE, "describe", "--always", "--dirty", "--exclude=*"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = msgspec.structs.replace(one, date=f"{datetime.now(UTC):%Y-%m-%d}", revision=done.stdout.strip())
    print(msgspec.json.encode(found).decode(), file=sys.stderr, flush=True)
    return found


def is_right(case: Case, one: Answer) -> dict[str, bool]:
    """What of an answer can be right or wrong, and whether it is.

    Nothing but the kind is to be scored of those that are neither.
    """
    found = {"kind": one.kind in case.kinds}
    if case.objects:
        found["object"] = any(part in one.object for part in case.objects)
    if case.better is not None and one.better is not None:
        found["sign"] = one.better == case.better
    return found


def page(cases: Sequence[Case], kept: Mapping[str, Answer]) -> str:
    """The whole page."""
    done = [(case, kept[case.name]) for case in cases if case.name in kept and kept[case.name].kind]
    head = INTRODUCTION.format(
        all=len(cases), judged=len(done), apart=sum(case.held_out for case in cases),
        scores=_lines(scores(done)),
    )  # fmt: skip
    wrong = [case for case, one in done if not all(is_right(case, one).values())]
    again = [case for case, _ in done if case.again]
    waiting = [
        f"- {_called(case)}" + (f": {kept[case.name].failure}" if case.name in kept else "")
        for case in cases
        if not (case.name in kept and kept[case.name].kind)
    ]
    ours = "\n".join(f"- {case.row}: {case.ours}" for case in cases if case.ours)
    return (
        head
        + _lines(row(case, one) for case, one in done)
        + PREDICTED
        + _lines(predicted_row(case, one) for case, one in done)
        + (WRONG + _lines(f"| {case.name} | {case.reason} |" for case in wrong) if wrong else "")
        + (AGAIN + _lines(f"| {case.name} | {case.again} |" for case in again) if again else "")
        + (WAITING.format(rows="\n".join(waiting)) if waiting else "")
        + OURS.format(rows=ours)
    )


def scores(done: Sequence[tuple[Case, Answer]]) -> Iterator[str]:
    """Rows of what is right, of all and of those that are held out."""
    both = [done, [(case, one) for case, one in done if case.held_out]]
    of_kind = [[(c, a) for c, a in of if c.kinds != ("neither",)] for of in both]
    for what in ("kind", "object", "sign"):
        counted = [[is_right(c, a)[what] for c, a in of if what in is_right(c, a)] for of in of_kind]
        yield _score(f"{what} right, of those that something costs", counted)
    alarms = [[a.kind != "neither" for c, a in of if c.kinds == ("neither",)] for of in both]
    yield _score("a cause named, of those that are *neither*", alarms)
    signs = [[(p[0] > 0) == (p[1] > 0) for _, a in of if (p := a.path_length)] for of in both]
    yield _score("path-length: the same sign as the report", signs)
    inside = [
        [
            a.predicted[1] <= said <= a.predicted[2]
            for c, a in of
            if a.predicted and (said := c.mail.throughput_change) is not None
        ]
        for of in both
    ]
    yield _score("the published change inside the predicted interval", inside)


def _score(what: str, counted: Sequence[Sequence[bool]]) -> str:
    return f"| {what} | " + " | ".join(f"{sum(of)} of {len(of)}" for of in counted) + " |"


def row(case: Case, one: Answer) -> str:
    """A row of the table of judgements."""
    named = f"`{one.object}`" if one.object else ""
    parts = ", ".join(f"`{part}`" for part in case.objects)
    must = " or ".join(case.kinds) + (f": {parts}" if parts else "")
    direction = "" if one.better is None else ", better" if one.better else ", worse"
    said = percent_change(_published(case))
    return (
        f"| {_called(case)} | {said} | {must} | {one.kind}{direction} | {named} | {one.figures} | "
        f"{in_words(is_right(case, one))} |"
    )


def predicted_row(case: Case, one: Answer) -> str:
    """A row of predictions and path-lengths."""
    said = _published(case)
    value, inside = one.not_predicted, ""
    if one.predicted:
        change, low, high = one.predicted
        value = f"{percent_change(change)} ({percent_change(low)} to {percent_change(high)})"
        is_throughput = case.mail.throughput_change is not None
        inside = ("yes" if low <= said <= high else "no") if is_throughput else ""
    path = ", ".join(map(percent_change, one.path_length)) if one.path_length else ""
    return f"| {case.name} | {percent_change(said)} | {value} | {inside} | {path} |"


def _published(case: Case) -> float:
    """The change of throughput, or of a metric that is none."""
    change = case.mail.throughput_change
    return case.mail.change if change is None else change


def _called(case: Case) -> str:
    apart = ", was held out" if case.held_out else ""
    test = case.mail.parameters.get("test") or case.mail.parameters.get("ipc", "")
    return f"{case.row}{apart}: {case.what} ({' '.join([case.mail.benchmark, test]).strip()})"


def _lines(rows: Sequence[str] | Iterator[str]) -> str:
    return "".join(f"{one}\n" for one in rows)


if __name__ == "__main__":
    main()
