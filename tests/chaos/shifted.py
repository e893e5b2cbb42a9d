"""`python -m controller` as the trial has it: its wall clock is wrong, its journals are short.

The clock is ahead by `WALL_CLOCK_AHEAD_MS`. Journals of usual length would not be cut down once in
a trial; so short, entries are settled and dropped all the time.
"""

from __future__ import annotations

import os
import time


def shift(ahead_ms: int) -> None:
    """Put the wall clock of this process ahead; whoever imports `time` reads it so from now on."""
    shifted = {
        "time": lambda true=time.time: true() + ahead_ms / 1000,
        "time_ns": lambda true=time.time_ns: true() + ahead_ms * 1_000_000,
    }
    for name, read in shifted.items():
        setattr(time, name, read)


SHORT_JOURNALS = {
    "SPARE_BYTES": 2000,
    "MOST_BYTES": 40_000,
    "SETTLED_AT_ONCE": 20,
    "DROPPED_AT_ONCE": 20,
}


def main() -> None:
    """Shift the clock and keep journals short, then run the command line."""
    shift(int(os.environ["WALL_CLOCK_AHEAD_MS"]))
    # they read no clock before it is shifted
    from controller.cli import main as run  # noqa: PLC0415
    from controller.store import journal  # noqa: PLC0415

    for name, value in SHORT_JOURNALS.items():
        setattr(journal, name, value)
    run()


if __name__ == "__main__":
    main()
