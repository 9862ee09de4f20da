"""Calls of tests of the matrix, made on this machine."""

import subprocess
import tempfile

from bigiron import compile
from bigiron.matrix.model.calls import printed_results


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
    return [results for _, results in printed_results(done.stdout.splitlines())]
