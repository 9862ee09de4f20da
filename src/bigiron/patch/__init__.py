"""`bigiron patch`: what a patch, or each patch of a series, does to all workloads."""
