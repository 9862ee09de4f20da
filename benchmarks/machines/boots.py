"""How many boots reach the agent: each kernel, 8 CPUs, two machines at a time.

Five of each by default. The figure in docs/validation/recorder.md is of
`.venv/bin/python benchmarks/machines/boots.py 100`, which takes half an hour on two cores.
A boot that does not reach the agent is printed with its reason.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from bigiron import compile, kernels, workloads
from bigiron.architectures import X86_64
from bigiron.errors import MachineError
from bigiron.kernels import Kernel
from bigiron.machines.engine import deadline_s
from bigiron.machines.vm import vm
from bigiron.machines.vm.topology import Topology

CPUS = 8
KERNELS = ("debian/5.10", "debian/6.1", "debian/6.12", "debian/7.2")


def boot(kernel: Kernel) -> float | None:
    """Seconds to the agent's first word; None, with the reason printed, if it never spoke."""
    machine = vm.VirtualMachine(
        architecture=X86_64,
        kernel=kernel.image,
        agent=compile.agent(workloads.find("getppid1"), X86_64.compiler),
        job=f"cpus {CPUS}\n",
        topology=Topology(cores=CPUS),
        memory_mib=vm.memory_mib(CPUS),
        deadline_s=deadline_s(CPUS),
    )
    try:
        return vm.run(machine, threading.Event(), lambda _stage: None).seconds_to_agent
    except MachineError as error:
        print(f"{kernel.name}: {error.reason}\n{error.console_tail}", flush=True)
        return None


def main() -> None:
    """Boot each kernel so many times and print how many reached the agent."""
    boots = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(f"{boots} boots of each kernel, {CPUS} CPUs, TCG with one thread, two machines at a time")
    for name in KERNELS:
        kernel = kernels.find(name)
        with ThreadPoolExecutor(2) as pool:
            seconds = list(pool.map(boot, [kernel] * boots))
        reached = [one for one in seconds if one is not None]
        print(
            f"{name} ({kernel.version}): {len(reached)} of {boots} reached the agent, "
            f"median {median(reached):.1f} s, longest {max(reached):.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
