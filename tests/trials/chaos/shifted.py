"""`python -m controller` as the trial has it: its wall clock is ahead by `WALL_CLOCK_AHEAD_MS`."""

import os
import time


def shift(ahead_ms: int) -> None:
    """Advance the wall clock of this process; modules that import `time` read it so from now on."""
    shifted_functions = {
        "time": lambda true=time.time: true() + ahead_ms / 1000,
        "time_ns": lambda true=time.time_ns: true() + ahead_ms * 1_000_000,
    }
    for name, function in shifted_functions.items():
        setattr(time, name, function)


def main() -> None:
    """Shift the clock, then run the command line."""
    shift(int(os.environ["WALL_CLOCK_AHEAD_MS"]))
    # it reads no clock before it is shifted
    from noted_time_cli.__main__ import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
