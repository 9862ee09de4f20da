"""What other tools print, read: real outputs of each, and what is wrong with one, by line."""

import inspect
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bigiron import probes, readers
from bigiron.architectures import X86_64
from bigiron.errors import MachineError, UserError
from bigiron.machines.messages import Message
from bigiron.readers import Figure, figure
from bigiron.readers.folder import Folder

FIGURES = Path(__file__).with_name("figures")
CSV = "tasks,processes,processes_idle,threads,threads_idle,linear\n"


def read(format: str, file: str) -> list[Figure]:
    read_text = readers.find(format).read_text
    assert read_text
    return read_text((FIGURES / file).read_text()).figures


def read_lkp(folder: Path) -> readers.Reading:
    read_folder = readers.find("lkp").read_folder
    assert read_folder
    return read_folder(Folder(folder))


@pytest.mark.parametrize(
    ("format", "file", "figures"),
    [
        (
            "will-it-scale",
            "will-it-scale/old/open1.csv",
            [
                Figure("processes", "operations/s", "more", 131008, 1),
                Figure("threads", "operations/s", "more", 168589, 1),
                Figure("processes", "operations/s", "more", 165257, 2),
                Figure("threads", "operations/s", "more", 171406, 2),
            ],
        ),
        (
            "fxmark",
            "fxmark.log",
            [
                Figure("DWOL, tmpfs on mem, bufferedio", "operations/s", "more", 1562043.744955, 2),
                Figure("MRPL, tmpfs on mem, bufferedio", "operations/s", "more", 541493.615155, 2),
                Figure("DWOL, tmpfs on mem, bufferedio", "operations/s", "more", 1238490.276233, 1),
                Figure("MRPL, tmpfs on mem, bufferedio", "operations/s", "more", 410078.028674, 1),
            ],
        ),
        (
            "mmtests",
            "mmtests.json",
            [
                Figure("time", "", "less", value, tasks, run)
                for tasks, values in ((1, (0.072, 0.294, 0.334)), (2, (0.079, 0.081, 0.080)))
                for run, value in enumerate(values, 1)
            ],
        ),
        ("hackbench", "hackbench.txt", [Figure("time", "s", "less", 0.291, 40)]),
        (
            "stress-ng",
            "stress-ng.txt",
            [
                Figure("cpu", "bogo ops/s", "more", 271.19, 2),
                Figure("switch", "bogo ops/s", "more", 25698.99, 2),
            ],
        ),
        (
            "sysbench",
            "sysbench-cpu.txt",
            [
                Figure("events", "events/s", "more", 1112.02, 2),
                Figure("latency, mean", "ms", "less", 1.78, 2),
                Figure("latency, 95th percentile", "ms", "less", 14.21, 2),
            ],
        ),
        (
            "sysbench",
            "sysbench-memory.txt",
            [
                Figure("operations", "operations/s", "more", 1656294.01, 1),
                Figure("transferred", "MiB/s", "more", 1617.47, 1),
                Figure("latency, mean", "ms", "less", 0, 1),
                Figure("latency, 95th percentile", "ms", "less", 0, 1),
            ],
        ),
        (
            "sysbench",
            "sysbench-mutex.txt",
            [
                Figure("total time", "s", "less", 1.1448, 2),
                Figure("latency, mean", "ms", "less", 1134.65, 2),
                Figure("latency, 95th percentile", "ms", "less", 1149.76, 2),
            ],
        ),
        (
            "perf-bench",
            "perf-bench-sched-pipe.txt",
            [
                Figure("sched/pipe: time", "s", "less", 0.125),
                Figure("sched/pipe: time of an operation", "us", "less", 6.28705),
                Figure("sched/pipe: operations", "operations/s", "more", 159057),
            ],
        ),
        (
            "perf-bench",
            "perf-bench-sched-messaging.txt",
            [Figure("sched/messaging: time", "s", "less", 0.073, 40)],
        ),
        (
            "perf-bench",
            "perf-bench-futex-hash.txt",
            [Figure("futex/hash: operations", "operations/s", "more", 674304, 2)],
        ),
        (
            "perf-bench",
            "perf-bench-mem-memcpy.txt",
            [
                Figure("mem/memcpy default: copied", "GB/s", "more", 42.925824),
                Figure("mem/memcpy x86-64-unrolled: copied", "GB/s", "more", 39.0625),
                Figure("mem/memcpy x86-64-movsq: copied", "GB/s", "more", 1.885438),
                Figure("mem/memcpy x86-64-movsb: copied", "GB/s", "more", 55.32932),
            ],
        ),
        (
            "redis-benchmark",
            "redis-benchmark.txt",
            [
                Figure("SET: requests", "requests/s", "more", 39840.64, 4),
                Figure("SET: latency, mean", "ms", "less", 0.07, 4),
                Figure("GET: requests", "requests/s", "more", 39761.43, 4),
                Figure("GET: latency, mean", "ms", "less", 0.066, 4),
            ],
        ),
        (
            "netperf",
            "netperf.txt",
            [
                Figure("TCP REQUEST/RESPONSE: transactions", "transactions/s", "more", 11654.66),
                Figure("TCP STREAM: throughput", "Mbit/s", "more", 8467.93),
            ],
        ),
        (
            "netperf",
            "netperf-keys.txt",
            [Figure("TCP REQUEST/RESPONSE: transactions", "transactions/s", "more", 10249.26)],
        ),
        (
            "iperf3",
            "iperf3.json",
            [
                Figure("TCP: sent", "bits/s", "more", 135735425.4686742, 2),
                Figure("TCP: received", "bits/s", "more", 135372551.66784015, 2),
            ],
        ),
        (
            "sockperf",
            "sockperf.txt",
            [
                Figure("latency, mean", "us", "less", 11.138),
                Figure("latency, 99th percentile", "us", "less", 13.699),
            ],
        ),
        (
            "wrk",
            "wrk.txt",
            [
                Figure("latency, mean", "ms", "less", 1.51, 4),
                Figure("requests", "requests/s", "more", 12702.76, 4),
            ],
        ),
        (
            "ab",
            "ab.txt",
            [
                Figure("requests", "requests/s", "more", 7242.81, 2),
                Figure("latency, mean", "ms", "less", 0.276, 2),
            ],
        ),
        (
            "pgbench",
            "pgbench.txt",
            [
                Figure("latency, mean", "ms", "less", 0.266, 2),
                Figure("transactions", "transactions/s", "more", 7521.200384, 2),
            ],
        ),
        ("memcaslap", "memcaslap.txt", [Figure("operations", "operations/s", "more", 39233.0, 4)]),
    ],
)  # fmt: skip
def test_real_output(format: str, file: str, figures: list[Figure]) -> None:
    assert read(format, file) == figures


