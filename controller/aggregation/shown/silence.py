"""Silent streams: every writer that has not finished is out, so nothing advances the watermark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Literal

from controller.aggregation.shown.suspect_notes import EXAMINED
from controller.aggregation.stream import StreamState
from noted_time.rules import Member
from noted_time.values import DAY_MS, shown_time

Silence = Literal["missing", "silent", "ended"]
"""What the silence of a stream costs: the watermark went on without a writer, or an expected one
never came (`missing`); nothing is late (`silent`), and so for a day or longer (`ended`)."""

NOTHING_LATE = "No later time was noted, so nothing is late."


def silence_of(stream: StreamState, wall_ms: int) -> Silence | None:
    """Return what the silence of a stream costs, `None` if it is not silent.

    Of a stream with very many writers only those that joined first are examined.
    """
    counts, domains = stream.aggregator.domains.census.members, stream.aggregator.domains
    if not counts["excluded"] or counts["live"] or counts["idle"] or stream.final_cut is not None:
        return None
    if not all(domain.is_quiet for domain in domains):
        return None
    out = [*excluded(stream)]
    if any(domain.absences.missing for domain in domains) or any(map(never_came, out)):
        return "missing"
    since = max((each.exclusion.since for each in out if each.exclusion), default=wall_ms)
    return "silent" if wall_ms - since < DAY_MS else "ended"


def excluded(stream: StreamState) -> Iterator[Member]:
    """Yield the excluded members among those that joined first."""
    examined = map(stream.aggregator.member, islice(stream.aggregator.writers(), EXAMINED))
    return (each for each in examined if each.counted_as == "excluded")


def never_came(member: Member) -> bool:
    """Whether the stream expects the writer, and it never noted."""
    return member.heard_at is None and member.expected_at is not None


def all_of(number: int) -> str:
    """Return what several are called together.

    >>> all_of(2), all_of(3)
    ('both', 'all 3')
    """
    return "both" if number == 2 else f"all {number:,}"  # noqa: PLR2004 - a pair


def headline(stream: StreamState) -> str:
    """Return who is silent and since when, of a stream that is: what follows where it stands."""
    census, out = stream.aggregator.domains.census.members, [*excluded(stream)]
    number, heard = census["excluded"], [each.heard_at for each in out if each.heard_at is not None]
    are_silent = all(map(_timed_out, out))
    if out and all(map(never_came, out)):
        who = f"none of its {number:,} writers has" if number > 1 else "its only writer has never"
        return f"{who} {'ever ' if number > 1 else ''}noted; nothing advances it."
    last = f"{', the last' if number > 1 else ''} since {shown_time(max(heard))}" if heard else ""
    who = f"{all_of(number)} writers are" if number > 1 else "its only writer is"
    if census["finished"]:
        who = "all writers that have not finished are"
    return f"{who} {f'silent{last}' if are_silent else 'excluded'}; nothing advances it."


def remedies(stream: StreamState, silence: Silence) -> Iterator[str]:
    """Yield that nothing is late, if so, and what advances a silent stream."""
    if silence != "missing" and all(map(_timed_out, excluded(stream))):
        yield NOTHING_LATE
    is_one = stream.aggregator.domains.census.members["excluded"] == 1
    yield f"It advances when {'that writer' if is_one else 'one of them'} notes a later time."


def _timed_out(member: Member) -> bool:
    return member.exclusion is not None and member.exclusion.reason == "timed_out"
