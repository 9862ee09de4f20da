"""Published regressions that bigiron reproduces: one module a case."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bigiron import doctor, kernels
from bigiron.architectures import architecture
from bigiron.cases import dwal_percpu, hotplug_debugfs, hotplug_rcu, open1_rcu, rcu_512
from bigiron.cases.case import Build, Case, CaseReport
from bigiron.errors import UserError
from bigiron.study.spec import Spec

__all__ = ["Case", "CaseReport", "cases", "check_tools", "check_tree", "find", "get_kernels", "names"]

_MODULES = (hotplug_debugfs, hotplug_rcu, rcu_512, open1_rcu, dwal_percpu)
_ALL: dict[str, Case] = {module.CASE.name: module.CASE for module in _MODULES}


def cases() -> list[Case]:
    """All cases there are."""
    return list(_ALL.values())


def names() -> list[str]:
    """What they are called."""
    return list(_ALL)


def find(name: str) -> Case:
    """The case called `name`."""
    if name not in _ALL:
        raise UserError(f"no case {name!r}: there is {', '.join(_ALL)}")
    return _ALL[name]


def get_kernels(case: Case, specs: Iterable[Spec], tree: str, on_step: Callable[[str], None]) -> None:
    """Fetch or build the kernels that a case's studies need, as far as they are not here.

    `tree`: the source of the kernel of the time, if the user has it.
    """
    specs = [spec for spec in specs if spec.engine.emulated]
    check_tools(case, specs)
    builds = {build.name: build for build in case.builds}
    for kernel, arch in dict.fromkeys(
        (variant.kernel, spec.arch) for spec in specs for variant in spec.variant
    ):
        if kernel not in builds:
            kernels.fetch(kernel, arch, on_step)
            continue
        build = builds[kernel]
        patches = _patches(case, build)
        fragments = [case.folder / fragment for fragment in build.fragments]
        # Its name is the case's own: one built by another bigiron from other patches gives way.
        source = build.source or tree
        kernels.build(source, patches, fragments, build.arch, build.name, on_step, replace=True)


def _patches(case: Case, build: Build) -> list[Path]:
    return [case.folder / "patches" / patch for patch in build.patches]


def check_tree(case: Case, tree: str, on_step: Callable[[str], None]) -> None:
    """UserError unless it is the source of the kernel in which the case was found, and its patches apply."""
    if not case.of_the_time:
        having = [one.name for one in _ALL.values() if one.of_the_time]
        raise UserError(f"{case.name} takes no --linux: {', '.join(having)} does")
    source = kernels.find_source(tree, on_step)
    version = kernels.kernel_version(source)
    if not f"{version}.".startswith(f"{case.of_the_time}."):
        raise UserError(f"{tree} is Linux {version}: {case.name} takes --linux of {case.of_the_time}")
    for build in case.builds:
        if not build.source:
            kernels.patched(source, _patches(case, build))


def check_tools(case: Case, specs: Sequence[Spec]) -> None:
    """UserError with all that the case's virtual machines lack here, before anything is begun."""
    for arch in dict.fromkeys(spec.arch for spec in specs):
        used = {variant.kernel for spec in specs if spec.arch == arch for variant in spec.variant}
        builds_kernels = any(build.name in used for build in case.builds)
        loads_bpf = any("blocked" in spec.probes for spec in specs if spec.arch == arch)
        target = architecture(arch)
        if lacks := doctor.lacking(target, builds_kernels=builds_kernels, loads_bpf=loads_bpf):
            what = "; ".join(check.found for check in lacks)
            raise UserError(f"{case.name} lacks: {what}: {doctor.how_to_get_all(target, lacks)}")
