"""Commands under *Setup and data* of `bigiron --help`."""
