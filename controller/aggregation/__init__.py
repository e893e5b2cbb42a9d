"""The streams in memory: what notes do to them, and what of it must be written."""
