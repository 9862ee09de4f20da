"""What every room may use: files, processes, threads, English, typed decoding."""
