"""Workloads: each built-in one compiles cleanly and keeps counting; the registry reads any C file."""

import doctest
import hashlib
import re
import subprocess
from pathlib import Path

import pytest
from conftest import SAFETY_NET_S, wait_until

from bigiron import compile, workloads
from bigiron.errors import UserError
from bigiron.study.cell import _WARM_UP
from bigiron.study.spec import Spec
from bigiron.workloads import Workload, registry

ROOT = Path(__file__).parents[1]
BUILT_IN = workloads.builtin()
REPEATED = [workload for workload in BUILT_IN if not workload.has_rounds]
CC = ["gcc", *compile.guest_includes(), "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]

# All of upstream's tests/, and those of its pull requests: access, stat, fstat, page_fault4 and threadspawn1.
WILL_IT_SCALE = (
    "access1", "access2", "brk1", "brk2", "context_switch1", "dup1", "eventfd1", "fallocate1",
    "fallocate2", "fstat1", "fstat2", "futex1", "futex2", "futex3", "futex4", "getppid1", "lock1",
    "lock2", "lseek1", "lseek2", "malloc1", "malloc2", "mmap1", "mmap2", "open1", "open2", "open3",
    "page_fault1", "page_fault2", "page_fault3", "page_fault4", "pipe1", "poll1", "poll2",
    "posix_semaphore1", "pread1", "pread2", "pread3", "pthread_mutex1", "pthread_mutex2",
    "pthread_mutex3", "pthread_mutex4", "pthread_mutex5", "pwrite1", "pwrite2", "pwrite3", "read1",
    "read2", "read3", "read4", "readseek1", "readseek2", "readseek3", "sched_yield", "signal1", "stat1",
    "stat2", "threadspawn1", "tlb_flush1", "tlb_flush2", "tlb_flush3", "unix1", "unlink1", "unlink2",
    "write1", "writeseek1", "writeseek2", "writeseek3",
)  # fmt: skip


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    harness = tmp_path_factory.mktemp("harness") / "harness.o"
    source = Path(__file__).with_name("workload_harness.c")
    subprocess.run([*CC, "-c", source, "-o", harness], check=True)
    return harness


def test_threads_without_room_in_an_fd_set(harness: Path, tmp_path: Path) -> None:
    program = tmp_path / "select"
    source = workloads.find("lmbench/select").source
    subprocess.run([*CC, "-static", source, harness, "-o", program], check=True)
    done = subprocess.run(
        [program, "thread", "16", "9"], capture_output=True, text=True, timeout=SAFETY_NET_S
    )
    assert "no room in an fd_set" in done.stderr


@pytest.mark.parametrize(
    "source",
    [workloads.find("tlb_flush1").source, *(ROOT / "benchmarks/workloads").glob("tlb_flush1*.c")],
    ids=lambda source: source.stem,
)
def test_a_recording_of_tlb_flush1_has_no_munmap(source: Path) -> None:
    # will-it-scale has one after 32768 operations. It takes as long as 43 of them.
    (value, shift) = re.findall(r"#define LEN \((\d+)\w* << (\d+)\)", source.read_text())[0]
    assert (int(value) << int(shift)) // 4096 > _WARM_UP + Spec(variant=[]).operations


IN_CHECK = ("open1", "page_fault1", "context_switch1", "pthread_mutex1", "lmbench/null")
"""What `make check` runs of them: each counts on every machine, and lint compiles all."""


@pytest.mark.parametrize(
    "workload",
    [
        pytest.param(one, id=one.name, marks=() if one.name in IN_CHECK else pytest.mark.slow)
        for one in REPEATED
    ],
)
def test_counts_every_operation_of_processes_and_threads(
    workload: Workload, harness: Path, tmp_path: Path
) -> None:
    program = tmp_path / workload.source.stem
    subprocess.run([*CC, "-static", workload.source, harness, "-o", program], check=True)
    suite = workload.name.partition("/")[0]
    left, operations = f"{suite}.*", "300" if suite in ("fxmark", "hackbench", workload.name) else "60"
    before = set(Path("/tmp").glob(left))
    for mode in "process", "thread":
        done = subprocess.run(
            [program, mode, "2", operations],
            capture_output=True,
            text=True,
            timeout=SAFETY_NET_S,
            check=False,
        )
        if done.stderr.endswith("with O_DIRECT: Invalid argument\n"):
            pytest.skip("the file system of /tmp has no way past the page cache")
        if done.stderr.endswith("with O_TMPFILE: Operation not supported\n"):
            pytest.skip("the file system of /tmp has no files without a name")
        if "/tmp is a tmpfs" in done.stderr:
            pytest.skip("it is for file systems on disks")
        assert (done.returncode, done.stderr) == (0, ""), mode
        # What C makes of the literal and what the registry reads in the source are the same text.
        assert done.stdout == workload.description + "\n"
    made = set(Path("/tmp").glob(left)) - before
    wait_until(lambda: not any(file.exists() for file in made))  # others' runs end, and take theirs along


IN_ROUNDS = [workload for workload in BUILT_IN if workload.has_rounds]


@pytest.mark.parametrize("workload", IN_ROUNDS, ids=[workload.name for workload in IN_ROUNDS])
def test_one_that_is_done_in_rounds_compiles_without_a_warning(workload: Workload) -> None:
    subprocess.run([*CC, "-fsyntax-only", workload.source], check=True)


@pytest.mark.parametrize(
    ("name", "mib"),
    [("lmbench/pagefault", 1), ("vm-scalability/anon-w-seq", 16), ("vm-scalability/anon-r-rand", 16)],
)
def test_each_of_the_kernel_s_pages_is_touched_once(name: str, mib: int, tmp_path: Path) -> None:
    """Whatever their size: with touches 4 KiB apart, 15 of 16 would find a page of 64 KiB there."""
    program = tmp_path / "touched"
    sources = [workloads.find(name).source, Path(__file__).with_name("touched_pages_test.c")]
    subprocess.run([*CC, "-Wl,--wrap=mmap", *sources, "-o", program], check=True)
    for page_bytes in 4096, 65536:
        pages = (mib << 20) // page_bytes
        done = subprocess.run(
            [program, str(pages // 16 + 1)],
            env={"PAGE_BYTES": str(page_bytes)},
            capture_output=True,
            text=True,
            timeout=SAFETY_NET_S,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, f"{pages}\n"), done


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("bw_pipe", "pipe write 65536 pipe read 65536"),
        ("bw_unix", "unix write 65536 unix read 65536"),
        ("bw_tcp", "tcp write 10485760 tcp read 65536"),
        ("bw_tcp-64", "tcp write 64 tcp read 64"),
        ("select", "file select 100"),
        ("select-tcp", "tcp select 100"),
    ],
)
def test_lmbench_s_descriptors_and_messages_are_the_original_s(name: str, calls: str, tmp_path: Path) -> None:
    program = tmp_path / "calls"
    sources = [workloads.find(f"lmbench/{name}").source, Path(__file__).with_name("lmbench_test.c")]
    wrapped = "-Wl,--wrap=read,--wrap=write,--wrap=select"
    subprocess.run([*CC, wrapped, *sources, "-o", program], check=True)
    done = subprocess.run([program], capture_output=True, text=True, timeout=SAFETY_NET_S, check=False)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", calls.split())


HELPERS_ALL_THE_TIME = """
#include <unistd.h>

extern void new_task(void *(*func)(void *), void *arg);

char *testcase_description = "start helpers until killed";

static void *helper(void *unused)
{
	for (;;)
		pause();
	return unused;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	for (;;) {
		++*iterations;
		new_task(helper, NULL);
	}
}
"""


def test_no_helper_outlives_its_task(harness: Path, tmp_path: Path) -> None:
    """Nor one whose task is killed before it can ask to die with it: it would hold the output open."""
    program, source = tmp_path / "helpers", tmp_path / "helpers.c"
    source.write_text(HELPERS_ALL_THE_TIME)
    subprocess.run([*CC, "-static", source, harness, "-o", program], check=True)
    for _ in range(10):
        done = subprocess.run(
            [program, "process", "1", "1"], capture_output=True, text=True, timeout=SAFETY_NET_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_says_what_failed(harness: Path, tmp_path: Path) -> None:
    program = tmp_path / "pipe1"
    subprocess.run([*CC, "-static", workloads.find("pipe1").source, harness, "-o", program], check=True)
    # No descriptor beyond the three standard ones: pipe() fails in the task.
    command = f"ulimit -n 3; exec {program} process 1 1"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=SAFETY_NET_S, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "pipe1: pipe: Too many open files"


def test_the_catalogue() -> None:
    assert [workload.name for workload in BUILT_IN] == [
        *sorted((
            *WILL_IT_SCALE,
            "counters_packed", "counters_padded", "counters_paired", "hotplug-cycle", "hotplug-offline",
            "hotplug-online", "smt-off", "smt-on", "spin", "spin-ls",
        )),
        *(f"aim9/{name}" for name in (
            "brk_test", "creat-clo", "dgram_pipe", "dir_rtns_1", "disk_cp", "disk_rd", "disk_rr",
            "disk_rw", "disk_src", "disk_wrt", "exec_test", "fifo_test", "fork_test", "link_test",
            "page_test", "pipe_cpy", "shared_memory", "signal_test", "stream_pipe", "sync_disk_cp",
            "sync_disk_rw", "sync_disk_wrt", "tcp_test", "udp_test",
        )),
        *(f"filebench/{name}" for name in (
            "copyfiles", "createfiles", "cvar_example", "filemicro_create", "filemicro_createfiles",
            "filemicro_createrand", "filemicro_delete", "filemicro_rread", "filemicro_rwrite",
            "filemicro_rwritedsync", "filemicro_rwritefsync", "filemicro_seqread", "filemicro_seqwrite",
            "filemicro_seqwriterand", "filemicro_seqwriterandvargam", "filemicro_seqwriterandvartab",
            "filemicro_statfile", "filemicro_writefsync", "fileserver", "fivestreamread",
            "fivestreamreaddirect", "fivestreamwrite", "fivestreamwritedirect", "listdirs", "makedirs",
            "openfiles", "randomfileaccess", "randomread", "randomrw", "randomwrite", "removedirs",
            "singlestreamread", "singlestreamreaddirect", "singlestreamwrite", "singlestreamwritedirect",
            "varmail", "webproxy", "webserver",
        )),
        *(f"fsmark/{name}" for name in (
            "NoSync", "fsmark",
        )),
        *(f"fxmark/{name}" for name in (
            "DRBH", "DRBH-direct", "DRBL", "DRBL-direct", "DRBM", "DRBM-direct", "DWAL", "DWAL-direct",
            "DWOL", "DWOL-direct", "DWOM", "DWOM-direct", "DWSL", "DWSL-direct", "DWTL", "DWTL-direct",
            "MRDL", "MRDM", "MRPH", "MRPL", "MRPM", "MWCL", "MWCM", "MWRL", "MWRM", "MWUL", "MWUM",
        )),
        "hackbench/pipe", "hackbench/socket",
        *(f"lmbench/{name}" for name in (
            "bw_pipe", "bw_tcp", "bw_tcp-64", "bw_unix", "connect", "ctx", "exec", "fork", "fstat", "mmap",
            "null", "open", "pagefault", "pipe", "read", "select", "select-tcp", "signal", "stat", "tcp",
            "udp", "unix", "write",
        )),
        "postmark/postmark",
        *(f"unixbench/{name}" for name in (
            "context1", "execl", "fsbuffer", "fsbuffer-r", "fsbuffer-w", "fsdisk", "fsdisk-r", "fsdisk-w",
            "fstime", "fstime-r", "fstime-w", "pipe", "spawn", "syscall", "sysexec",
        )),
        *(f"vm-scalability/{name}" for name in (
            "anon-cow-rand", "anon-cow-seq", "anon-r-rand", "anon-r-seq", "anon-rx-rand", "anon-rx-seq",
            "anon-w-rand", "anon-w-seq", "anon-wx-rand", "anon-wx-seq", "lru-file-mmap-read",
            "lru-file-mmap-read-rand", "lru-file-readonce", "lru-file-readtwice", "lru-shm", "lru-shm-rand",
            "mmap-pread-rand", "mmap-pread-seq", "mmap-xread-rand", "mmap-xread-seq", "msync", "msync-mt",
            "shm-pread-rand", "shm-pread-seq", "shm-xread-rand", "shm-xread-seq", "small-allocs", "truncate",
        )),
    ]  # fmt: skip
    for workload in BUILT_IN:
        licence, exercises = workload.source.read_text().splitlines()[:2]
        assert licence == "// SPDX-License-Identifier: GPL-2.0-or-later"
        assert exercises.startswith("/* ") and exercises.endswith(". */")
        assert 10 < len(workload.description) < 80


def test_the_registry_s_examples() -> None:
    assert doctest.testmod(registry).failed == 0


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("open", "did you mean open1, open2, open3, lmbench/open?"),
        ("varmail", "did you mean filebench/varmail?"),
        ("page_fault5", "did you mean page_fault2, page_fault3, page_fault4?"),
        ("xyzzy", "`bigiron workload list` shows them all"),
        ("./mine.c", "for a C file of your own use --workload-file ./mine.c"),
        ("", "`bigiron workload list` shows them all"),
    ],
)
def test_an_unknown_name_gets_advice(name: str, advice: str) -> None:
    with pytest.raises(UserError) as error:
        workloads.find(name)
    assert str(error.value) == f"no workload {name!r}; {advice}"


