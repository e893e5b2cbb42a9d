"""Run a controller whose event loop stands still: for a while at SIGUSR1, for ever at SIGUSR2."""

import runpy
import signal
import time

STANDS_S = 8.0
"""Longer than a lease, and shorter than a loop may show no life."""

EVER_S = 600.0


def stand(number: int, _frame: object) -> None:
    """Keep the loop's thread, and with it the interpreter, busy."""
    seconds = STANDS_S if number == signal.SIGUSR1 else EVER_S
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


if __name__ == "__main__":
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, stand)
    runpy.run_module("controller", run_name="__main__")
