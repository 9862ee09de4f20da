"""File systems in virtual machines: modules in order, disks, and counts of what a workload meets on each."""

import csv
import doctest
import re
import shutil
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import bigiron, compared, measured

import bigiron as library
from bigiron import compile, kernels, workloads
from bigiron.architectures import architecture
from bigiron.errors import UserError
from bigiron.kernels import modules
from bigiron.kernels.modules import Info
from bigiron.machines.vm import file_system, vm
from bigiron.machines.vm.file_system import KINDS, FileSystem
from bigiron.machines.vm.topology import Topology

KERNEL = "debian/6.1"
BENCHMARK = Path(__file__).parents[1] / "benchmarks/counts/file_systems.py"
WITH_ALL_MODULES = "debian/6.1-amd64"
X86_64 = architecture("x86_64")
TWO_CPUS = ("--cpus", "2", "--operations", "50")
SMALL = ("--kernel", KERNEL, *TWO_CPUS)


def kernel_with(fs: str) -> str:
    return WITH_ALL_MODULES if fs == "f2fs" else KERNEL


# Options of mkfs


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("btrfs", "disk.img"),
        ("btrfs", "-r ."),
        ("btrfs", "--rootdir=."),
        ("ext4", "-d ."),
        ("ext4", "-qz undo"),
        ("ext4", "-J device=LABEL=log"),
        ("xfs", "-l logdev=log"),
        ("xfs", "-d name=/tmp/x"),
        ("f2fs", "-c disk"),
    ],
)
def test_mkfs_options_that_may_name_another_file_are_refused(name: str, options: str) -> None:
    """A study may be another person's, and mkfs overwrites what it is given."""
    with pytest.raises(UserError, match="may name a file"):
        FileSystem(name, options).check()


def test_other_mkfs_options_are_not_refused() -> None:
    for name, options in (
        ("ext4", "-O ^has_journal -E stride=4 -b4096 -F"),
        ("xfs", "-m reflink=0 -l size=64m -d agcount=4"),
        ("btrfs", "--csum xxhash -M -O ^no-holes"),
        ("f2fs", "-O extra_attr,compression -w 4096"),
    ):
        FileSystem(name, options).check()


# Modules


def test_the_examples() -> None:
    assert doctest.testmod(modules).failed == doctest.testmod(file_system).failed == 0


def test_each_module_comes_after_all_that_it_needs_and_once() -> None:
    infos = {
        "fs": Info(("b", "a"), ("sum", "helper")),
        "a": Info(("c",)),
        "b": Info(("a", "c", "built_in")),
        "c": Info(),
        "helper": Info(("c",)),
        "sum_generic": Info((), (), ("sum", "crypto-sum")),
        "sum_fast": Info(("c",), (), ("sum",)),
        "unrelated": Info(("c",)),
    }
    found = modules.order("fs", infos)
    assert found == [
        ("sum_generic", False), ("c", True), ("sum_fast", False), ("helper", False), ("a", True), ("b", True),
        ("fs", True),
    ]  # fmt: skip


def test_modules_that_need_each_other_come_to_an_end() -> None:
    found = modules.order("a", {"a": Info(("b",)), "b": Info(("a",), ("a",))})
    assert found == [("b", True), ("a", True)]


def test_what_a_module_says_of_itself(tmp_path: Path) -> None:
    source = tmp_path / "module.c"
    source.write_text(
        'static const char info[] __attribute__((section(".modinfo"), used)) =\n'
        '"license=GPL\\0depends=raid6_pq,blake2b-generic\\0softdep=pre: crc32c sha-256 post: zstd\\0"\n'
        '"alias=fs-btrfs\\0alias=devname:btrfs-control\\0depends=";\n'
    )
    subprocess.run(["gcc", "-c", source, "-o", tmp_path / "module.ko"], check=True)
    content = (tmp_path / "module.ko").read_bytes()
    assert modules.read_info(content, "it") == Info(
        ("raid6_pq", "blake2b_generic"), ("crc32c", "sha_256"), ("fs-btrfs", "devname:btrfs-control")
    )
    for damaged in (b"", b"\x7fELF", content[:100], content[:64], b"#!" + content):
        with pytest.raises(UserError, match=r"^it is not a kernel module: it has no section .modinfo$"):
            modules.read_info(damaged, "it")


