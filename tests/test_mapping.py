"""What runs instead of the benchmark in a report, by family; and the machine that it is predicted for."""

import doctest
import importlib
import pkgutil
import re
from dataclasses import replace
from pathlib import Path

import pytest

from bigiron import _sim
from bigiron.commands.regressions.judge import _what
from bigiron.errors import UserError
from bigiron.judge import second_opinion
from bigiron.judge.second_opinion import ReportedShape
from bigiron.readers import robot_mail
from bigiron.readers.robot_mail import ReportedMachine, RobotMail
from bigiron.roots.spec import Packages, parse
from bigiron.simulator import machine_files, reported_machine
from bigiron.study import program
from bigiron.study.resolve import command_words
from bigiron.workloads import of_benchmark, registry
from bigiron.workloads.of_benchmark import Mapped, fs_of, scripts, stressors, workload_of

HERE = Path(__file__).parent
OPEN1 = (HERE / "reports" / "open1.txt").read_text()
FILES = ("1,024 files for each task",)
ALL_IN_ONE = "256 files per directory instead of all in one"
NOT_SHAPED = ReportedShape("", "", "unknown")


def mail(benchmark: str, parameters: dict[str, str], metric: str = "") -> RobotMail:
    """A report of another benchmark, in the form of tests/reports/open1.txt."""
    lines = "".join(f"\n\t{key}: {value}" for key, value in parameters.items())
    head, rest = OPEN1.split("parameters:", 1)
    text = head.replace("testcase: will-it-scale", f"testcase: {benchmark}") + "parameters:" + lines
    text = text.replace("regression of will-it-scale.per_process_ops", f"regression of {metric or 'x.ops'}")
    return robot_mail.read((text + "\n\n" + rest[rest.index("commit:") - 1 :]).encode(), "a mail")


def command(benchmark: str, metric: str = "", **parameters: str) -> str:
    """The program's command."""
    found = workload_of(benchmark, parameters, metric)
    assert found.program
    return found.program.command


def refused(benchmark: str, metric: str = "", **parameters: str) -> str:
    """Why it is not mapped."""
    with pytest.raises(UserError) as refusal:
        workload_of(benchmark, parameters, metric)
    return str(refusal.value)


def test_the_examples() -> None:
    package = [of_benchmark, reported_machine]
    for module in pkgutil.iter_modules(of_benchmark.__path__):
        package.append(importlib.import_module(f"{of_benchmark.__name__}.{module.name}"))
    assert all(doctest.testmod(module).failed == 0 for module in package)


# Built in


def test_loops_are_built_in() -> None:
    assert workload_of("will-it-scale", {"test": "brk1", "mode": "thread"}) == Mapped("brk1", "thread")
    direct = {"test": "DWAL", "fstype": "xfs", "directio": "directio"}
    assert workload_of("fxmark", direct) == Mapped("fxmark/DWAL-direct", "process", "xfs")
    sockets = {"ipc": "socket", "mode": "process"}
    assert workload_of("hackbench", sockets) == Mapped("hackbench/socket", "process")
    assert workload_of("hackbench", {"ipc": "pipe", "mode": "threads"}) == Mapped("hackbench/pipe", "thread")


def test_perf_bench_sched_pipe_is_one_pair() -> None:
    found = workload_of("perf-bench-sched-pipe", {"mode": "threads", "nr_task": "2", "loops": "10000000ops"})
    assert (found.workload, found.mode, found.tasks) == ("context_switch1", "thread", 1)
    assert found.differs == ("both tasks of the pair on one CPU",)
    asked = second_opinion.spec(
        mail("perf-bench-sched-pipe", {}), ("a", "b"), found, [8], "x86_64", NOT_SHAPED, 2
    )
    assert asked.tasks == [1]


@pytest.mark.parametrize(
    ("benchmark", "test", "there"),
    [
        ("aim7", "creat-clo", "aim9/creat-clo"),
        ("filebench", "varmail.f", "filebench/varmail"),
        ("lmbench3", "PIPE", "lmbench/pipe"),
        ("unixbench", "spawn", "unixbench/spawn"),
        ("vm-scalability", "lru-shm", "vm-scalability/lru-shm"),
        ("fsmark", "", "fsmark/fsmark"),
        ("fs_mark", "", "fsmark/fsmark"),
    ],
)
def test_tests_of_suites_are_found_however_reports_write_them(benchmark: str, test: str, there: str) -> None:
    parameters = {"test": test, "fs": "xfs", "disk": "1SSD"} if test else {"fs": "xfs", "disk": "1SSD"}
    found = workload_of(benchmark, parameters)
    assert (found.workload, found.fs) == (there, "xfs")
    assert found.differs[0] == "a disk in memory instead of 1SSD"
    assert "is not built in" in refused(benchmark, test="no-such-test")


