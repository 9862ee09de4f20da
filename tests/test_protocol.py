"""What the controller and the agent hand each other: messages over a serial line, files in an initramfs."""

import json
import shutil
import stat
import subprocess
import zlib
from pathlib import Path
from typing import Any

import pytest
from conftest import SAFETY_NET_S, WORKLOADS
from hypothesis import given
from hypothesis import strategies as st

from bigiron import compile, workloads
from bigiron.errors import MachineError
from bigiron.machines import messages as protocol
from bigiron.machines.messages import Decoder, Message
from bigiron.machines.outcome import MachineOutcome
from bigiron.machines.vm.initramfs import Entry, archive, initramfs


def frame(type: str, content: object) -> bytes:
    payload = json.dumps(content).encode()
    return b"@bigiron %s %d %08x\n%s\n" % (type.encode(), len(payload), zlib.crc32(payload), payload)


def decoded(*chunks: bytes) -> tuple[list[Message], int]:
    decoder = Decoder()
    messages = [message for chunk in chunks for message in decoder.feed(chunk)]
    return messages, decoder.damaged


# Messages

TYPES = st.sampled_from(["hello", "stage", "sample", "error", "end"])
TEXT = st.text() | st.just("@bigiron end 16 00000000\n")
CONTENTS = st.dictionaries(st.text(max_size=5), TEXT | st.integers() | st.lists(st.integers()), max_size=3)
MESSAGES = st.lists(st.builds(Message, TYPES, CONTENTS), max_size=5)
NOISE = st.binary(max_size=80).filter(lambda noise: b"@" not in noise)


@st.composite
def chunked(draw: st.DrawFn, whole: bytes) -> list[bytes]:
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


@given(messages=MESSAGES, noise=NOISE, data=st.data())
def test_any_chunks_give_the_same_messages(
    messages: list[Message], noise: bytes, data: st.DataObject
) -> None:
    whole = noise.join([b"", *(frame(message.type, message.content) for message in messages), b""])
    assert decoded(*data.draw(chunked(whole))) == (messages, 0)


@given(before=MESSAGES, broken=CONTENTS, after=MESSAGES, data=st.data())
def test_a_damaged_message_is_skipped_and_counted(
    before: list[Message], broken: dict[str, Any], after: list[Message], data: st.DataObject
) -> None:
    damaged = bytearray(frame("sample", broken))
    payload_at = damaged.index(b"\n") + 1
    at = data.draw(st.integers(payload_at, len(damaged) - 2))
    damaged[at] ^= data.draw(st.sampled_from([1, 2, 0x20]))
    around = [b"".join(frame(m.type, m.content) for m in messages) for messages in (before, after)]
    messages, count = decoded(around[0] + damaged + around[1])
    assert messages == before + after
    assert count >= 1


@pytest.mark.parametrize(
    "damage",
    [
        b"@bigiron end\n",
        b"@bigiron end x 00000000\n",
        b"@bigiron end 2 xyz\n{}\n",
        b"@bigiron end -1 00000000\n",
        b"@bigiron end 99999999 00000000\n",
        b"@bigiron \xff 2 a505df1b\n{}\n",
        b"@bigiron " + b"a" * 100 + b"\n",
        frame("end", ["no object"]),
        b"@bigiron end 2 %08x\n{}}\n" % zlib.crc32(b"{}}"),
        b"@bigiron end 3 %08x\n{x}\n" % zlib.crc32(b"{x}"),
    ],
)
def test_what_is_damaged_is_left_out(damage: bytes) -> None:
    end = Message("end", {"failed": False})
    messages, count = decoded(damage + frame(end.type, end.content))
    assert messages == [end]
    assert count >= 1


@given(chunks=st.lists(st.binary() | st.sampled_from([b"@bigiron ", b"end 2 ", b"\n", b"{}"])))
def test_nothing_makes_it_raise(chunks: list[bytes]) -> None:
    decoded(*chunks)


def test_what_waits_for_more_is_bounded() -> None:
    decoder = Decoder()
    for _ in range(1000):
        decoder.feed(b"no message " * 100)
    decoder.feed(b"@bigiron " + b"x" * 1000)
    assert len(vars(decoder)["_pending"]) < 100


def test_a_stream_of_false_headers_comes_to_an_end() -> None:
    """All that followed was copied for each one, which took hours for 16 MiB."""
    for stream in (
        b"@bigiron x 16000000 0\n" + b"@bigiron " * (2 << 20),
        b"@bigiron x 524288 0\n" * (1 << 16),
    ):
        with pytest.raises(MachineError, match="more than 1000 of the agent's messages are damaged"):
            Decoder().feed(stream)