def read_changed(format: str, file: str, *changes: tuple[str, str]) -> list[tuple[str, str, float]]:
    """The metric, unit and value of each figure of a changed file."""
    text = (FIGURES / file).read_text()
    for was, now in changes:
        assert was in text
        text = text.replace(was, now)
    found = readers.find(format).read_text
    assert found
    return [(figure.metric, figure.unit, figure.value) for figure in found(text).figures]


@pytest.mark.parametrize("unit", ["MBytes", "10^9bits"])
def test_netperf_in_another_unit(unit: str) -> None:
    """As its format_units() names those of -f."""
    found = read_changed("netperf", "netperf.txt", ("10^6bits", unit))
    assert found[1] == ("TCP STREAM: throughput", f"{unit}/s", 8467.93)


def test_received_datagrams_of_netperf() -> None:
    """Its table as send_udp_stream() of its nettest_omni.c prints it."""
    heading = "bytes   bytes    secs            #      #   10^6bits/sec\n\n"
    rows = f"{212992:6d}  {65507:6d}   10.00    {263000:7d} {0:6d}    13782.23\n"
    rows += "212992           10.00     262000           13730.00\n"
    found = read_changed(
        "netperf",
        "netperf.txt",
        ("MIGRATED TCP STREAM", f"UDP STREAM TEST from a\n{heading}{rows}MIGRATED TCP STREAM"),
    )
    assert found[1] == ("UDP STREAM: throughput", "Mbit/s", 13730.00)


def test_netperf_without_headings() -> None:
    with pytest.raises(UserError, match="line 1: no heading names the unit: run netperf without -P 0"):
        netperf = readers.find("netperf").read_text
        assert netperf
        netperf("131072  16384  16384    1.01     8467.93\n")


