"""Which window a batch job reads: the controller is asked for it, and waited for."""

from __future__ import annotations

import logging
import time as clocks
from contextlib import closing
from typing import Literal

from noted_time import CompleteWindow, Rejected, RowsLate, WritersMissing
from noted_time.client.transport import Transport
from noted_time.values import Time, checked_name, shown_time, unnamed_domain
from reader_client.answers import stream_answer, windows_answer
from reader_client.questions import about_stream, complete_to, windows_from
from spark_integration.options import check_one_of, check_promised
from spark_integration.time_range import time_ms

log = logging.getLogger("noted_time.spark")

WAIT_MS = 25_000
AT_ONCE_S = 0.05
OnMissing = Literal["warn", "fail", "accept"]
"""What to do if writers are missing from a window, or rows of it were written too late."""


def complete_window(  # noqa: PLR0913 - what a window is asked for by; all but three are named
    stream: str,
    start: Time,
    end: Time,
    *,
    controller_url: str,
    event_time: str,
    token: str | None,
    domain: str | None,
    timeout: float,
    missing: OnMissing,
    late: OnMissing,
) -> CompleteWindow:
    """Return the window with its cuts, once it is complete.

    Raises `NotCompleteYet` if that takes more than `timeout` seconds, `Rejected` for a window that
    is empty or that Spark cannot express, the controller's refusals, `Unreachable`,
    `WritersMissing` if writers are missing and that is to fail, and likewise `RowsLate`; otherwise
    it is logged.
    """
    times = time_ms(start), time_ms(end)
    if times[0] >= times[1]:
        first, last = map(shown_time, times)
        raise Rejected(f"no window: its start {first} is not below its end {last}")
    checked_name("stream", stream)
    check_one_of("missing", missing, OnMissing)
    check_one_of("late", late, OnMissing)
    check_promised(domain, event_time)
    with closing(Transport(controller_url, token=token)) as transport:
        if domain is None:
            domain = unnamed_domain(stream_answer(transport.ask(about_stream(stream))).domains)
            check_promised(domain, event_time)
        window = _wait_for(transport, stream, times, domain, timeout)
    if window.missing and missing == "fail":
        raise WritersMissing(window.missing)
    if window.late and late == "fail":
        raise RowsLate(window.late)
    for lacking, on in ((window.missing, missing), (window.late, late)):
        if lacking and on == "warn":
            named = map(shown_time, times)
            log.warning("stream %r from %s to %s: %s", stream, *named, lacking.sentence)
    return window


def _wait_for(
    transport: Transport, stream: str, times: tuple[int, int], domain: str | None, timeout_s: float
) -> CompleteWindow:
    """Wait for the window; raises `NotCompleteYet`."""
    deadline = clocks.monotonic() + timeout_s
    start, end = times
    while True:
        asked_at = clocks.monotonic()
        left_ms = max(0, min(WAIT_MS, int((deadline - asked_at) * 1000)))
        question = windows_from(stream, start, end - start, 1, domain, left_ms)
        windows = windows_answer(transport.ask(question))
        if windows:
            return windows[0]
        if clocks.monotonic() >= deadline:
            transport.ask(complete_to(stream, end, domain))
        elif clocks.monotonic() - asked_at < AT_ONCE_S:
            clocks.sleep(AT_ONCE_S)  # a controller about to stop does not wait