def test_all_messages_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_MOST_BYTES", 100)
    with pytest.raises(MachineError, match="messages are longer than"):
        decoded(frame("stage", {"stage": "x" * 20}) * 4)


SAYS_SOMETHING_AND_EXITS = r"""
#include <stdio.h>
#include <stdlib.h>
void testcase_prepare(unsigned long nr_tasks) { fputs("\"\\\t\xc3\xa4\n", stderr); exit(9); }
void testcase(unsigned long long *iterations, unsigned long nr) { }
"""


def run_here(agent: Path, job: Path) -> subprocess.CompletedProcess[bytes]:
    """The agent as a plain program: no machine is needed to hear what it says."""
    return subprocess.run(
        [agent, job],
        stdin=subprocess.DEVNULL,  # a pipe that has ended would end its wait for what else measures here
        stdout=subprocess.PIPE,
        timeout=SAFETY_NET_S,
        check=False,
    )


def test_a_service_prints_without_end(tmp_path: Path) -> None:
    """What it prints is kept in memory, which would be the workload's."""
    (tmp_path / "job").write_text(
        "mode process\ntasks 1\npatience_s 100\nword sleep\nword 90\nservice\nservice_word yes\n"
    )
    done = run_here(compile.agent(None, "gcc"), tmp_path / "job")
    (error,) = [message for message in Decoder().feed(done.stdout) if message.type == "error"]
    assert error.content["text"].startswith("the service yes has printed more than 16 MiB, ")


def test_the_agent_and_the_decoder_agree(tmp_path: Path) -> None:
    source = tmp_path / "mine.c"
    source.write_text(SAYS_SOMETHING_AND_EXITS)
    (tmp_path / "job").write_text("mode process\ntasks 1\npatience_s 1000\n")
    said = run_here(compile.agent(workloads.from_file(source), "gcc"), tmp_path / "job")
    all_messages, damaged = decoded(said.stdout)
    messages = [message for message in all_messages if message.type != "waiting"]
    assert damaged == 0
    assert [message.type for message in messages] == ["hello", "error", "end"]
    assert messages[0].content["protocol"] == 1
    assert messages[1].content["kind"] == "workload"
    assert messages[1].content["text"].startswith('the workload ended by itself with status 9: "\\\t')
    assert messages[2].content == {"failed": True}
    assert said.returncode == 1


@pytest.mark.parametrize(
    ("job", "complaint"),
    [("frob 1\n", "the agent does not know 'frob 1'"), ("set /nope=1\n", "cannot read /nope, so as to")],
)
def test_the_agent_refuses_a_job(tmp_path: Path, job: str, complaint: str) -> None:
    (tmp_path / "job").write_text(job)
    said = run_here(compile.agent(workloads.find("getppid1"), "gcc"), tmp_path / "job")
    (error,) = [message for message in decoded(said.stdout)[0] if message.type == "error"]
    assert error.content["text"].startswith(complaint)


@pytest.mark.slow
def test_a_file_comes_in_parts_and_is_whole(tmp_path: Path) -> None:
    """Longer than any one message may be, and a line that is longer than that too."""
    whole, too_long = tmp_path / "whole", tmp_path / "too_long"
    lines = [f"line {number} of \x01many" for number in range(600_000)]
    whole.write_text("\n".join(lines))
    too_long.write_text("short\n" + "x" * (16 << 20) + "\nthe last\n")
    (tmp_path / "job").write_text(f"read {whole}\nread {too_long}\n")
    messages, damaged = decoded(
        run_here(compile.agent(workloads.find("getppid1"), "gcc"), tmp_path / "job").stdout
    )
    outcome = MachineOutcome(damaged=damaged)
    for message in messages:
        outcome.receive(message, 1.0)
    files = {
        message.content["path"]: message.content for message in outcome.messages if message.type == "file"
    }
    assert files[str(whole)] == {"path": str(whole), "lines": lines, "more": False}
    assert files[str(too_long)]["lines"] == ["the last"]
    assert outcome.ended
    assert outcome.lost == {"messages of the agent, which were longer than 16 MiB": 1}