@pytest.mark.parametrize(
    ("speed", "in_gb"),
    [
        ("    512.000000 bytes/sec", 0.5 / 1024**2),
        ("    512.000000d KB/sec", 0.5 / 1024),  # print_bps() of perf's mem-functions.c has that d
        ("    512.000000 MB/sec", 0.5),
        ("    512.000000 GB/sec/thread\t( +-   1.00% )", 512),
    ],
)
def test_slow_functions_of_perf_bench_mem(speed: str, in_gb: float) -> None:
    found = read_changed("perf-bench", "perf-bench-mem-memcpy.txt", ("      1.885438 GB/sec", speed))
    assert found[2] == ("mem/memcpy x86-64-movsq: copied", "GB/s", in_gb) and len(found) == 4


def test_pgbench_that_connects_for_each_transaction() -> None:
    """As of version 14, with -C."""
    found = read_changed(
        "pgbench", "pgbench.txt", ("without initial connection time", "including reconnection times")
    )
    assert found[1] == ("transactions", "transactions/s", 7521.200384)


def test_a_number_of_tasks_with_zeros_before_it() -> None:
    assert figure.count("0" * 5000 + "8", None) == 8
    for text in ("0" * 11 + "1" + "0" * 5000, "0", ""):
        with pytest.raises(UserError, match="use whole numbers from 1 to"):
            figure.count(text, None)


def test_fio() -> None:
    figures = {figure.metric: figure for figure in read("fio", "fio.json")}
    assert figures["randread read: operations"] == Figure(
        "randread read: operations", "operations/s", "more", 12339.321357, 2
    )
    assert figures["randread read: latency, mean"].value == pytest.approx(127.370757)
    assert [figure.unit for figure in figures.values()] == ["operations/s", "B/s", "us"] * 2


def test_an_lkp_result_folder() -> None:
    """Of the job itself, a repetition for each run; not of time(1), nor LKP's own averages."""
    reading = read_lkp(FIGURES / "lkp/first")
    assert (reading.cpus, reading.workload, reading.about["compiler"]) == (1, "hackbench", "gcc-12")
    best = [figure for figure in reading.figures if figure.metric == "throughput_best"]
    assert best == [
        Figure("throughput_best", "", "more", value, 2, run)
        for run, value in enumerate((4333.333333333334, 2228.571428571429, 2746.478873239437), 1)
    ]
    assert {figure.metric for figure in reading.figures} == {
        "throughput", "throughput_best", "throughput_avg", "throughput_worst"
    }  # fmt: skip
    (one, *_) = read_lkp(FIGURES / "lkp/first/1").figures
    assert (one.value, one.run) == (2228.571428571429, 1)


@pytest.mark.parametrize(
    ("format", "text", "complaint"),
    [
        ("will-it-scale", "", "line 1: will-it-scale's CSV begins with tasks,processes,"),
        ("will-it-scale", "tasks,processes\n1,2\n", "line 1: will-it-scale's CSV begins with"),
        ("will-it-scale", CSV + "0,0,100,0,100,0\n1,2,3\n", "line 3: 3 columns, not 6"),
        ("will-it-scale", CSV + "1,x,0,1,0,1\n", "line 2: processes is 'x', not a number"),
        ("will-it-scale", CSV + "1,nan,0,1,0,1\n", "line 2: processes is 'nan', not a number"),
        ("will-it-scale", CSV + "1,1,0,inf,0,1\n", "line 2: threads is 'inf', not a number"),
        ("will-it-scale", CSV + "1,1e300,0,1,0,1\n", "line 2: processes is 1e300: that is implausibly large"),
        ("will-it-scale", CSV + "1,-7,0,1,0,1\n", "line 2: processes is -7: it cannot be negative"),
        ("will-it-scale", CSV + "-1,7,0,1,0,1\n", "line 2: tasks is '-1': use whole numbers"),
        ("will-it-scale", CSV + "9999999999,7,0,1,0,1\n", "line 2: tasks is '9999999999': use whole numbers"),
        ("will-it-scale", CSV + "1,7,0,1,0,1\n1,7,0,1,0,1\n", "line 3: 1 tasks are there twice"),
        ("fxmark", "# ncpu secs works works/sec\n2 1 1 x\n", "line 2: works/sec is 'x', not a number"),
        ("fxmark", "2 1 1 5\n", "line 1: numbers without ncpu and works/sec"),
        ("fxmark", "## a:b\n", "line 1: '## a:b' is not MEDIUM:"),
        ("fxmark", "## m:\x1b[2J:b:1:x\n", r"line 1: the name .* has characters that cannot be printed"),
        ("fxmark", f"## m:{'x' * 300}:b:1:x\n", r"line 1: a name has \d+ characters"),
        ("hackbench", "\nTime: -1\n", "line 2: Time is -1: it cannot be negative"),
        ("sysbench", "Number of threads: 0\n", "line 1: tasks is '0'"),
        ("perf-bench", "     Total time: nan [sec]\n", "line 1: time is 'nan', not a number"),
        ("stress-ng", "stress-ng: metrc: [1] cpu 5 1 1 1 inf 3\n", "line 1: bogo ops/s of cpu is 'inf'"),
        ("fio", "{", "this is not JSON: "),
        ("fio", '{"jobs": 5}', "this is not fio's JSON "),
        ("fio", '{"fio version": "3", "jobs": [{"jobname": "a"}]}', r"this is not fio's JSON .*`read`"),
        ("fio", "[" * 100_000, "this is not JSON: "),
        ("mmtests", "{}", "this is not the JSON of extract-mmtests.pl"),
        ("mmtests", '{"_ResultData": {"a-1": [{"Values": ["NaN"]}]}}', "a is 'NaN', not a number"),
    ],
)
def test_what_is_wrong(format: str, text: str, complaint: str) -> None:
    read_text = readers.find(format).read_text
    assert read_text
    with pytest.raises(UserError, match=complaint):
        read_text(text)