def test_a_test_that_is_another_workload_is_that_one() -> None:
    names = registry.names()
    for test, same in (("context1", "context_switch1"), ("pipe", "pipe1")):
        if f"unixbench/{test}" not in names:
            assert workload_of("unixbench", {"test": test}) == Mapped(same, "process")


def test_a_test_may_be_another_one_with_a_difference() -> None:
    limited = workload_of("filebench", {"test": "ratelimcopyfiles.f", "fs": "xfs", "disk": "1HDD"})
    assert (limited.workload, limited.fs) == ("filebench/copyfiles", "xfs")
    assert limited.differs[:2] == ("a disk in memory instead of 1HDD", "no limit of its rate")
    remapped = workload_of("vm-scalability", {"test": "mremap-xread-rand-mt"})
    assert (remapped.workload, remapped.mode) == ("vm-scalability/mmap-xread-rand", "thread")
    assert remapped.differs
    faults = workload_of("fio-basic", {"ioengine": "page_fault", "rw": "randwrite"})
    assert faults.workload == "vm-scalability/anon-w-rand" and faults.differs


def test_what_computes_in_user_mode_is_refused_as_that() -> None:
    for suite, test in (("unixbench", "double"), ("unixbench", "dhry2reg"), ("aim9", "add_double")):
        assert f"{suite}'s {test} computes in user mode" in refused(suite, test=test)
    assert not {f"{suite}/{test}" for suite, tests in scripts._COMPUTE.items() for test in tests} & {
        *registry.names()
    }


def test_any_metric_of_a_stressor_names_it() -> None:
    found = workload_of("stress-ng", {"class": "os"}, "stress-ng.pagemove.page_remaps_per_sec")
    assert "--pagemove {tasks}" in found.called
    with pytest.raises(UserError, match="does not say which stressor"):
        workload_of("stress-ng", {"class": "os"}, "stress-ng.time.user_time")


def test_files_of_vm_scalability_are_on_a_disk() -> None:
    assert workload_of("vm-scalability", {"test": "msync"}).fs == "xfs"
    assert workload_of("vm-scalability", {"test": "msync", "fs": "ext4"}).fs == "ext4"
    assert workload_of("vm-scalability", {"test": "msync-mt"}).workload == "vm-scalability/msync-mt"
    assert workload_of("vm-scalability", {"test": "truncate", "fs": "xfs"}).fs == "xfs"
    assert workload_of("vm-scalability", {"test": "lru-shm"}).fs == ""
    assert workload_of("vm-scalability", {"test": "truncate-seq"}).tasks == 1
    assert "hugetlb is not built in" in refused("vm-scalability", test="anon-w-seq-hugetlb")


def test_filebench_has_the_threads_of_its_personality() -> None:
    for test, threads in (("varmail.f", 16), ("filemicro_rread.f", 1), ("randomrw.f", 2)):
        found = workload_of("filebench", {"test": test, "fs": "xfs"})
        assert (found.mode, found.tasks) == ("thread", threads)
        reported = replace(mail("filebench", {"test": test}), fixed_tasks=found.tasks)
        asked = second_opinion.spec(reported, ("a", "b"), found, [4, 8], "x86_64", NOT_SHAPED, 2)
        assert asked.tasks == sorted({min(threads, 4), min(threads, 8)})
        assert reported.tasks == threads and not reported.tasks_are_assumed


def test_one_task_is_measured_as_one() -> None:
    one, few = (mail("will-it-scale", {"test": "open1", "nr_task": tasks}) for tasks in ("1", "2"))
    what = Mapped("open1")
    tasks = [
        second_opinion.spec(each, ("a", "b"), what, [8], "x86_64", NOT_SHAPED, 2).tasks for each in (one, few)
    ]
    assert tasks == [[1], [2]]


