"""Finds notes that look wrong."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from itertools import chain, islice
from operator import attrgetter

from controller.aggregation.stream import StreamState
from controller.aggregation.views.view import View
from noted_time.answers import Hint
from noted_time.reading import sum_by_writer
from noted_time.rules import Member, Track
from noted_time.values import (
    LateReport,
    describe_doubt,
    describe_lead,
    format_gap,
    format_seconds,
    is_ahead_of_clock,
    look_like_seconds,
    pluralize,
)

MEMBERS_EXAMINED = 10_000  # examining them takes 2 ms

HINTS_SHOWN = 10

LATELY_MS = 10 * 60_000

AHEAD_OF_CLOCK = (
    "of the controller's clock: its later rows below this time are late. Correct its clock or its "
    "event times."
)

NO_POSITION = "never noted a position, so no cut covers its rows."


def find_hints(view: View) -> list[Hint]:
    stream = view.stream
    domain = view.domain
    now = view.now.wall
    fight_hints = (
        Hint(name, "taken_over", detail) for name, detail in stream.fences.find_fights(now)
    )
    fenced_hints = (
        Hint(process.writer, "fenced", process.detail) for process in stream.fences.list_recent(now)
    )
    refused_hints = (
        Hint(refusals.writer, "too_far_ahead", refusals.detail)
        for refusals in stream.refused_times.list_recent(now)
    )
    late = _find_late_writers(stream, domain, now)
    doubts = _find_doubts(stream, domain)
    hints = chain(fight_hints, fenced_hints, refused_hints, late, _find_ahead(view), doubts)
    return list(islice(hints, HINTS_SHOWN))


def _find_late_writers(stream: StreamState, domain: str, now: int) -> Iterator[Hint]:
    recent_reports = (
        report for report in stream.late_reports[domain] if report.last_seen_at > now - LATELY_MS
    )
    for report in sum_by_writer(recent_reports):
        period = format_seconds(max(LATELY_MS, now - report.first_seen_at))
        if report.rows:
            member = stream.aggregator.domains.members.get(report.writer)
            detail = _describe_late_rows(report, period, member)
        else:
            fault = f"noted below the watermark in the last {period} and declared no event times"
            detail = f"{fault}: some of its rows may be late."
        yield Hint(report.writer, "late", detail)


def _describe_late_rows(report: LateReport, span: str, member: Member | None) -> str:
    verb = "wrote"
    if member is not None and member.observes:
        verb = "found"
    detail = f"{verb} {pluralize(report.rows, 'row')} below the watermark in the last {span}"
    if report.lateness:
        detail += f", up to {format_gap(report.max_time, report.max_time + report.lateness)} late"
    if member is None or member.exclusion:
        return f"{detail}."
    return f"{detail}: wrong clock or zone? Sent twice?"


def _find_ahead(view: View) -> Iterator[Hint]:
    """Find live and idle writers that are ahead of the clock, the furthest first.

    The first that noted the highest time is always examined, however many members there are.
    """
    now = view.now.wall
    running = view.running
    if not view.stream.settings.are_unix_ms or not is_ahead_of_clock(running.highest, now):
        return
    tracks = list(islice(running.tracks(), MEMBERS_EXAMINED))
    domains = view.stream.aggregator.domains
    leader = domains.members.get(running.leader or "")
    if leader is not None:
        tracks.append(leader.track(domains.numbers[view.domain]))
    tracks_ahead: dict[str, Track] = {}
    for track in tracks:
        if not track.member.has_left and is_ahead_of_clock(track.time, now):
            tracks_ahead[track.member.writer] = track
    for track in nlargest(HINTS_SHOWN, tracks_ahead.values(), key=attrgetter("time")):
        lead = describe_lead(track.time, now)
        yield Hint(track.member.writer, "ahead_of_clock", f"{lead} {AHEAD_OF_CLOCK}")


def _find_doubts(stream: StreamState, domain: str) -> Iterator[Hint]:
    are_unix_ms = stream.settings.are_unix_ms
    has_segments = bool(stream.aggregator.domains.segments.offsets)
    for track in islice(stream.aggregator.domains[domain].tracks(), MEMBERS_EXAMINED):
        writer = track.member.writer
        time = track.noted
        if time is None or track.member.state != "live":
            continue
        if are_unix_ms and look_like_seconds(time):
            yield Hint(writer, "seconds", f"noted {describe_doubt(time)}")
        if has_segments and not track.member.position:
            yield Hint(writer, "no_position", NO_POSITION)
