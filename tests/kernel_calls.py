"""Calls of tests of the matrix, made on this machine."""

import subprocess
import tempfile
from collections.abc import Iterable, Iterator

from bigiron import compile
from bigiron.matrix.model.calls import ResultText


def answered(text: str, order: str = "a-first") -> subprocess.CompletedProcess[str]:
    """On tmpfs, where no inode's number comes back for another one; on ext4 it does once a file is gone."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        program = compile.pairs("gcc")
        return subprocess.run(
            [program, folder, order], input=text, capture_output=True, text=True, check=False
        )


def made(text: str, order: str = "a-first") -> list[list[str]]:
    """What the kernel gives for the calls of each test."""
    done = answered(text, order)
    assert (done.returncode, done.stderr) == (0, "")
    return [results for _, results in _printed(done.stdout.splitlines())]


def _printed(lines: Iterable[str]) -> Iterator[tuple[str, list[ResultText]]]:
    """What guest/pairs/ printed: each test's number and its calls' results."""
    header, results = "", list[ResultText]()
    for line in lines:
        if line.strip() and not header:
            header = line.split()[1]
        elif line.strip():
            results.append(line.rstrip("\n"))
        elif header:
            yield header, results
            header, results = "", []
