"""What operators change of a stream by hand, each recorded with who did it and why.

A change is recorded in the batch that makes it durable. What changes nothing leaves no record.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from controller.aggregation import group_backlog
from controller.aggregation.sealing import end
from controller.aggregation.stream import StreamState
from controller.store.port import Change, StreamRecord
from noted_time import StreamCut, StreamSettings
from noted_time.client import position_to_wire
from noted_time.values import KnownBeyond, LimitReached, NotedMeanwhile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controller.aggregation.draft import Draft
    from controller.aggregation.groups import GroupLimits
    from controller.aggregation.owned_streams import OwnedStreams
    from controller.store.port import Action, AppendedMark
    from noted_time import BacklogPolicy, ScaleEvent, Seal, SealRequest
    from noted_time.rules import Correction, CorrectionRequest


class Order(NamedTuple):
    """Who decided a change, a token's id or an address, and the reason that was given for it."""

    by: str | None = None
    comment: str | None = None


NOBODYS = Order()


REPLACED_NAMED = 1000
"""How many offsets of marks a correction names that it replaces."""


class Replaced(NamedTuple):
    """An offset that the marks from one seq to another have, and that is wrong."""

    domain: str
    segment: int
    offset: int
    first_seq: int
    last_seq: int


class Corrected(NamedTuple):
    """What correcting a position does: what is taken for wrong offsets, and those of marks."""

    correction: Correction
    replaced: tuple[Replaced, ...]


class Truncation(NamedTuple):
    """What truncating a stream does: how many marks of each domain go.

    `beyond` says that the cut goes beyond the last mark of some domain.
    """

    beyond: bool
    dropped: Mapping[str, int]


def put(  # noqa: PLR0913 - what there is, what is asked for, and what bounds it
    streams: OwnedStreams,
    draft: Draft,
    order: Order,
    name: str,
    changes: Mapping[str, Any],
    *,
    new_id: str,
    most_streams: int,
) -> tuple[StreamState, bool]:
    """Make the stream or change its settings; returns it and whether it is new.

    Raises `LimitReached` where there are as many streams as may be.
    """
    stream = streams.find(name)
    is_new = stream is None
    if stream is not None:
        _reconfigure(stream, draft, order, changes)
    elif len(streams) < most_streams:
        record = StreamRecord(new_id, name, StreamSettings(**changes))
        stream = _make(streams, draft, order, record)
    else:
        raise LimitReached("streams", most_streams, "remove one, or raise --max-streams")
    draft.touched(stream)
    return stream, is_new


def _make(streams: OwnedStreams, draft: Draft, order: Order, record: StreamRecord) -> StreamState:
    stream = StreamState(record)
    streams.add(stream)
    stream.expect(stream.settings.expected_writers, draft)
    draft.batch.streams.append(record)
    _record(stream, draft, order, "created", became=_plain(stream.settings))
    return stream


def _reconfigure(
    stream: StreamState, draft: Draft, order: Order, changes: Mapping[str, Any]
) -> None:
    settings = replace(stream.settings, **changes)
    if settings == stream.settings:
        return  # to look at all members again may take long
    before, after = _plain(stream.settings), _plain(settings)
    stream.reconfigure(settings, draft)
    changed = [name for name in after if after[name] != before[name]]
    was, became = ({name: each[name] for name in changed} for each in (before, after))
    draft.batch.streams.append(stream.record)
    _record(stream, draft, order, "settings", was=was, became=became)


def scale(stream: StreamState, draft: Draft, order: Order, event: ScaleEvent) -> None:
    """Take a scale event; raises `InvalidScale`."""
    taken = len(stream.scale_events)
    stream.scale(event, draft)
    if len(stream.scale_events) > taken:
        after = {str(segment): list(before) for segment, before in event.created.items()}
        became = {"sealed": position_to_wire(event.sealed), "created": after}
        _record(stream, draft, order, "scaled", became=became)


def seal(stream: StreamState, draft: Draft, order: Order, request: SealRequest) -> Seal:
    """End the stream; raises `InvalidCut`, `InvalidFinalTime`, `AlreadySealed`, `UnknownDomain`."""
    is_new = stream.record.seal is None
    sealed = end(stream, request, order.by, draft)
    if is_new:
        lasts = {domain: stream.aggregator.last_mark(domain) for domain in stream.settings.domains}
        final_times = {domain: last.lower for domain, last in lasts.items() if last and last.final}
        became = {"cut": position_to_wire(sealed.final_cut), "final_times": final_times}
        _record(stream, draft, order, "sealed", became=became)
    return sealed


def truncation(stream: StreamState, cut: Mapping[int, int]) -> Truncation:
    """Return what truncating the stream at a cut would do; changes nothing."""
    whole = stream.aggregator.succession.normalise(cut)
    last = (history.last for history in stream.histories.values())
    cuts = (mark.cut if mark else StreamCut({}) for mark in last)
    beyond = any(not each.reaches(StreamCut(whole)) for each in cuts)
    dropped = {}
    for domain, history in stream.histories.items():
        reached = history.window(whole).lower_seq
        dropped[domain] = 0 if reached is None else reached - history.first_seq
    return Truncation(beyond, dropped)


