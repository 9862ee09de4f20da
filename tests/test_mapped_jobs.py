"""What the programs that run instead of a report's benchmark are asked to do, as its own script asks them."""

import pytest
from test_mapping import command, refused

from bigiron.workloads.of_benchmark import Mapped, workload_of

EXT4 = "ext4 on a disk in memory"


def of_phoronix(test: str, *options: str) -> Mapped:
    letters = {f"option_{letter}": option for letter, option in zip("abcdef", options, strict=False)}
    return workload_of("phoronix-test-suite", {"test": test, **letters})


def test_fio_has_as_many_requests_in_flight_as_the_robot_s_script() -> None:
    for engine in ("libaio", "io_uring", "posixaio"):
        assert "--iodepth=32 " in command("fio-basic", rw="write", ioengine=engine)
    assert "--iodepth" not in command("fio-basic", rw="write", ioengine="sync")
    assert "--iodepth=4 " in command("fio-basic", rw="write", ioengine="libaio", iodepth="4")
    large = workload_of("fio-basic", {"rw": "read", "ioengine": "libaio", "bs": "8M"})
    assert "--iodepth=2 --size=8m " in large.called
    assert large.differs == ("2 requests in flight instead of 32",)
    one = workload_of("fio-basic", {"rw": "read", "ioengine": "libaio", "bs": "16M"})
    assert "--bs=16M --ioengine=libaio --iodepth=1 --size=16m " in one.called
    assert one.differs == ("1 request in flight instead of 32",)


def test_a_file_of_fio_holds_a_block_and_fits_in_memory() -> None:
    assert "--bs=5000k --ioengine=sync --size=5m " in command("fio-basic", rw="write", bs="5000k")
    large = workload_of("fio-basic", {"rw": "write", "ioengine": "psync", "bs": "1G", "test_size": "64G"})
    assert "--bs=16m --ioengine=psync --size=16m " in large.called
    assert large.differs == ("16 MiB per task instead of 64G in all", "blocks of 16 MiB instead of 1G")


def test_a_report_of_phoronix_that_names_no_test_is_refused_as_that() -> None:
    told = refused("phoronix-test-suite", "phoronix-test-suite.aom-av1.0.frames_per_second")
    assert "the report does not say which test of phoronix-test-suite was run (parameter test)" in told


def test_fio_is_direct_unless_it_is_buffered_after_that() -> None:
    for parameters, direct in (
        ({"direct": "direct"}, True),
        ({"directio": "directio"}, True),
        ({}, False),
        ({"direct": "1", "buffered": "1"}, False),
        ({"buffered": "no"}, True),
    ):
        assert ("--direct=1" in command("fio-basic", rw="write", **parameters)) is direct


def test_fio_of_phoronix_is_the_job_of_its_profile() -> None:
    """Of commit 584b0180f0f4, whose thread has the job: iodepth=64 force_async=4 direct=1 buffered=1."""
    found = of_phoronix("fio-1.14.1", "Sequential Write", "IO_uring", "Yes", "Yes", "1MB", "Default")
    assert found.called.startswith(
        "fio --name=task --filename=/tmp/fiofile --rw=write --bs=1m --ioengine=io_uring --iodepth=64 "
        "--force_async=4 --size=4m --numjobs={tasks} "
    )
    assert (found.tasks, found.fs) == (1, "ext4")
    assert found.differs == (EXT4, "a file of 4 MiB instead of 1 GiB")
    deep = of_phoronix("fio-1.14.1", "Random Read", "Linux AIO", "No", "Yes", "8MB")
    assert "--ioengine=libaio --iodepth=8 --direct=1" in deep.called
    assert deep.differs == (EXT4, "a file of 8 MiB instead of 1 GiB", "8 requests in flight instead of 64")


@pytest.mark.parametrize(
    ("test", "options", "direct", "jobs"),
    [
        ("fio-1.14.1", ("Yes", "No", "4KB"), False, 1),
        ("fio-1.14.1", ("No", "No", "4KB"), True, 1),
        ("fio-2.0.0", ("Yes", "Yes", "4KB", "1"), False, 1),
        ("fio-2.1.0", ("Yes", "4KB", "1"), True, 1),
        ("fio-2.2.0", ("No", "4KB", "4"), False, 4),
    ],
)
def test_each_profile_of_fio_has_switches_of_its_own(
    test: str, options: tuple[str, ...], direct: bool, jobs: int
) -> None:
    found = of_phoronix(test, "Random Write", "IO_uring", *options)
    assert "--bs=4k --ioengine=io_uring --iodepth=64 --force_async=4" in found.called
    assert (("--direct=1" in found.called), found.tasks) == (direct, jobs)