def test_the_modules_of_a_kernel() -> None:
    kernel = kernels.find(KERNEL)
    found = kernels.modules_for(kernel, "btrfs")
    assert found and found[-1].name == "btrfs" and found[-1].required
    assert {"xor", "raid6_pq", "libcrc32c"} <= {module.name for module in found}
    assert all(module.file.read_bytes().startswith(b"\x7fELF") for module in found)
    softdeps = kernels.modules_for(kernel, "ext4") or []  # it is built in
    assert [(module.name, module.required) for module in softdeps] == [("crc32c_intel", False)]
    assert kernels.modules_for(replace(kernel, sha256="0" * 64, source="/none"), "btrfs") is None
    with pytest.raises(
        UserError, match=r"was added from /none/it\.deb, which no longer exists, nor do its modules$"
    ):
        kernels.modules_for(replace(kernel, sha256="0" * 64, source="/none/it.deb"), "btrfs")


# Disks


@pytest.mark.parametrize("fs", [name for name, kind in KINDS.items() if kind.mkfs])
def test_a_disk_s_pieces_are_the_disk(fs: str, tmp_path: Path) -> None:
    """Written where they belong, they are such a file system."""
    packed = FileSystem(fs, disk_mib=512).made().read_bytes()
    assert len(packed) < 32 << 20
    disk, at = tmp_path / "disk", 0
    with disk.open("wb") as file:
        file.truncate(512 << 20)
        while at < len(packed):
            offset, length = struct.unpack_from("<QQ", packed, at)
            file.seek(offset)
            file.write(packed[at + 16 : at + 16 + length])
            at += 16 + length
    magic = {"ext4": (1080, b"\x53\xef"), "xfs": (0, b"XFSB"), "btrfs": (0x10040, b"_BHRfS_M"),
             "f2fs": (1024, b"\x10\x20\xf5\xf2")}[fs]  # fmt: skip
    with disk.open("rb") as file:
        file.seek(magic[0])
        assert file.read(len(magic[1])) == magic[1]


# Bad input


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("{k} --fs zfs", "fs = 'zfs': use one of tmpfs, ext4, xfs, btrfs, f2fs"),
        (
            "{k} --fs f2fs",
            "debian/6.1 has no f2fs: it is not built in, and .*; debian/6.1-amd64 has more modules$",
        ),
        ("{k} --fs xfs --disk 100", "a disk of 100 MiB with xfs cannot be made: Filesystem must be larger "),
        ("{k} --fs btrfs --disk 9", "a disk of 9 MiB with btrfs cannot be made: ERROR: 'the disk' is too "),
        ("{k} --fs ext4 --mkfs-options=-b7", "with ext4 cannot be made: .*invalid block size - 7"),
        ("{k} --fs ext4 --mkfs-options='", 'mkfs options "\'": No closing quotation'),
        ("{k} --fs tmpfs --disk 100", "tmpfs has no disk and no mkfs: mount options may say its size"),
        ("{k} --fs xfs --disk 99999999", "disk_mib = 99999999: use whole numbers from 1 to 1048576"),
        (
            "{k} --mount-options noatime",
            "mkfs options, mount options and a disk size need a file system: give --fs",
        ),
        ("--machine host --fs xfs", "fs = 'xfs' is only for virtual machines; on this"),
    ],
)
def test_what_cannot_be_asked(arguments: str, complaint: str, tmp_path: Path) -> None:
    words = [KERNEL if word == "{k}" else word for word in arguments.replace("{k}", "--kernel {k}").split()]
    answer = bigiron("run", "open1", *words, "-o", tmp_path / "s")
    assert (answer.status, answer.out) == (2, ""), answer
    assert re.search(complaint, answer.complaint), answer.complaint
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("fs", "options", "reason"),
    [
        ("ext4", "frob", "ext4: Unknown parameter 'frob'"),
        ("btrfs", "compress=frob", "BTRFS error (device ram0): unrecognized compression value frob"),
        ("f2fs", "frob", 'F2FS-fs (ram0): Unrecognized mount option "frob" or missing value'),
    ],
)
def test_a_mount_option_that_the_kernel_refuses(fs: str, options: str, reason: str, tmp_path: Path) -> None:
    """In its own words."""
    asked = ("--kernel", kernel_with(fs), *TWO_CPUS, "--fs", fs, "--mount-options", options)
    answer = bigiron("run", "open1", *asked, "-o", tmp_path / "s")
    assert answer.status == 2
    refused = f"the kernel does not mount {fs} with the options {options}: Invalid argument: {reason}"
    assert answer.complaint.endswith(refused)


