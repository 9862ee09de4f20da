"""Which events profiles are of, what is left out of them, and what is said of it."""

import re
from pathlib import Path

import pytest
from conftest import bigiron
from test_profiles import PROFILES, agreement, profile, tables

from bigiron import readers
from bigiron.errors import UserError
from bigiron.report.measured import Beside, as_text, sentences
from bigiron.study.store import Study
from bigiron.util.measured import MeasuredProfile

__all__ = ["tables"]


def report(event: str, *rows: tuple[str, str], heading: str = "Overhead") -> str:
    """A part of what `perf report --stdio` prints."""
    shown = [f"# Samples: 12K of {event}", "# Event count (approx.): 12", "#"]
    shown += [f"# {heading}  Command  Shared Object      Symbol", "#"]
    shown += [f"    {share}  open1    [kernel.kallsyms]  [k] {name}" for share, name in rows]
    return "\n".join([*shown, "", ""])


def script(event: str, *functions: str) -> str:
    """What `perf script` prints with call chains."""
    return "".join(
        f"open1  1000 [000]  1234.5600{at:02}:     250000 {event}: \n"
        f"\tffffffff8fab3fc6 {name}+0x6 ([kernel.kallsyms])\n"
        "\tffffffff8fa12ca5 do_open+0x15 ([kernel.kallsyms])\n\n"
        for at, name in enumerate(functions)
    )


def weights(found: MeasuredProfile) -> dict[str, float]:
    return {thing.name: thing.weight for thing in found.things}


def said(study: Study, text: str) -> str:
    """What `explain` says of a profile."""
    return " ".join(sentences(Beside("s", "open1", "file", agreement(study, text))))


OPENS = [("60.00%", "link_path_walk"), ("40.00%", "apparmor_file_open")]


@pytest.mark.parametrize(
    ("event", "costs"),
    [
        ("event 'cycles:P'", "The function in which your machine spends most time is link_path_walk"),
        ("event 'cpu_core/cycles/P'", "The function in which your machine spends most time is"),
        ("event 'LLC-load-misses'", "The function with most samples of LLC-load-misses is link_path_walk"),
        ("event 'stalled-cycles-backend'", "The function with most samples of stalled-cycles-backend is"),
    ],
)
def test_only_clocks_are_time(event: str, costs: str, tables: Study) -> None:
    assert said(tables, report(event, *OPENS)).startswith(costs)


def test_an_event_that_is_not_named_is_not_called_time(tables: Study) -> None:
    _, rows = report("", *OPENS).split("Symbol\n")
    assert said(tables, rows).startswith("The function with most samples is link_path_walk")


def test_a_heading_names_the_event(tables: Study) -> None:
    found = Beside("s", "open1", "f.txt", agreement(tables, report("event 'LLC-load-misses'", *OPENS)))
    assert "functions by % of the samples of LLC-load-misses in f.txt" in as_text(found)


def test_weights_of_memory_are_refused() -> None:
    text = report("event 'cpu/mem-loads,ldlat=30/P'", *OPENS).replace(
        "# Event count (approx.)", "# Total weight "
    )
    with pytest.raises(
        UserError, match="line 2: these are weights of `perf mem report`: print `perf script`"
    ):
        readers.profile(text)


def test_one_of_several_events_is_read_and_the_others_are_named() -> None:
    """Each has more rows than would be taken for damage; the first one may have none."""
    many = [(f"{1 / (1 + at):.2f}%", f"function_{at}") for at in range(150)]
    parts = [
        report("event 'dummy:u'"),
        report("event 'instructions:P'", *many),
        report("event 'cycles:P'", *OPENS),
    ]
    found = readers.profile("".join(parts))
    assert weights(found) == {"link_path_walk": 60, "apparmor_file_open": 40} and not found.not_read
    assert found.unit == "% of the samples of cycles:P"
    assert found.notes == ("Only samples of cycles:P are shown, not those of instructions:P.",)


def test_of_two_clocks_the_one_with_most_samples_is_read() -> None:
    few = report("event 'cpu_atom/cycles/P'", ("99.00%", "vfs_read")).replace("12K", "120")
    assert readers.profile(few + report("event 'cpu_core/cycles/P'", *OPENS)).unit.endswith(
        "cpu_core/cycles/P"
    )


def test_a_group_has_a_share_of_each_event() -> None:
    group = "events 'anon group { intel_pt//, cycles, cpu/event=0x3c,umask=0/ }'"
    rows = [("0.00%  60.00%   1.00%", "link_path_walk"), ("0.00%  40.00%  99.00%", "apparmor_file_open")]
    found = readers.profile(report(group, *rows))
    assert weights(found) == {"link_path_walk": 60, "apparmor_file_open": 40}
    assert found.notes == ("Only samples of cycles are shown, not those of cpu/event=0x3c,umask=0/.",)
    with_callees = [(f"0.00%  90.00%   5.00%   {shares}", name) for shares, name in rows]
    assert weights(readers.profile(report(group, *with_callees, heading="Children   Self"))) == weights(found)