def test_huge_pages_are_as_in_the_report() -> None:
    reported = mail("vm-scalability", {"test": "lru-shm", "thp_enabled": "never", "thp_defrag": "never"})
    what = workload_of(reported.benchmark, reported.parameters)
    asked = second_opinion.spec(reported, ("a", "b"), what, [8], "x86_64", NOT_SHAPED, 2)
    assert all(one.boot.endswith(" transparent_hugepage=never") for one in asked.variant)
    odd = replace(reported, parameters={"thp_enabled": "never debug"})
    asked = second_opinion.spec(odd, ("a", "b"), what, [8], "x86_64", NOT_SHAPED, 2)
    assert not any("huge" in one.boot for one in asked.variant)


def test_files_mounts_and_sizes_that_differ_are_told() -> None:
    assert "on xfs and nfsv4, which no machine" in refused("postmark", fs="xfs", fs1="nfsv4")
    for same in ("8K", "8KB", "8k", "8kB", "8192", "8192B"):
        assert workload_of("fsmark", {"fs": "xfs", "filesize": same}).differs == (*FILES, ALL_IN_ONE)
    other = ("files of 8KB instead of 9B", *FILES, ALL_IN_ONE)
    assert workload_of("fsmark", {"filesize": "9B"}).differs == other
    reverse = workload_of("fsmark", {"sync_method": "PostReverseFsync"})
    assert reverse.differs == ("fsyncBeforeClose instead of PostReverseFsync", *FILES)
    assert workload_of("fsmark", {"sync_method": "NoSync"}).differs == FILES
    dax = {"rw": "write", "bs": "4k", "fs": "ext4", "disk": "2pmem", "mount_option": "dax"}
    assert workload_of("fio-basic", dax).differs[1] == "no mount option dax"


def test_a_workload_says_in_what_it_differs_from_its_benchmark() -> None:
    reclaiming = workload_of("vm-scalability", {"test": "lru-file-mmap-read"})
    assert reclaiming.differs == ("no reclaim: a file of 16 MiB is truncated and read again",)
    smaller = workload_of("filebench", {"test": "randomread.f", "disk": "1HDD", "fs": "xfs"})
    assert smaller.differs == (
        "a disk in memory instead of 1HDD",
        "16 MiB instead of 5 GiB, all of them cached",
    )
    assert workload_of("filebench", {"test": "fileserver.f"}).differs
    executed = workload_of("lmbench3", {"test": "PROC"}, "lmbench3.Process.fork+execve.latency.us")
    assert executed.differs == ("no dynamic linker",)


def test_fsmark_has_64_threads_at_most() -> None:
    assert mail("fsmark", {"nr_threads": "100%"}).tasks == 64
    assert mail("fsmark", {"nr_threads": "1t"}).tasks == 1


def test_a_mix_of_tests_is_refused_with_its_parts() -> None:
    assert "--workload aim9/TEST" in refused("reaim", test="disk", fs="btrfs")
    assert workload_of("reaim", {"test": "disk_rr"}).workload == "aim9/disk_rr"
    assert "a disk to swap to" in refused("swapin")
    assert "is not in Debian" in refused("iozone", fs="btrfs")


def test_tests_of_phoronix_run_the_benchmark_that_they_are_made_of() -> None:
    def of_phoronix(test: str, *options: str) -> Mapped:
        letters = {f"option_{letter}": option for letter, option in zip("abcdef", options, strict=False)}
        return workload_of("phoronix-test-suite", {"test": test, **letters})

    written = of_phoronix("fio-1.14.1", "Sequential Write", "IO_uring", "Yes", "No", "4KB", "Default")
    assert written.program and "--rw=write --bs=4k --ioengine=io_uring" in written.program.command
    assert "--direct=1" not in written.program.command and (written.tasks, written.fs) == (1, "ext4")
    assert "--msg {tasks}" in of_phoronix("stress-ng-1.2.2", "System V Message Passing").called
    assert of_phoronix("osbench-1.0.2", "Launch Programs").workload == "lmbench/exec"
    assert of_phoronix("hackbench-1.0.0", "16", "Thread") == Mapped("hackbench/socket", "thread", tasks=640)
    for test, option in (("svt-av1-2.11.1", "2"), ("stress-ng-1.11.0", "Matrix Math"), ("fio-1.14.1", "x")):
        assert "is a whole application" in refused("phoronix-test-suite", test=test, option_a=option)


# Programs


