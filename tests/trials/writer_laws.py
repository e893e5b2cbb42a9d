"""The laws that the protocol sets for writers, over the requests and the answers of one program.

`said` has the commands for the program and its answers, `requests` its requests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from noted_time.client import Json
from tests.trials.law import law

if TYPE_CHECKING:
    from tests.conformance.program import Position, Said
    from tests.conformance.proxy import Request

PROTOCOL = "docs/reference/protocol.md"

REPEATED = frozenset((408, 425, 429, 500, 502, 503, 504))
"""The statuses after which a writer sends the request again."""

CORRECTABLE = frozenset((401, 403, 404))
"""The statuses that a person can end, so a writer may ask again, at the pace of its retries."""

MOST_FAILED = {1: 8, 3: 12}
"""The most requests in a row without a final answer, by seconds; a backoff makes about 6 and 7."""

EARLY_S = 0.05
STATES = {"idle": ("idle",), "finish": ("finished",), "leave": ("idle", "finished")}


@law("9.1", PROTOCOL)
def joins_begin_sessions(said: Sequence[Said], requests: Sequence[Request]) -> Iterator[str]:
    """Each join begins a session, and its first note has no position yet."""
    joins = sum(command.command == "join" for command in said)
    notes = _list_notes(requests)
    sessions = {str(note.get("session")) for note in notes}
    if len(sessions) != max(1, joins):
        yield f"{len(sessions)} sessions note after {joins} joins, not one for each join"
    firsts = dict[object, Json]()
    for note in notes:
        firsts.setdefault(note.get("session"), note)
    for note in firsts.values():
        if note.get("position"):
            yield f"a join has a position, which was looked up before it: {note}"


def _list_notes(requests: Sequence[Request]) -> list[Json]:
    notes: list[Json] = []
    for request in requests:
        notes += request.notes
    return notes


@law("9.2", PROTOCOL)
def numbers_rise(requests: Sequence[Request]) -> Iterator[str]:
    """Each note has a session and a number, which rises with each other request."""
    last: dict[str, int] = {}
    bodies: dict[tuple[str, int], bytes] = {}
    for request in requests:
        for note in request.notes:
            session = note.get("session")
            number = note.get("sequence")
            if not isinstance(session, str) or not isinstance(number, int):
                yield f"a note has no `session` or no `sequence`: {note}"
                continue
            if number < last.get(session, 0):
                yield f"sequence {number} follows {last[session]}: a number never goes back"
            last[session] = max(number, last.get(session, 0))
            if bodies.setdefault((session, number), request.content) != request.content:
                yield f"two requests with other notes have the sequence {number}"


@law("9.3", PROTOCOL)
def notes_never_go_back(said: Sequence[Said], requests: Sequence[Request]) -> Iterator[str]:
    """Times and offsets of a session never go back, unless the log says so."""
    times: dict[tuple[object, object], int] = {}
    offsets: dict[tuple[object, str], int] = {}
    for request in requests:
        for note in request.notes:
            session = note.get("session")
            time = note.get("time")
            domain = note.get("domain")
            if time is not None:
                commanded_times = [
                    command.time for command in said if command.at <= request.at and command.time
                ]
                if time < times.get((session, domain), time) and [time] != commanded_times[-1:]:
                    yield f"time {time} follows {times[session, domain]}: a time never goes back"
                times[session, domain] = time
            for segment, offset in note.get("position", {}).items():
                if offset < offsets.get((session, segment), 0):
                    yield f"offset {offset} of segment {segment} follows a larger one"
                offsets[session, segment] = offset


@law("9.4", PROTOCOL)
def notes_cover_events(said: Sequence[Said], requests: Sequence[Request]) -> Iterator[str]:
    """A note covers all events before it, and none that is not written."""
    known_position: Position = {}
    for request in requests:
        before = [command for command in said if command.at <= request.at]
        ends = before[-1].ends if before else {}
        for note in request.notes:
            position = note.get("position", {})
            reached_position = _reach(known_position, position)
            if _find_short(_reach(ends, known_position), position):
                yield f"a note reaches {reached_position}, and only {ends} are written: {note}"
            command = _find_command(before, note)
            if command is None and note.get("time") is not None:
                yield f"a note of a time that was not commanded: {note}"
            if command is not None and _find_short(reached_position, command.ends):
                yield f"`{command.command}` covers {command.ends}, and its note {reached_position}"
            elif command is not None and _find_short(position, command.ends):
                yield f"`{command.command}` has not the whole position {command.ends}: {note}"
        if any(_is_accepted(results) for results in request.results):
            for row in (*request.notes, *chain.from_iterable(request.results)):
                known_position = _reach(known_position, row.get("position", {}))


def _reach(position: Position, other: Position) -> Position:
    return {
        segment: max(position.get(segment, 0), other.get(segment, 0))
        for segment in position | other
    }


def _find_short(position: Position, ends: Position) -> list[str]:
    """Return the segments whose offset is below the end."""
    return [segment for segment, end in ends.items() if position.get(segment, 0) < end]


def _find_command(before: Sequence[Said], note: Json) -> Said | None:
    """Return the last command that the note can answer, if it claims that events are covered."""
    state = note.get("state", "live")
    time = note.get("time")
    for command in reversed(before):
        if (time is not None and command.time == time) or state in STATES.get(command.name, ()):
            return command
    return None


@law("9.5", PROTOCOL)
def answers_follow_notes(said: Sequence[Said], requests: Sequence[Request]) -> Iterator[str]:
    """A program reports a note as accepted only after the controller has accepted it."""
    delivered_notes = []
    for request in requests:
        if request.answer is not None and request.answer.status_code < 300:
            delivered_notes += [(request.answered_at, note) for note in request.notes]
    for command in said:
        if not command.is_acknowledged or command.name in ("close", "leave"):
            continue
        field = "state"
        value = STATES.get(command.name, ("live",))[0]
        if command.time is not None:
            field = "time"
            value = str(command.time)
        sent_times = [
            answered_at
            for answered_at, note in delivered_notes
            if str(note.get(field, "live")) == value
        ]
        if not sent_times or (field == "state" and sent_times[-1] < command.at):
            json_answer = json.dumps(command.answer)
            yield (
                f"`{command.command}` is answered {json_answer}, and no answer accepts such a note"
            )


def _is_accepted(results: Sequence[Json]) -> bool:
    return bool(results) and all(result.get("status") == "accepted" for result in results)


@law("9.6", PROTOCOL)
def refusals_are_final(said: Sequence[Said], requests: Sequence[Request]) -> Iterator[str]:
    """A writer sends no note again after a final refusal, and none at all once it is fenced."""
    for place, request in enumerate(requests):
        answer = request.answer
        if answer is None or answer.status_code in REPEATED | CORRECTABLE:
            continue
        results = chain.from_iterable(request.results)
        statuses = [result.get("status") for result in results]
        later_requests = requests[place + 1 :]
        if "fenced" in statuses:
            sessions = {note.get("session") for note in request.notes}
            for note in _list_notes(later_requests):
                if note.get("session") in sessions:
                    yield f"a fenced session notes again: {note}"
                    break
        elif answer.status_code >= 400 and "superseded" not in statuses:
            next_at = min((s.at for s in said if s.at > request.answered_at), default=float("inf"))
            claims = _claims(request)
            if any(r.at < next_at and _claims(r) == claims for r in later_requests):
                yield f"after the final status {answer.status_code} the same notes are sent again"


def _claims(request: Request) -> list[Json]:
    changing = ("sequence", "takes_over", "took_over", "label")
    claims = []
    for note in request.notes:
        claims.append({name: value for name, value in note.items() if name not in changing})
    return claims


@law("9.7", PROTOCOL)
def retries_are_paced(requests: Sequence[Request]) -> Iterator[str]:
    """Retries back off, and wait for `Retry-After`."""
    failed_times: list[float] = []
    for request in requests:
        is_failed = request.answer is None or request.answer.status_code in REPEATED
        failed_times = [*failed_times, request.at] if is_failed else []
        if any(
            len(failed_times) > n and request.at - failed_times[-n - 1] < s
            for s, n in MOST_FAILED.items()
        ):
            pauses = ", ".join(f"{b - a:.2f}" for a, b in pairwise(failed_times[-9:]))
            yield f"{len(failed_times)} requests without a final answer, at intervals of {pauses} s"
            break
    for place, request in enumerate(requests[:-1]):
        waits_s = request.fault.retry_after_s
        if request.answer is None or waits_s is None:
            continue
        passed_s = requests[place + 1].at - request.answered_at
        if passed_s < waits_s - EARLY_S:
            yield f"a request follows {passed_s:.2f} s after `Retry-After: {waits_s}`"
