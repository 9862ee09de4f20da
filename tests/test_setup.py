"""setup.sh on a machine that is ready, and the list of make's targets."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(*command: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return done.stdout


def test_a_second_setup_says_nothing() -> None:
    run("./setup.sh")
    stamp = (ROOT / ".venv/setup-stamp").stat().st_mtime_ns
    assert run("./setup.sh") == ""
    assert (ROOT / ".venv/setup-stamp").stat().st_mtime_ns == stamp


def test_make_lists_its_targets() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = [line.split(maxsplit=1) for line in run("make", "--no-print-directory").splitlines()]
    assert [target for target, _what_it_does in listed] == targets
    assert {"setup", "demo", "test", "lint", "bench"} < set(targets)
