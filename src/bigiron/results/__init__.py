"""From a stored study to a value: what it measured, grew by, predicts. Nothing here prints."""
