"""fio, on the report's file system in memory."""

from collections.abc import Sequence

from bigiron.errors import UserError
from bigiron.util.english import plural
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    Mapped,
    MappedProgram,
    Parameters,
    in_bytes,
    on_disk,
    size,
)

_ENGINES = (
    "sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap", "ftruncate",
    "falloc", "splice", "filecreate", "filedelete", "filestat", "cpuio",
)  # fmt: skip
_ASYNCHRONOUS = ("libaio", "io_uring", "posixaio")
"""Those that have several requests in flight; fio ignores iodepth for the others."""

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
_ROBOTS_ENGINE, _ROBOTS_DEPTH = "sync", "32"
"""What the robot's script has where a report gives none (lkp-tests: programs/fio-setup-basic/setup)."""

_FILE_MIB = 4  # of each task: over and over again
_BUFFERS_MIB = 16  # of each task, and the largest block
_LONG_S = 100_000
_NO = ("0", "no", "false", "n")


def fio(parameters: Parameters, _metric: str) -> Mapped:
    """The report's pattern, block size and engine; each task goes through a small file again and again."""
    engine, pattern = parameters.get("ioengine", _ROBOTS_ENGINE), parameters.get("rw", "")
    if engine == "page_fault" and pattern in _FAULTS:
        return Mapped(f"vm-scalability/{_FAULTS[pattern]}", differs=("one byte of each page touched",))
    if engine not in _ENGINES:
        raise UserError(f"fio's engine {engine!r} does not run here ({', '.join(_ENGINES)}): {INSTEAD}")
    if not pattern:
        raise UserError(f"the report does not say what fio does with its files (parameter rw): {INSTEAD}")
    if pattern not in _PATTERNS:
        raise UserError(
            f"fio's rw is {pattern!r} in the report, and one of {', '.join(_PATTERNS)} is expected"
        )
    asked = size(parameters, "bs") or "4k"
    block = asked if in_bytes(asked) <= _BUFFERS_MIB << 20 else f"{_BUFFERS_MIB}m"
    options = [f"--rw={pattern}", f"--bs={block}", f"--ioengine={engine}"]
    depth, shallower = in_flight(engine, size(parameters, "iodepth") or _ROBOTS_DEPTH, block, _BUFFERS_MIB)
    options += depth
    if engine == "cpuio":
        options.append(f"--cpuload={size(parameters, 'cpuload') or 100}")
    if _past_page_cache(parameters):
        options.append("--direct=1")
    mib = file_mib(block)
    whole = parameters.get("test_size", "")
    differs = [f"{mib} MiB per task instead of {whole} in all"] if whole else []
    if block != asked:
        differs.append(f"blocks of {_BUFFERS_MIB} MiB instead of {asked}")
    if "ioengine" not in parameters:
        differs.append(f"{engine}, the robot's default engine, as the report names none")
    return on_disk(
        "fio",
        parameters,
        job(engine, ["--directory=/tmp", *options, f"--size={mib}m"]),
        *differs,
        *shallower,
    )


def file_mib(block: str) -> int:
    """The size of a file, which holds a block.

    >>> file_mib("4k"), file_mib("5000k"), file_mib("8m")
    (4, 5, 8)
    """
    return max(_FILE_MIB, -(-in_bytes(block) >> 20))


def in_flight(engine: str, depth: str, block: str, most_mib: int) -> tuple[list[str], list[str]]:
    """The option for so many requests in flight, as far as their buffers fit; in what it differs.

    >>> in_flight("sync", "32", "4k", 16), in_flight("libaio", "32", "4k", 16)
    (([], []), (['--iodepth=32'], []))
    >>> in_flight("io_uring", "32", "2M", 16)
    (['--iodepth=8'], ['8 requests in flight instead of 32'])
    """
    if engine not in _ASYNCHRONOUS:
        return [], []
    asked = in_bytes(depth)
    fitting = max(1, min(asked, (most_mib << 20) // max(1, in_bytes(block))))
    fewer = [] if fitting == asked else [f"{plural(fitting, 'request')} in flight instead of {asked}"]
    return [f"--iodepth={fitting}"], fewer


def job(engine: str, options: Sequence[str]) -> MappedProgram:
    """The program with these options, once per task, for as long as it is recorded."""
    return MappedProgram(
        "fio",
        f"fio --name=task {' '.join(options)} --numjobs={{tasks}} --time_based --runtime={_LONG_S} "
        "--group_reporting",
        "instruction" if engine in _WITHOUT_CALLS else "system-call",
        ready=("fio --name=first --directory=/tmp --rw=write --size=4k",),
        warm_up_s=0.2,
    )


def _past_page_cache(parameters: Parameters) -> bool:
    """Whether the files are opened with O_DIRECT.

    For fio `buffered` is the inverse of `direct`, and the last one decides (options.c). The robot's script
    writes buffered after direct.

    >>> _past_page_cache({"direct": "1"}), _past_page_cache({"direct": "1", "buffered": "1"})
    (True, False)
    """
    if buffered := parameters.get("buffered"):
        return buffered.lower().startswith(_NO)
    return parameters.get("direct") in ("1", "direct") or parameters.get("directio") == "directio"
