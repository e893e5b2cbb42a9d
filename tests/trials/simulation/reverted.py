"""Fixes of the past that are taken back, each with the seed of a schedule that misses it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from controller.aggregation import retention
from controller.aggregation.draft import Draft, Moment
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.stream import StreamState
from controller.service.clocks import Clocks
from controller.service.committer import Committer, Job
from controller.service.ownership import Ownership
from noted_time.rules import MemberRecord, Membership
from noted_time.rules.domain import Domain
from noted_time.rules.member import Track
from noted_time.rules.members import Domains
from noted_time.rules.note_checks import NoteChecks
from noted_time.rules.queues import Timeouts, TimeQueue
from noted_time.rules.roster import Roster
from noted_time.rules.running_cut import RunningCut
from noted_time.rules.segments import KnownSegments
from noted_time.values import Mark, Note, Refused, ServiceClock
from noted_time.values.fencing import Session
from tests.trials.simulation.schedule import Schedule
from writer_client.sending.exchange import RequestNumbers
from writer_client.sending.outbox import Outbox


class Reverted(NamedTuple):
    """The function that made a fix, what takes its place, and a seed that misses it."""

    owner: type | ModuleType
    function: str
    instead: object
    seed: int


def find_broken(fix: Reverted, seed: int) -> list[str]:
    """Return the laws that the seed's schedule breaks without the fix, or its error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fix.owner, fix.function, fix.instead)
        try:
            return Schedule(seed).run()
        except Exception as error:  # noqa: BLE001 - an answer that no client would understand
            return [repr(error)]


def _nothing(*_: object) -> None:
    """Take the place of a function that returns nothing."""


async def _serve_on(committer: Committer, *_: object) -> None:
    committer.ready = True


_run = Job.run
_move = Domain.advance
_check = NoteChecks.check
_restore = Roster.restore
_find_due = StreamState._find_due_time


def _answer_at_once(job: Job, *arguments: Any) -> Iterable[None]:  # noqa: ANN401 - as `Job.run`
    yield from _run(job, *arguments)
    job.resolve()


def _name_nobody(domain: Domain, *arguments: Any, **options: Any) -> Mark:  # noqa: ANN401 - as `advance`
    return replace(_move(domain, *arguments, **options), excluded=())


def _take_late(checks: NoteChecks, note: Note, *arguments: Any) -> object:  # noqa: ANN401 - as `check`
    result = _check(checks, note, *arguments)
    is_late = isinstance(result, Refused) and result.status == "superseded"
    return _check(checks, replace(note, sequence=None), *arguments) if is_late else result


def _count_all(clock: ServiceClock, elapsed_ms: int) -> int:
    clock.now += max(elapsed_ms, 0)
    return clock.now


def _compare_seqs(stream: StreamState, domain: str, former_mark: Mark) -> int:
    return min(stream.histories[domain].last_seq, former_mark.seq)


def _restore_unnamed(roster: Roster, track: Track, membership: Membership | None) -> None:
    queue = roster._unreported
    roster._unreported = TimeQueue()
    _restore(roster, track, membership)
    roster._unreported = queue


def _drop(outbox: Outbox, _batch: object) -> None:
    outbox._in_flight = ()


def _settle(known_segments: KnownSegments, final: Mapping[int, int], cuts: Iterable[Any]) -> None:
    firsts = list(cuts)
    known_segments._not_counted = 0
    for segment, offset in final.items():
        if all(cut.get(segment, -1) >= offset for cut in firsts):
            known_segments._not_counted += 1


def _admit(
    current_session: Session, session: str, *, takes_over: bool = False, **_: object
) -> bool:
    is_lost = any(session == loss.id for loss in current_session.lost)
    return not is_lost and (current_session.id is None or takes_over)


def _allow(*_: object, **__: object) -> bool:
    return True


def _date_none(_: StreamState, members: Iterable[MemberRecord]) -> Iterable[MemberRecord]:
    return members


