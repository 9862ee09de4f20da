"""Makes src/bigiron/introspect/variables.tsv: the types of variables, by kernels' debugging information.

    .venv/bin/python tools/variables.py VMLINUX... >src/bigiron/introspect/variables.tsv

The kernels, /usr/lib/debug/lib/modules/RELEASE/vmlinux, are given in the order of their versions. The table
is of Debian's packages linux-image-RELEASE-dbg with the releases 5.10.0-32-cloud-amd64, 6.1.0-56-cloud-amd64,
6.12.118+deb13-cloud-amd64 and 7.2.12+deb13-cloud-amd64. Of drivers' variables it has none, nor of what never
changes: tables of operations, static keys, events to trace.
"""

import re
import sys
from pathlib import Path

from bigiron.kernels.dwarf import types_of_variables

SOURCES = re.compile(
    r"(\./)?(arch/\w+/(entry|kernel|mm)|block|drivers/(base|char|clocksource)|fs|init|io_uring|ipc|kernel|lib|mm"
    r"|net/(core|ipv4|ipv6|netlink|packet|sched|unix)|net|security)/.*"
)
CONSTANT = re.compile(
    r"\*|\**char.*|static_(key|call)\w*|tracepoint|(trace|bpf|syscall|kernel|obs)_\w+|\w*(attr|attribute|attribute_group)"
    r"|\w*_(ops|operations|driver|desc|policy|table|fops|proto|funcs|id)|ctl_table|lock_class_key|_ddebug\w*"
    r"|\{event,handler\}|kparam_\w+|x86_\w+|kmemleak_\w+|ftrace_\w+|perf_\w+|irq_chip|nla_policy|errormap|class"
    r"|device_type|bus_type|unwind_\w+|file_operations|proto|proto_ops|pernet_operations|notifier_block"
    r"|(raw_)?(crypto|shash|skcipher|aead)_\w+|(shash|skcipher|aead|ahash)_alg|dmi_system_id|tnum|\w*_desc_struct"
)
LENGTH = re.compile(r"\[\d+\]")
SERIES = re.compile(r"\d+\.\d+")


def main() -> None:
    """Print the kernels' series, and a line for each variable: its type, or the type that it has in each."""
    kernels = list(map(Path, sys.argv[1:]))
    print("", *(SERIES.match(kernel.parent.name)[0] for kernel in kernels), sep="\t")
    found: dict[str, list[str]] = {}
    for number, vmlinux in enumerate(kernels):
        for name, type in types_of_variables(vmlinux, lambda source: bool(SOURCES.fullmatch(source))).items():
            if not CONSTANT.fullmatch(re.sub(r"^\*+|[][0-9]+$", "", type) or "*"):
                # How long an array is depends on the kernel's configuration, and it is not needed.
                found.setdefault(name, [""] * len(kernels))[number] = LENGTH.sub("[]", type, count=1)
    for name, types in sorted(found.items()):
        differ = set(types) - {""}
        print(name, *(types if len(differ) > 1 else differ), sep="\t")


if __name__ == "__main__":
    main()
