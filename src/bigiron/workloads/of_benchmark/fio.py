"""fio, on the report's file system in memory."""

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    Mapped,
    MappedProgram,
    Parameters,
    on_disk,
    size,
)

_ENGINES = (
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "ftruncate",
    "falloc", "splice", "filecreate", "filedelete", "filestat", "cpuio",
)  # fmt: skip
_WITHOUT_CALLS = ("mmap", "filecreate", "filedelete", "filestat", "cpuio")
"""Those of files open, delete or look at their one file, and then go through it without touching it."""

_FAULTS = {
    "read": "anon-r-seq",
    "write": "anon-w-seq",
    "randread": "anon-r-rand",
    "randwrite": "anon-w-rand",
}
"""What does the same as the engine page_fault, by pattern: Debian's fio does not have it."""

_PATTERNS = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim")
_FILE_MIB = 4  # of each task: over and over again
_LONG_S = 100_000


def fio(parameters: Parameters, _metric: str) -> Mapped:
    """The report's pattern, block size and engine; each task goes through a small file again and again."""
    engine, pattern = parameters.get("ioengine", "sync"), parameters.get("rw", "")
    if engine == "page_fault" and pattern in _FAULTS:
        return Mapped(f"vm-scalability/{_FAULTS[pattern]}", differs=("a byte of each page is touched",))
    if engine not in _ENGINES:
        raise UserError(f"fio's engine {engine!r} does not run here ({', '.join(_ENGINES)}): {INSTEAD}")
    if pattern not in _PATTERNS:
        raise UserError(
            f"fio's rw is {pattern!r} in the report, and one of {', '.join(_PATTERNS)} is expected"
        )
    options = [f"--rw={pattern}", f"--bs={size(parameters, 'bs') or '4k'}", f"--ioengine={engine}"]
    if depth := size(parameters, "iodepth"):
        options.append(f"--iodepth={depth}")
    if engine == "cpuio":
        options.append(f"--cpuload={size(parameters, 'cpuload') or 100}")
    if parameters.get("direct") in ("1", "direct") or parameters.get("directio") == "directio":
        options.append("--direct=1")
    whole = parameters.get("test_size", "")
    smaller = [f"{_FILE_MIB} MiB per task instead of {whole} in all"] if whole else []
    program = MappedProgram(
        "fio",
        f"fio --name=task --directory=/tmp {' '.join(options)} --size={_FILE_MIB}m --numjobs={{tasks}} "
        f"--time_based --runtime={_LONG_S} --group_reporting",
        "instruction" if engine in _WITHOUT_CALLS else "system-call",
        ready=("fio --name=first --directory=/tmp --rw=write --size=4k",),
        warm_up_s=0.2,
    )
    return on_disk("fio", parameters, program, *smaller)