def test_a_file_of_one_s_own(tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_bytes(
        b'/* Andr\xe9\'s: char *testcase_description = "not this"; */\n'
        b'const char *comment = "/* this starts none";\n'
        b'char *testcase_description = "a \\"quoted\\" word, /* kept */ "\n'
        b'\t"and // a second line"; /* an end */\n'
        b"void testcase(unsigned long long *iterations, unsigned long nr) { }\n"
    )
    workload = workloads.from_file(source)
    assert workload.name == "mine"
    assert workload.description == 'a "quoted" word, /* kept */ and // a second line'
    assert workload.source == source
    assert workload.sha256 == hashlib.sha256(source.read_bytes()).hexdigest()


def test_a_description_may_be_missing_and_an_array(tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text("void testcase(unsigned long long *iterations, unsigned long nr);")
    assert workloads.from_file(source).description == ""
    source.write_text('char testcase_description[] = "array"; void testcase (unsigned long long *i) {}')
    assert workloads.from_file(source).description == "array"
    assert workloads.from_file(source).differs == ""
    source.write_text('char *testcase_differs = "smaller " "files"; void testcase(void) {}')
    assert workloads.from_file(source).differs == "smaller files"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"\x7fELF\x02\0\0", "is not text; give the C source, not what was compiled from it"),
        (b"int main(void) { return 0; } // testcase()", "defines no testcase()"),
        (b"", "defines no testcase()"),
    ],
)
def test_a_file_that_is_no_workload(tmp_path: Path, content: bytes, complaint: str) -> None:
    source = tmp_path / "mine.c"
    source.write_bytes(content)
    with pytest.raises(UserError, match=r"^workload file .*/mine\.c ") as error:
        workloads.from_file(source)
    assert complaint in str(error.value)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^cannot read workload file .*/none\.c: No such file or directory$"):
        workloads.from_file(tmp_path / "none.c")
    with pytest.raises(UserError, match=r"Is a directory$"):
        workloads.from_file(tmp_path)


def test_a_header_beside_a_workload_is_part_of_what_was_measured(tmp_path: Path) -> None:
    source, header = tmp_path / "mine.c", tmp_path / "mine.h"
    source.write_text('#include <stdio.h>\n#include "mine.h"\n#include "not_here.h"\nvoid testcase(void);\n')
    header.write_text("#define BLOCK 1\n")
    before = workloads.from_file(source).sha256
    header.write_text("#define BLOCK 2\n")
    assert workloads.from_file(source).sha256 != before


@pytest.mark.slow
def test_a_workload_may_be_another_one_with_a_difference(tmp_path: Path) -> None:
    source, other, header = (tmp_path / name for name in ("mine.c", "other.c", "other.h"))
    source.write_text('#define FLAGS 1\n#include "other.c"\nchar *testcase_description = "with flags";\n')
    other.write_text('#include "other.h"\nvoid testcase(void) {}\nchar *testcase_description = "without";\n')
    header.write_text("#define BLOCK 1\n")
    before = workloads.from_file(source)
    assert before.description == "with flags"
    header.write_text("#define BLOCK 2\n")
    assert workloads.from_file(source).sha256 != before.sha256
