"""Batch jobs that read a window of time once it is complete: of the file log, or of a topic."""