def test_an_older_profile_of_fio_has_no_worker_threads() -> None:
    older = of_phoronix("fio-1.13.2", "Random Write", "IO_uring", "Yes", "No", "4KB")
    assert "--force_async" not in older.called
    unknown = {"option_a": "Random Write", "option_b": "Sync"}
    assert "a whole application" in refused("phoronix-test-suite", test="fio-1.14.1", **unknown)


def test_a_stressor_of_phoronix_has_the_options_of_its_profile() -> None:
    for test, options in (("stress-ng-1.11.0", " --sock-zerocopy"), ("stress-ng-1.2.2", "")):
        assert of_phoronix(test, "Socket Activity").called.endswith(f"--sock {{tasks}}{options}")


def test_osbench_starts_a_binary_and_no_script() -> None:
    assert of_phoronix("osbench-1.0.2", "Launch Programs").differs == (
        "one program at a time instead of 100",
        "no dynamic linker",
    )
    assert of_phoronix("osbench-1.0.2", "Create Processes").differs == (
        "one process at a time instead of 100",
    )


def test_hackbench_has_its_own_defaults_where_the_report_gives_nothing() -> None:
    """Of answers to reports that quote no parameters."""
    for benchmark, name in (
        ("hackbench", "hackbench"),
        ("perf-bench-sched-messaging", "perf bench sched messaging"),
    ):
        found = workload_of(benchmark, {}, "hackbench.throughput")
        assert (found.workload, found.mode) == ("hackbench/socket", "process")
        assert found.differs == (
            f"sockets, {name}'s default, as the report gives no ipc",
            f"processes, {name}'s default, as the report gives no mode",
        )
    assert workload_of("hackbench", {"ipc": "pipe"}).differs == (
        "processes, hackbench's default, as the report gives no mode",
    )
    sizes = {"ipc": "socket", "mode": "threads", "fds": "25", "datasize": "4096"}
    assert workload_of("hackbench", sizes).differs == (
        "groups of 20 senders and as many receivers instead of 25",
        "messages of 100 bytes instead of 4096",
    )


def test_what_a_report_does_not_say_is_not_made_up() -> None:
    assert workload_of("fio-basic", {"rw": "write"}).differs == (
        "sync, the robot's default engine, as the report names none",
    )
    assert "does not say what fio does" in refused("fio-basic", "fio.write_iops")
    assert workload_of("iperf", {"runtime": "300s"}).differs == (
        "TCP, iperf3's default, as the report names no protocol",
    )
    assert workload_of("iperf", {}, "iperf.tcp.receiver.bps").differs == ()
    for metric in ("sockperf.under-load.avg-lat", "sockperf.TCP.avg-lat", "time.system_time"):
        assert "does not say which of sockperf's tests" in refused("sockperf", metric)


def test_perf_bench_has_the_options_of_the_report() -> None:
    assert "futex requeue --threads {tasks} --nrequeue 4" in command(
        "perf-bench-futex", test="requeue", nrequeue="4"
    )
    assert "nwakes is '-1'" in refused("perf-bench-futex", test="wake", nwakes="-1")
    copied = workload_of("perf-bench-mem", {"op": "memcpy", "size": "4GB", "function": "x86-64-movsb"})
    assert copied.differs == ("blocks of 1MB instead of 4GB", "the default function instead of x86-64-movsb")


def test_system_calls_of_perf_bench_are_made_by_one_process() -> None:
    for op, workload, differs in (
        ("basic", "getppid1", ()),
        ("getpgid", "getppid1", ("getppid instead of getpgid",)),
        ("fork", "unixbench/spawn", ()),
        ("execve", "unixbench/sysexec", ("a program without a dynamic linker instead of /bin/true",)),
    ):
        found = workload_of("perf-bench-syscall", {"op": op})
        assert (found.workload, found.tasks, found.differs) == (workload, 1, differs)


def test_netperf_and_sysbench_have_the_robot_s_sizes() -> None:
    buffers = command("netperf", test="TCP_STREAM", send_size="10K", socket_buffer_size="64K")
    assert " -l 100000 -- -m 10K -s 64K -S 64K &" in buffers
    assert "--thread-yields=1000" in command("sysbench-threads")
    assert "--mutex-loops=10000" in command("sysbench-mutex")