def test_only_the_heading_tells_what_the_second_share_is() -> None:
    both = ("60.00%  20.00%", "link_path_walk")
    assert weights(readers.profile(report("event 'cycles'", both, heading="Children  Self"))) == {
        "link_path_walk": 20
    }
    by_mode = ("60.00%  58.00%   2.00%", "link_path_walk")
    found = readers.profile(report("event 'cycles'", by_mode, heading="Overhead   sys   usr"))
    assert weights(found) == {"link_path_walk": 60}


def test_flat_call_chains_are_no_rows() -> None:
    text = (
        report("event 'cycles'", *OPENS)
        + "            15.20%\n                link_path_walk\n                path_openat\n"
    )
    assert weights(readers.profile(text)) == {"link_path_walk": 60, "apparmor_file_open": 40}


def test_samples_of_switches_are_no_time() -> None:
    """However many more there are of them than of cycles."""
    text = script("sched:sched_switch", *["__schedule"] * 3) + script("cycles:P", "do_dentry_open")
    found = readers.profile(text)
    assert (weights(found), found.unit) == ({"do_dentry_open": 1}, "samples of cycles:P")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("tracepoint:sched:sched_switch\n@[{stack}]: 812\n", "weight of their stacks"),
        ("@us[{stack}]: 812\n", "time off the CPU"),
        (
            "Tracing off-CPU time (us) of all threads by kernel stack. Hit Ctrl-C to end.\n@[{stack}]: 9\n",
            "time off the CPU",
        ),
    ],
)
def test_counts_of_switches_are_no_time(text: str, unit: str, tables: Study) -> None:
    names = ("__schedule", "schedule", "anon_pipe_read", "vfs_read", "ksys_read", "do_syscall_64")
    found = text.format(stack="".join(f"\n    {name}+46" for name in names) + "\n")
    assert readers.profile(found).unit == unit
    costs = "The place where your machine's tasks wait longest"
    if unit != "time off the CPU":
        costs = "The place whose stacks weigh most (time, if the tool summed times)"
    assert said(tables, found).startswith(f"{costs} is anon_pipe_read < ")


def test_inlined_functions_are_no_functions_of_the_kernel() -> None:
    (part,) = profile("script-inlined-v6.4.txt").things[0].parts
    assert (part.function, part.is_kernel) == ("native_write_msr", True)


def test_samples_may_lack_a_call_chain_but_no_event() -> None:
    found = profile("script-no-chains-v6.9.txt")
    assert found.unit == "samples of cpu_core/CPU_CLK_UNHALTED.THREAD/" and not found.not_read
    lacking = re.sub(r" \[000\].*", "", script("cycles", "do_dentry_open"))
    with pytest.raises(UserError, match="print `perf script -F comm,tid,time,event,ip,sym,dso`"):
        readers.profile(lacking)


def test_lines_of_the_source_are_known() -> None:
    text = script("cycles", "do_dentry_open").replace("kallsyms])\n", "kallsyms])\n  open.c:930\n")
    assert not readers.profile(text).not_read


def test_what_has_no_symbol_or_is_idle_is_said_to_be_left_out(tables: Study) -> None:
    rows = [("50.00%", "0xffffffffc0a1b2c3"), ("30.00%", "intel_idle"), ("20.00%", "link_path_walk")]
    found = readers.profile(report("event 'cycles'", *rows))
    assert weights(found) == {"link_path_walk": 20}
    assert found.notes == (
        "50% of what was measured in the kernel has no symbol, and is left out.",
        "30% of what was measured in the kernel is of idle CPUs, and is left out.",
    )
    assert " ".join(found.notes) in said(tables, report("event 'cycles'", *rows))
    with pytest.raises(UserError, match="no function but those of idle CPUs"):
        readers.profile("swapper;secondary_startup_64_[k];do_idle_[k];intel_idle_[k] 5000\n")


def test_notes_are_kept_with_a_profile(tmp_path: Path, tables: Study) -> None:
    rows = [("50.00%", "0xffffffffc0a1b2c3"), *OPENS]
    file, kept = tmp_path / "report.txt", tmp_path / "m"
    file.write_text(report("event 'cycles'", *rows) + "what is this, and why?\n")
    to = ("--tasks", "8", "-o", kept)
    assert bigiron("import", "perf-report", file, *to).status == 0
    shown = bigiron("compare", tables.folder, "--with", kept)
    assert "has no symbol, and is left out" in shown.out and "1 line of it was not understood." in shown.out
    file.write_text(report("event 'cycles'", *OPENS))
    again = bigiron("import", "perf-report", file, *to)
    assert (again.status, again.complaint) == (
        2,
        f"{kept} has a profile, which is all it can have: give another folder with -o",
    )


