"""The lists of the kernel's functions, compared with the symbols of four kernels."""

from booted import KERNELS, left_by

from bigiron.analysis import kernel_functions


def test_each_function_is_in_one_of_four_kernels() -> None:
    """A name that no kernel has any more, or that was mistyped, would silently match nothing."""
    symbols = {name.partition(".")[0] for kernel in KERNELS for name in left_by(kernel).symbols.names}
    assert not set(kernel_functions.PLAIN_NAMES) - set(kernel_functions.ON_ARM64) - symbols
