"""The streams in memory, and their changes."""
