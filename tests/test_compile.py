"""What is compiled on first use is kept until anything that went into it changes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bigiron import compile, libbpf, workloads
from bigiron.architectures import X86_64

SOURCE = """
char *testcase_description = "nothing";
int of_library(void);
void testcase(unsigned long long *iterations, unsigned long nr) { (void)nr; for (;;) (*iterations)++; }
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGIRON_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "a folder").mkdir()
    file = tmp_path / "a folder" / "mine.c"
    file.write_text(SOURCE)
    return file


def agent(source: Path, libraries: tuple[str, ...]) -> Path:
    return compile.agent(workloads.from_file(source), "gcc", libraries)


def compiled(source: Path) -> Path:
    """The source alone, which is compiled as all else is, and sooner."""
    return compile._compile("mine.o", "gcc", ("-c",), [source], "the source")


@pytest.fixture
def gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that says which version it is by the file beside it, and notes what it is asked for."""
    real, folder = shutil.which("gcc"), tmp_path / "bin"
    folder.mkdir()
    (folder / "version").write_text("gcc 12.2.0\n")
    (folder / "gcc").write_text(
        f'#!/bin/sh\necho "$@" >> {folder}/calls\n[ "$1" = --version ] && exec cat {folder}/version\n'
        f'exec {real} "$@"\n'
    )
    (folder / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_nothing_is_compiled_twice(source: Path, gcc: Path) -> None:
    first = compiled(source)
    (gcc / "calls").unlink()
    assert compiled(source) == first
    assert (gcc / "calls").read_text() == "--version\n"


def test_checkouts_with_the_same_sources_share_what_they_compile(
    tmp_path: Path, gcc: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled_in(checkout: str, header: str = "int global;\n") -> Path:
        folder = tmp_path / checkout / "guest"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "mine.h").write_text(header)
        (folder / "mine.c").write_text('#include "mine.h"\n')
        monkeypatch.setattr(compile, "_HERE", folder.parent)
        flags = ("-c", "-iquote", str(folder))
        return compile._compile("mine.o", "gcc", flags, [folder / "mine.c"], "the source")

    first = compiled_in("one")
    (gcc / "calls").unlink()
    assert compiled_in("another") == first
    assert (gcc / "calls").read_text() == "--version\n"
    assert compiled_in("another", "char global;\n") != first == compiled_in("one")


@pytest.mark.slow
def test_the_agent_s_own_files_are_compiled_once_for_all_workloads(source: Path, gcc: Path) -> None:
    first = agent(source, ())
    assert "/agent.c " in (gcc / "calls").read_text()
    (gcc / "calls").unlink()
    source.write_text(SOURCE.replace("nothing", "something"))
    second = agent(source, ())
    assert second != first and b"something" in second.read_bytes()
    assert "/agent.c " not in (gcc / "calls").read_text()


def test_a_header_in_another_folder_goes_into_it(source: Path) -> None:
    header = source.parent / "deep" / "er" / "mine.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define NAME 1\n")
    (source.parent / "deep" / "outer.h").write_text('#include "er/mine.h"\n')
    source.write_text('#include "deep/outer.h"\nint global = NAME;' + SOURCE)
    first = compiled(source)
    header.write_text("#define NAME 2\n")
    second = compiled(source)
    assert second != first and second.read_bytes() != first.read_bytes()
    header.write_text("#define NAME 1\n")
    assert compiled(source) == first


def test_the_compiler_s_version_goes_into_it(source: Path, gcc: Path) -> None:
    first = compiled(source)
    (gcc / "version").write_text("gcc 12.2.1\n")
    assert compiled(source) != first


@pytest.mark.slow
def test_a_library_goes_into_it(source: Path, tmp_path: Path) -> None:
    def library(number: int) -> None:
        (tmp_path / "of.c").write_text(f"int of_library(void) {{ return {number}; }}\n")
        subprocess.run(["gcc", "-c", "of.c"], cwd=tmp_path, check=True)
        (tmp_path / "libof.a").unlink(missing_ok=True)
        subprocess.run(["ar", "rc", "libof.a", "of.o"], cwd=tmp_path, check=True)

    source.write_text(SOURCE + "int (*use)(void) = of_library;\n")
    libraries = (*libbpf.flags(X86_64), "-L", str(tmp_path), "-lof")
    library(1)
    first = agent(source, libraries)
    library(2)
    second = agent(source, libraries)
    assert second != first and second.read_bytes() != first.read_bytes()
    inputs = "\n".join(file.read_text() for file in (tmp_path / "cache/compiled").glob("*.inputs"))
    assert {"libof.a", "libbpf.a", "libc.a"} <= {Path(line).name for line in inputs.splitlines()}


def test_what_went_into_it_and_is_gone_is_no_reason_to_keep_it(source: Path) -> None:
    (source.parent / "mine.h").write_text("")
    source.write_text('#include "mine.h"\n' + SOURCE)
    first = compiled(source)
    (source.parent / "mine.h").unlink()
    source.write_text(SOURCE)
    assert compiled(source) != first


def test_a_list_of_inputs_that_is_damaged_is_made_again(source: Path, tmp_path: Path) -> None:
    first = compiled(source)
    (inputs,) = (tmp_path / "cache/compiled").glob("*.inputs")
    inputs.write_bytes(b"\xff\xfe nothing")
    assert compiled(source) == first