def test_without_memory_it_ends_and_says_what_it_left_out(tmp_path: Path) -> None:
    program, guest = tmp_path / "no_memory", Path(__file__).parent.parent / "guest"
    sources = [Path(__file__).with_name("agent") / "no_memory.c", guest / "protocol" / "report.c"]
    subprocess.run(["gcc", "-iquote", guest, *sources, "-o", program], check=True)
    said = subprocess.run(
        [program], stdin=subprocess.DEVNULL, capture_output=True, timeout=SAFETY_NET_S, check=True
    )
    messages, damaged = decoded(said.stdout)
    assert [message.type for message in messages] == ["lost", "lost", "lost", "end"]
    assert messages[-1].content == {"failed": True}
    outcome = MachineOutcome(messages, damaged=damaged)
    assert outcome.lost == {"messages of the agent, for which it had no memory": 3}


@pytest.mark.parametrize(
    ("copies", "complaint"),
    [
        (0, "no memory for the path of '/proc/sys/kernel/pid_max=1'"),
        (1, "no memory for what /proc/sys/kernel/pid_max holds"),
    ],
)
def test_without_memory_no_setting_is_changed(copies: int, complaint: str, tmp_path: Path) -> None:
    """What cannot be put back is not changed."""
    program, guest = tmp_path / "settings", Path(__file__).parent.parent / "guest"
    sources = [Path(__file__).with_name("agent") / "settings_without_memory.c"]
    sources += [guest / name for name in ("machine/settings.c", "protocol/report.c")]
    subprocess.run(["gcc", "-fno-builtin", "-iquote", guest, *sources, "-o", program], check=True)
    done = subprocess.run([program, str(copies)], stdout=subprocess.PIPE, timeout=SAFETY_NET_S, check=False)
    messages, _ = decoded(done.stdout)
    assert (done.returncode, [message.content for message in messages]) == (
        1, [{"kind": "setting", "text": complaint}],
    )  # fmt: skip


def test_what_was_damaged_on_the_way_is_reported() -> None:
    assert MachineOutcome(damaged=2).lost == {"messages of the agent that arrived damaged": 2}
    with pytest.raises(MachineError, match="does not say what was lost"):
        _ = MachineOutcome([Message("lost", {"what": "samples"})]).lost


# Tasks


