"""benchmarks/machines/faults.py, the harness of random faults: that it works, and a few that harm nothing."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import SAFETY_NET_S
from hypothesis import given
from hypothesis import strategies as st

from bigiron.machines.messages import Decoder, Message

BENCHMARKS = Path(__file__).parents[1] / "benchmarks/machines"
sys.path.insert(0, str(BENCHMARKS))

from fault_injection import relay  # noqa: E402
from sshd import PROGRAM  # noqa: E402

MESSAGES = [relay.frame(b"stage", b'{"stage":"%d"}' % number) for number in range(8)]


def decoded(stream: Iterator[bytes]) -> list[str]:
    decoder = Decoder()
    return [message.content["stage"] for data in stream for message in decoder.feed(data)]


@given(
    st.lists(st.sampled_from([*MESSAGES, b"noise", b"@bigiron"]), max_size=9),
    st.randoms(),
)
def test_a_stream_is_cut_into_messages_and_stays_what_it_is(said: list[bytes], chance: random.Random) -> None:
    stream, arriving = b"".join(said), []
    while stream:
        length = chance.randint(1, len(stream))
        arriving.append(stream[:length])
        stream = stream[length:]
    cut = list(relay.pieces(iter(arriving)))
    assert b"".join(piece for piece, _ in cut) == b"".join(said)
    decoder = Decoder()
    for piece, is_message in cut:
        assert not is_message or isinstance(decoder.feed(piece)[0], Message)


@pytest.mark.parametrize(
    ("harm", "comes"),
    [
        ("doubled", lambda said: len(said) > len(set(said)) == 8),
        ("reordered", lambda said: said != sorted(said) and sorted(said) == list("01234567")),
        ("cut", lambda said: len(said) < 8 and said == sorted(said)),
        ("garbled", lambda said: len(said) < 8),
    ],
)
def test_what_harm_comes_to(harm: str, comes: object) -> None:
    came = []
    for seed in range(40):
        said: list[str] = []
        decoder = Decoder()
        try:
            for data in relay.harmed(harm, random.Random(seed), iter(MESSAGES)):
                said += [message.content["stage"] for message in decoder.feed(data)]
        except (relay.EndOfStreamError, relay.SilenceError):
            pass
        came.append(comes(said))  # type: ignore[operator]
    assert sum(came) > 30


@pytest.mark.slow
@pytest.mark.skipif(PROGRAM is None, reason="no sshd: apt-get install openssh-server")
def test_a_few_faults() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "faults.py", "--faults", "4", "--seed", "101", "--only", "ssh: "],
        capture_output=True,
        text=True,
        timeout=SAFETY_NET_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done
    assert [line.count("|") for line in done.stdout.splitlines() if line.startswith("| all |")] == [12]
