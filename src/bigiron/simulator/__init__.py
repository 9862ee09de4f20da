"""The machines that the simulator models: machine files, and measuring this host."""
