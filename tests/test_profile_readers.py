"""What klockstat, offcputime, bpftrace, the function_graph tracer and `perf script` print, and c2c's form."""

import re
from pathlib import Path

import pytest
from conftest import bigiron
from test_profiles import LABEL, PROFILES, profile, tables

from bigiron import readers
from bigiron.errors import UserError
from bigiron.study.store import Study
from bigiron.util.measured import MeasuredProfile, MeasuredThing

__all__ = ["tables"]

# Locks: klockstat of libbpf-tools has units, and may have call chains and the lock that took longest

WAIT = "\n                               Caller  Avg Wait    Count   Max Wait   Total Wait\n"
HOLD = "\n                               Caller  Avg Hold    Count   Max Hold   Total Hold\n"


def row(caller: str, total: str, *below: str, lock: str = "") -> str:
    """As the format strings of libbpf-tools/klockstat.c print it."""
    lines = [f"{caller:>37} {'155 ns':>9} {33052:>8} {'115.5 us':>10} {total:>12}"]
    lines += [f"{name:>37}" for name in below]
    if lock:
        lines.append(f"{'':30}Max PID 39643, COMM cadvisor, Lock {lock}")
    return "\n".join(lines) + "\n"


def locks(text: str) -> list[tuple[str, str, float, str, tuple[str, ...]]]:
    return [
        (thing.name, thing.type, thing.weight, thing.parts[0].function, thing.parts[0].callers)
        for thing in readers.profile(text).things
    ]


def test_klockstat_of_libbpf_tools_names_locks_and_types() -> None:
    found = locks(
        "Tracing mutex/sem lock events...  Hit Ctrl-C to end\n\n"
        + WAIT
        + row("rtnl_dumpit+0x74", "1.7 us", "netlink_dump+0x138", lock="rtnl_mutex (0xffffffff9e422b60)")
        + WAIT
        + row("down_read+0x5", "5.1 ms", "kernfs_fop_readdir+0x115", lock="no-ksym (0xffff9477eec5f1a8)")
        + HOLD
        + row("down_read_killable+0x5", "64.3 ms", "iterate_dir+0x52", lock="no-ksym (0xffff9477eec5f1a8)")
        + "Exiting trace of mutex/sem locks\n"
    )
    assert found == [
        ("", "rwsem:R", 5.1e6, "kernfs_fop_readdir", ()),
        ("rtnl_mutex", "mutex or rwsem", pytest.approx(1.7e3), "rtnl_dumpit", ("netlink_dump",)),
    ]


def test_klockstat_of_libbpf_tools_goes_on_adding_up() -> None:
    """Its sums are of all intervals so far; bcc's are of each."""
    interval = WAIT + row("pipe_read+0x3f", "1.0 s ") + HOLD + row("pipe_read+0x3f", "2.0 s ")
    assert [found[2] for found in locks(interval + interval.replace("1.0 s", "3.0 s"))] == [3e9]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (WAIT.replace("               Caller", "Tid              Comm"), "line 2: these are waits by thread"),
        (WAIT + row("pipe_read+0x3f", "1.0 s ")[:60], "line 3: this row of a lock ends early"),
        (WAIT + row("pipe_read+0x3f", "1.0.0 s"), "line 3: total is '1.0.0', not a number"),
        (HOLD + row("pipe_read+0x3f", "1.0 s"), "no function waits for a lock in it"),
        ("@us[\n    schedule+35\n    do_wait+83\n", "line 1: this stack has no total"),
        ("a;entry_SYSCALL_64;\x1b[2J 5\n", "line 1: a function's name has characters that cannot be printed"),
        (" 0)               |  dput() {\n", "no function has a duration"),
        ("a;b " + "1" * 100_000, "line 1: it has 100004 characters: at most 100000 are read"),
        (" 0)   1.2.3 us    |  dput();\n", "line 1: duration is '1.2.3', not a number"),
    ],
)
def test_damage_is_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UserError, match=re.escape(complaint)) as raised:
        readers.profile(text)
    assert "\n" not in str(raised.value)


# Stacks


def test_samples_of_stacks_that_keep_their_cpu_are_functions() -> None:
    text = "@[\n    clear_page_erms+7\n    do_syscall_64+113\n    entry_SYSCALL_64_after_hwframe+118\n]: 12\n"
    (thing,) = readers.profile(text).things
    assert (thing.name, thing.weight, thing.is_kernel) == ("clear_page_erms", 12, True)
    preempted = text + text.replace("clear_page_erms+7", "__schedule+1").replace("12", "3")
    assert readers.profile(preempted).kind == "functions"


def test_folded_stacks_that_bigiron_exports_of_blocked_time_are_waits() -> None:
    found = readers.profile("open;do_syscall_64;ksys_read;anon_pipe_read;schedule;__schedule 70\n")
    assert (found.kind, found.things[0].name) == ("waits", "anon_pipe_read")


# Function graphs


def own(text: str) -> dict[str, float]:
    return {thing.name: round(thing.weight, 3) for thing in readers.profile(text).things}


