"""Commands under *Compare and explain* of `bigiron --help`."""