def test_what_is_no_error_of_a_mount_is_not_its_reason(tmp_path: Path) -> None:
    """ext4 warns of what it would do, before it does not."""
    asked = ("--fs", "ext4", "--mkfs-options=-O ^has_journal", "--mount-options", "data=journal")
    answer = bigiron("run", "open1", *SMALL, *asked, "-o", tmp_path / "s")
    assert "Invalid argument: EXT4-fs (ram0): can't mount with data=, fs mounted w/o journal" in answer.err


def test_a_disk_that_is_too_small_for_f2fs() -> None:
    with pytest.raises(UserError, match=r" 9 MiB with f2fs cannot be made: Error: Device size is not suff"):
        FileSystem("f2fs", disk_mib=9).made()


def test_a_file_system_that_has_no_way_past_the_page_cache(tmp_path: Path) -> None:
    """As tmpfs had none before 6.6."""
    answer = bigiron("run", "fxmark/DRBH-direct", *SMALL, "--fs", "tmpfs", "-o", tmp_path / "s")
    assert answer.status == 2
    assert "status 1: fxmark: open with O_DIRECT: Invalid argument" in answer.complaint


def test_a_disk_that_is_too_small_for_the_workload(tmp_path: Path) -> None:
    options = ("--fs", "ext4", "--disk", "1", "--operations", "500")
    answer = bigiron("run", "fxmark/DWAL", "--kernel", KERNEL, "--cpus", "2", *options, "-o", tmp_path / "s")
    assert answer.status == 2
    assert "fxmark: pwrite: No space left on device" in answer.err


def run_with(file: Path, job: str, *at_boot: Path) -> None:
    found = kernels.find(KERNEL)
    machine = vm.VirtualMachine(
        architecture=X86_64,
        kernel=found.image,
        release=found.release,
        from_snapshot=True,
        agent=compile.agent(workloads.find("getppid1"), X86_64.compiler),
        job=f"{job}\ncpus 1\n",
        topology=Topology(),
        memory_mib=vm.memory_mib(1),
        deadline_s=300,
        files=(file,),
        modules=tuple(kernels.KernelModule(file, True) for file in at_boot),
    )
    vm.run(machine, threading.Event(), lambda _stage: None)


def test_a_module_that_does_not_load(tmp_path: Path) -> None:
    damaged = tmp_path / "btrfs.ko"
    modules_of = kernels.modules_for(kernels.find(KERNEL), "btrfs")
    assert modules_of
    shutil.copyfile(modules_of[-1].file, damaged)
    complaint = "setting: the kernel does not load the module btrfs.ko: "
    with pytest.raises(
        UserError, match=rf"^{complaint}No such file .*: btrfs: Unknown symbol \w+ \(err -2\)$"
    ):
        run_with(damaged, "module required btrfs.ko")  # without what it needs
    damaged.write_bytes(b"no module at all")
    with pytest.raises(UserError, match=f"^{complaint}Exec format error"):
        run_with(damaged, "module required btrfs.ko")
    with pytest.raises(UserError, match=f"^{complaint}Exec format error"):
        run_with(damaged, "", damaged)
    run_with(damaged, "module optional btrfs.ko")
    with pytest.raises(UserError, match=r"^setting: the kernel has no file system zfs$"):
        run_with(damaged, "file_system zfs")


# Counts


@pytest.fixture(scope="module", params=[*KINDS])
def appended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    study = tmp_path_factory.mktemp("fs") / request.param
    asked = ("--kernel", kernel_with(request.param), *TWO_CPUS, "--fs", request.param)
    measured("fxmark/DWAL", *asked, "--probe", "locks,instructions", "-o", study)
    return request.param, study


def test_the_workload_works_on_the_file_system(appended: tuple[str, Path]) -> None:
    """The lock of its own file is that of such a file system's, taken once for each block."""
    fs, study = appended
    locks = {
        row["lock"]: row["cells"][kernel_with(fs)] for row in compared(study, "--probe", "locks")["rows"]
    }
    own = locks[f"struct inode.i_rwsem ({fs} file)"]
    assert own["acquisitions_per_op"] == pytest.approx(1, abs=0.001)
    assert (own["cpus"], own["locks"]) == (1, 2), "each task has a file"
    if fs == "btrfs":
        space = locks["struct btrfs_space_info.lock (data)"]
        assert space["cpus"] == 2 and space["acquisitions_per_op"] >= 1
    if fs == "f2fs":
        nodes = locks["struct f2fs_sb_info.node_change.internal_rwsem"]
        assert nodes["cpus"] == 2 and nodes["acquisitions_per_op"] == pytest.approx(1, abs=0.001)


