"""Published regressions, reproduced: the quick study of a case on real kernels, and the report it makes."""

import dataclasses
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import bigiron, measured
from msgspec.structs import replace

from bigiron import open_study
from bigiron.cases import Case, cases, find
from bigiron.cases.case import Published
from bigiron.errors import UserError
from bigiron.probes import ProbeTable
from bigiron.report import case as case_report
from bigiron.study import simulated
from bigiron.study.plan import cells
from bigiron.study.spec import Variant, to_toml
from bigiron.study.store import Study


@pytest.mark.slow
def test_hotplug_debugfs(tmp_path: Path) -> None:
    study = tmp_path / "s"
    answer = bigiron("case", "hotplug-debugfs", "--quick", "-o", study)
    assert answer.status == 0, answer
    text = " ".join(answer.out.split())
    assert "published 2.79 s here" in text
    assert "published 47% of the time at 1920 here" in text
    for claim in (
        "Since v5.13 the files are rebuilt for every CPU that goes offline",
        "Making the files on demand",
    ):
        assert f"agrees: {claim}" in text, text
    assert "does not agree: debugfs is 1600 times slower" in text
    assert "the mail's own table gives 17.0 times" in text
    assert "predicted at 1920" in (study / "report.md").read_text()
    again = bigiron("case", "hotplug-debugfs", "--quick", "-o", study)
    assert "every cell" in again.out and again.out.count("published") == answer.out.count("published")


def _on_debian(
    case: Case, folder: Path, study: str, *, settings: bool = False, really: int = 1, **changes: object
) -> Study:
    """One of a case's studies, cut down; where it has kernels of the case's own, on Debian's.

    Variants are the same machine then, without boot parameters, unless their `settings` stay.
    So many of those are `really` measured,
    and the others' cells are the last one's: what differs by chance between machines, these do not show.
    No more boots follow where these differ.
    """
    spec = replace(case.spec(study, quick=True), **changes)
    if spec.machine == "vm":
        kernels = [replace(variant, kernel="debian/6.1") for variant in spec.variant]
        alike = kernels if settings else [replace(each, boot="", set=[]) for each in kernels]
        spec = replace(spec, variant=alike, most_boots=spec.repetitions)
    machines = defaultdict[tuple[str, ...], list[Variant]](list)
    for variant in spec.variant:
        if len(known := machines[variant.kernel, variant.boot, *variant.set]) < really:
            known.append(variant)
    of_each = [variant for variant in spec.variant if any(variant in known for known in machines.values())]
    (folder / f"{study}.toml").write_bytes(to_toml(replace(spec, variant=of_each)))
    measured(folder / f"{study}.toml", "-o", folder / study)
    kept = open_study(folder / study).spec
    (folder / study / "study.toml").write_bytes(to_toml(replace(kept, variant=spec.variant)))
    found = open_study(folder / study)
    for cell in found.plan():
        if cell.variant not in of_each:
            like = machines[cell.variant.kernel, cell.variant.boot, *cell.variant.set][-1]
            record = found.record(dataclasses.replace(cell, variant=like))
            assert record
            tables = {
                name: ProbeTable(found.table(record, name), record.facts[name]) for name in record.tables
            }
            copied = replace(record, id=cell.id, variant=cell.variant.name, tables={}, facts={})
            found.add(copied, tables)
    return found


@pytest.mark.slow
def test_hotplug_rcu_s_report(tmp_path: Path) -> None:
    """On Debian's kernel in all four scenarios: two of them are then the same as the first."""
    case = find("hotplug-rcu")
    studies = {
        "times": _on_debian(case, tmp_path, "times", settings=True, cpus=[4], repetitions=2),
        "blocked": _on_debian(case, tmp_path, "blocked", settings=True, cpus=[4], repetitions=1),
    }
    report = case.measure_up(studies)
    figures = {figure.what: figure for figure in report.figures}
    assert figures["offline: all expedited"].published == "0.842 s for 127 CPUs, 95.3 % less"
    assert (
        "VM time for 3 CPUs" in figures["online: baseline"].ours
        and "% less (" in figures["online: all expedited"].ours
    )
    distortion = figures["offline: all expedited, for each CPU: the distortion of the VM's time"]
    assert distortion.published == "6.6 ms" and distortion.ours.endswith("times too long")
    blocked = figures["blocked in synchronize_rcu under the idle handler's end, offline"]
    assert blocked.published == "5,771,569 us" and "VM time in 3 waits" in blocked.ours
    assert "synchronize_rcu < cpuidle_pause_and_lock < pseries_cpuidle_cpu_dead" in report.claims[-1].evidence
    assert any("inlined it into its caller, cpuidle_pause_and_lock" in note for note in report.notes)


