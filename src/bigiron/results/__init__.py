"""Turns a stored study into values: comparison, growth, scaling, prediction. Prints nothing."""
