"""Reports a reader's position and backlog to its group, without I/O."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from noted_time.progress import UNKNOWN_BACKLOG, BacklogState, add_reported
from noted_time.values import UnknownReader
from reader_client.background.news import News
from reader_client.background.repeating import Begin, Repeated
from reader_client.group.reports import LeaveRequest, Reports
from reader_client.protocol import questions
from reader_client.protocol.answers import GroupReply, StreamReply
from reader_client.protocol.questions import Pause, Steps

logger = logging.getLogger("noted_time.reader")

Callback = Callable[[BacklogState], object]


BacklogReport = Mapping[str, bool | None]
"""A report as the controller takes it, empty without one."""


@dataclass(slots=True)
class _Listener:
    callback: Callback
    flag: bool = False


class ReportedBacklog:
    """The backlog of one reader and of its group.

    >>> backlog = ReportedBacklog()
    >>> backlog.set_backlog(backlog=True)
    >>> backlog.state.backlog, backlog.due, backlog.take()
    (True, True, {'backlog': True})
    >>> answer = BacklogState(backlog=True, backlog_causes=("reported",), backlog_began_at=7)
    >>> backlog.record_answer(answer)
    >>> backlog.due, backlog.take()
    (False, {})

    A report without an answer may have arrived, so the next one is sent in any case:

    >>> backlog.set_backlog(backlog=False); backlog.take()
    {'backlog': False}
    >>> backlog.set_backlog(backlog=True); backlog.take()
    {'backlog': True}
    """

    def __init__(self) -> None:
        self._latest: BacklogReport = {}
        self._acknowledged: BacklogReport = {}
        self._under_way: BacklogReport = {}
        self.answered = UNKNOWN_BACKLOG
        self._listeners: list[_Listener] = []

    def set_backlog(self, *, backlog: bool | None) -> None:
        self.announce()
        self._latest = {"backlog": backlog}

    @property
    def state(self) -> BacklogState:
        """The group's backlog in the last answer, combined with the reader's."""
        return add_reported(self.answered, is_reported=self._latest.get("backlog"))

    def listen(self, callback: Callback) -> None:
        self._listeners.append(_Listener(callback))

    @property
    def due(self) -> bool:
        return self._latest != self._acknowledged

    def take(self) -> BacklogReport:
        self._under_way = latest = self._latest
        return {} if latest == self._acknowledged else latest

    def record_answer(self, state: BacklogState) -> None:
        self._acknowledged = self._under_way
        self.answered = state

    def announce(self) -> None:
        self._acknowledged = {}

    def record_offline(self) -> None:
        self._latest = self._acknowledged = {}

    def call_listeners(self) -> None:
        state = self.state
        for listener in tuple(self._listeners):
            if listener.flag != state.backlog:
                listener.flag = state.backlog
                try:
                    listener.callback(state)
                except Exception:
                    logger.exception("a callback of on_backlog failed; the reader continues")


LONGEST_SILENCE_S = 60.0
REPORTS_PER_TIMEOUT = 4


class ReaderName(NamedTuple):
    """The names of a stream, a reader group and one of its readers."""

    stream: str
    group: str
    name: str

    def __str__(self) -> str:
        return f"reader {self.name!r} of group {self.group!r}"


class Reporting:
    """Reports the reader's position, and asks for the group's position each `refresh_s`.

    Empty reports keep a reader without changes online.
    """

    def __init__(self, reader: ReaderName, *, refresh_s: float, news: News) -> None:
        self.reader = reader
        self.backlog = ReportedBacklog()
        self._reports = Reports()
        self._refresh_s = refresh_s
        self._news = news
        self._silence_s = LONGEST_SILENCE_S
        self._reported_at = 0.0
        self._thread: Repeated[Any] | None = None

    def start(self, begin: Begin) -> None:
        self._thread = begin("group", self._step)

    @property
    def position(self) -> Mapping[int, int] | None:
        return self._reports.position

    @property
    def is_reported(self) -> bool:
        return not self._is_due and self._reports.leaving is None

    def get_steps(self) -> list[Repeated[Any]]:
        return [] if self._thread is None else [self._thread]

    def report(self, position: Mapping[int, int]) -> None:
        self._reports.report(position)
        self.wake()

    def release(self, segments: Collection[int]) -> None:
        self._reports.release(segments)

    def leave(self, position: Mapping[int, int]) -> LeaveRequest:
        leaving = self._reports.leave(position)
        self.wake()
        return leaving

    def learn(self, stream: StreamReply) -> None:
        timeout_s = stream.reader_timeout_ms / 1000
        self._silence_s = min(LONGEST_SILENCE_S, timeout_s / REPORTS_PER_TIMEOUT)

    def wake(self) -> None:
        for step in self.get_steps():
            step.wake()

    def _step(self) -> Steps:
        reports = self._reports
        leave_request = reports.leaving
        is_silent = time.monotonic() - self._reported_at >= self._silence_s
        if self._is_due or (reports.is_online and is_silent):
            yield from self._report()
        elif leave_request is None:
            yield from self._refresh()
        if leave_request is not None:
            yield from self._go_offline(leave_request)
        self.backlog.call_listeners()
        self._news.notify()
        if not self._is_due and reports.leaving is None:
            yield Pause(min(self._refresh_s, self._silence_s))
        return True

    @property
    def _is_due(self) -> bool:
        return self._reports.due or (self._reports.is_online and self.backlog.due)

    def _report(self) -> Steps:
        position = self._reports.take()
        backlog = self.backlog.take()
        question = questions.report_position(*self.reader, position, dict(backlog))
        try:
            answer: GroupReply = yield question
        except BaseException:
            self._reports.put_back()
            raise
        self._reports.record_answer(answer.position)
        self.backlog.record_answer(answer.state)
        self._reported_at = time.monotonic()
        return True

    def _go_offline(self, leaving: LeaveRequest) -> Steps:
        question = questions.report_offline(*self.reader, leaving.position)
        try:
            answer: GroupReply = yield question
        except UnknownReader:
            self._reports.record_offline(leaving)
        else:
            self._reports.record_offline(leaving, answer.position)
            self.backlog.answered = answer.state
        self.backlog.record_offline()
        return True

    def _refresh(self) -> Steps:
        try:
            answer: GroupReply = yield questions.ask_group(*self.reader[:2])
        except UnknownReader:
            self._announce()
            return True
        self._reports.record_refresh(answer.position)
        self.backlog.answered = answer.state
        if self.reader.name not in answer.readers:
            self._announce()
        return True

    def _announce(self) -> None:
        self._reports.announce()
        self.backlog.announce()