def test_open1_rcu_s_report(tmp_path: Path) -> None:
    """All limits are the same kernel here: none makes a difference."""
    case = find("open1-rcu")
    shorter = replace(case.spec("limits", quick=True).simulation, warmup_ms=20, duration_ms=20)
    studies = {
        "counts": _on_debian(case, tmp_path, "counts", really=2, cpus=[2], operations=2000),
        "lines": _on_debian(case, tmp_path, "lines", cpus=[2], operations=500),
        "waits": _on_debian(case, tmp_path, "waits", cpus=[2], operations=2000),
        "traces": _on_debian(case, tmp_path, "traces", cpus=[2], operations=50),
        "limits": _on_debian(case, tmp_path, "limits", tasks=[1, 20], simulation=shorter),
    }
    assert not any("3.16," in figure.what for figure in case.measure_up(studies).figures)
    (of_the_time,) = case.with_tree
    studies[of_the_time] = _on_debian(case, tmp_path, of_the_time, cpus=[2], operations=20)
    report = case.measure_up(studies)
    figures = {figure.what: figure for figure in report.figures}
    none = figures["callbacks per CPU in a grace period, 2 CPUs, 3.16, by RCU_COND_RESCHED_LIM"].ours
    assert "off: none in some repetition, " in none
    assert "__d_lookup_rcu, 2 CPUs, 3.16" in figures
    lookup = figures["__d_lookup_rcu, 2 CPUs"]
    assert lookup.published == "3.15: 2.45 % of the time, 3.16-rc0: 1.28 % of the time"
    assert lookup.ours.startswith("off: ") and lookup.ours.endswith(" % of the instructions; counted")
    assert "grace periods per second of VM time, 2 CPUs, by RCU_COND_RESCHED_LIM" in figures
    claims = {claim.says: claim.agrees for claim in report.claims}
    assert "With a limit of 256, in 3.16, SLUB's get_partial_node is called more often" in claims
    assert not claims["With a limit of 256 SLUB's get_partial_node is called more often"]
    assert all(figure.ours.endswith("counted") for figure in report.figures)
    assert report.simulated
    apart = {figure.what: figure for figure in report.simulated.figures}
    assert apart["the curves part at"].published == "50 tasks"
    assert all(
        figure.ours.endswith(("simulated, predicted", "replayed, predicted")) for figure in apart.values()
    )
    alike = {claim.says: claim for claim in report.simulated.claims}
    slower = alike["A limit of 256 makes operations slower from about 50 tasks on, from traces"]
    assert slower.agrees is None and "what RCU's callbacks do is of counts" in slower.evidence
    printed = case_report.as_text(case, studies, report)
    counted, _, modelled = printed.partition("\nSimulated:\n")
    assert "; counted" in counted and "simulated, predicted" not in counted
    assert "the curves part at" in modelled and "counted\n" not in apart
    untraced = case.measure_up(studies | {"traces": studies["counts"]})
    assert untraced.notes[-1].startswith("The traces were not replayed: ") and untraced.simulated
    assert not any("replayed" in figure.ours for figure in untraced.simulated.figures)


