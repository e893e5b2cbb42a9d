"""A reader's questions to a controller, as values."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from noted_time.answers import (
    Completeness,
    CompleteWindowsPage,
    Explanation,
    LedgerPage,
    MarksAnswer,
    WritersPage,
)
from noted_time.client import Json, Question, position_to_wire, stream_path
from noted_time.coding import convert_to_json
from noted_time.reading import Tiling
from noted_time.values import UTC_ZONE
from noted_time.verdict import Requirement
from reader_client.protocol.answers import GroupReply, StreamReply

MARKS_PER_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause that ends early if there is something to do."""

    seconds: float


Steps = Generator[Question[Any] | Pause, Any, bool]  # repeated while it returns true


def ask_stream(stream: str) -> Question[StreamReply]:
    return Question("GET", stream_path(stream), answer=StreamReply)


def ask_marks(
    stream: str, seq: int, domain: str, wait_ms: int, limit: int = MARKS_PER_PAGE
) -> Question[MarksAnswer]:
    query = {"domain": domain, "after": seq, "limit": limit, "wait_ms": wait_ms}
    return Question("GET", stream_path(stream, "marks"), query, wait_ms=wait_ms, answer=MarksAnswer)


def ask_windows(
    stream: str, tiling: Tiling, after: int | None, domain: str | None, **more: int
) -> Question[CompleteWindowsPage]:
    """Ask for the windows, beginning with the window of `after`."""
    query = {"size_ms": tiling.size_ms, "origin": tiling.origin} | _build_query(domain)
    if after is not None:
        query["after"] = after
    if tiling.zone is not UTC_ZONE:
        query["zone"] = str(tiling.zone)
    return Question(
        "GET",
        stream_path(stream, "windows"),
        query | more,
        wait_ms=more.get("wait_ms", 0),
        answer=CompleteWindowsPage,
    )


@dataclass(frozen=True, slots=True)
class CompletenessQuestion(Question[Completeness]):
    """Asks for the completeness that is required."""

    requirement: Requirement = field(default_factory=Requirement)

    def can_have(self, answer: Completeness) -> bool:
        """Return false if the answer is complete only to a time before the one in question."""
        if self.requirement.to is None or answer.sealed or not answer.is_complete:
            return True
        time = self.requirement.tiling.start_of(self.requirement.to)
        return answer.complete_to is None or answer.complete_to >= time


def ask_completeness(stream: str, requirement: Requirement) -> CompletenessQuestion:
    return CompletenessQuestion(
        "POST",
        stream_path(stream, "completeness"),
        body=convert_to_json(requirement),
        wait_ms=requirement.wait_ms,
        answer=Completeness,
        requirement=requirement,
    )


def ask_explanation(
    stream: str, position: Mapping[int, int] | None, domain: str | None
) -> Question[Explanation]:
    query = {} if position is None else {"position": json.dumps(position_to_wire(position))}
    return Question(
        "GET", stream_path(stream, "explain"), query | _build_query(domain), answer=Explanation
    )


def ask_writer_counts(stream: str) -> Question[WritersPage]:
    """Ask for the number of members in each state, with a single row."""
    return Question("GET", stream_path(stream, "writers"), {"limit": 1}, answer=WritersPage)


def have_all_finished(page: WritersPage) -> bool:
    """Return whether a stream has members, and all of them have finished."""
    member_count = sum(page.states.values())
    return member_count > 0 and page.states.get("finished") == member_count


def ask_late_reports(stream: str, domain: str | None) -> Question[LedgerPage]:
    """Ask for the newest reports of late rows, without the ledger's entries."""
    query = {"limit": 1} | _build_query(domain)
    return Question("GET", stream_path(stream, "ledger"), query, answer=LedgerPage)


def ask_group(stream: str, group: str) -> Question[GroupReply]:
    return Question("GET", stream_path(stream, "reader-groups", group), answer=GroupReply)


def report_position(
    stream: str, group: str, reader: str, position: Mapping[int, int], backlog: Json | None = None
) -> Question[GroupReply]:
    path = stream_path(stream, "reader-groups", group, "readers", reader)
    body = {"position": position_to_wire(position), **(backlog or {})}
    return Question("PUT", path, body=body, answer=GroupReply)


def report_offline(
    stream: str, group: str, reader: str, position: Mapping[int, int]
) -> Question[GroupReply]:
    path = stream_path(stream, "reader-groups", group, "readers", reader, "offline")
    return Question("POST", path, body={"position": position_to_wire(position)}, answer=GroupReply)


def _build_query(domain: str | None) -> dict[str, Any]:
    return {} if domain is None else {"domain": domain}
