"""Which pairs of system calls commute, and tests of whether a kernel lets them scale where they do."""
