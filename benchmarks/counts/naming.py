"""How much of what CPUs share has a name: docs/validation/naming.md, which this writes.

    .venv/bin/python benchmarks/counts/naming.py FOLDER [--checkout WILL-IT-SCALE] [--print] [NAME ...]

Of the accesses to shared cache lines, by workload and kernel, the share for which the type and the field is
known; and by name what is left. Measures what FOLDER does not have yet, so that it can be interrupted; a cell
takes about a second. `--checkout` adds the tests of a checkout of github.com/antonblanchard/will-it-scale.
`--print` measures nothing. With NAMEs the page is printed instead of written.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import polars as pl

import bigiron
from bigiron import workloads
from bigiron.analysis.lines import conflicts
from bigiron.errors import UserError
from bigiron.study.store import CellRecord, Study
from bigiron.util.object_name import without_instance

ROOT = Path(__file__).parents[2]
BIGIRON = Path(sys.executable).with_name("bigiron")
PAGE = ROOT / "docs/validation/naming.md"
KERNELS = ("debian/5.10", "debian/6.1", "debian/6.12", "debian/7.2")
OF_TESTS = ("exec1", "fork1")  # what no built-in workload does
CPUS, OPERATIONS = 4, 200
LEAST = 0.05  # accesses per operation: with fewer, nothing is shared
GOAL = 0.95
FIELD = "type and field"
KINDS = {
    r"struct \w+\+0x.*": "several fields of a struct at once",
    r"(page cache|anonymous page|page table|user:).*": "the content of a page",
    r".*bytes, (freed, )?allocated in .*": "an object of no known type, by who allocated it",
    r".*\d bytes.*": "an object of no known type, by its cache",
    r"\*?[\w.]+(\+0x.*)?": "a symbol and an offset",
    r".*": "nothing",
}
"""What is known of an access whose field is not, by the object's name."""


def sources(checkout: Path | None) -> dict[str, str]:
    """What a study says of its workload, by the name that is printed."""
    found = {one.name: f'workload = "{one.name}"' for one in workloads.builtin()}
    files = {name: ROOT / f"tests/workloads/{name}.c" for name in OF_TESTS}
    if checkout:
        files |= {f"will-it-scale/{file.stem}": file for file in sorted((checkout / "tests").glob("*.c"))}
    return found | {name: f'workload_file = "{file.resolve()}"' for name, file in files.items()}


def folder_of(folder: Path, name: str) -> Path:
    """Where the study of a workload is."""
    return folder / name.replace("/", "-")


def measure(folder: Path, name: str, source: str) -> None:
    """One study; a cell that fails stays failed, and shows as such."""
    study = folder_of(folder, name)
    variants = "".join(f'[[variant]]\nname = "{kernel}"\nkernel = "{kernel}"\n' for kernel in KERNELS)
    numbers = f"cpus = [{CPUS}]\noperations = {OPERATIONS}\ndeadline_s = 1200"
    numbers += '\nprobes = ["conflicts"]\nmost_boots = 1'
    question = study.with_suffix(".toml")
    question.write_text(f"{source}\n{numbers}\n{variants}", encoding="utf-8")
    asked = [BIGIRON, "run", question, "--jobs", "1", "-o", study]
    subprocess.run(asked, check=False, capture_output=True)


def touched(study: Study, record: CellRecord, context: str) -> pl.DataFrame:
    """Accesses per operation to shared lines, by what lies there: `object`, its `types` and `accesses`."""
    operations = sum(record.facts["conflicts"]["operations"])
    counts = study.table(record, "conflicts")
    lines = conflicts.profile(counts, operations, 64, (context,)).filter(~pl.col("recycled"))
    shares = lines.select("line", share=pl.col("accesses_per_op") / pl.col("all_per_op") / operations)
    accesses = pl.max_horizontal("reads", "writes") * pl.col("share")
    return (
        counts.filter(context=context)
        .join(shares, on="line")
        .group_by("object", "types")
        .agg(accesses=accesses.sum())
    )


def everything(folder: Path, names: list[str], context: str) -> pl.DataFrame:
    """The same of all cells, with `workload`, `kernel` and `kind`: what is known of the access."""
    found = []
    for name in names:
        try:
            study = bigiron.open_study(folder_of(folder, name))
        except UserError:
            continue
        found += [
            touched(study, record, context).with_columns(workload=pl.lit(name), kernel=pl.lit(record.variant))
            for record in study.records()
            if record.measured
        ]
    kind = pl.when(pl.col("types") != "").then(pl.lit(FIELD))
    for form, what in KINDS.items():
        kind = kind.when(pl.col("object").str.contains(f"^({form})$")).then(pl.lit(what))
    return pl.concat(found).with_columns(kind=kind)


def share(accesses: pl.DataFrame) -> float:
    """Of the accesses those of known type and field."""
    return accesses.filter(kind=FIELD)["accesses"].sum() / accesses["accesses"].sum()


