"""What was counted of shared cache lines, in the form of `perf c2c report --stdio`.

perf tells which cache answered a load, how long that took, and on which node the memory is: these columns are
N/A. Its stores without a level (`N/A` among the stores) are all that were counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from bigiron.analysis.comparison.model import Measurements, Options
from bigiron.analysis.lines import conflicts
from bigiron.analysis.lines.matching import TOLERANCE
from bigiron.util.english import cpus_and_tasks
from bigiron.util.lazy import polars as pl

_NONE = "N/A"
_KERNEL = 1 << 63  # addresses from here on, of all architectures that are counted
_TABLE = """\
#
#        ----------- Cacheline ----------      Tot  ------- Load Hitm -------    Total    Total    Total  \
--------- Stores --------  ----- Core Load Hit -----  - LLC Load Hit --  - RMT Load Hit --  --- Load Dram ----
# Index             Address  Node  PA cnt     Hitm    Total  LclHitm  RmtHitm  records    Loads   Stores  \
  L1Hit   L1Miss      N/A       FB       L1       L2    LclHit  LclHitm    RmtHit  RmtHitm       Lcl       Rmt
# .....  ..................  ....  ......  .......  .......  .......  .......  .......  .......  .......  \
.......  .......  .......  .......  .......  .......  ........  .......  ........  .......  ........  ........
#"""
_WIDTHS = (5, 18, 4, 6, *(7,) * 13, 8, 7, 8, 7, 8, 8)
_PARETO = """\
#
#        ----- HITM -----  ------- Store Refs ------  --------- Data address ---------                      \
---------- cycles ----------    Total       cpu
#   Num  RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A              Offset  Node  PA cnt        Code address  \
rmt hitm  lcl hitm      load  records       cnt  {symbol}  {object}  {source}  Node
# .....  .......  .......  .......  .......  .......  ..................  ....  ......  ..................  \
........  ........  ........  .......  ........  {symbol_dots}  {object_dots}  {source_dots}  ....
#"""
_PARETO_WIDTHS = (5, *(7,) * 5, 18, 4, 6, 18, 8, 8, 8, 7, 8)
_RULER = "  " + "-" * 70


def encode(measured: Measurements, options: Options) -> str:
    """The base variant's first repetition, on the most CPUs; the most accessed cache line first.

    Where the base has none, the first variant that has one.
    """
    with_base = [point for point, cells in measured.points.items() if options.base in cells]
    point = max(with_base or measured.points)
    variant = options.base_of(measured.points[point])
    cell = measured.points[point][variant][0]
    touched = conflicts.shared(cell.table, cell.operations, options.contexts)
    lines = (
        touched.group_by("line", "object")
        .agg(pl.col("accesses_per_op", "reads", "writes").sum())
        .filter(pl.col("accesses_per_op") >= TOLERANCE)
        .sort("accesses_per_op", "line", descending=[True, False])
    )
    head = [
        f"# What bigiron counted: {measured.workload} on {variant}, {cpus_and_tasks(*point)}, "
        f"{cell.operations:,.0f} operations in {' and '.join(options.contexts)} context.",
        "# Records, loads and stores are counts of accesses, not samples; N/A: not counted.",
    ]
    return "\n".join([*head, *_table(lines), *_pareto(lines, touched), ""])


def _title(words: str) -> list[str]:
    return ["", "=" * 49, f"{words:^49}".rstrip(), "=" * 49]


def _row(cells: tuple[object, ...], widths: tuple[int, ...]) -> str:
    return "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=False))


def _table(lines: pl.DataFrame) -> Iterator[str]:
    yield from _title("Shared Data Cache Line Table")
    yield _TABLE
    columns = ("line", "object", "reads", "writes")
    for index, (line, _object, reads, writes) in enumerate(lines.select(columns).iter_rows()):
        hitm = (_NONE,) * 4
        known = (reads + writes, reads, writes, _NONE, _NONE, writes)
        yield _row((index, f"{line:#x}", _NONE, _NONE, *hitm, *known, *(_NONE,) * 9), _WIDTHS)
    for index, (_line, name, *_counts) in enumerate(lines.select(columns).iter_rows()):
        yield f"# {index:>5}  {name}"


def _pareto(lines: pl.DataFrame, touched: pl.DataFrame) -> Iterator[str]:
    by_instruction = (
        touched.group_by("line", "address", "pc", "function", "offset")
        .agg(pl.col("reads", "writes").sum(), pl.col("cpu").n_unique())
        .sort("address", "pc")
    )
    shown = by_instruction.join(lines, on="line", how="semi")
    symbols = [len(name) + 4 for name in shown["function"]]
    sources = [len(f"{name}+{at}") for name, at in shown.select("function", "offset").iter_rows()]
    widths = (max([6, *symbols]), 18, max([11, *sources]))
    yield from _title("Shared Cache Line Distribution Pareto")
    headings = {
        name: f"{heading:<{width}}"
        for name, heading, width in zip(
            ("symbol", "object", "source"), ("Symbol", "Object", "Source:Line"), widths, strict=True
        )
    }
    yield _PARETO.format(**headings, **{f"{name}_dots": "." * len(text) for name, text in headings.items()})
    for number, (line, writes) in enumerate(lines.select("line", "writes").iter_rows()):
        yield _RULER
        yield _row((number, *(_NONE,) * 4, writes, f"{line:#x}"), _PARETO_WIDTHS)
        yield _RULER
        for one in by_instruction.filter(line=line).iter_rows(named=True):
            yield _instruction(one, writes, widths)
        yield ""


def _instruction(one: dict[str, int | str], writes: int, widths: tuple[int, int, int]) -> str:
    reads_here, writes_here, pc = int(one["reads"]), int(one["writes"]), int(one["pc"])
    mark, image = ("[k]", "[kernel.kallsyms]") if pc >= _KERNEL else ("[.]", _NONE)
    cells = (
        *("", *(_NONE,) * 4, f"{writes_here / writes:.2%}" if writes else "0.00%"),
        *(f"{int(one['address']) - int(one['line']):#x}", _NONE, _NONE, f"{pc:#x}"),
        *(*(_NONE,) * 3, reads_here + writes_here, one["cpu"]),
    )
    named = (f"{mark} {one['function']}", image, f"{one['function']}+{one['offset']}")
    texts = "".join(f"  {text:<{width}}" for text, width in zip(named, widths, strict=True))
    return f"{_row(cells, _PARETO_WIDTHS)}{texts}  {_NONE}"
