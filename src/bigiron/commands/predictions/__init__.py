"""Commands under *Predict and simulate* of `bigiron --help`."""
