"""A fleet: machines that run a study's cells, through Dask's `distributed`.

The controller, which is `bigiron run`, sends cells to a scheduler, and that to workers; what comes back is
written into the study by the controller alone. Dask is an extra: nothing else of bigiron needs it. See
docs/howto/machines/many-machines.md.
"""