def test_a_stressor_is_the_parameter_or_in_the_name_of_the_metric() -> None:
    assert (
        command("stress-ng", test="msg", nr_threads="100%")
        == "stress-ng --verbose --no-rand-seed --msg {tasks}"
    )
    of_class = {"class": "filesystem", "disk": "1HDD", "fs": "btrfs"}
    found = workload_of("stress-ng", of_class, "stress-ng.rename.ops_per_sec")
    assert found.program and "--rename {tasks}" in found.program.command
    assert (found.fs, found.differs) == ("btrfs", ("a disk in memory instead of 1HDD",))
    assert workload_of("stress-ng", {"test": "mmapfork"}).program.per == "instruction"  # type: ignore[union-attr]
    assert workload_of("stress-ng", {"test": "msg"}).program.per == "system-call"  # type: ignore[union-attr]


def test_options_of_a_stressor_are_those_of_the_report() -> None:
    assert command("stress-ng", test="switch", method="mq").endswith("--switch {tasks} --switch-method mq")
    assert "a word is expected" in refused("stress-ng", test="sock", type="$(reboot)")
    left_out = workload_of("stress-ng", {"test": "pipe", "sched": "rr"}).differs
    assert left_out == ("stress-ng's default sched instead of rr",)


def test_stressors_that_cannot_be_judged_say_why() -> None:
    assert "takes CPUs or memory offline" in refused("stress-ng", test="cpu-online")
    assert "needs a device" in refused("stress-ng", test="rtc")
    assert "has no stressor 'rm -rf'" in refused("stress-ng", test="rm -rf")
    assert "which stressor" in refused("stress-ng", "stress-ng.time.system_time")
    assert "on bcachefs, which no machine here has" in refused("stress-ng", test="dir", fs="bcachefs")
    for group in (*stressors.WHY_NOT.values(), stressors.OF_FAULTS, stressors.IN_USER_MODE):
        assert set(group) <= set(stressors.STRESSORS)


def test_stressors_that_stress_ng_skips_by_itself_are_asked_for() -> None:
    for stressor in stressors.PATHOLOGICAL:
        assert command("stress-ng", test=stressor).endswith(" --pathological")
    users = {}
    for stressor in ("msg", *stressors.NOT_AS_ROOT):
        found = workload_of("stress-ng", {"test": stressor})
        asked = second_opinion.spec(
            mail("stress-ng", {"test": stressor}), ("a", "b"), found, [8], "x86_64", NOT_SHAPED, 2
        )
        users[stressor] = asked.user
    assert users == {"msg": "", "bad-ioctl": "daemon", "exec": "daemon", "spawn": "daemon"}
    assert workload_of("stress-ng", {"test": "exec", "fs": "ext4", "disk": "1HDD"}).fs == ""
    begun = workload_of("stress-ng", {"test": "msg"}).program.begin_at  # type: ignore[union-attr]
    for line, begins in (
        ("8 stressors", True),
        ("1 stressor", True),
        ("10 stressors", True),
        ("0 stressors", False),
    ):
        assert bool(re.search(begun, f"stress-ng: debug: [102] {line} started")) == begins


def test_a_class_of_stressors_is_minimized_as_the_robot_does() -> None:
    metric = "stress-ng.pagemove.ops_per_sec"
    assert workload_of("stress-ng", {"class": "os"}, metric).called.endswith(" --minimize")
    assert "--minimize" not in workload_of("stress-ng", {"class": "vm"}, metric).called
    assert "--minimize" not in workload_of("stress-ng", {"class": "os", "test": "pagemove"}, metric).called


@pytest.mark.parametrize("benchmark", ["netperf", "sysbench", "perf-bench", "will-it-scale", "fxmark"])
def test_a_report_that_names_no_test_is_refused_as_that(benchmark: str) -> None:
    assert refused(benchmark).startswith("the report does not say which test of")
    assert "not mapped" in refused("netperf", test="OTHER") and "not mapped" in refused(
        "perf-bench", test="x"
    )


def test_a_refusal_says_what_is_so_of_the_benchmark() -> None:
    assert "turns on the kernel's tracing" in refused("stress-ng", test="uprobe")
    assert refused("fwq").startswith("fwq computes in user mode")


def test_a_disk_without_a_file_system_is_not_in_memory() -> None:
    of_stressor = workload_of("stress-ng", {"test": "sigsegv", "disk": "1HDD"})
    assert (of_stressor.fs, of_stressor.differs) == ("", ("tmpfs instead of 1HDD",))
    of_files = workload_of("vm-scalability", {"test": "lru-file-readtwice", "disk": "1SSD"})
    assert of_files.fs == "xfs" and "a disk in memory instead of 1SSD" in of_files.differs
    of_sysbench = workload_of("sysbench-fileio", {"fs": "xfs", "size": "64G"})
    assert of_sysbench.differs == ("16 MiB of files instead of 64G",)


