"""One module per output format, and what several of them share."""