def truncate(stream: StreamState, draft: Draft, order: Order, cut: Mapping[int, int]) -> Truncation:
    """Drop the marks that readers from `cut` on do not need."""
    found = truncation(stream, cut)
    stream.truncate(cut, draft)
    if any(found.dropped.values()):
        became = {"cut": position_to_wire(cut)}
        _record(stream, draft, order, "truncated", became=became)
    return found


def remove(
    stream: StreamState, draft: Draft, order: Order, writer: str, unless_since: int | None
) -> None:
    """Exclude a writer; raises `UnknownWriter`.

    Raises `NotedMeanwhile` and changes nothing where it noted after `unless_since`, in Unix ms.
    """
    record = stream.aggregator.record(writer)
    heard_at = record.heard_at
    if unless_since is not None and heard_at is not None and heard_at > unless_since:
        raise NotedMeanwhile(writer, heard_at)
    stream.remove(writer, order.by, draft)
    if record.excluded != "removed":
        _record(stream, draft, order, "removed", writer=writer)


def hold(stream: StreamState, draft: Draft, order: Order, writer: str, for_ms: int | None) -> None:
    """Suspend the writer's timeout for `for_ms`; `None` ends the hold; raises `UnknownWriter`."""
    was = _until(stream, writer, draft)
    stream.hold(writer, for_ms, draft)
    became = _until(stream, writer, draft)
    if became is not None:
        became = {"for_ms": for_ms} | became
        _record(stream, draft, order, "held", writer=writer, was=was, became=became)
    elif was is not None:
        _record(stream, draft, order, "released", writer=writer, was=was)


def planned_correction(
    stream: StreamState, writer: str, request: CorrectionRequest, drafted: Sequence[AppendedMark]
) -> Corrected:
    """Return what correcting a writer's position would do; changes nothing.

    `drafted` has marks that are not durable yet. Raises `UnknownWriter`, `StreamSealed`, and
    `KnownBeyond` where a reader or a scale event is at or beyond an offset that is to be wrong.
    """
    above, histories = request.above, stream.histories
    below: list[Mapping[int, int]] = [history.below(above) for history in histories.values()]
    below += [each.mark.cut.offsets for each in drafted if each.stream_id == stream.id]
    correction = stream.aggregator.plan_correction(writer, request, below)
    positions = [stream.groups[group].position for group in stream.groups]
    known: dict[int, int] = {}
    for position in (*positions, stream.aggregator.succession.final):
        for segment, least in above.items():
            if position.get(segment, -1) >= least:
                known[segment] = max(position[segment], known.get(segment, -1))
    if known:
        raise KnownBeyond(known)
    replaced = (
        Replaced(domain, segment, *found)
        for domain, history in histories.items()
        for segment, least in sorted(above.items())
        for found in history.offsets_beyond(segment, least)
    )
    return Corrected(correction, tuple(islice(replaced, REPLACED_NAMED)))


def correct(
    stream: StreamState, draft: Draft, order: Order, writer: str, request: CorrectionRequest
) -> Corrected:
    """Correct a writer's position, and how marks are read; raises as `planned_correction`."""
    does = planned_correction(stream, writer, request, draft.batch.marks)
    was = {"position": position_to_wire(stream.aggregator.member(writer).position)}
    stream.correct(writer, request, replace(does.correction, by=order.by), draft)
    became = {
        "position": position_to_wire(request.position),
        "above": position_to_wire(request.above),
        "cuts": position_to_wire(does.correction.offsets),
    }
    _record(stream, draft, order, "corrected", writer=writer, was=was, became=became)
    return does


def set_backlog_policy(  # noqa: PLR0913 - who decides what for whom, and what bounds it
    stream: StreamState,
    draft: Draft,
    order: Order,
    group: str,
    policy: BacklogPolicy | None,
    *,
    limits: GroupLimits,
) -> None:
    """Decide when a reader group has a backlog; raises `LimitReached`."""
    before = group_backlog.set_policy(stream, group, policy, draft, limits)
    if policy != before:
        was, became = (
            {"group": group, "backlog": each and asdict(each)} for each in (before, policy)
        )
        _record(stream, draft, order, "backlog_policy", was=was, became=became)


def _until(stream: StreamState, writer: str, draft: Draft) -> dict[str, int | None] | None:
    """Return until when (Unix ms) an operator keeps the writer from timing out."""
    until = stream.aggregator.record(writer).terms.hold_until
    return None if until is None else {"until": until + stream.unix_shift(draft.moment)}


def _plain(settings: StreamSettings) -> dict[str, Any]:
    """Return the settings as JSON has them."""
    values = asdict(settings).items()
    return {name: list(each) if isinstance(each, tuple) else each for name, each in values}


def _record(
    stream: StreamState,
    draft: Draft,
    order: Order,
    action: Action,
    **told: Any,  # noqa: ANN401 - the fields of a change
) -> None:
    """Have a change written with what it changed."""
    change = Change(stream.id, draft.moment.wall, action, **told, **order._asdict())
    draft.batch.changes.append(change)
