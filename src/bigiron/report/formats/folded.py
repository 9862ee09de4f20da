"""Folded stacks: a line a stack, as flamegraph.pl, inferno and speedscope read them."""

from collections.abc import Iterable

from bigiron.results.stacks import StackComparison


def encode(stacks: StackComparison) -> bytes:
    """`outermost;…;leaf weight`, of the first of the weights."""
    return _lines((frames, values[:1]) for frames, values in stacks)


def encode_difference(base: StackComparison, new: StackComparison) -> bytes:
    """`outermost;…;leaf base new`, as difffolded.pl writes it for flamegraph.pl."""
    before, after = base.weighed, new.weighed
    every = dict.fromkeys((*before, *after))
    return _lines((frames, (before.get(frames, 0), after.get(frames, 0))) for frames in every)


def _lines(stacks: Iterable[tuple[tuple[str, ...], tuple[int, ...]]]) -> bytes:
    lines = [f"{';'.join(frames)} {' '.join(map(str, values))}\n" for frames, values in stacks if any(values)]
    return "".join(lines).encode()