def test_a_function_s_own_time_is_without_what_it_called() -> None:
    found = {thing.name: thing.weight for thing in profile("graph-tcp.txt").things}
    assert found["__inet_lookup_established"] == pytest.approx(1.847 - 0.084 - 0.044 - 0.047)
    assert found["tcp_v4_early_demux"] == pytest.approx(3.028 - 1.847 - 0.047)
    assert "ip_rcv" not in found, "its end is not in the trace"


def test_calls_of_tasks_that_take_turns_are_kept_apart() -> None:
    text = (
        " 0)               |  vfs_read() {\n 0)               |    schedule() {\n"
        " ------------------------------------------\n 0)    cat-2834     =>   less-2835\n"
        " ------------------------------------------\n\n"
        " 0)   9.000 us    |    } /* schedule */\n 0)   1.000 us    |  fput();\n"
        " ------------------------------------------\n 0)   less-2835     =>    cat-2834\n"
        " ------------------------------------------\n\n"
        " 0)   5.000 us    |    }\n 0)   7.000 us    |  }\n"
    )
    started = " 0)    sh-1     =>    cat-2834\n" + text
    assert own(started) == {"fput": 1.0, "vfs_read": 2.0}, "time off the CPU is not a function's own"


def test_lost_events_end_what_was_called() -> None:
    begun, ended = " 0)               |  vfs_read() {\n", " 0)   5.000 us    |  }\n"
    text = f"{begun}CPU:0 [LOST 12 EVENTS]\n{ended} 0)   1.000 us    |  fput();\n"
    assert own(text) == {"fput": 1.0}


# Memory events


def lines(found: MeasuredProfile) -> dict[str, tuple[float, float]]:
    def stores(thing: MeasuredThing) -> float:
        return sum(part.stores for part in thing.parts)

    return {thing.name: (thing.weight, round(stores(thing))) for thing in found.things}


def test_memory_events_are_the_cache_lines_that_perf_makes_of_them() -> None:
    """One file, printed by `perf script` and by `perf c2c report`."""
    assert lines(profile("script-mem-made.txt")) == lines(profile("c2c-made.txt"))


def test_a_memory_event_has_its_byte_instruction_and_callers() -> None:
    """With -g, the instruction is the first of the call chain below."""
    every = (PROFILES / "script-mem-made.txt").read_text().splitlines()
    sample = next(line for line in every if "ffff888104a31250" in line and "L3 hit|SNP HitM" in line)
    alone = re.sub(r"\|BLK  N/A.*", "|BLK  N/A             128               0", sample)
    frame = "\t{:>16} {} ([kernel.kallsyms])"
    below = [("ffffffff822010c9", "_raw_spin_unlock+0x19"), ("ffffffff816c746a", "pipe_write+0x39a")]
    (thing,) = readers.profile("\n".join([alone, *(frame.format(*one) for one in below), ""])).things
    (part,) = thing.parts
    assert (thing.name, part.offset, part.function) == ("0xffff888104a31240", 0x10, "_raw_spin_unlock")
    assert (part.place, part.callers, part.is_kernel) == ("_raw_spin_unlock+25", ("pipe_write",), True)


def test_arm_s_samples_count_once() -> None:
    one = (PROFILES / "script-mem-arm64-v5.19.txt").read_text().splitlines()[0]
    addressed = one.replace("8688000842", "ffff00080bdf1a48       8688000842")
    text = "\n".join(addressed.replace("l1d-miss", event) for event in ("l1d-miss", "tlb-access", "memory"))
    (thing,) = readers.profile(text).things
    assert (thing.name, thing.weight, thing.parts[0].is_kernel) == ("0xffff00080bdf1a40", 1, False)


# c2c's form


def test_counts_in_c2c_s_form_are_read_as_c2c_s(tables: Study, tmp_path: Path) -> None:
    answer = bigiron("compare", tables.folder, "--format", "c2c", "--base", "new")
    assert (answer.status, answer.err) == (0, ""), answer
    assert answer.out.startswith("# What bigiron counted: open1 on new, 2 CPUs, 2 tasks, 10 operations")
    printed, found = PROFILES / "c2c-made.txt", readers.profile(answer.out)
    headings = [line for line in printed.read_text().splitlines() if re.match(r"# (Index|  Num) ", line)]
    shown = [line for line in answer.out.splitlines() if re.match(r"# (Index|  Num) ", line)]
    assert [line.split() for line in shown] == [line.split() for line in headings]
    assert not found.not_read and f"#     0  {LABEL}\n" in answer.out
    label = found.things[0]
    assert [(part.function, part.stores, part.records, part.offset) for part in label.parts] == [
        ("apparmor_file_free_security", 40, 80, 0x8)
    ]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (
            ("--with", PROFILES / "c2c-made.txt"),
            "--format c2c prints what was counted: it does not go with --with",),
        (("--probe", "locks"), "--format c2c applies only to the shared cache lines of the probe conflicts"),
    ],
)  # fmt: skip
def test_c2c_s_form_is_of_cache_lines(options: tuple[str | Path, ...], complaint: str, tables: Study) -> None:
    answer = bigiron("compare", tables.folder, "--format", "c2c", *options)
    assert (answer.status, answer.out, answer.complaint) == (2, "", complaint)
