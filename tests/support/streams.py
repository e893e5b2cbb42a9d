"""Calls of one stream's aggregator."""

from collections.abc import Iterable

from noted_time.rules import Aggregator, Member, Seal, SealRequest
from noted_time.rules.membership import Membership
from noted_time.values import Accepted, Mark, Note, Refused, StreamSettings, WaitForWriters, Waiting
from noted_time.values.settings import ReturningWriter

TIMEOUT_MS = 100


def make_stream(
    *writers: str,
    domains: tuple[str, ...] = ("default",),
    returning: ReturningWriter = "wait",
    now: int = 0,
) -> Aggregator:
    """Return a stream that `writers` have joined, with a writer timeout of `TIMEOUT_MS`."""
    stream = Aggregator(
        StreamSettings(writer_timeout_ms=TIMEOUT_MS, domains=domains, returning_writer=returning)
    )
    deliver(stream, *(Note(writer, domain=domains[0]) for writer in writers), now=now)
    return stream


def deliver(stream: Aggregator, *notes: Note, now: int = 0) -> list[Accepted | Refused]:
    return [stream.note(note, now) for note in notes]


def advance_all(stream: Aggregator, domain: str = "default", *, now: int = 0) -> list[Mark]:
    """Advance `domain` as far as it can, and return the new marks."""
    marks = []
    while (mark := stream.advance(domain, now=now, written_at=0)) is not None:
        marks.append(mark)
    return marks


def advance_after(stream: Aggregator, *notes: Note, now: int = 0) -> list[Mark]:
    """Hand over `notes`, advance, and return the new marks of the default domain."""
    deliver(stream, *notes, now=now)
    return advance_all(stream, now=now)


def restart(
    stream: Aggregator,
    appended_served_ms: dict[str, int] | None = None,
    declared_served_ms: dict[str, int] | None = None,
) -> Aggregator:
    """Return the stream as restored from its rows, last marks, and the forgotten absences.

    `appended_served_ms` and `declared_served_ms` are the service times of each domain's last mark
    and declaration.
    """
    times = appended_served_ms or {}
    last = {}
    for name in stream.settings.domains:
        mark = stream.domains[name].last
        if mark is not None:
            last[name] = (mark, times.get(name, 0))
    restarted_stream = Aggregator(
        stream.settings,
        stream.succession,
        last,
        declared_served_ms,
        initial_seal=stream.sealed,
        unbounded_domains=stream.unbounded,
        forgotten_lowers=stream.forgotten_lowers,
    )
    absences = {}
    for domain in stream.domains:
        forgotten = domain.roster.forgotten.items()
        absences[domain.name] = {writer: numbers for writer, numbers in forgotten if numbers}
    memberships = {}
    for writer, member in stream.domains.members.items():
        memberships[writer] = _find_rows(stream, member)
    restarted_stream.restore(
        [stream.record(writer) for writer in stream.writers()], memberships, absences
    )
    return restarted_stream


def _find_rows(stream: Aggregator, member: Member) -> dict[str, Membership]:
    """Return the rows of a member by domain."""
    rows = {}
    for domain, track in stream.domains.list_tracks(member):
        row = domain.roster.find_row(track)
        if row is not None:
            rows[domain.name] = row
    return rows


def seal(
    stream: Aggregator,
    cut: dict[int, int] | None = None,
    final_times: dict[str, int] | None = None,
    *,
    now: int = 0,
) -> Seal:
    for _ in stream.seal(SealRequest(cut or {}, final_times or {}), now=now, written_at=7):
        pass
    assert stream.sealed is not None
    return stream.sealed


def lowers(marks: Iterable[Mark]) -> list[int]:
    return [mark.lower for mark in marks]


def waiting(stream: Aggregator, domain: str = "default", *, now: int = 0) -> list[Waiting]:
    decision = stream.decide(domain, now=now)
    return list(decision.waiting_for) if isinstance(decision, WaitForWriters) else []
