"""Types that several threads ask for first, at once: msgspec alone crashes there."""

import subprocess
import sys
from textwrap import dedent

import pytest

CROWD = dedent(
    """
    import sys, threading
    import msgspec
    from bigiron.util import decode

    sys.setswitchinterval(1e-6)
    content = msgspec.json.encode({"one": {"fields": [{"name": 1}] * 3}})
    for _ in range(500):
        inner = msgspec.defstruct("Inner", [("name", int), ("others", dict[str, float | str], {})])
        middle = msgspec.defstruct("Middle", [("fields", list[inner]), ("more", dict[str, inner], {})])
        outer = msgspec.defstruct("Outer", [("one", middle), ("two", middle | None, None)])
        together = threading.Barrier(4)

        def ask():
            together.wait()
            assert decode.from_json(content, outer).one.fields[2].name == 1

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    """
)


@pytest.mark.slow
def test_threads_may_ask_for_a_type_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