def page(folder: Path, names: list[str]) -> Iterator[str]:
    """The whole page."""
    of = {context: everything(folder, names, context) for context in conflicts.CONTEXTS}
    accesses = of["process"]
    cells = {key: cell for key, cell in accesses.group_by("workload", "kernel")}
    shared = {key: cell for key, cell in cells.items() if cell["accesses"].sum() >= LEAST}
    each = [share(cell) for cell in shared.values()]
    versions = {record.environment["kernel_version"] for record in _records(folder, names)}
    yield "# Names: which accesses have a type and a field\n"
    yield f"Generated by `benchmarks/counts/naming.py` on {date.today()}, bigiron {bigiron.__version__}.\n"
    yield (
        f"Accesses to shared cache lines in process context, {CPUS} CPUs, tasks are processes, {OPERATIONS} "
        f"operations per task; Linux {', '.join(sorted(versions, key=_numbers))}. A cell has the share of "
        "the accesses for which the type and the field are known and, in parentheses, the accesses to shared "
        f"cache lines per operation. A dash stands for fewer than {LEAST}.\n"
    )
    yield "| | share of the accesses with type and field |\n|---|--:|"
    yield f"| **all cells, weighted by their accesses** | **{share(accesses):.2%}** |"
    for kernel in KERNELS:
        yield f"| {kernel} | {share(accesses.filter(kernel=kernel)):.2%} |"
    yield f"| mean of the {len(each)} cells that share anything | {sum(each) / len(each):.2%} |"
    yield f"| cells with less than {GOAL:.0%} | {sum(one < GOAL for one in each)} of {len(each)} |"
    for context in conflicts.CONTEXTS[1:]:
        yield f"| context `{context}`, all cells | {share(of[context]):.2%} |"
    yield f"\n| workload | {' | '.join(KERNELS)} |\n|---|{'--:|' * len(KERNELS)}"
    for name in names:
        figures = []
        for kernel in KERNELS:
            cell = shared.get((name, kernel))
            missing = "-" if (name, kernel) in cells or _is_measured(folder, name, kernel) else "failed"
            figures.append(missing if cell is None else f"{share(cell):.1%} ({cell['accesses'].sum():.4g})")
        yield f"| `{name}` | {' | '.join(figures)} |"
    yield from left(accesses)


def left(accesses: pl.DataFrame) -> Iterator[str]:
    """What has no type and field, by what is known instead, and by name."""
    total = accesses["accesses"].sum()
    others = accesses.filter(pl.col("kind") != FIELD)
    yield "\n## What is left\n\n| what is known instead | share of all accesses |\n|---|--:|"
    for kind, count in (
        others.group_by("kind").agg(pl.col("accesses").sum()).sort("accesses", descending=True).rows()
    ):
        yield f"| {kind} | {count / total:.3%} |"
    named = others.with_columns(
        pl.col("object").map_elements(_plain, pl.String), pl.col("kernel").str.strip_prefix("debian/")
    )
    rows = (
        named.group_by("object", "kind")
        .agg(pl.col("accesses").sum(), pl.col("kernel").unique(), pl.col("workload").unique().sort())
        .sort("accesses", "object", descending=[True, False])
    )
    yield "\nAll that are more than 0.001 % of the accesses:\n"
    yield "| name | what is known | share of all accesses | kernels | workloads |\n|---|---|--:|---|---|"
    for object, kind, count, kernels, those in rows.filter(pl.col("accesses") > 1e-5 * total).iter_rows():
        more = f" and {len(those) - 2} more" if len(those) > 2 else ""
        where = ", ".join(sorted(kernels, key=_numbers))
        yield f"| `{object}` | {kind} | {count / total:.3%} | {where} | {', '.join(those[:2])}{more} |"


def _plain(object: str) -> str:
    """A name without offsets, CPUs and places of calls, so that it is one for all kernels."""
    place = re.search(r"allocated in [^+)]*", object)
    return without_instance(object) + (f" ({place[0]})" if place else "")


def _numbers(version: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", version)))


def _records(folder: Path, names: list[str]) -> Iterator[CellRecord]:
    for name in names:
        if folder_of(folder, name).is_dir():
            yield from (one for one in bigiron.open_study(folder_of(folder, name)).records() if one.measured)


def _is_measured(folder: Path, name: str, kernel: str) -> bool:
    return any(record.variant == kernel for record in _records(folder, [name]))


def main() -> None:
    """Measure what is missing, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_intermixed_args()
    known = sources(asked.checkout)
    names = asked.names or list(known)
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in names if not asked.print else []:
        measure(asked.folder, name, known[name])
        print(name, file=sys.stderr, flush=True)
    text = "\n".join(page(asked.folder, names)) + "\n"
    if asked.names:
        print(text, end="")
    else:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
