"""What time slices by operation and a server's memory change: docs/results/will-it-scale.md.

Every built-in workload that is not done in rounds, or with --checkout every test file of will-it-scale, with
8 CPUs on four kernels: by time slices of the emulator's clock and with little memory, and as it is now.

    .venv/bin/python benchmarks/counts/time_slices.py FOLDER [--checkout CHECKOUT]
                                              [--kernels NAME,...] [NAME ...]

Measures what FOLDER does not have yet, so that it can be interrupted; an hour for will-it-scale's tests.
`--print` measures nothing. Nor does `--now`, which prints what is shared now, by test and kernel: the
first table in docs/results/will-it-scale.md, of which the second is printed without it.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import bigiron
from bigiron import workloads
from bigiron.analysis.lines import conflicts, matching
from bigiron.errors import UserError
from bigiron.util.object_name import object_type

BIGIRON = Path(sys.executable).with_name("bigiron")
KERNELS = "debian/5.10,debian/6.1,debian/6.12,debian/7.2"
CPUS, OPERATIONS = 8, 200
MACHINES = {"before": f'time_slice = "time"\nmemory_mib = {1024 + 128 * CPUS}', "after": ""}
LEAST = 0.05  # accesses per operation that a row must have


def measure(folder: Path, name: str, source: str, machine: str, kernels: list[str]) -> None:
    """One study; a cell that fails stays failed, and shows as such."""
    folder.mkdir(parents=True, exist_ok=True)
    question = folder / f"{name}-{machine}.toml"
    variants = "".join(f'[[variant]]\nname = "{kernel}"\nkernel = "{kernel}"\n' for kernel in kernels)
    numbers = f"cpus = [{CPUS}]\noperations = {OPERATIONS}\ndeadline_s = 600"
    question.write_text(f"{source}\n{numbers}\n{MACHINES[machine]}\n{variants}", encoding="utf-8")
    asked = [BIGIRON, "run", question, "--jobs", "1", "-o", folder / f"{name}-{machine}"]
    subprocess.run(asked, check=False, capture_output=True)


def rows(study: bigiron.Study, kernel: str) -> tuple[dict[str, float], float] | None:
    """Accesses per operation to each shared line, lines that are alike as one, and to recycled memory."""
    for record in study.records():
        if record.variant == kernel and record.measured:
            operations = sum(record.facts["conflicts"]["operations"])
            profile = conflicts.profile(study.table(record, "conflicts"), operations, 64)
            found: dict[str, float] = {}
            for line in matching.lines_of(profile):
                object = object_type(line.object)
                found[object] = found.get(object, 0) + line.accesses_per_op
            recycled = profile.filter(profile["recycled"])["accesses_per_op"].sum()
            return found, recycled
    return None


def shown(names: dict[str, float]) -> str:
    """The most accessed first."""
    ranked = sorted(names.items(), key=lambda item: -item[1])
    words = [f"`{name}` {count:.3f}" for name, count in ranked[:3]]
    return ", ".join([*words, *([f"{len(ranked) - 3} more"] if len(ranked) > 3 else [])])


def _test(name: str) -> str:
    return name.removeprefix("wis-")


def table(folder: Path, names: list[str], kernels: list[str]) -> Iterator[str]:
    """A line for each workload and kernel that share anything before or after."""
    yield "| workload | kernel | shared | recycled | shared now | recycled now | gone | came | stayed |"
    yield "|---|---|--:|--:|--:|--:|---|---|---|"
    nothing: dict[str, list[str]] = {}
    for name in names:
        for kernel in kernels:
            try:
                studies = [bigiron.open_study(folder / f"{name}-{machine}") for machine in MACHINES]
            except UserError:
                continue
            before, after = (rows(study, kernel) for study in studies)
            if not before or not after:
                continue
            large = [{n for n, count in lines.items() if count > LEAST} for lines, _ in (before, after)]
            if not large[0] and not large[1] and max(before[1], after[1]) < LEAST:
                nothing.setdefault(name, []).append(kernel.removeprefix("debian/"))
                continue
            gone = {n: before[0][n] for n in large[0] if after[0].get(n, 0) <= LEAST}
            came = {n: after[0][n] for n in large[1] if before[0].get(n, 0) <= LEAST}
            stayed = {n: after[0][n] for n in large[1] if n not in came}
            counts = [
                f"{count:.3f}" for found in (before, after) for count in (sum(found[0].values()), found[1])
            ]
            cells = [
                f"`{_test(name)}`",
                kernel.removeprefix("debian/"),
                *counts,
                *map(shown, (gone, came, stayed)),
            ]
            yield f"| {' | '.join(cells)} |"
    quiet = [
        f"`{_test(name)}`" + ("" if len(those) == len(kernels) else f" ({', '.join(those)})")
        for name, those in nothing.items()
    ]
    yield f"\nNothing above {LEAST} accesses per operation before or after: {', '.join(quiet)}."


def now(folder: Path, names: list[str], kernels: list[str]) -> Iterator[str]:
    """A line for each workload: accesses on each kernel, and what the last but one has most of."""
    short = [kernel.removeprefix("debian/") for kernel in kernels]
    yield f"| test | {' | '.join(short)} | the lines touched most on {short[-2]}, accesses per operation |"
    yield f"|---|{'--:|' * len(kernels)}---|"
    for name in names:
        study = bigiron.open_study(folder / f"{name}-after")
        found = [rows(study, kernel) for kernel in kernels]
        sums = [f"{sum(lines[0].values()):.3f}" if lines else "failed" for lines in found]
        seen = found[-2][0] if found[-2] else {}
        most = shown({line: count for line, count in seen.items() if count > LEAST})
        yield f"| {_test(name)} | {' | '.join(sums)} | {most} |"


def main() -> None:
    """Measure what is missing, then print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kernels", default=KERNELS)
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--now", action="store_true")
    asked = parser.parse_intermixed_args()
    kernels = asked.kernels.split(",")
    if asked.checkout:
        files = sorted((asked.checkout / "tests").glob("*.c"))
        sources = {f"wis-{file.stem}": f'workload_file = "{file.resolve()}"' for file in files}
    else:
        builtin = [
            workload.name
            for workload in workloads.builtin()
            if not (workload.has_rounds or "/" in workload.name)
        ]
        sources = {name: f'workload = "{name}"' for name in builtin}
    names = asked.names or list(sources)
    for name in names if not (asked.print or asked.now) else []:
        for machine in MACHINES:
            measure(asked.folder, name, sources[name], machine, kernels)
            print(f"{name} {machine}", file=sys.stderr, flush=True)
    print("\n".join((now if asked.now else table)(asked.folder, names, kernels)))


if __name__ == "__main__":
    main()