def test_netperf_has_as_many_clients_as_tasks() -> None:
    found = workload_of("netperf", {"test": "TCP_MAERTS", "cluster": "cs-localhost", "ip": "ipv4"})
    assert found.program and found.program.service == ("netserver -D -4",)
    assert found.program.command.startswith(
        "sh -c 'for task in $(seq {tasks}); do netperf -H 127.0.0.1 -t TCP_M"
    )
    assert found.differs == ()
    assert " -m 10K &" in command("netperf", test="UDP_STREAM", send_size="10K")
    assert "built without it" in refused("netperf", test="SCTP_STREAM_MANY")
    assert "a size such as 4k" in refused("netperf", test="TCP_STREAM", send_size="$(reboot)")
    assert workload_of("netperf", {"test": "TCP_RR", "ip": "ipv6"}).differs == ("IPv4 instead of IPv6",)
    far = workload_of("netperf", {"test": "TCP_RR", "cluster": "cs-lkp-a-b"})
    assert far.differs == ("loopback instead of the network of cs-lkp-a-b",)


def test_iperf_and_sockperf_have_one_client_as_the_robot_starts_it() -> None:
    for benchmark, test in (("iperf", "tcp"), ("sockperf", "ping-pong tcp")):
        assert workload_of(benchmark, {"cluster": "cs-localhost", "test": test}).tasks == 1
        assert workload_of(benchmark, {"nr_threads": "50%", "test": test}).tasks is None
    several = workload_of("iperf", {"sessions": "16", "protocol": "tcp"})
    assert (several.tasks, several.differs) == (16, ("16 streams of one client instead of 16 clients",))
    assert "sessions is '-1'" in refused("iperf", sessions="-1")


def test_fio_has_the_pattern_block_size_and_engine_of_the_report() -> None:
    report = {
        "rw": "randwrite",
        "bs": "4k",
        "ioengine": "io_uring",
        "fs": "xfs",
        "disk": "1SSD",
        "test_size": "8G",
    }
    found = workload_of("fio-basic", report)
    assert found.program
    assert "--rw=randwrite --bs=4k --ioengine=io_uring --iodepth=32 --size=4m" in found.program.command
    assert found.fs == "xfs"
    assert found.differs == ("a disk in memory instead of 1SSD", "4 MiB per task instead of 8G in all")
    assert "engine 'libpmem' does not run here" in refused("fio-basic", rw="read", ioengine="libpmem")
    assert "on xfs and nfsv4" in refused("fio-basic", rw="read", fs="xfs", fs2="nfsv4")
    assert "fio's rw is '-x'" in refused("fio-basic", rw="-x")
    computing = workload_of("fio-basic", {"rw": "write", "ioengine": "cpuio", "cpuload": "85"}).program
    assert computing and "--cpuload=85" in computing.command and computing.per == "instruction"


def test_shell_scripts_run_in_a_shell_for_each_task() -> None:
    eight = command("unixbench", test="shell8")
    assert "for copy in one one one one one one one one; do" in eight and "$(seq {tasks})" in eight
    assert "ls -l >/dev/null" in command("aim9", test="shell_rtns_3")
    assert "runs a script that sleeps" in refused("aim9", test="shell_rtns_2")
    assert workload_of("unixbench", {"test": "syscall"}).workload == "unixbench/syscall"


def test_other_programs() -> None:
    assert "perf bench futex hash --threads {tasks}" in command("perf-bench-futex", test="hash")
    assert workload_of("perf-bench-sched-messaging", {"ipc": "pipe"}).workload == "hackbench/pipe"
    assert command("sysbench-threads").startswith("sysbench threads --threads={tasks}")
    assert command("sysbench", test="mutex").startswith("sysbench mutex")
    assert "--udp" in command("iperf", "iperf.udp.receiver.bps")
    assert "--udp" not in command("iperf3", test="TCP") and "--udp" in command("iperf", protocol="udp")
    assert command("fileio", rwmode="seqwr", fs="ext4").endswith(
        "--file-test-mode=seqwr --file-io-mode=sync --events=0 --time=100000 run"
    )
    assert "--file-io-mode=mmap" in command("sysbench-fileio", iomode="mmap")
    assert "no file-io-mode 'x'" in refused("sysbench-fileio", iomode="x")
    assert "--thread-yields=1000 --thread-locks=8" in command("sysbench-threads", thread_yields="1000")
    assert command("perf-bench-futex", test="hash", shared="shared").endswith(" --shared")
    assert "dbench -c" in command("fxmark", test="dbench_client", fstype="ext4")
    assert "sockperf under-load --tcp -i" in command("sockperf", "sockperf.under-load.TCP.avg-lat")
    assert "--msg-size 1472 " in command("sockperf", "sockperf.ping-pong.UDP.avg-lat", msg_size="1472b")
    assert "sockperf throughput -i" in command("sockperf", "sockperf.tput.UDP.throughput.MB/sec")


