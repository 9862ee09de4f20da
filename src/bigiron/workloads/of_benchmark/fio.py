"""fio, on the report's file system in memory."""

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    NO_SERVER,
    Mapped,
    Parameters,
    Program,
    checked_fs,
    of_disk,
    size,
)

_ENGINES = (
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "ftruncate",
    "falloc", "splice",
)  # fmt: skip
_WITHOUT_CALLS = ("mmap",)
_PATTERNS = ("read", "write", "randread", "randwrite", "rw", "readwrite", "randrw", "trim", "randtrim")
_FILE_MIB = 4  # of each task: over and over again
_LONG_S = 100_000


def fio(parameters: Parameters, _metric: str) -> Mapped:
    """The report's pattern, block size and engine; each task goes through a small file again and again."""
    engine, pattern = parameters.get("ioengine", "sync"), parameters.get("rw", "")
    if engine not in _ENGINES:
        raise UserError(f"fio's engine {engine!r} does not run here ({', '.join(_ENGINES)}): {INSTEAD}")
    if pattern not in _PATTERNS:
        raise UserError(
            f"fio's rw is {pattern!r} in the report, and one of {', '.join(_PATTERNS)} is expected"
        )
    options = [f"--rw={pattern}", f"--bs={size(parameters, 'bs') or '4k'}", f"--ioengine={engine}"]
    if depth := size(parameters, "iodepth"):
        options.append(f"--iodepth={depth}")
    if parameters.get("direct") in ("1", "direct") or parameters.get("directio") == "directio":
        options.append("--direct=1")
    whole = parameters.get("test_size", "")
    return Mapped(
        fs=checked_fs("fio", parameters),
        program=Program(
            "fio",
            f"fio --name=task --directory=/tmp {' '.join(options)} --size={_FILE_MIB}m --numjobs={{tasks}} "
            f"--time_based --runtime={_LONG_S} --group_reporting",
            "instruction" if engine in _WITHOUT_CALLS else "system-call",
            service=(NO_SERVER,),
            ready=("fio --name=first --directory=/tmp --rw=write --size=4k",),
            warm_up_s=0.2,
        ),
        differs=(
            *of_disk(parameters),
            *([f"{_FILE_MIB} MiB per task instead of {whole} in all"] if whole else []),
        ),
    )
