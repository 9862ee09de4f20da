"""What `bigiron explain` prints, as text, CSV and JSON."""
