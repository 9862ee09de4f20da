"""Makes src/bigiron/introspect/variables.tsv: the types of variables in kernels whose debugging information is here.

    .venv/bin/python tools/variables.py VMLINUX... >src/bigiron/introspect/variables.tsv

The table is of Debian's linux-image-*-cloud-amd64-dbg for 5.10.0-32, 6.1.0-56, 6.12.118+deb13 and 7.2.12+deb13,
in which it is /usr/lib/debug/lib/modules/*/vmlinux. Of a driver's variables it has none, nor of what only tells
how the kernel was built: tables of operations and parameters, static keys, events to trace.
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
OPEN = re.compile(r"\[\d+\]")


def main() -> None:
    """Print a line for each variable: its name, and the types that it has in these kernels."""
    found: dict[str, set[str]] = {}
    for vmlinux in map(Path, sys.argv[1:]):
        for name, type in types_of_variables(vmlinux, lambda source: bool(SOURCES.fullmatch(source))).items():
            if not CONSTANT.fullmatch(re.sub(r"^\*+|[][0-9]+$", "", type) or "*"):
                found.setdefault(name, set()).add(type)
    for name, types in sorted(found.items()):
        # How long an array is depends on the kernel's configuration, and nobody asks for it.
        spelled = {OPEN.sub("[]", type, count=1) for type in types}
        print(name, *sorted(spelled), sep="\t")


if __name__ == "__main__":
    main()
