"""Shell scripts of unixbench and aim9: a Debian root has their programs. Their other tests are built in."""

from bigiron.errors import UserError
from bigiron.workloads.of_benchmark.built_in import of_suite
from bigiron.workloads.of_benchmark.mapped import (
    INSTEAD,
    Mapped,
    Parameters,
    Program,
    on_disk,
)

_TEXT = "/usr/share/common-licenses/GPL-1"
_SORT = (
    f"sort <{_TEXT} >sort.$$; od sort.$$ | sort -n -k 1 >od.$$; "
    "grep the sort.$$ | tee grep.$$ | wc >wc.$$; rm sort.$$ grep.$$ od.$$ wc.$$"
)
"""What UnixBench's tst.sh does, with another text."""

_COPIES = {"shell1": 1, "shell8": 8, "shell16": 16}
"""UnixBench's tests, and how often each task runs that at once."""

_LIST = "ls -l >/dev/null 2>&1"
"""aim_1.sh and aim_3.sh."""

_PACKAGES = "base-files+coreutils+dash+grep"
_RECORD_S = 0.05  # some of the slowest scripts


def unixbench(parameters: Parameters, metric: str) -> Mapped:
    """By the parameter `test`: shell8 starts a shell that starts eight scripts at once and waits for them."""
    if not (copies := _COPIES.get(parameters.get("test", ""))):
        return of_suite("unixbench", parameters, metric)
    at_once = " ".join(["one"] * copies)
    return _looped(
        "unixbench",
        _SORT,
        f'for copy in {at_once}; do sh -c "$script" & done; wait',
        parameters,
        ("another text is sorted",),
    )


def aim9(parameters: Parameters, metric: str) -> Mapped:
    """By the parameter `test`: shell_rtns_1 and shell_rtns_3 run one script, shell_rtns_2 sleeps."""
    match parameters.get("test", ""):
        case "shell_rtns_1" | "shell_rtns_3":
            return _looped("aim9", _LIST, 'sh -c "$script"', parameters, ("the folder is empty",))
        case "shell_rtns_2":
            raise UserError(f"aim9's shell_rtns_2 runs a script that sleeps: {INSTEAD}")
    return of_suite("aim9", parameters, metric)


def _looped(suite: str, script: str, shell: str, parameters: Parameters, differs: tuple[str, ...]) -> Mapped:
    """A shell for each task, which runs `shell` in one of its own again and again; that runs `script`."""
    assert not {"'", '"', "\\"} & set(script)
    loop = f"export script='{script}' shell='{shell}'; "
    loop += 'for task in $(seq {tasks}); do while :; do sh -c "$shell"; done & done; wait'
    command = 'sh -c "{}"'.format(loop.replace('"', '\\"'))
    program = Program(_PACKAGES, command, ready=(f"sh -c '{script}'",), record_s=_RECORD_S)
    return on_disk(suite, parameters, program, *differs)
