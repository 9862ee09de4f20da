"""Figures that programs and test suites print: one module per format."""
