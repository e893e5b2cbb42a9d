"""What a reader asks a controller, as values."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from noted_time.client import position_to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]

MARKS_PER_PAGE = 10_000


@dataclass(frozen=True, slots=True)
class Question:
    """One request; `path` is below that of the stream, or of the API where it `is_of_all`.

    `wait_ms` is how long the controller may wait before it answers.
    """

    method: str
    path: str
    query: Mapping[str, str | int] = field(default_factory=dict)
    body: Json | None = None
    wait_ms: int = 0
    is_of_all: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to do for so many seconds, or until there is."""

    seconds: float


Steps = Generator[Question | Pause, Json, bool]
"""One round of what a reader does again and again; returns whether there is more to do, ever."""


def about_stream() -> Question:
    """Ask for settings, id, last marks and scale events."""
    return Question("GET", "")


def marks_after(seq: int, domain: str, wait_ms: int) -> Question:
    """Ask for the marks of `domain` after a seq, waiting for one up to `wait_ms`."""
    query: dict[str, str | int] = {
        "domain": domain,
        "after": seq,
        "limit": MARKS_PER_PAGE,
        "wait_ms": wait_ms,
    }
    return Question("GET", "/marks", query, wait_ms=wait_ms)


def window_between(start: int, end: int, domain: str | None, wait_ms: int) -> Question:
    """Ask for the window from `start` to `end`, waiting up to `wait_ms` until it is complete."""
    return windows_from(start, end - start, 1, domain, wait_ms)


def windows_from(
    start: int, size_ms: int, limit: int, domain: str | None, wait_ms: int = 0
) -> Question:
    """Ask for at most `limit` windows of one size from `start` on, waiting for the first."""
    query: dict[str, str | int] = {
        "size_ms": size_ms,
        "origin": start,
        "after": start,
        "limit": limit,
        "wait_ms": wait_ms,
    }
    if domain is not None:
        query["domain"] = domain
    return Question("GET", "/windows", query, wait_ms=wait_ms)


def complete_to(time: int, domain: str | None) -> Question:
    """Ask for the first mark that is complete to a time."""
    query: dict[str, str | int] = {"complete_to": time}
    if domain is not None:
        query["domain"] = domain
    return Question("GET", "/cut", query)


def about_group(group: str) -> Question:
    """Ask where a reader group stands."""
    return Question("GET", f"/reader-groups/{group}")


def report(group: str, reader: str, position: Mapping[int, int], **own: bool | None) -> Question:
    """Report a reader's position and its `backlog`, if any, and ask where the group stands."""
    path = f"/reader-groups/{group}/readers/{reader}"
    return Question("PUT", path, body={"position": position_to_wire(position), **own})


def offline(group: str, reader: str, position: Mapping[int, int]) -> Question:
    """Put a reader's segments back, and ask where the group stands."""
    path = f"/reader-groups/{group}/readers/{reader}/offline"
    return Question("POST", path, body={"position": position_to_wire(position)})


def align(alignment: str, member: str, where: Json) -> Question:
    """Report where a member of an alignment is, and ask for the bound."""
    path = f"/alignments/{alignment}/members/{member}"
    return Question("PUT", path, body=where, is_of_all=True)