def test_what_is_out_of_scope_says_what_to_give_instead() -> None:
    for benchmark, why in (
        ("phoronix-test-suite", "does not say which test of phoronix-test-suite"),
        ("pts", "does not say which test of phoronix-test-suite"),
        ("kbuild", "builds a kernel"),
        ("xfstests", "passes or fails"),
        ("coremark", "computes in user mode"),
        ("no-such", "no workload does what no-such does"),
        ("will-it-scale", "does not say which test of will-it-scale"),
        ("hackbench", ""),
    ):
        told = refused(benchmark, ipc="tcp")
        assert why in told and "--workload-file F.c" in told
    assert "--workload-file will-it-scale/tests/none9.c" in refused("will-it-scale", test="none9")
    assert "fxmark's XXXX is not built in" in refused("fxmark", test="XXXX")
    assert "which no machine here has" in refused("fxmark", test="DWAL", fstype="zfs")


PROGRAMS = [
    *(("stress-ng", {"test": test}) for test in ("msg", "exec", "mlockmany")),
    *(("netperf", {"test": test}) for test in of_benchmark.network._PER),
    ("dbench", {}),
    ("tbench", {}),
    ("iperf", {}),
    ("sockperf", {"test": "throughput udp"}),
    *(("fio-basic", {"rw": "write", "ioengine": engine}) for engine in of_benchmark.fio._ENGINES),
    *(("unixbench", {"test": test}) for test in of_benchmark.scripts._COPIES),
    *((f"sysbench-{test}", {}) for test in ("threads", "mutex", "cpu", "memory", "fileio", "oltp")),
    *(("perf-bench", {"test": test}) for test in of_benchmark.perf_bench._PROGRAMS),
]


@pytest.mark.parametrize(("benchmark", "parameters"), PROGRAMS, ids=lambda one: str(one)[:40])
def test_a_program_is_asked_for_in_words_that_bigiron_knows(
    benchmark: str, parameters: dict[str, str]
) -> None:
    parameters = parameters | {"nr_task": "50%"}
    found = workload_of(benchmark, parameters)
    asked = second_opinion.spec(mail(benchmark, parameters), ("a", "b"), found, [8], "x86_64", NOT_SHAPED, 2)
    assert asked.runs_program and asked.probes == ["conflicts", "locks", "instructions"]
    assert isinstance(parse(asked.root), Packages)
    assert program.checked(asked).per == found.program.per  # type: ignore[union-attr]
    assert command_words(asked, 4)
    tasks = [4] if asked.takes_tasks else [1]  # what is not told has one thread: of no other is that known
    assert (asked.tasks, bool(asked.warm_up_s or asked.begin_at), asked.record_s > 0) == (tasks, True, True)


@pytest.mark.parametrize(
    ("benchmark", "services"),
    [
        ("stress-ng", []),
        ("tbench", ["tbench_srv"]),
        ("dbench", ["sleep 1000000"]),
        ("sysbench-threads", ["sleep 1000000"]),
        ("sysbench-oltp", ["mariadbd --no-defaults", "sleep 1000000"]),
    ],
)
def test_what_is_ready_without_a_server_waits_for_one_that_sleeps(
    benchmark: str, services: list[str]
) -> None:
    parameters = {"test": "msg"} if benchmark == "stress-ng" else {}
    found = workload_of(benchmark, parameters)
    asked = second_opinion.spec(mail(benchmark, parameters), ("a", "b"), found, [8], "x86_64", NOT_SHAPED, 2)
    assert [one[: len(there)] for one, there in zip(asked.service, services, strict=True)] == services
    assert len(asked.ready) == len(services)