def _wait_by_wall_clock(stream: StreamState, domain: str, moment: Moment) -> int:
    if domain not in stream._next_mark_at and (last := stream.histories[domain].last):
        over_at = last.written_at + stream.settings.mark_interval_ms
        stream._next_mark_at[domain] = moment.steady + max(0, over_at - moment.wall)
    return _find_due(stream, domain, moment)


def _forget_by_wall_clock(streams: OwnedStreams, draft: Draft) -> None:
    for stream in streams:
        horizon = draft.moment.wall - stream.settings.mark_retention_ms
        for domain, history in stream.histories.items():
            old_count = sum(mark.written_at < horizon for mark in history.following(0))
            retention.forget_before(stream, domain, history.first_seq + old_count, draft)


FIXES: Mapping[str, Reverted] = {
    "what a note was answered is durable": Reverted(Job, "run", _answer_at_once, 0),
    "a failed commit has all streams read again": Reverted(Committer, "_reload", _serve_on, 0),
    "streams of lost buckets are dropped": Reverted(Ownership, "_drop_outside", _nothing, 0),
    "streams that wait for their interval go with their bucket": Reverted(
        OwnedStreams, "is_owned", _allow, 16
    ),
    "marks that a database has lost are reported": Reverted(Ownership, "remember", _nothing, 28),
    "marks whose seqs were given again are reported": Reverted(
        Ownership, "_find_last_stored", staticmethod(_compare_seqs), 134
    ),
    "a controller whose leases may be over reads nothing from memory": Reverted(
        Ownership, "is_sure", property(_allow), 5
    ),
    "the clock of a bucket never goes back": Reverted(
        StreamState, "_remember_latest", _date_none, 0
    ),
    "a turn with the database is no silence": Reverted(Clocks, "pass_over", _nothing, 0),
    "a pause of the process is no silence": Reverted(ServiceClock, "serve", _count_all, 1),
    "a mark names whom it goes on without": Reverted(Domain, "advance", _name_nobody, 0),
    "a mark names them after a restart too": Reverted(Roster, "restore", _restore_unnamed, 0),
    "a writer that returns below the lower learns it": Reverted(
        Domains, "_exclude_if_late", _nothing, 0
    ),
    "silence runs side by side": Reverted(Track, "overtaken_served_ms", property(_nothing), 4),
    "silence counts from who overtook a writer": Reverted(Domain, "finish_restore", _nothing, 1),
    "silence is over when it is due": Reverted(Timeouts, "requeue_all", _nothing, 94),
    "times of a removed writer do not count": Reverted(Domain, "drop_removed_uppers", _nothing, 1),
    "nor do they once it has returned": Reverted(Domains, "_drop_former_uppers", _nothing, 772),
    "late requests are refused": Reverted(NoteChecks, "check", _take_late, 0),
    "the older of two processes is fenced": Reverted(Session, "admits", _allow, 0),
    "a restored backup fences no living process": Reverted(Session, "admits", _admit, 28),
    "a successor implies its predecessors": Reverted(RunningCut, "complete", _nothing, 1),
    "members that a mark reached hold": Reverted(Domain, "settle", _allow, 0),
    "sealed segments give room": Reverted(StreamState, "settle", _nothing, 1),
    "sealed segments that are empty give room": Reverted(
        KnownSegments, "stop_counting_sealed", _settle, 14
    ),
    "marks continue after the wall clock steps back": Reverted(
        StreamState, "_find_due_time", _wait_by_wall_clock, 1
    ),
    "marks are kept after the wall clock steps forwards": Reverted(
        retention, "forget_old_marks", _forget_by_wall_clock, 39
    ),
    "a client continues after the wall clock steps back": Reverted(
        RequestNumbers, "skip_to", _nothing, 11
    ),
    "a client sends again what may be lost": Reverted(Outbox, "put_back", _drop, 131),
}
