"""`bigiron demo`: the main job, once."""

from pathlib import Path
from typing import Annotated

import typer

from bigiron import kernels
from bigiron.architectures import X86_64
from bigiron.commands.common.measure import measure_study
from bigiron.commands.common.options import Jobs
from bigiron.commands.common.output import say
from bigiron.commands.comparisons import compare
from bigiron.commands.measurements import run
from bigiron.machines.vm.qemu import require_qemu
from bigiron.probes import AllProbeOptions

KERNELS = ("debian/6.1", "debian/6.12")
WORKLOAD = "open1"


def demo(
    cpus: Annotated[int, typer.Option(min=1, help="CPUs of the virtual machines")] = 8,
    jobs: Jobs = 0,
    output: Annotated[Path, typer.Option("-o", "--output", help="the study's folder")] = Path("demo-study"),
) -> None:
    """Fetch Debian's kernels 6.1 and 6.12, run open1 on both, and compare them: the main job, once.

    Example: `bigiron demo`
    """
    require_qemu(X86_64.qemu)  # before 90 MB are fetched
    for name in KERNELS:
        kernel = kernels.fetch(name, X86_64.name, say(name))
        print(f"{kernel.name}: Linux {kernel.release}, {kernel.version}", flush=True)
    spec = run.question(
        run.WorkloadOptions(workload=WORKLOAD, cpus=str(cpus)),
        run.ProgramOptions(),
        run.Variants(kernel=list(KERNELS)),
        run.MachineOptions(),
        run.FileSystems(),
        run.RepetitionOptions(),
        AllProbeOptions(),
    )
    measure_study(spec, output, jobs)
    compare.compare(output)
    print(
        f"\nThe study is {output.absolute()}. Next:\n"
        f"  bigiron explain {output}\n"
        f"  bigiron report {output} -o report.html\n"
        "  bigiron workload list\n"
        "  bigiron run --workload-file mine.c --kernel debian/6.1 --kernel debian/6.12 -o mine"
    )
