"""The speed of noted-time: each figure a ratio to a floor that is measured in the same run.

A benchmark is a module with ``measure(run: Run) -> list[Figure]``. It takes its own samples and
those of its floor in turn, so that a machine that is busy with other things slows both alike.
"""
