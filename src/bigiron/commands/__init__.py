"""The commands, one file each, in a folder per heading of `bigiron --help`: parse, call, print."""
