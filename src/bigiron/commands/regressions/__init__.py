"""Commands under *Patch, gate, bisect, judge* of `bigiron --help`."""
