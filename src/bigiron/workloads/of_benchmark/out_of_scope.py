"""Benchmarks that are refused, each with its reason."""

from collections.abc import Mapping

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.mapped import INSTEAD, FamilyMapper, Mapped, Parameters

_BUILD = (
    "builds a kernel, minutes of compilers in user mode for seconds in the kernel: unixbench/execl and "
    "unixbench/spawn do what a build asks of the kernel; or"
)
_TESTS = "is a test suite, which passes or fails: there is no operation to count per;"
IN_USER_MODE = (
    "computes in user mode: counts of the kernel cannot explain it; code layout and clock rates can. Or"
)
_SWAPS = "needs a disk to swap to, which a VM does not have:"
_NOT_FREE = "is not in Debian, and goes through a dozen kinds of reading and writing one after the other:"
_DEVICES = "measures a device, which a virtual machine here lacks:"

_WHY: Mapping[str, str] = {
    **dict.fromkeys(("kbuild", "kernbench", "build-kernel"), _BUILD),
    **dict.fromkeys(("xfstests", "ltp", "kernel-selftests", "blktests", "trinity", "boot"), _TESTS),
    **dict.fromkeys(("coremark", "fwq", "linpack", "stream", "pmbench", "specjbb2015"), IN_USER_MODE),
    **dict.fromkeys(("swapin",), _SWAPS),
    **dict.fromkeys(("iozone",), _NOT_FREE),
    **dict.fromkeys(("ndctl", "igt", "rt-app", "suspend"), _DEVICES),
}


def _refuse(benchmark: str, why: str) -> FamilyMapper:
    def refuse(_parameters: Parameters, _metric: str) -> Mapped:
        raise UserError(f"{benchmark} {why} {INSTEAD}")

    return refuse


FAMILIES: Mapping[str, FamilyMapper] = {benchmark: _refuse(benchmark, why) for benchmark, why in _WHY.items()}
