"""Asks the controller for a window, and waits until it is complete."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from noted_time import AnotherLog, CompleteWindow, NotCompleteYet, Rejected, RowsMissing
from noted_time.answers import CompleteWindowsPage
from noted_time.client import run
from noted_time.client.transport import Transport
from noted_time.client.waiting import build_performer
from noted_time.reading import Tiling
from noted_time.values import Time, format_time
from noted_time.verdict import Completeness, Requirement, apply_policy
from reader_client.protocol.datasets import Steps, wait_until_final
from reader_client.protocol.questions import ask_completeness, ask_windows
from spark_integration.marks.arguments import Noted, check_one_of, check_promised, convert_time
from spark_integration.marks.feed import ask_event_domain

log = logging.getLogger("noted_time.spark")

OnMissing = Literal["warn", "fail", "accept"]
OnDeleted = Literal["fail", "accept"]


@dataclass(frozen=True, slots=True)
class BatchRead:
    """How a batch job waits for a window and reads it.

    - `timeout`: how many seconds to wait until the window is complete.
    - `missing`: what to do if a writer is missing from the window. ``"warn"`` logs its name,
      ``"fail"`` raises `RowsMissing`.
    - `own_segments`: set it if no two writers ever append to one segment. Then rows below the start
      cut are not read, if all writers declare their largest event times, as our clients do.
    - `cores`: the number of tasks for a file log, by default the cluster's cores.
    - `deleted`: for a Kafka topic, ``"accept"`` reads the rest if deleted records may have been in
    the window.
    """

    timeout: float = 0.0
    missing: OnMissing = "warn"
    own_segments: bool = False
    cores: int | None = None
    deleted: OnDeleted = "fail"

    def __post_init__(self) -> None:
        check_one_of("missing", self.missing, OnMissing)
        check_one_of("deleted", self.deleted, OnDeleted)


def wait_for_window(  # noqa: PLR0913 - what a window is asked for by; four are named
    noted: Noted,
    start: Time,
    end: Time,
    *,
    domain: str | None,
    read: BatchRead,
    late: OnMissing,
    log_id: str | None = None,
) -> CompleteWindow:
    times = convert_time(start), convert_time(end)
    if times[0] >= times[1]:
        shown_start, shown_end = map(format_time, times)
        raise Rejected(
            f"the window is empty: its start {shown_start} is not before its end {shown_end}"
        )
    stream = noted.name
    check_one_of("late", late, OnMissing)
    check_promised(domain)
    tiling, pages = Tiling(times[1] - times[0], times[0]), list[CompleteWindowsPage]()
    with closing(Transport(noted.url, token=noted.token)) as transport:

        def judge(wait_ms: int) -> Steps:
            nonlocal domain
            domain = domain or (yield from ask_event_domain(stream))
            requirement = Requirement(to=times[1], domain=domain, wait_ms=wait_ms)
            answer: Completeness = yield ask_completeness(stream, requirement)
            if answer.status != "waiting":
                pages.append((yield ask_windows(stream, tiling, times[0], domain, limit=1)))
            return answer

        answer = run(wait_until_final(judge, read.timeout), build_performer(transport.ask))
    if answer.status == "waiting":
        raise NotCompleteYet(times[1], answer.complete_to, answer.sentence)
    if not apply_policy(answer, read.missing, late).is_complete:
        raise Rejected(answer.sentence)
    page = pages[-1]
    AnotherLog.check(stream, page.logs, log_id)
    if not page.windows:
        seal_time = format_time(answer.complete_to)
        raise Rejected(f"{stream} is sealed at {seal_time}: no window follows")
    window = page.windows[0]
    if (window.missing and read.missing == "fail") or (window.late and late == "fail"):
        raise RowsMissing(window.missing, window.late)
    missing_clause = window.missing.sentence if window.missing and read.missing == "warn" else ""
    late_clause = window.late.sentence if window.late and late == "warn" else ""
    if missing_clause or late_clause:
        shown_times = map(format_time, times)
        log.warning(
            "stream %r from %s to %s is complete%s%s",
            stream,
            *shown_times,
            missing_clause,
            late_clause,
        )
    return window