def test_another_workload_keeps_the_file_system_of_the_report() -> None:
    assert fs_of({"fstype": "xfs"}) == "xfs"
    assert (fs_of({}), fs_of({"fstype": "zfs"})) == ("", None)
    of_stress = mail("stress-ng", {"test": "matrix", "fs": "xfs"}, "stress-ng.matrix.ops_per_sec")
    instead = ("open1 instead of stress-ng matrix",)
    assert _what(of_stress, "open1", None) == Mapped(
        "open1", "process", "xfs", differs=instead, replaces=True
    )


def test_another_workload_is_named_as_a_difference_unless_it_is_the_report_s_own() -> None:
    on_nfs = mail("phoronix-test-suite", {"test": "sqlite-2.1.0", "fs": "xfs", "fs2": "nfsv4"})
    found = _what(on_nfs, "getppid1", None)
    assert found.replaces and found.fs == ""
    assert found.differs == (
        "getppid1 instead of phoronix-test-suite sqlite-2.1.0",
        "tmpfs instead of xfs and nfsv4",
    )
    own = mail("will-it-scale", {"test": "open1", "mode": "thread"}, "will-it-scale.per_thread_ops")
    assert _what(own, "open1", None) == Mapped("open1", "thread")
    fsmark = mail("fsmark", {"filesize": "16MB", "fs": "xfs", "fs2": "nfsv4", "sync_method": "NoSync"})
    kept = _what(fsmark, "fsmark/NoSync", None)
    assert (kept.workload, kept.replaces) == ("fsmark/NoSync", True)
    assert kept.differs[-1] == "tmpfs instead of xfs and nfsv4"
    assert not any("instead of fsmark" in one for one in kept.differs)
    mine = HERE / "workloads" / "fork1.c"
    of_file = _what(own, "", mine)
    assert (of_file.workload_file, of_file.replaces) == (str(mine), True)


def test_a_workload_that_is_not_there_is_refused_before_kernels_are_built(tmp_path: Path) -> None:
    for workload, file, complaint in (
        ("opne1", None, "no workload 'opne1'"),
        ("", tmp_path / "none.c", "cannot read workload file"),
    ):
        with pytest.raises(UserError, match=complaint):
            _what(mail("will-it-scale", {"test": "open1"}), workload, file)


def test_a_metric_of_another_benchmark_is_refused() -> None:
    """Of a thread in which a report of will-it-scale answers one of netperf, whose line it quotes."""
    content = (HERE / "reports" / "patterns" / "17-two-benchmarks.txt").read_bytes()
    both = robot_mail.read(content, "a mail")
    assert (both.metric, both.benchmark) == ("netperf.Throughput_total_tps", "will-it-scale")
    for given in ("", "unlink2"):
        with pytest.raises(UserError, match=r"metric is netperf\..*, but its benchmark is will-it-scale"):
            _what(both, given, None)
    for benchmark, metric in (
        ("fio-basic", "fio.read_iops"),
        ("sysbench-threads", "sysbench.events_per_second"),
        ("perf-bench-sched-pipe", "perf-bench-sched-pipe.ops_per_sec"),
        ("lmbench3", "lmbench3.PIPE.latency.us"),
        ("will-it-scale", "time.system_time"),
    ):
        of_benchmark.check_metric(benchmark, metric)


# The machine


