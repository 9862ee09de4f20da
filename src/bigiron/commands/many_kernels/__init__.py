"""Commands under *Many kernels* of `bigiron --help`."""
