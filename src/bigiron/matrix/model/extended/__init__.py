"""The calls beside COMMUTER's 18: their model, unknown states of it, tests and their shapes."""