def test_functions_of_modules_have_their_names(appended: tuple[str, Path]) -> None:
    fs, study = appended
    function = {"tmpfs": "shmem_write_begin", "ext4": "ext4_da_write_begin", "xfs": "xfs_file_buffered_write",
                "btrfs": "btrfs_buffered_write", "f2fs": "f2fs_write_begin"}[fs]  # fmt: skip
    rows = compared(study, "--probe", "instructions")["rows"]
    assert function in {row["function"] for row in rows}


def test_what_the_record_says_of_it(appended: tuple[str, Path]) -> None:
    fs, study = appended
    (record,) = library.open_study(study).records()
    said = {key: record.environment[key] for key in ("fs", "mkfs_options", "mount_options", "disk_mib")}
    size = 0 if fs == "tmpfs" else 16384
    assert said == {"fs": fs, "mkfs_options": "", "mount_options": "", "disk_mib": size}
    assert bool(record.environment["mkfs"]) == bool(size)
    loaded = {
        "tmpfs": [],
        "ext4": ["brd", "crc32c_intel"],
        "xfs": ["brd", "crc32c_intel", "libcrc32c", "xfs"],
    }
    assert record.environment["modules"] == loaded.get(fs, record.environment["modules"])


def test_the_journal_s_thread_is_no_part_of_an_operation(tmp_path: Path) -> None:
    """Each fsync waits for a commit, which ext4's journal makes in a thread of its own."""
    study = tmp_path / "s"
    measured("fxmark/DWSL", *SMALL, "--fs", "ext4", "--probe", "instructions", "-o", study)

    def per_op(context: str) -> dict[str, float]:
        rows = compared(study, "--context", context)["rows"]
        return {row["function"]: row["cells"][KERNEL]["self_per_op"] for row in rows}

    commit = "jbd2_journal_commit_transaction"
    operation, thread = per_op("process"), per_op("kthread")
    assert thread[commit] > 0 and commit not in operation
    assert operation["ext4_sync_file"] > 0 and "ext4_sync_file" not in thread


@pytest.mark.needs_more
def test_the_benchmark_of_all_of_them(tmp_path: Path) -> None:
    options = ["--kernel", KERNEL, "--operations", "50", "--workloads", "DRBH-direct", "-o", tmp_path]
    command = [sys.executable, BENCHMARK, *options]
    both = [*command, "--cpus", "2", "--fs", "tmpfs,ext4", "--twice"]
    printed = subprocess.run(both, check=True, capture_output=True, text=True).stdout
    assert "**What limits each**, debian/6.1, 2 CPUs: 1 of 2 measured" in printed
    last = printed.splitlines()[-1]
    assert re.fullmatch(r"\| DRBH-direct \| refused: .* Invalid argument \| `struct inode\..*` \|", last)
    limit = last.split("|")[-2].strip()
    table = tmp_path / "all.csv"
    more = [
        *command,
        "--cpus",
        "2,3",
        "--fs",
        "ext4",
        "--probe",
        "conflicts,locks,instructions",
        "--csv",
        table,
    ]
    printed = subprocess.run(more, check=True, capture_output=True, text=True).stdout
    assert re.search(rf"\| DRBH-direct \| \d+ {re.escape(limit)} \| \d+ `struct inode\.", printed)
    assert re.search(r"\| debian/6.1 \| ext4 \| DRBH-direct \| 2, 3 \| [\d,]+, [\d,]+ \| none \|", printed)
    cells = list(csv.DictReader(table.read_text().splitlines()))
    assert [(cell["cpus"], cell["fs"], cell["refused"]) for cell in cells] == [
        ("2", "ext4", ""),
        ("3", "ext4", ""),
    ]
    assert f"`{cells[0]['limit']}`" == limit
    again = subprocess.run([*more, "--kept"], check=False, capture_output=True, text=True)
    assert again.returncode == 2 and "is there already" in again.stderr
    kept = [*command, "--cpus", "2,3,4", "--fs", "ext4", "--kept"]
    assert subprocess.run(kept, check=True, capture_output=True, text=True).stdout == printed


def test_another_file_system_is_another_question(appended: tuple[str, Path]) -> None:
    fs, study = appended
    other = "xfs" if fs == "ext4" else "ext4"
    answer = bigiron(
        "run", "fxmark/DWAL", *SMALL, "--fs", other, "--probe", "locks,instructions", "-o", study
    )
    assert answer.status == 2