@pytest.mark.parametrize(
    ("format", "file", "operations"),
    [
        ("redis-benchmark", "redis-benchmark.txt", (40000, "request")),
        ("netperf", "netperf-keys.txt", (2000, "send")),
        ("iperf3", "iperf3.json", (130, "block of 131,072 bytes")),
        ("hackbench", "hackbench.txt", (80_000, "message")),
        ("sockperf", "sockperf.txt", (38800, "message")),
        ("wrk", "wrk.txt", (12994, "request")),
        ("ab", "ab.txt", (500, "request")),
        ("pgbench", "pgbench.txt", (400, "transaction")),
        ("memcaslap", "memcaslap.txt", (2000, "operation")),
    ],
)
def test_how_many_operations_there_were(format: str, file: str, operations: tuple[int, str]) -> None:
    assert readers.operations(format, "")((FIGURES / file).read_text()) == operations


def test_the_page_lists_each_format_that_says_how_many_there_were() -> None:
    page = (Path(__file__).parents[1] / "docs/howto/workloads/run-a-program.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `--metric stress-ng`")]
    saying = {
        one.name
        for one in readers.formats()
        if one.read_text and "operations=" in inspect.getsource(one.read_text)
    }
    assert {name.removeprefix("--metric ") for name in re.findall("`(.+?)`", row)} == saying


