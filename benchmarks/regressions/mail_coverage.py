"""Which of the kernel test robot's mails `bigiron judge` maps to something that runs, with nothing given.

    .venv/bin/python benchmarks/regressions/mail_coverage.py REPORTS.csv
        [--run FOLDER [--kernel OLD --kernel NEW] [--only REGEX]]

Writes docs/validation/regressions/mails.md. Families, their numbers of reports and their tests are in
mail_families.toml. REPORTS.csv, which is not in this repository, has a published report in each row, with the
columns `id`, `benchmark and parameters`, `machine`.

With --run, an example of each family is judged first, on two kernels, in FOLDER. What comes of it is written
to mail_examples.csv beside this file; an example that is there is not judged again. The file exists only
after such a run: without it, all of the page's column `judged` says no.
"""

import argparse
import csv
import json
import re
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from bigiron.errors import UserError
from bigiron.util.parent_death import bigiron_itself
from bigiron.workloads.of_benchmark import workload_of
from bigiron.workloads.of_benchmark.mapped import INSTEAD, SUITE
from bigiron.workloads.registry import names

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/validation/regressions/mails.md"
EXAMPLES = HERE / "mail_examples.csv"
ALL_REPORTS = 161
FIELDS = ("family", "ran", "on", "kind", "minutes", "date")
CPUS = "8"
OWN = "no benchmark of a suite: a program of the reporter's own"
_MODES = {"process": "process", "processes": "process", "thread": "thread", "threads": "thread"}

INTRODUCTION = """\
# Robot's mails: which are mapped

Made by `benchmarks/regressions/mail_coverage.py` on {date}. *Mapped* means: from the mail and two kernels
alone, `bigiron judge` finds a built-in workload or a program of Debian's {suite} that does what the report's
benchmark does. It does not mean that the judgement is right ([that](judge.md) is measured elsewhere), nor
that all that is mapped was run: the last column says which example was.

## By benchmark

Of {all} regressions of 2023 to 2026 only the benchmark is known. So the tests that the robot's published
jobs run of each benchmark stand for them: its reports count as mapped in the proportion of its tests that
are. Tests of unixbench and aim9 that only compute in user mode are left out of that.
**{mapped:.0f} of {all} reports, {share:.0%}, are mapped.**

| benchmark | reports | tests mapped | reports mapped | example | judged |
|---|---|---|---|---|---|
"""
NOT_MAPPED = """
## What is not mapped, by benchmark

| benchmark | tests | why |
|---|---|---|
"""
ROWS = """
## Published reports

{mapped} of {all} reports whose benchmark is published are mapped.

| id | benchmark | runs | differs |
|---|---|---|---|
"""


class Family(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A benchmark, how many of the reports are of it, and the tests that the robot's jobs run of it."""

    name: str
    reports: int
    tests: str
    key: str = "test"
    parameters: dict[str, str] = {}
    example: str = ""

    def all_parameters(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Each test, with the parameters of a report of it."""
        for test in self.tests.split() or [""]:
            yield test, self.of(test)

    def of(self, test: str) -> dict[str, str]:
        """The parameters of a report of a test."""
        return self.parameters | ({self.key: test} if test else {})


class Families(msgspec.Struct, forbid_unknown_fields=True):
    """mail_families.toml."""

    family: list[Family]


@dataclass(frozen=True)
class Answer:
    """What a report's benchmark is mapped to, or why it is refused."""

    test: str
    runs: str = ""
    differs: str = ""
    refused: str = ""


def main() -> None:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("reports", type=Path)
    parser.add_argument("--run", type=Path, metavar="FOLDER")
    parser.add_argument("--kernel", action="append", default=[])
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    families = msgspec.toml.decode((HERE / "mail_families.toml").read_bytes(), type=Families).family
    if asked.run:
        kernels = asked.kernel or ["debian/6.12", "debian/7.2"]
        run_examples([one for one in families if re.search(asked.only, one.name)], asked.run, kernels)
    with asked.reports.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    PAGE.write_text(page(families, rows, examples()), encoding="utf-8")


def answer(benchmark: str, test: str, parameters: Mapping[str, str]) -> Answer:
    """What `bigiron judge` does with a report of a benchmark."""
    try:
        found = workload_of(benchmark, parameters)
    except UserError as error:
        return Answer(test, refused=re.sub("[:;,]?( (or|and))?$", "", str(error).replace(f" {INSTEAD}", "")))
    how = f" in {found.mode} mode" if found.mode == "thread" else ""
    return Answer(test, f"`{found.called}`{how}", "; ".join(found.differs))


def page(
    families: Sequence[Family], rows: Sequence[Mapping[str, str]], ran: Mapping[str, Mapping[str, str]]
) -> str:
    """The whole page."""
    answers = {
        one.name: [answer(one.name, test, parameters) for test, parameters in one.all_parameters()]
        for one in families
    }
    shares = {name: sum(not one.refused for one in found) / len(found) for name, found in answers.items()}
    mapped = sum(one.reports * shares[one.name] for one in families)
    head = INTRODUCTION.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}", suite=SUITE, all=ALL_REPORTS, mapped=mapped,
        share=mapped / ALL_REPORTS,
    )  # fmt: skip
    others = ALL_REPORTS - sum(one.reports for one in families)
    table = [family_row(one, answers[one.name], shares[one.name], ran.get(one.name)) for one in families]
    table.append(f"| others | {others} | 0 of {others} | 0.0 | | |")
    refusals = [line for one in families for line in refused_rows(one.name, answers[one.name])]
    published = [of_row(row, families) for row in rows]
    listed = [row_line(row, found) for row, found in zip(rows, published, strict=True)]
    count = ROWS.format(mapped=sum(not one.refused for one in published), all=len(rows))
    return head + _lines(table) + NOT_MAPPED + _lines(refusals) + count + _lines(listed)


