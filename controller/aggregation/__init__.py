"""The streams in memory, and the changes that must be written."""