@pytest.mark.parametrize(
    ("format", "file", "complaint"),
    [
        ("netperf", "netperf.txt", "for netperf: end the command with -- -k LOCAL_SEND_CALLS,"),
        ("perf-bench", "perf-bench-sched-messaging.txt", "for perf-bench: not all of its benchmarks print"),
    ],
)
def test_outputs_without_a_number_of_operations(format: str, file: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        readers.operations(format, "")((FIGURES / file).read_text())


@pytest.mark.parametrize(
    "unit",
    ["transactions/s", "reads / sec", "MB per second", "ops_per_sec", "tps", "Mbps", "IOPS", "ms", "s"],
)
def test_a_rate_is_no_number_of_operations(unit: str) -> None:
    with pytest.raises(UserError, match="in a virtual machine --metric reads a number of operations"):
        readers.operations(r"tps = (\S+)", unit)


@pytest.mark.parametrize("unit", ["", "transaction", "session", "per-CPU list", "sample/scan"])
def test_a_value_that_is_no_number_of_operations(unit: str) -> None:
    """Two rows of pgbench's output, one with the number of transactions and one with the rate."""
    text = (FIGURES / "pgbench.txt").read_text()
    done = readers.operations(r"actually processed: (\d+)", unit)
    assert done(text) == (400, unit or "operation")
    with pytest.raises(UserError, match=r"the metric is \d+\.\d+: in a virtual machine --metric reads"):
        readers.operations(r"tps = (\S+)", unit)(text)


def test_hackbench_with_other_numbers_of_file_descriptors() -> None:
    """With `-f 10` each of a group's ten senders writes to ten receivers."""
    text = (FIGURES / "hackbench.txt").read_text().replace("using 40", "using 20").replace("== 40", "== 20")
    assert readers.operations("hackbench", "")(text) == (20_000, "message")


def test_the_block_of_iperf3_is_the_one_it_wrote() -> None:
    text = (FIGURES / "iperf3.json").read_text()
    read = readers.operations("iperf3", "")
    assert read(re.sub(r'"blksize":\s*\d+', '"blksize": 8192', text)) == (2080, "block of 8,192 bytes")
    assert read(re.sub(r'"blksize":\s*\d+,', "", text)) == (130, "block of 131,072 bytes")


@given(text=st.text() | st.text(alphabet="tasks,proc012.-naif\n#: ").map(lambda text: CSV + text))
def test_any_text_is_read_or_refused(text: str) -> None:
    for format in readers.formats():
        if format.read_text:
            try:
                figures = format.read_text(text).figures
            except UserError as error:
                assert "\n" not in str(error) or "\n" in text
            else:
                assert all(0 <= figure.value <= 1e18 for figure in figures)


def test_a_program_of_will_it_scale_that_failed() -> None:
    """Its runtest.py prints -1 in place of what it did not get."""
    read_text = readers.find("will-it-scale").read_text
    assert read_text
    assert read_text(CSV + "1,500,0.00,-1,0.00,500\n").figures == [
        Figure("processes", "operations/s", "more", 500, 1)
    ]


def test_links_out_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/job.yaml").write_text("testcase: secret\n")
    (tmp_path / "secret/stats.json").write_text('{"secret.x": 1}')
    (tmp_path / "r").mkdir()
    (tmp_path / "r/0").symlink_to(tmp_path / "secret")
    with pytest.raises(UserError, match=r"no stats\.json and no folders of runs"):
        read_lkp(tmp_path / "r")
    (tmp_path / "r/stats.json").symlink_to(tmp_path / "secret/stats.json")
    (tmp_path / "r/job.yaml").write_text("testcase: secret\n")
    with pytest.raises(UserError, match=r"stats\.json is a link, which is not followed"):
        read_lkp(tmp_path / "r")
    with pytest.raises(UserError, match="is a link"):
        Folder(tmp_path / "r").read("0/stats.json")


def test_two_units_of_one_metric() -> None:
    with pytest.raises(UserError, match=r"metric time in 's' \(less is better\) and in 'ms'"):
        readers.table([Figure("time", "s", "less", 1, 1), Figure("time", "ms", "less", 1, 1)])


@pytest.mark.parametrize(
    ("metric", "complaint"),
    [
        ("time", "metric 'time' has no group for the value"),
        ("(", r"metric '\(' is neither a format nor a regular expression"),
        ("lkp", "lkp is a folder, which no command prints"),
    ],
)
def test_what_is_no_metric(metric: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        readers.reader(metric, "", False)


def test_a_path_into_json() -> None:
    read_value = readers.reader("json:jobs.1.bw", "", False)
    assert read_value('{"jobs": [{}, {"bw": 2}]}')[0].value == 2
    with pytest.raises(UserError, match=r"the JSON has no jobs\.1\.bw: there is no '1'"):
        read_value('{"jobs": [{}]}')
    with pytest.raises(UserError, match=r"jobs\.1\.bw is 'many', not a number"):
        read_value('{"jobs": [{}, {"bw": "many"}]}')


@pytest.mark.parametrize(
    ("arrived", "complaint"),
    [
        ([], "the agent did not report the command's exit status"),
        (
            [Message("command", {"status": 0, "signal": 0, "nanoseconds": 1})],
            "the agent did not hand over the command's stdout",
        ),
    ],
)
def test_a_message_that_was_lost_is_reported(arrived: list[Message], complaint: str) -> None:
    request = probes.CellRequest(cpus=1, tasks=1, operations=1, mode="process")
    with pytest.raises(MachineError, match=complaint):
        probes.probe("metrics").collect(probes.RawOutput(arrived, Path(), X86_64, Path(), request))
