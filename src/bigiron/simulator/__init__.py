"""The machines that the simulator models: their files, and how this one is measured."""
