"""Commands that run until they are stopped."""

from __future__ import annotations

import signal
import threading
from typing import Annotated

from noted_time.client.polling import PollingLoop
from noted_time_cli.terminal.health import serve_health
from noted_time_cli.terminal.options import duration

Lasting = Annotated[
    int | None, duration("How long to run; 0s polls once. Default: until Ctrl-C.", "--for")
]


def run_for(
    rounds: PollingLoop, lasting_ms: int | None, health_port: int | None, limit_s: float
) -> None:
    """Poll until a signal, or for `lasting_ms`. If `lasting_ms` is 0, poll once."""
    if lasting_ms == 0:
        rounds.look()
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: rounds.stop())
    timer = threading.Timer((lasting_ms or 0) / 1000, rounds.stop)
    timer.daemon = True
    if lasting_ms is not None:
        timer.start()
    if health_port is not None:
        serve_health(health_port, rounds, limit_s)
    try:
        rounds.run()
    finally:
        timer.cancel()
