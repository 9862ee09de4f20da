"""Commands under *Measure* of `bigiron --help`."""