def test_dwal_percpu_s_report(tmp_path: Path) -> None:
    """All variants are the same kernel here, which never sums under the lock."""
    case = find("dwal-percpu")
    studies = {
        "counts": _on_debian(case, tmp_path, "counts", cpus=[2], operations=20),
        "neighbours": _on_debian(case, tmp_path, "neighbours", cpus=[2], tasks=[1, 2], operations=20),
        "traces": _on_debian(case, tmp_path, "traces", cpus=[2], tasks=[2], operations=20),
        "tasks": _on_debian(case, tmp_path, "tasks", tasks=[9, 63, 65]),
        "layouts": _on_debian(case, tmp_path, "layouts", repetitions=2),
    }
    report = case.measure_up(studies)
    figures = {figure.what: figure for figure in report.figures}
    taken = figures["space_info's lock for metadata taken, times per operation, 2 CPUs"].ours
    assert taken == "5.10: 2.00, 6.1: 2.00, reads: 2.00, sums: 2.00, sums, padded: 2.00; counted"
    assert all("counted" in figure.ours or "extrapolated" in figure.ours for figure in report.figures)
    assert report.simulated
    apart = {figure.what: figure for figure in report.simulated.figures}
    assert (
        apart["throughput, 63 tasks: sums instead of reads under the lock"].published == "worse than -52.4 %"
    )
    assert all(
        "simulated, predicted" in figure.ours or "replayed, predicted" in figure.ours
        for figure in apart.values()
    )
    at_once = "63 tasks, 63 CPUs online, 3 reads at once"
    lost = apart[f"throughput against one line, {at_once}"]
    assert lost.published == "-52.4 %" and lost.ours.startswith("two lines: -")
    assert apart[f"times as long as with one line a sum takes, {at_once}"].published == "2.64"
    traced = {claim.says: claim for claim in report.simulated.claims}
    online = traced["The machine has 288 CPUs online while 63 tasks run"]
    assert online.agrees is False and "12.5% of the CPUs' time, and 23.66 %" in online.evidence
    more = "Sums instead of reads cost more throughput than published, with 63 tasks, from traces"
    assert traced[more].agrees is False  # it is one kernel
    assert traced["Sums cost throughput with 63 tasks, from traces"].agrees is None
    nearly_all = (
        "The tasks spend nearly all of their time at one lock, with the new kernel even more, from traces"
    )
    assert "predicted reads: lock btrfs_space_info.lock" in traced[nearly_all].evidence
    claims = {claim.says: claim for claim in report.claims}
    assert claims["A sum walks all online CPUs"].agrees is None
    assert claims["With sums the lock is held longer"].agrees is False


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_a_case_brings(case: object) -> None:
    found = find(getattr(case, "name", ""))
    for study in (*found.studies, *found.with_tree):
        full, quick = found.spec(study, False), found.spec(study, True)
        assert (max(quick.cpus), len(cells(quick))) < (max(full.cpus), len(cells(full))) and quick.variant
        builds = {build.name: build for build in found.builds}
        if full.machine == "simulated":
            simulated.resolve(full)
            continue
        for variant in full.variant:
            assert variant.kernel in builds or variant.kernel.startswith("debian/")
    for build in found.builds:
        assert all((found.folder / "patches" / patch).is_file() for patch in build.patches)
        assert all((found.folder / fragment).is_file() for fragment in build.fragments)
    title, _blank, outcome, *_ = (found.folder / "README.md").read_text().splitlines()
    assert title == f"# {found.name}" and outcome.startswith("**Outcome**: ")


def test_the_kernel_of_the_time_is_built_from_that_version(tmp_path: Path) -> None:
    tree = tmp_path / "linux"
    (tree / "kernel").mkdir(parents=True)
    (tree / "Kconfig").touch()
    (tree / "Makefile").write_text("VERSION = 3\nPATCHLEVEL = 1\nSUBLEVEL = 6\nEXTRAVERSION =\n")
    answer = bigiron("case", "open1-rcu", "--linux", tree, "-o", tmp_path / "s")
    said = f"open1-rcu: reading {tree}\nbigiron: {tree} is Linux 3.1.6: open1-rcu takes --linux of 3.16\n"
    assert (answer.status, answer.err) == (2, said)
    answer = bigiron("case", "rcu-512", "--linux", tree, "-o", tmp_path / "s")
    assert (answer.status, answer.complaint) == (2, "rcu-512 takes no --linux: open1-rcu does")
    answer = bigiron("case", "open1-rcu", "--linux", tmp_path / "none", "-o", tmp_path / "s")
    assert answer.status == 2 and str(tmp_path / "none") in answer.complaint
    assert not (tmp_path / "s").exists()


def test_published_figures_are_read() -> None:
    published = Published(find("hotplug-debugfs").folder / "published.csv")
    assert published.value("smt_off_1920_cpus", "v5.11", "real") == 1762.007


def test_an_unknown_case() -> None:
    with pytest.raises(UserError, match="no case 'hotplug': there is hotplug-debugfs"):
        find("hotplug")


def test_all_that_a_machine_lacks_is_named_at_once(tmp_path: Path) -> None:
    """Before anything is fetched or built, and with the command that installs it."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in "gcc", "make", "bc", "apt-get", "apt-config", "apt-cache", "dpkg", "ld", "as":
        (tools / tool).symlink_to(str(shutil.which(tool)))
    answer = bigiron("case", "hotplug-rcu", "--quick", "-o", tmp_path / "s", PATH=str(tools))
    assert (answer.status, answer.complaint) == (
        2,
        "hotplug-rcu lacks: no qemu-system-ppc64 on PATH; no powerpc64le-linux-gnu-gcc on PATH; "
        "no flex, bison, pahole, powerpc64le-linux-gnu-gcc on PATH to build a kernel with; "
        "no clang on PATH to compile the BPF program blocked: make setup-ppc64le",
    )
    assert not (tmp_path / "s").exists()
    answer = bigiron("case", "hotplug-debugfs", "--quick", "-o", tmp_path / "s", PATH=str(tools))
    assert (answer.status, answer.complaint) == (
        2,
        "hotplug-debugfs lacks: no qemu-system-x86_64 on PATH: make setup",
    )
