"""The tables of the probe layout (docs/reference/schema.md)."""

from bigiron.util.lazy import Schema
from bigiron.util.lazy import polars as pl

ACCESSES = Schema(
    lambda: {
        "cpu": pl.UInt32,
        "context": pl.String,  # process, interrupt or kthread: on whose behalf the kernel ran
        "start": pl.UInt64,  # of the object or variable: a row of OBJECTS
        "address": pl.UInt64,  # the first byte
        "length": pl.UInt32,  # bytes
        "pc": pl.UInt64,  # address of the instruction
        "chain": pl.UInt32,  # of calls that led there: another number for another one
        "function": pl.String,
        "reads": pl.UInt64,  # over all recorded operations, of each cache line
        "writes": pl.UInt64,
    }
)
"""One row per CPU, context, instruction, chain of calls and range of bytes."""

ORDER = ["address", "length", "cpu", "context", "pc", "chain"]

OBJECTS = Schema(
    lambda: {
        "start": pl.UInt64,
        "bytes": pl.UInt32,
        "kind": pl.String,  # slab, variable or per-CPU
        "name": pl.String,  # the struct of a slab's object, empty where it is unknown; the variable
        "struct": pl.String,  # that it is; empty where it is none, or unknown
        "detail": pl.String,  # what tells it from others: tmpfs directory
        "cpu": pl.UInt32,  # the variable's CPU
        "cache": pl.String,  # the rest is of slabs only
        "stride": pl.UInt32,  # bytes from one object to the next
        "pad": pl.UInt32,  # before the first object
        "cache_align": pl.UInt32,
        "per_slab": pl.UInt32,  # objects
    }
)
"""One row per slab object and variable that was touched, or lies beside a variable that was."""

FIELDS = Schema(
    lambda: {
        "struct": pl.String,
        "bytes": pl.UInt32,  # of the struct
        "struct_align": pl.UInt32,
        "unit": pl.UInt32,  # counted from 0: a member, an anonymous union, bit fields
        "unit_offset": pl.UInt32,
        "unit_bytes": pl.UInt32,
        "unit_align": pl.UInt32,
        "anonymous": pl.List(pl.UInt32),  # structs that the unit is in, each by a number, the outermost first
        "anonymous_align": pl.List(pl.UInt32),
        "field": pl.String,
        "offset": pl.UInt32,  # in the struct
        "field_bytes": pl.UInt32,
        "type": pl.String,  # as C spells it
        "inner": pl.String,  # the struct that it is, or that it is an array of; empty: none
    }
)
"""One row per named member of a struct."""
