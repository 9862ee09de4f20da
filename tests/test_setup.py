"""setup.sh on a machine that is ready, and the list of make's targets."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: str) -> str:
    done = subprocess.run(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    return done.stdout


@pytest.mark.needs_more
def test_a_second_setup_says_nothing() -> None:
    run("./setup.sh")
    stamp = (ROOT / ".venv/setup-stamp").stat().st_mtime_ns
    assert run("./setup.sh") == ""
    assert (ROOT / ".venv/setup-stamp").stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("purpose", "there", "extras"),
    [("", "", ""), ("ppc64le", "", ""), ("aarch64", "", ""),
     ("fleet", "", "fleet"), ("dev", "", "dev"), ("test", "", "dev"),
     ("", "dev", "dev"), ("fleet", "dev", "dev,fleet")],
)  # fmt: skip
def test_what_a_user_does_not_need_is_installed_on_request(
    purpose: str, there: str, extras: str, tmp_path: Path
) -> None:
    functions = (ROOT / "setup.sh").read_text().removesuffix("main\n").replace("cd -P", ": cd -P")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/setup-extras").write_text(f"{there}\n")
    script = ["bash", "-c", f"{functions}\nextras; rm -f $log", "setup.sh", purpose]
    done = subprocess.run(script, cwd=tmp_path, text=True, capture_output=True, check=True)
    assert done.stdout.strip() == extras


@pytest.mark.parametrize(
    ("on_path", "in_wheel", "found", "is_kept"),
    [("8.2.2", "10.0.13", True, True), ("10.0.2", None, True, True), ("8.2.2", None, False, True),
     (None, "10.0.13", True, True), ("8.2.2", "9.2.0", False, True), ("8.2.2", "10.0.13", False, False),
     ("10.0.2", "10.0.13", True, False)],
)  # fmt: skip
def test_the_qemu_wheel_will_do_unless_setup_makes_another_venv(
    on_path: str | None, in_wheel: str | None, found: bool, is_kept: bool, tmp_path: Path
) -> None:
    functions = (ROOT / "setup.sh").read_text().removesuffix("main\n").replace("cd -P", ": cd -P")
    wheel = ".venv/lib/python3.12/site-packages/bigiron_qemu/bin"
    for folder, version in (("programs", on_path), (wheel, in_wheel)):
        (tmp_path / folder).mkdir(parents=True)
        if version:
            program = tmp_path / folder / "qemu-system-bigiron"
            program.write_text(f"#!/bin/sh\necho QEMU emulator version {version}\n")
            program.chmod(0o755)
    made_in = tmp_path if is_kept else "/from/where/it/was/moved"
    (tmp_path / ".venv/bin").mkdir()
    (tmp_path / ".venv/bin/python").symlink_to("/bin/true")
    (tmp_path / ".venv/pyvenv.cfg").write_text(f"command = python3 -m venv {made_in}/.venv\n")
    ask = f"PATH={tmp_path}/programs:$PATH; qemu_is_here qemu-system-bigiron && echo yes; rm -f $log"
    script = ["bash", "-c", f"{functions}\n{ask}", "setup.sh"]
    done = subprocess.run(script, cwd=tmp_path, text=True, capture_output=True, check=True)
    assert done.stdout == "yes\n" * found


def test_make_lists_its_targets() -> None:
    targets = re.findall(r"^([a-z0-9-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    listed = [line.split(maxsplit=1) for line in run("make", "--no-print-directory").splitlines()]
    assert [target for target, _what_it_does in listed] == targets
    assert {"setup", "demo", "test", "lint"} < set(targets)