def test_what_terminals_and_windows_add_changes_nothing() -> None:
    stacks = (PROFILES / "offcputime-bpftrace-v6.18.txt").read_text()
    assert readers.profile(stacks.replace("\n", "\r\n")) == readers.profile(stacks)


def test_a_byte_order_mark_is_no_text(tmp_path: Path, tables: Study) -> None:
    file = tmp_path / "contention.txt"
    file.write_text(
        (PROFILES / "lock-contention-interrupted-v6.3.txt").read_text().removeprefix("^C"), "utf-8-sig"
    )
    assert bigiron("compare", tables.folder, "--with", file).status == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            " contended   total wait     max wait     avg wait          pid   owner\n",
            "line 1: these are waits by pid, not by lock",
        ),
        (
            "# output: contended, total wait, max wait, avg wait, type, caller\n1, 2, 3\n",
            "line 1: these are values for a program: leave -x out",
        ),
    ],
)
def test_what_is_no_wait_by_lock(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        readers.profile(text)


def test_other_text_has_no_memory_events() -> None:
    read_text = readers.find("perf-mem").read_text
    assert read_text
    with pytest.raises(UserError, match="no sample with a data source in it"):
        read_text("nothing of the kind\n")


def test_the_first_path_of_a_call_chain_are_its_callers() -> None:
    chain = """
            |
            |--60.00%--refcount_dec_not_one
            |          charge_memcg
            |          |
            |          |--40.00%--__mem_cgroup_charge
            |          |          [unknown]
            |          |
            |           --20.00%--shmem_add_to_page_cache
            |
             --15.58%--mod_objcg_mlstate
"""
    row = next(
        line for line in (PROFILES / "c2c-pids-v4.x.txt").read_text().splitlines() if "task_tick_fair" in line
    )
    whole = (PROFILES / "c2c-pids-v4.x.txt").read_text()
    found = readers.profile(whole.replace(row, row + chain))
    assert found.things[1].parts[0].callers == ("charge_memcg", "__mem_cgroup_charge") and not found.not_read


def test_perf_before_linux_4_15_has_no_records() -> None:
    part = profile("c2c-pids-v4.x.txt").things[1].parts[0]
    assert (part.function, part.records, part.weight) == ("task_tick_fair", 0, pytest.approx(0.5833 * 12 + 3))
    without_pid = re.sub(r" 14604( +0x)", r"\1", (PROFILES / "c2c-pids-v4.x.txt").read_text())
    assert readers.profile(without_pid.replace("      Pid", "")) == profile("c2c-pids-v4.x.txt")


# Locks of lock_stat

HEADING = (
    "class name    con-bounces    contentions   waittime-min   waittime-max waittime-total   waittime-avg\n"
)


def lock_stat(name: str, points: str) -> str:
    rows = (
        f"{name}-W: 900000 984000 0.26 939.10 916371.53 194.90\n",
        f"{name}-R: 37 100 1.31 2995.61 3256.52 32.30\n",
    )
    blocking = f"{name} 1 [<00000000811502a7>] do_exit+0x57/0x280\n"
    return f"{HEADING}{rows[0]}{rows[1]}--------\n{points}--------\n{blocking}"


def test_readers_and_writers_have_one_list_of_functions() -> None:
    readers_, writers, alone = profile("lock_stat-doc.txt").things
    assert (readers_.type, writers.type, alone.type) == ("R", "W", "")
    assert writers.functions == readers_.functions and writers.functions[0] == "__do_page_fault"
    assert sum(part.weight for part in writers.parts) == pytest.approx(writers.weight)
    assert "one list of functions for readers and writers" in profile("lock_stat-doc.txt").notes[0]
    assert not profile("lock_stat-vmap-v6.3.txt").notes


def test_functions_of_modules_take_locks() -> None:
    point = "&ei->i_es_lock 184 [<0000000098d6d7d1>] ext4_es_insert_extent+0xd7/0x3c0 [ext4]\n"
    found = readers.profile(lock_stat("&ei->i_es_lock", point))
    assert found.things[0].functions == ("ext4_es_insert_extent",) and not found.not_read


@pytest.mark.parametrize("name", ["&sb->s_type->i_mutex_key#14", "&type->i_mutex_dir_key#3"])
def test_lockdep_s_names_of_i_rwsem(name: str, tables: Study) -> None:
    found = agreement(tables, lock_stat(name, f"{name} 984100 [<00000000811502a7>] do_exit+0x57/0x280\n"))
    (pair,) = found.both
    assert pair.measured.type == "W" and pair.counted
    assert pair.counted.name == "struct inode.i_rwsem (down_write)"


def test_a_lock_without_a_name_is_not_called_absent(tables: Study) -> None:
    first = agreement(tables, (PROFILES / "lock-contention-unnamed-v6.3.txt").read_text()).pairs[0]
    assert first.why == "perf has no name for it: without -l, `perf lock contention` prints who waits"
