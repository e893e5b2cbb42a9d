"""The service's values as JSON."""

from __future__ import annotations

from dataclasses import asdict
from heapq import nsmallest
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from controller.aggregation.order import behind
from controller.api.bounded import page_of
from noted_time import Advance, Hold
from noted_time.client import (
    complete_window_to_wire,
    mark_to_wire,
    position_to_wire,
    session_to_wire,
    window_to_wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from controller.aggregation.group_backlog import GroupBacklog
    from controller.aggregation.groups import GroupRow
    from controller.aggregation.inspection import Explanation, WriterRow
    from controller.aggregation.operator import Corrected
    from controller.aggregation.stream import StreamState
    from controller.service.polls import CompleteWindows, NewMarks
    from controller.store.port import Change, LedgerEntry, StreamSummary
    from noted_time import ReaderGroup, ScaleEvent, Seal, SegmentTimes, TimeWindow
    from noted_time.rules import Would
    from noted_time.values import Absence
    from noted_time.wing import AlignmentNow, AlignmentSettings, MemberNow

Json = dict[str, Any]

MEMBERS_LISTED = 100
"""So many members has an alignment in a list; by itself it is shown with all."""


def reply(body: Json, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(body), status, media_type="application/json")


def stream_to_wire(stream: StreamState) -> Json:
    """Return the JSON of a stream: settings, creation id, last marks, scale events."""
    return summary_to_wire(stream.summary())


def summary_to_wire(summary: StreamSummary) -> Json:
    """Return the JSON of a stream's summary, which is the same."""
    record = summary.record
    last = {domain: mark_to_wire(mark) for domain, mark in summary.last_marks.items()}
    return {
        "name": record.name,
        "id": record.id,
        **asdict(record.settings),
        "marks": {domain: last.get(domain) for domain in record.settings.domains},
        "scale_events": [scale_to_wire(event) for event in summary.scales],
        "corrections": len(record.corrections),
        "seal": seal_to_wire(record.seal),
    }


def seal_to_wire(seal: Seal | None) -> Json | None:
    """Return the JSON of how a stream was sealed."""
    if seal is None:
        return None
    return {"at": seal.at, "cut": position_to_wire(seal.final_cut)}


def sealed_to_wire(stream: StreamState, seal: Seal) -> Json:
    """Return the JSON of a stream that was sealed, with the members that never noted a time."""
    return stream_to_wire(stream) | {"never_noted": list(seal.never_noted)}


def corrected_to_wire(does: Corrected, *, dry_run: bool) -> Json:
    """Return the JSON of what correcting a position does."""
    return {
        "dry_run": dry_run,
        "cuts": position_to_wire(does.correction.offsets),
        "replaced": [each._asdict() for each in does.replaced],
    }


def scale_to_wire(event: ScaleEvent) -> Json:
    """Return the JSON of a scale event."""
    return {
        "sealed": position_to_wire(event.sealed),
        "created": {str(s): list(predecessors) for s, predecessors in event.created.items()},
    }


async def marks_to_wire(found: NewMarks, limit: int) -> Json:
    """Return the JSON of the marks that a poll found, as many as fit an answer."""
    final_cut = found.stream.final_cut
    page = await page_of(found.marks, mark_to_wire, limit)
    return {
        "stream_id": found.stream.id,
        "scale_events": len(found.stream.scale_events),
        "corrections": found.stream.corrections,
        "sealed": final_cut is not None,
        "final_cut": None if final_cut is None else position_to_wire(final_cut),
        "quiet": found.quiet,
        "marks": page.items,
        "has_more": page.has_more,
    }


async def complete_windows_to_wire(found: CompleteWindows, after: int | None, limit: int) -> Json:
    """Return the JSON of the complete windows from `after` on, as many as fit an answer."""
    page = await page_of(found.windows, complete_window_to_wire, limit)
    return {
        "stream_id": found.stream.id,
        "windows": page.items,
        "next": page.last.end if page.last else after,
        "has_more": page.has_more,
    }


def group_to_wire(stream: StreamState, group: ReaderGroup) -> Json:
    """Return the JSON of a reader group: position, readers, and the window of each domain."""
    position, segments = group.position, group.segments_by_reader()
    windows = stream.windows(position)
    return {
        "position": position_to_wire(position),
        "readers": {
            reader: position_to_wire(segments.get(reader, {})) for reader in sorted(group.readers)
        },
        "windows": {domain: window_to_wire(window) for domain, window in windows.items()},
    }


def backlog_to_wire(found: GroupBacklog) -> Json:
    """Return the JSON of whether a group has a backlog."""
    because = [cause._asdict() for cause in found.because]
    return {"backlog": found.backlog, "because": because, "since": found.since}


def group_row_to_wire(stream: StreamState, row: GroupRow, group: ReaderGroup) -> Json:
    """Return the JSON of a reader group in a list."""
    windows = stream.windows(group.position)
    shown = {domain: window_to_wire(window) for domain, window in windows.items()}
    return {**row._asdict(), "windows": shown, "behind": behind(stream, windows)}


def alignment_to_wire(
    name: str, settings: AlignmentSettings, now: AlignmentNow, may_read: Callable[[str], bool]
) -> Json:
    """Return the JSON of an alignment; of streams that may not be read, no group is named."""
    members = {
        member: _member_to_wire(each, may_read) | {"at_bound": now.is_at_bound(member)}
        for member, each in now.members.items()
    }
    return {"name": name, **asdict(settings), **now._asdict(), "members": members}


def alignment_row_to_wire(
    name: str,
    settings: AlignmentSettings,
    now: AlignmentNow | None,
    may_read: Callable[[str], bool],
) -> Json:
    """Return the JSON of an alignment in a list: the slowest members that count come first.

    Without `now`, nobody tells of its members.
    """
    if now is None:
        unknown = dict.fromkeys(("bound", "held_by", "drift", "members_counted", "members_total"))
        return {"name": name, **asdict(settings), "answered": False, **unknown, "members": {}}

    def place(member: tuple[str, MemberNow]) -> tuple[bool, int, str]:
        return not member[1].counted, member[1].time or 0, member[0]

    listed = now._replace(members=dict(nsmallest(MEMBERS_LISTED, now.members.items(), key=place)))
    return {
        **alignment_to_wire(name, settings, listed, may_read),
        "answered": True,
        "members_counted": sum(each.counted for each in now.members.values()),
        "members_total": len(now.members),
    }


def _member_to_wire(member: MemberNow, may_read: Callable[[str], bool]) -> Json:
    group = member.group
    may_name = group is not None and may_read(group.stream)
    return {**member._asdict(), "group": group._asdict() if group and may_name else None}


def segment_times_to_wire(times: SegmentTimes) -> Json:
    """Return the JSON of where a position stands in each segment."""
    lag = times.lag()
    return {
        "segments": {
            str(segment): {"lower": lower, "behind": lag.segments[segment]}
            for segment, lower in sorted(times.lowers.items())
        },
        "order": times.order(),
        "behind": lag.behind,
    }


def writer_to_wire(row: WriterRow) -> Json:
    """Return the JSON of one member."""
    return {
        **asdict(row),
        "position": position_to_wire(row.position),
        "excluded": row.excluded and row.excluded._asdict(),
        "late": {domain: late._asdict() for domain, late in row.late.items()},
        "session": row.session and session_to_wire(row.session),
    }


def entry_to_wire(entry: LedgerEntry) -> Json:
    """Return the JSON of one entry of the ledger."""
    return {
        "seq": entry.seq,
        "at": entry.at,
        "from": entry.from_lower,
        "to": entry.to_lower,
        "writers": [_absence_to_wire(absence) for absence in entry.writers],
        "by": entry.by,
        "returned": list(entry.returned),
    }


def change_to_wire(number: int, change: Change) -> Json:
    """Return the JSON of a change made by hand."""
    return {
        "number": number,
        "at": change.at,
        "action": change.action,
        "writer": change.writer,
        "was": change.was,
        "is": change.became,
        "by": change.by,
        "comment": change.comment,
    }


def _absence_to_wire(absence: Absence) -> Json:
    return {
        **absence._asdict(),
        "position": position_to_wire(absence.position),
        "late": absence.late and absence.late._asdict(),
    }


def window_reply(window: TimeWindow) -> Response:
    """Return a time window."""
    return reply(window_to_wire(window))


def explanation_to_wire(explanation: Explanation) -> Json:
    """Return the JSON of the decision and its reason."""
    decision = explanation.decision
    last = explanation.last
    return {
        "now": explanation.now,
        "decision": type(decision).__name__.lower(),
        "lower": last.lower if last else None,
        "written_at": last.written_at if last else None,
        "next_lower": decision.lower if isinstance(decision, Advance) else None,
        "waiting_for": [asdict(waiting) for waiting in decision.waiting_for]
        if isinstance(decision, Hold)
        else [],
        "holders": decision.holders if isinstance(decision, Hold) else 0,
        "lower_without": explanation.lower_without,
        "would": _would_to_wire(explanation.would),
        "hints": [each._asdict() for each in explanation.hints],
        "sentences": explanation.sentences,
    }


def _would_to_wire(would: Would | None) -> Json | None:
    if would is None:
        return None
    return {
        "decision": would.decision,
        "lower": would.lower,
        "cut": None if would.cut is None else position_to_wire(would.cut.offsets),
        "excluded": list(would.excluded),
    }