def family_row(family: Family, answers: Sequence[Answer], share: float, ran: Mapping[str, str] | None) -> str:
    """A row of the table by benchmark."""
    mapped = [one for one in answers if not one.refused]
    example = next((one for one in mapped if one.test == family.example), mapped[0] if mapped else None)
    judged = f"{ran['kind']} on {ran['on']}, {ran['minutes']} minutes" if ran else "no"
    shown = f"{example.test}: {example.runs}".removeprefix(": ") if example else "none"
    counted = f"{family.reports * share:.1f}"
    return (
        f"| {family.name} | {family.reports} | {len(mapped)} of {len(answers)} | {counted} | "
        f"{_cell(shown)} | {judged if mapped else ''} |"
    )


def refused_rows(benchmark: str, answers: Sequence[Answer]) -> Iterator[str]:
    """The tests that are refused, by reason, in which TEST stands for their names."""
    by_reason: dict[str, list[str]] = {}
    for one in answers:
        if one.refused:
            why = re.sub(r" \((those|sync).*?\)", "", one.refused)
            if one.test:
                why = re.sub(rf"('s |'|/|perf bench ){re.escape(one.test)}(?!\w)", r"\1TEST", why)
            by_reason.setdefault(why, []).append(one.test or "all")
    for why, tests in by_reason.items():
        yield f"| {benchmark} | {' '.join(tests)} | {_cell(why)} |"


def of_row(row: Mapping[str, str], families: Sequence[Family]) -> Answer:
    """What a published report is mapped to: its benchmark's name, and the first word that is a test of it."""
    text = f"{row['benchmark and parameters']}; {row.get('machine', '')}"
    for family in families:
        name = re.search(rf"\b{family.name}\b(-[a-z-]+)?", text)
        if not name:
            continue
        words = [re.sub(r"_(threads?|process(es)?)$", "", word) for word in re.findall(r"[\w.-]+", text)]
        known = family.tests.split()
        test = next((word for word in words if word in known), "")
        modes = re.findall(r"(?:\b|_)(process(?:es)?|threads?)\b", row["benchmark and parameters"])
        parameters = family.of(test) | ({"mode": _MODES[modes[0]]} if modes else {})
        return answer(name[0], test, parameters)
    own = next((word for word in re.findall(r"\w+", text) if word in names()), "")
    return answer("will-it-scale", own, {"test": own}) if own else Answer("", refused=OWN)


def row_line(row: Mapping[str, str], found: Answer) -> str:
    """A row of the table of published reports."""
    runs = f"refused: {found.refused}" if found.refused else found.runs
    return f"| {row['id']} | {_cell(row['benchmark and parameters'])} | {_cell(runs)} | {found.differs} |"


def run_examples(families: Sequence[Family], folder: Path, kernels: Sequence[str]) -> None:
    """Judge one report of each family, and keep what came of it. What is there is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    done = examples()
    for family in families:
        found = answer(family.name, family.example, family.of(family.example))
        if found.refused or family.name in done:
            continue
        report = folder / f"{family.name}.txt"
        report.write_text(mail(family), encoding="utf-8")
        options = [word for kernel in kernels for word in ("--kernel", kernel)]
        study = folder / family.name
        began = time.monotonic()
        ended = subprocess.run(
            bigiron_itself(
                "judge", str(report), *options, "--cpus", CPUS, "-o", str(study), "--format", "json"
            ),
            capture_output=True,
            text=True,
            check=False,
        )
        minutes = f"{(time.monotonic() - began) / 60:.1f}"
        kind = json.loads(ended.stdout)["kind"] if ended.returncode == 0 else "failed"
        if ended.returncode:
            print(f"{family.name}: {ended.stderr.strip().splitlines()[-1]}", flush=True)
        row = (family.name, found.runs, " and ".join(kernels), kind, minutes, f"{datetime.now(UTC):%Y-%m-%d}")
        done[family.name] = dict(zip(FIELDS, row, strict=True))
        with EXAMPLES.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(done.values())
        print(f"{family.name}: {kind}, {minutes} minutes", flush=True)


def examples() -> dict[str, dict[str, str]]:
    """What was run, by family."""
    if not EXAMPLES.exists():
        return {}
    with EXAMPLES.open(encoding="utf-8", newline="") as file:
        return {row["family"]: row for row in csv.DictReader(file)}


def mail(family: Family) -> str:
    """A report in the form of the robot's, of a commit that does not exist."""
    given = {"nr_task": "100%", **family.of(family.example)}
    parameters = "".join(f"\t{key}: {value}\n" for key, value in given.items())
    return (
        f"kernel test robot noticed a -10.0% regression of {family.name}.throughput on:\n\n"
        'commit: a1b2c3d4e5f60718293a4b5c6d7e8f9001122334 ("pattern: a change")\n\n'
        f"testcase: {family.name}\n"
        "test machine: 104 threads 2 sockets (Skylake) with 192G memory\n"
        f"parameters:\n\n{parameters}\n"
    )


def _cell(text: str) -> str:
    return text.replace("|", " ").replace("\n", " ")


def _lines(rows: Sequence[str]) -> str:
    return "".join(f"{row}\n" for row in rows)


if __name__ == "__main__":
    main()
