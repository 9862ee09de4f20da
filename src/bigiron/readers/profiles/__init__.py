"""Profiles of real machines: one module per format, and what they share in `profile`."""
