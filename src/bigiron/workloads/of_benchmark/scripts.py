"""Shell scripts of unixbench and aim9: a Debian root has their programs. Their other tests are built in."""

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.built_in import of_suite
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    Mapped,
    MappedProgram,
    Parameters,
    on_disk,
)
from bigiron.workloads.of_benchmark.out_of_scope import IN_USER_MODE

_TEXT = "/usr/share/common-licenses/GPL-1"
_SORT = (
    f"sort <{_TEXT} >sort.$$; od sort.$$ | sort -n -k 1 >od.$$; "
    "grep the sort.$$ | tee grep.$$ | wc >wc.$$; rm sort.$$ grep.$$ od.$$ wc.$$"
)
"""What UnixBench's tst.sh does, with another text."""

_COPIES = {"shell1": 1, "shell8": 8, "shell16": 16}
"""UnixBench's tests, and how often each task runs that at once."""

_COMPUTE = {
    "unixbench": (
        "arithoh", "dhry2", "dhry2reg", "double", "float", "hanoi", "int", "long", "register", "short",
        "whetstone-double",
    ),
    "aim9": (
        "add_double", "add_float", "add_int", "add_long", "add_short", "array_rtns", "div_double",
        "div_float", "div_int", "div_long", "div_short", "fun_cal", "fun_cal1", "fun_cal15", "fun_cal2",
        "jmp_test", "matrix_rtns", "mem_rtns_2", "mul_double", "mul_float", "mul_int", "mul_long",
        "mul_short", "num_rtns_1", "ram_copy", "series_1", "sieve", "sort_rtns_1", "string_rtns", "trig_rtns",
    ),
}  # fmt: skip
"""Tests that make no system calls."""

_LIST = "ls -l >/dev/null 2>&1"
"""aim_1.sh and aim_3.sh."""

_PACKAGES = "base-files+coreutils+dash+grep"
_RECORD_S = 0.05  # some of the slowest scripts


def unixbench(parameters: Parameters, metric: str) -> Mapped:
    """By the parameter `test`: shell8 starts a shell that starts eight scripts at once and waits for them."""
    _refuse_computing("unixbench", parameters)
    if not (copies := _COPIES.get(parameters.get("test", ""))):
        return of_suite("unixbench", parameters, metric)
    at_once = " ".join(["one"] * copies)
    return _looped(
        "unixbench",
        _SORT,
        f'for copy in {at_once}; do sh -c "$script" & done; wait',
        parameters,
        ("another text to sort",),
    )


def aim9(parameters: Parameters, metric: str) -> Mapped:
    """By the parameter `test`: shell_rtns_1 and shell_rtns_3 run one script, shell_rtns_2 sleeps."""
    _refuse_computing("aim9", parameters)
    match parameters.get("test", ""):
        case "shell_rtns_1" | "shell_rtns_3":
            return _looped("aim9", _LIST, 'sh -c "$script"', parameters, ("an empty folder",))
        case "shell_rtns_2":
            raise UserError(f"aim9's shell_rtns_2 runs a script that sleeps: {INSTEAD}")
    return of_suite("aim9", parameters, metric)


def _refuse_computing(suite: str, parameters: Parameters) -> None:
    test = parameters.get("test", "")
    if test in _COMPUTE[suite]:
        raise UserError(f"{suite}'s {test} {IN_USER_MODE} {INSTEAD}")


def _looped(suite: str, script: str, shell: str, parameters: Parameters, differs: tuple[str, ...]) -> Mapped:
    """A shell for each task, which runs `shell` in one of its own again and again; that runs `script`."""
    assert not {"'", '"', "\\"} & set(script)
    loop = f"export script='{script}' shell='{shell}'; "
    loop += 'for task in $(seq {tasks}); do while :; do sh -c "$shell"; done & done; wait'
    command = 'sh -c "{}"'.format(loop.replace('"', '\\"'))
    program = MappedProgram(_PACKAGES, command, ready=(f"sh -c '{script}'",), record_s=_RECORD_S)
    return on_disk(suite, parameters, program, *differs)
