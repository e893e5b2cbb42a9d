"""Measures noted-time: each figure is a ratio to a floor of the same run.

A benchmark is a module with ``measure(run: Run) -> list[Figure]``. Its samples and its floor's
alternate, so a busy machine slows both alike.
"""
