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
    """Wait until a window is complete, and return it with its cuts.

    `late` decides about late rows as `read.missing` about missing writers: "warn" logs them, "fail"
    raises `RowsMissing`. `log_id` is the id of the log that is read, if it has one.

    Raises `NotCompleteYet` after `read.timeout` seconds, `AnotherLog` if the stream belongs to
    another log, and `Rejected` for an empty window and for one that will never be complete.
    """
    start_ms = convert_time(start)
    end_ms = convert_time(end)
    shown_start = format_time(start_ms)
    shown_end = format_time(end_ms)
    if start_ms >= end_ms:
        raise Rejected(
            f"the window is empty: its start {shown_start} is not before its end {shown_end}"
        )
    stream = noted.name
    check_one_of("late", late, OnMissing)
    check_promised(domain)
    answer, page = _wait_until_final(noted, start_ms, end_ms, domain, read.timeout)
    if not apply_policy(answer, read.missing, late).is_complete:
        raise Rejected(answer.sentence)
    AnotherLog.check(stream, page.logs, log_id)
    if not page.windows:
        seal_time = format_time(answer.complete_to)
        raise Rejected(f"{stream} is sealed at {seal_time}: no window follows")
    window = page.windows[0]
    if (window.missing and read.missing == "fail") or (window.late and late == "fail"):
        raise RowsMissing(window.missing, window.late)
    clauses = ""
    if window.missing and read.missing == "warn":
        clauses += window.missing.sentence
    if window.late and late == "warn":
        clauses += window.late.sentence
    if clauses:
        log.warning(
            "stream %r from %s to %s is complete%s", stream, shown_start, shown_end, clauses
        )
    return window


def _wait_until_final(
    noted: Noted, start_ms: int, end_ms: int, domain: str | None, timeout_s: float
) -> tuple[Completeness, CompleteWindowsPage]:
    """Return the final verdict on a window's end, and the page with the window.

    The page has no window if the stream is sealed before it. Raises `NotCompleteYet` if there is no
    final verdict within `timeout_s`.
    """
    stream = noted.name
    tiling = Tiling(end_ms - start_ms, start_ms)
    pages: list[CompleteWindowsPage] = []
    with closing(Transport(noted.controller, token=noted.token)) as transport:

        def judge(wait_ms: int) -> Steps:
            nonlocal domain
            domain = domain or (yield from ask_event_domain(stream))
            requirement = Requirement(to=end_ms, domain=domain, wait_ms=wait_ms)
            answer: Completeness = yield ask_completeness(stream, requirement)
            if answer.status != "waiting":
                pages.append((yield ask_windows(stream, tiling, start_ms, domain, limit=1)))
            return answer

        answer = run(wait_until_final(judge, timeout_s), build_performer(transport.ask))
    if answer.status == "waiting":
        raise NotCompleteYet(end_ms, answer.complete_to, answer.sentence)
    return answer, pages[-1]
