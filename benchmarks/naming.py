"""How much of what is shared has a name: the table in docs/validation/naming.md.

    .venv/bin/python benchmarks/naming.py FOLDER [--checkout WILL-IT-SCALE] [--print] [NAME ...]

Measures what FOLDER does not have yet, so that it can be interrupted.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl

import bigiron
from bigiron import workloads
from bigiron.analysis import conflicts
from bigiron.errors import UserError

BIGIRON = Path(sys.executable).with_name("bigiron")
KERNELS = ("debian/5.10", "debian/6.1", "debian/6.12", "debian/7.2")
CPUS, OPERATIONS = 4, 200
OWN = Path(__file__).parents[1] / "tests/workloads"


def measure(folder: Path, name: str, source: str) -> None:
    """One study; a cell that fails stays failed, and shows as such."""
    question = folder / f"{name.replace('/', '-')}.toml"
    variants = "".join(f'[[variant]]\nname = "{kernel}"\nkernel = "{kernel}"\n' for kernel in KERNELS)
    numbers = f"cpus = [{CPUS}]\noperations = {OPERATIONS}\ndeadline_s = 900"
    question.write_text(f"{source}\n{numbers}\n\n{variants}", encoding="utf-8")
    asked = ["nice", BIGIRON, "run", question, "--jobs", "1", "-o", question.with_suffix("")]
    done = subprocess.run(asked, check=False, capture_output=True, text=True)
    if done.returncode: print(done.stderr[-500:])


def accesses(folder: Path, name: str) -> Iterator[pl.DataFrame]:
    try:
        study = bigiron.open_study(folder / name.replace("/", "-"))
    except UserError:
        return
    for record in study.records():
        if not record.measured: print("failed", name, record.variant); continue
        done = sum(record.facts["conflicts"]["operations"])
        counts = study.table(record, "conflicts")
        for context in conflicts.CONTEXTS:
            touched = conflicts._weighted(counts, done, (context,))
            lines = conflicts._shared_lines(touched).filter(~pl.col("recycled")).select("line")
            yield touched.join(lines, on="line").group_by("object", "types").agg(pl.col("accesses_per_op").sum(), pl.col("function").unique().alias("functions")).with_columns(workload=pl.lit(name), kernel=pl.lit(record.variant), context=pl.lit(context))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--checkout", type=Path)
    parser.add_argument("--print", action="store_true")
    asked = parser.parse_intermixed_args()
    sources = {one.name: f'workload = "{one.name}"' for one in workloads.builtin()}
    for file in [*(sorted((asked.checkout / "tests").glob("*.c")) if asked.checkout else []), OWN/"exec1.c", OWN/"fork1.c"]:
        sources[("" if file.parent == OWN else "wis-") + file.stem] = f'workload_file = "{file.resolve()}"'
    asked.folder.mkdir(parents=True, exist_ok=True)
    for name in asked.names or sources:
        if not asked.print:
            measure(asked.folder, name, sources[name])
            print(name, file=sys.stderr, flush=True)
    frames = [f for name in asked.names or sources for f in accesses(asked.folder, name)]
    pl.concat(frames).write_parquet(asked.folder / "all.parquet")

if __name__ == "__main__":
    main()
