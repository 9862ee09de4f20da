"""Folded stacks: a line a stack, as flamegraph.pl, inferno and speedscope read them."""

from bigiron.report.stacks import Stacks


def encode(stacks: Stacks) -> bytes:
    """`outermost;…;leaf weight`, of the first of the weights."""
    lines = [f"{';'.join(map(_plain, frames))} {values[0]}\n" for frames, values in stacks if values[0]]
    return "".join(lines).encode()


def _plain(frame: str) -> str:
    """A frame on one line: a struct's name may come from the guest."""
    return "".join(c if c.isprintable() else "?" for c in frame)
