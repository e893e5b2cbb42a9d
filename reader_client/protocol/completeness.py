"""Finds up to when offsets are complete: the time of the last mark that they reach."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

from noted_time.answers import CutAnswer, SegmentsPage
from noted_time.client import Question, run
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown, NotYet
from noted_time.progress import ReadOffsets, check_known
from noted_time.values import (
    DEFAULT_DOMAIN,
    MAX_INT64,
    AnotherLog,
    Late,
    Missing,
    NotCompleteYet,
    Rejected,
    VouchedBy,
    format_time,
)
from reader_client.protocol.answers import ReachedMark
from reader_client.protocol.questions import ask_cut as cut_at
from reader_client.protocol.questions import ask_segments, ask_stream, ask_time_window

OTHER_DOMAIN = "the query's watermark is of the domain {0!r}: name it (--domain {0}, domain=)"

TIMES_ONLY = "its writers noted only times, and no positions: offsets have no time there"


class OffsetsUpTo(NamedTuple):
    """Ask for the read offsets, which must be exact only below the cut."""

    cut: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class CompleteTo:
    """How far in time a position is complete, apart from `late` rows and `missing` writers."""

    time: int
    missing: Missing
    late: Late
    before_first_mark: bool
    """Whether the time is below the stream's first mark ever."""

    vouched: VouchedBy


def make_performer(
    ask: Callable[[Question[Any]], Any], offsets: Callable[[Mapping[int, int]], Any] | None
) -> Callable[[Any], Any]:
    """Return what performs a question, or reads the offsets if there are any to read."""
    return lambda step: offsets(step.cut) if offsets and type(step) is OffsetsUpTo else ask(step)


def complete_to(  # noqa: PLR0913 - three of them are positional
    url: str,
    stream: str,
    position: Mapping[int, int] | ReadOffsets,
    *,
    domain: str | None = None,
    token: str | None = None,
    timeout_s: float = 10.0,
) -> CompleteTo:
    """Return the time before which a reader of a stream's log has read everything.

    `position` has exclusive offsets by partition, or is the result of `committed_position`. Raises
    `Conflict` if no time is known to be complete yet, `Rejected` for offsets that cannot belong to
    the stream's log, and `Unreachable`.
    """
    read = position if isinstance(position, ReadOffsets) else ReadOffsets(position)
    with closing(Transport(url, token=token, timeout_s=timeout_s)) as transport:
        perform = make_performer(transport.ask, lambda _: read)
        time, cut, _ = run(find_last_reached(stream, domain), perform)
    return CompleteTo(time, cut.missing, cut.late, cut.before_first_mark, cut.vouched)


def find_last_mark(stream: str, domain: str | None) -> Generator[Any, Any, CutAnswer]:
    try:
        # No lower reaches this time, so the error has the last lower.
        mark: CutAnswer = yield cut_at(stream, MAX_INT64, domain)
    except NotCompleteYet as error:
        if error.lower is None:
            why = "there is no mark yet: nothing is known to be complete"
            raise NothingKnown(why) from error
        mark = yield cut_at(stream, error.lower, domain)
    return mark


def find_last_rounded(
    stream: str, domain: str | None, rounded: Callable[[int], int]
) -> Generator[Any, Any, tuple[int, CutAnswer, ReadOffsets]]:
    mark = yield from find_last_mark(stream, domain)
    time, lower = rounded(mark.lower), mark.lower
    if time != lower:
        mark = yield cut_at(stream, time, domain)
    return time, mark, ReadOffsets({})


def find_last_reached(
    stream: str, domain: str | None, rounded: Callable[[int], int] = lambda time: time
) -> Generator[Any, Any, tuple[int, CutAnswer, ReadOffsets]]:
    """Return the rounded time before which offsets are complete, its mark, and the offsets."""
    last = yield from find_last_mark(stream, domain)
    read, window = yield from _find_window(stream, last, domain)
    lower = window.lower
    if lower is None:
        raise NothingKnown(_append_source("the offsets reach no mark yet: nothing is known", read))
    mark: CutAnswer = last
    if window.lower_seq != last.seq:
        mark = yield cut_at(stream, lower, domain)
    if not mark.cut.offsets:
        raise NothingKnown(_append_source(TIMES_ONLY, read))
    time = rounded(lower if read.at_most is None else min(lower, read.at_most))
    if time != lower:
        mark = yield cut_at(stream, time, domain)
    return time, mark, read


def find_required_mark(
    stream: str, time: int, domain: str | None, required: Mapping[str, object], *, read: object
) -> Generator[Any, Any, CutAnswer]:
    mark: CutAnswer = yield cut_at(stream, time, domain, required=required)
    if read is not None and not mark.unmet:
        yield from check_reached(stream, mark, time, domain)
    return mark


def check_reached(
    stream: str, mark: CutAnswer, time: int, domain: str | None
) -> Generator[Any, Any, ReadOffsets]:
    if not mark.cut.offsets:
        raise NothingKnown(TIMES_ONLY)
    read, window = yield from _find_window(stream, mark, domain)
    lower = window.lower
    if (window.lower_seq or 0) < mark.seq:
        to = "no mark" if lower is None else f"the mark of {format_time(lower)}"
        raise NotYet(_append_source(f"the offsets reach {to}", read))
    if read.at_most is not None and read.at_most < time:
        raise NotYet(_append_source(f"it is complete to {format_time(read.at_most)}", read))
    return read


def _find_window(
    stream: str, mark: CutAnswer, domain: str | None
) -> Generator[Any, Any, tuple[ReadOffsets, ReachedMark]]:
    cut = mark.cut.offsets
    read: ReadOffsets = yield OffsetsUpTo(cut)
    AnotherLog.check(stream, mark.logs, read.log)
    if read.domain is not None and read.domain != (domain or DEFAULT_DOMAIN):
        known = (domain,) if domain else (yield ask_stream(stream)).domains
        if known != (read.domain,):
            raise Rejected(OTHER_DOMAIN.format(read.domain))
    if read.log is None and read.position.keys() - cut.keys():
        known = yield from _find_segments(stream, domain)
        try:
            check_known(read.position, known, f"stream {stream!r}")
        except Rejected as error:  # a new partition may be noted soon
            raise NothingKnown(str(error)) from error
    window: ReachedMark = yield ask_time_window(stream, read.position, domain)
    return read, window


def _find_segments(stream: str, domain: str | None) -> Generator[Any, Any, list[int]]:
    segments: list[int] = []
    start: int | None = 0
    while start is not None:
        page: SegmentsPage = yield ask_segments(stream, start, domain)
        segments += [each.segment for each in page.segments]
        start = page.next
    return segments


def _append_source(why: str, read: ReadOffsets) -> str:
    return "; ".join([why, *read.remarks])