@pytest.mark.parametrize(
    ("processor", "cpus", "sockets", "file"),
    [
        ("(Skylake)", 104, 2, "skylake-20c-x2"),
        ("Intel(R) Xeon(R) Gold 6138 CPU @ 2.00GHz", 80, 2, "skylake-20c-x2"),
        ("Intel(R) Xeon(R) Platinum 8260L CPU @ 2.40GHz", 96, 2, "cascade-lake-20c-x2"),
        ("Intel(R) Xeon(R) Platinum 9242 CPU @ 2.30GHz", 192, 4, "cascade-lake-20c-x2"),
        ("Intel(R) Xeon(R) Platinum 8380H CPU @ 2.90GHz", 224, 4, "cooper-lake-28c-x4"),
        ("Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz", 128, 2, "ice-lake-32c-x2"),
        ("Intel(R) Xeon(R) Platinum 8480CTDX (Sapphire Rapids)", 224, 2, "sapphire-rapids-56c-x2"),
        ("Intel(R) Xeon(R) Platinum 8468V", 192, 2, "sapphire-rapids-56c-x2"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", 256, 2, "emerald-rapids-64c-x2"),
        ("Intel(R) Xeon(R) 6972P (Granite Rapids)", 384, 2, "granite-rapids-128c-x2"),
        ("Intel(R) Xeon(R) 6740E", 192, 2, "sierra-forest-144c-x2"),
        ("GENUINE INTEL(R) XEON(R) (Sierra Forest)", 256, 2, "sierra-forest-144c-x2"),
        ("Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz", 56, 2, "xeon-e5-2690v4-x2"),
        ("AMD EPYC 7742 64-Core Processor", 256, 2, "epyc-7742-x2"),
        ("AMD EPYC 9754 128-Core Processor", 512, 2, "epyc-9754-x2"),
        ("AMD EPYC 7H12 64-Core Processor", 256, 2, "epyc-7742-x2"),
        ("AMD EPYC 7763 64-Core Processor", 128, 1, "epyc"),
        ("AMD EPYC 9684X 96-Core Processor", 384, 2, "epyc-9654-x2"),
        ("Intel(R) Xeon(R) CPU @ 2.30GHz", 96, 2, "x86-2s"),
    ],
)
def test_a_machine_is_made_from_that_of_its_generation(
    processor: str, cpus: int, sockets: int, file: str, tmp_path: Path
) -> None:
    found = reported_machine.like(ReportedMachine(cpus, sockets, processor, 256.0))
    assert found.base == file
    (tmp_path / "m.toml").write_text(found.toml)
    assert machine_files.load(str(tmp_path / "m.toml")).cpus == cpus
    assert len(re.findall("^memory_gib = 256$", found.toml, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("processor", "cpus", "sockets", "file"),
    [
        ("Intel(R) Xeon(R) CPU E5-2697 v2 @ 2.70GHz (Ivy Bridge-EP)", 48, 2, "ivybridge-ex-x8"),
        ("Intel(R) Xeon(R) CPU @ 2.30GHz", 192, 4, "x86-8s"),
    ],
)
def test_sockets_are_linked_directly_where_they_are_fewer_than_the_file_s(
    processor: str, cpus: int, sockets: int, file: str
) -> None:
    found = reported_machine.like(ReportedMachine(cpus, sockets, processor, 256.0))
    machine = _sim.Machine.from_toml(found.toml)
    assert found.base == file
    assert machine.levels == [("socket", sockets), ("core", cpus // 2), ("thread", cpus)]
    assert machine.transfer_ns(0, cpus - 1) == machine_files.load(file).transfer_ns(0, 56)


def test_a_machine_of_tiles_and_without_sockets_has_the_generation_of_its_group() -> None:
    found = reported_machine.like(ReportedMachine(288, None, "Intel(R) CPU @ 1.50GHz", 80.0, "Knights Mill"))
    assert found.base == "xeon-phi-288" and 'name = "tile"\ncount = 36' in found.toml


def test_the_dies_of_a_reported_socket_are_one_node() -> None:
    base = machine_files.load("granite-rapids-128c-x2")
    found = reported_machine.like(ReportedMachine(384, 2, "Intel(R) Xeon(R) 6972P (Granite Rapids)", 512.0))
    machine = _sim.Machine.from_toml(found.toml)
    assert (base.nodes, machine.nodes) == (6, 2)
    rates = [dict((what, value) for what, value, _source in one.sources) for one in (base, machine)]
    assert float(rates[1]["node bandwidth, GB/s"]) == 3 * float(rates[0]["node bandwidth, GB/s"])


@pytest.mark.parametrize(
    ("processor", "cpus"),
    [
        ("AMD EPYC 9575F 64-Core Processor", 256),  # Turin, of which there is no file
        ("AMD EPYC 7551 32-Core Processor", 128),  # Naples
        ("AMD Opteron(tm) Processor 6376", 32),
        ("AMD EPYC 7313 16-Core Processor", 64),  # Milan: four groups of four cores, or two of eight
        ("Ampere Altra Max", 256),
        ("POWER9", 128),
        ("", 64),
    ],
)
def test_a_machine_is_not_made_from_another_maker_s_or_by_a_guess(processor: str, cpus: int) -> None:
    with pytest.raises(UserError, match=f"no machine file is like {re.escape(processor) or 'a processor w'}"):
        reported_machine.like(ReportedMachine(cpus, 2, processor, 256.0))


def test_cpus_that_no_machine_of_a_generation_has_are_refused() -> None:
    with pytest.raises(UserError, match="do not divide among"):
        reported_machine.like(ReportedMachine(7, 2, "(Skylake)", 1.0))