def test_threads_have_ended_when_the_workload_cleans_up(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("mode thread\ntasks 2\nwarmup 10\npatience_s 60\n")
    agent = compile.agent(workloads.from_file(WORKLOADS / "companions.c"), "gcc")
    messages, _ = decoded(run_here(agent, tmp_path / "job").stdout)
    ends = [message.content for message in messages if message.type in ("error", "end")]
    assert ends == [{"failed": False}]


def test_a_companion_that_cannot_be_had_is_reported(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("mode process\ntasks 1\nwarmup 10\npatience_s 60\n")
    agent = compile.agent(workloads.from_file(WORKLOADS / "no_companion.c"), "gcc")
    messages, _ = decoded(run_here(agent, tmp_path / "job").stdout)
    errors = [message.content for message in messages if message.type == "error"]
    assert errors[0]["kind"] == "machine"
    assert errors[0]["text"] == "cannot start a task's companion: Resource temporarily unavailable"


def test_no_task_is_moved_before_all_are_there(tmp_path: Path) -> None:
    program, guest = tmp_path / "late_tasks", Path(__file__).parent.parent / "guest"
    sources = [Path(__file__).with_name("agent") / "late_tasks.c"]
    sources += [guest / name for name in ("tasks/tasks.c", "tasks/time_slices.c", "protocol/report.c")]
    subprocess.run(["gcc", "-pthread", "-iquote", guest, *sources, "-o", program], check=True)
    done = subprocess.run([program], stdout=subprocess.PIPE, timeout=SAFETY_NET_S, check=False)
    assert (done.returncode, done.stdout) == (0, b"")


# A command's recorded part

HELD_BACK = (
    "the line that matches 'half' came too late, as programs hold back what they print to a pipe: let this "
    "one flush it, run it by stdbuf -oL, or use --warm-up or --marked"
)
NEVER = "the command ended and then printed no line that matches '^done$': see --end-at"


@pytest.mark.parametrize(
    ("script", "until", "complaint"),
    [
        ("printf 'half\\ndone\\nmore\\n'", "end_at ^done$", ""),
        ("echo half; sleep 0.5; echo done", "begin_at half\nend_at ^done$", ""),
        ("echo half; sleep 0.5", "begin_at half", ""),
        ("printf 'half\\ndone\\n'", "begin_at half\nend_at ^done$", HELD_BACK),
        ("printf half", "begin_at half", HELD_BACK),
        ("printf 'half\\rdone\\rmore\\n'", "end_at ^done$", ""),
        ("printf 'half\\ndone'", "end_at ^done$", ""),
        ("printf done; sleep 1000 & kill -9 $$", "end_at ^done$", ""),  # another one has its output open
        ("printf 'half\\nundone'", "end_at ^done$", NEVER),
        ("true", "record_ms 5000000", " s of its recorded part of 5000 s"),
        ("true", "record_ms 0", ""),
    ],
)
def test_where_a_recorded_part_ends(script: str, until: str, complaint: str, tmp_path: Path) -> None:
    lines = ("tasks 1", "patience_s 1000", "word sh", "word -c", f"word {script}", until)
    (tmp_path / "job").write_text("".join(f"{line}\n" for line in lines))
    said = decoded(run_here(compile.agent(workloads.find("getppid1"), "gcc"), tmp_path / "job").stdout)
    texts = [message.content["text"] for message in said[0] if message.type == "error"]
    assert len(texts) == bool(complaint), texts
    assert "".join(texts).endswith(complaint)


# The initramfs


def read_back(data: bytes) -> list[Entry]:
    """The entries of a cpio archive: buffer-format.rst of the kernel, read the other way round."""
    entries, at = [], 0
    while True:
        assert at % 4 == 0 and data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        _, mode, _, _, _, _, size, _, _, major, minor, name_size, _ = fields
        name_at, content_at = at + 110, at + 110 + name_size + -(110 + name_size) % 4
        name = data[name_at : name_at + name_size].decode()
        assert name.endswith("\0")
        if name == "TRAILER!!!\0":
            assert content_at == len(data)
            return entries
        content = data[content_at : content_at + size]
        entries.append(Entry(name[:-1], mode, content, (major, minor)))
        at = content_at + size + -size % 4


ENTRIES = st.builds(
    Entry,
    path=st.text("abc/.é", min_size=1, max_size=9),
    mode=st.integers(0, 0o177777),
    content=st.binary(max_size=40),
    device=st.tuples(st.integers(0, 255), st.integers(0, 255)),
)


@given(entries=st.lists(ENTRIES, max_size=5))
def test_an_archive_reads_back(entries: list[Entry]) -> None:
    assert read_back(archive(entries)) == entries


def test_what_a_machine_boots_into() -> None:
    entries = {entry.path: entry for entry in read_back(initramfs(b"\x7fELF...", 8, symbols=True))}
    assert (entries["init"].mode, entries["init"].content) == (stat.S_IFREG | 0o755, b"\x7fELF...")
    assert entries["room"].content == b"8\n" and "symbols" in entries
    assert stat.S_ISCHR(entries["dev/console"].mode) and entries["dev/console"].device == (5, 1)
    folders = [path for path, entry in entries.items() if stat.S_ISDIR(entry.mode)]
    assert folders == ["dev", "proc", "sys", "tmp"]
    loads = read_back(initramfs(b"boot", 8, symbols=False, modules={"xor.ko": b"\x7fELF"}))
    assert Entry("modules/xor.ko", stat.S_IFREG | 0o644, b"\x7fELF") in loads


@pytest.mark.skipif(not shutil.which("cpio"), reason="no cpio on PATH")
def test_cpio_reads_it(tmp_path: Path) -> None:
    data = initramfs(b"boot", 8, symbols=False)
    listed = subprocess.run(["cpio", "-it"], input=data, capture_output=True, check=True)
    assert listed.stdout.split() == b"dev proc sys tmp dev/console init room".split()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("sample", {"nanoseconds": 1}, "missing required field `operations`"),
        ("hello", {"protocol": "one"}, "protocol: Expected `int`, got `str`"),
        ("oncpu", {"cpu": -1, "pid": []}, "pid: Expected `int`"),
        ("error", {"kind": "mood", "text": ""}, "kind: Invalid enum value 'mood'"),
    ],
)
def test_nonsense_of_an_agent_is_a_failure_of_its_machine(
    name: str, content: dict[str, object], complaint: str
) -> None:
    with pytest.raises(MachineError, match=f"cannot read the agent's message {name}: .*{complaint}"):
        MachineOutcome().receive(Message(name, content), 0.0)


def test_an_agent_that_failed_has_not_measured() -> None:
    with pytest.raises(MachineError, match="the agent failed and gave no reason"):
        MachineOutcome().receive(Message("end", {"failed": True}), 0.0)


@pytest.mark.parametrize("payload", [b"[" * 200_000, b'{"text": "\\udcff"}', b'{"text": "\\uD83D"}'])
def test_what_cannot_be_read_or_written_is_damaged(payload: bytes) -> None:
    decoder = Decoder()
    header = b"@bigiron error %d %08x\n" % (len(payload), zlib.crc32(payload))
    assert decoder.feed(header + payload + b"\n") == []
    assert decoder.damaged == 1
