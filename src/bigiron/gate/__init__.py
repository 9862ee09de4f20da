"""The gate: a study compared with a baseline of counts, or with a history."""
