"""Changes of a stream by operators, stored with the caller and the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from msgspec import to_builtins
from msgspec.structs import asdict, replace

from controller.aggregation import group_backlog
from controller.aggregation.draft import Draft
from controller.aggregation.groups import DEFAULT_LIMITS, GroupLimits
from controller.aggregation.owned_streams import OwnedStreams
from controller.aggregation.retention import find_first_kept, forget_before
from controller.aggregation.stream import StreamState
from controller.store.records import Change, StoredScale, StreamRecord
from noted_time import BacklogPolicy, StreamCut
from noted_time.answers import Action
from noted_time.client import position_to_wire
from noted_time.reading import ReaderGroup
from noted_time.rules import Seal, SealRequest, Slices
from noted_time.values import (
    EventTimeForm,
    LimitReached,
    NotedMeanwhile,
    ScaleEvent,
    StreamSealed,
    StreamSettings,
    state_form,
    validate_name,
)


class Order(NamedTuple):
    """Who requested a change, and why.

    >>> Order("0123456789ab", label="ops, Kim").who
    'ops, Kim (0123456789ab)'
    """

    by: str | None = None
    comment: str | None = None
    label: str = ""

    @property
    def who(self) -> str | None:
        return f"{self.label} ({self.by})" if self.label else self.by


ANONYMOUS_ORDER = Order()


class Truncation(NamedTuple):
    """The effect of a truncation: the number of `dropped` marks by domain."""

    beyond: bool
    dropped: Mapping[str, int]


def put(  # noqa: PLR0913 - the streams, the request and its limits
    streams: OwnedStreams,
    draft: Draft,
    order: Order,
    name: str,
    changes: Mapping[str, Any],
    *,
    new_id: str,
    most_streams: int,
    log: str | None = None,
) -> tuple[StreamState, bool]:
    """Create the stream or change its settings; raises `LimitReached` at `most_streams`.

    `log` names another log with the same offsets; notes of earlier logs stay valid.
    """
    stream = streams.find_open(name)
    is_new = stream is None
    if stream is not None:
        _reconfigure(stream, draft, order, changes)
    elif len(streams) < most_streams:
        record = StreamRecord(new_id, name, StreamSettings(**changes))
        stream = _create(streams, draft, order, record)
    else:
        raise LimitReached("streams", most_streams, "remove one, or raise --max-streams")
    logs = add_log(stream.record, log)
    if logs != stream.record.logs:
        old_values = {"logs": list(stream.record.logs)}
        new_values = {"logs": list(logs)}
        _record(stream, draft, order, "settings", old_values=old_values, new_values=new_values)
        stream.rewrite(draft, logs=logs)
    draft.touch(stream)
    return stream, is_new


def add_log(record: StreamRecord, log: str | None) -> tuple[str, ...]:
    """Return the logs of a stream with `log` as the last one."""
    if log is None:
        return record.logs
    return (*(earlier_log for earlier_log in record.logs if earlier_log != log), log)


def _create(streams: OwnedStreams, draft: Draft, order: Order, record: StreamRecord) -> StreamState:
    stream = StreamState(record)
    streams.add(stream)
    _expect(stream, draft, stream.settings.expected_writers)
    stream.begin_report_clock(draft)
    _record(stream, draft, order, "created", new_values=_dump_settings(stream.settings))
    return stream


def preview_settings(stream: StreamState, changes: Mapping[str, Any], now: int) -> dict[str, int]:
    old_settings = stream.settings
    settings = replace(old_settings, **changes)
    stream.aggregator.check_settings(settings)
    dropped_counts = {}
    for domain in stream.histories:
        first_kept = find_first_kept(stream, domain, now - old_settings.mark_retention_ms)
        becomes = find_first_kept(stream, domain, now - settings.mark_retention_ms)
        dropped_counts[domain] = max(0, becomes - first_kept)
    return dropped_counts


def _reconfigure(
    stream: StreamState, draft: Draft, order: Order, changes: Mapping[str, Any]
) -> None:
    old_settings = stream.settings
    settings = replace(old_settings, **changes)
    if settings == old_settings:
        return
    old_names = old_settings.expected_writers
    new_names = [name for name in settings.expected_writers if name not in old_names]
    if new_names and stream.aggregator.sealed is not None:
        raise StreamSealed("writers")
    changed_writers = stream.aggregator.reconfigure(settings, stream.begin(draft))
    stream.take_settings(settings, draft)
    draft.touch(stream).update(changed_writers)
    _expect(stream, draft, new_names)
    old_fields = _dump_settings(old_settings)
    old_values = {}
    new_values = {}
    for name, value in _dump_settings(settings).items():
        if value != old_fields[name]:
            old_values[name] = old_fields[name]
            new_values[name] = value
    _record(stream, draft, order, "settings", old_values=old_values, new_values=new_values)


def _expect(stream: StreamState, draft: Draft, writers: Iterable[str]) -> None:
    draft.touch(stream).update(stream.aggregator.expect(writers, stream.begin(draft)))


def scale(stream: StreamState, draft: Draft, order: Order, event: ScaleEvent) -> None:
    """Apply a scale event; a repeated or empty one changes nothing."""
    if event in stream.scale_events or not (event.sealed or event.created):
        return
    stream.aggregator.scale(event)
    draft.batch.put(StoredScale(stream.id, len(stream.scale_events), event))
    stream.scale_events.append(event)
    draft.touch(stream).update(stream.aggregator.writers())
    created_segments = {}
    for segment, predecessors in event.created.items():
        created_segments[str(segment)] = list(predecessors)
    new_values = {"sealed": position_to_wire(event.sealed), "created": created_segments}
    _record(stream, draft, order, "scaled", new_values=new_values)


def state_event_time_form(  # noqa: PLR0913, PLR0917 - the form, its domain, and whether it replaces
    stream: StreamState,
    draft: Draft,
    order: Order,
    form: EventTimeForm,
    domain: str | None = None,
    replaces: bool = False,  # noqa: FBT001, FBT002 - of a call
) -> None:
    """Keep how the event times of the domain's log are read. The same form changes nothing.

    One that `replaces` another holds from the present positions on. Raises `AnotherForm` for
    another form that does not.
    """
    name = stream.settings.domain_or_default(domain)
    stream.history(name)
    old_forms = stream.record.event_time_forms.get(name, ())
    position = stream.aggregator.domains.segments.offsets
    new_forms = state_form(old_forms, form, position, replaces=replaces)
    if new_forms == old_forms:
        return
    stream.rewrite(draft, event_time_forms={**stream.record.event_time_forms, name: new_forms})
    old_values = {"domain": name, "form": to_builtins(old_forms[-1].form)} if old_forms else None
    new_values = {"domain": name, "form": to_builtins(form)}
    new_values["position"] = position_to_wire(new_forms[-1].position)
    _record(stream, draft, order, "event_time_form", old_values=old_values, new_values=new_values)


def seal(stream: StreamState, draft: Draft, order: Order, request: SealRequest) -> Slices[Seal]:
    """Seal the stream, and commit its last marks with their notes; repeating it changes nothing."""
    aggregator = stream.aggregator
    wall = draft.moment.wall
    if stream.record.seal is not None:
        return (yield from aggregator.seal(request, now=0, written_at=0))
    now = stream.begin(draft)
    last_marks = {domain: aggregator.domains[domain].last for domain in stream.settings.domains}
    final_seal = yield from aggregator.seal(request, now=now, written_at=wall)
    final_times = {}
    for domain, last_mark in last_marks.items():
        mark = aggregator.domains[domain].last
        if mark is None:
            continue
        if mark != last_mark:
            stream.append(domain, last_mark, mark, draft, order.who)
        if mark.final:
            final_times[domain] = mark.lower
    stream.rewrite(draft, seal=final_seal)
    draft.touch(stream).update(aggregator.writers())
    new_values = {"cut": position_to_wire(final_seal.final_cut), "final_times": final_times}
    _record(stream, draft, order, "sealed", new_values=new_values)
    return final_seal


def preview_truncation(stream: StreamState, cut: Mapping[int, int]) -> Truncation:
    whole_cut = stream.aggregator.succession.normalise(cut)
    is_beyond = False
    dropped_counts = {}
    for domain, history in stream.histories.items():
        last_cut = StreamCut({}) if history.last is None else history.last.cut
        is_beyond = is_beyond or not last_cut.reaches(StreamCut(whole_cut))
        reached_seq = history.window(whole_cut).lower_seq
        dropped_counts[domain] = 0 if reached_seq is None else reached_seq - history.first_seq
    return Truncation(is_beyond, dropped_counts)


def truncate(stream: StreamState, draft: Draft, order: Order, cut: Mapping[int, int]) -> Truncation:
    """Keep the last mark whose cut the given cut reaches, and drop the marks before it.

    A reader exactly at the cut needs that mark.
    """
    truncation = preview_truncation(stream, cut)
    for domain, dropped_count in truncation.dropped.items():
        forget_before(stream, domain, stream.histories[domain].first_seq + dropped_count, draft)
    if any(truncation.dropped.values()):
        new_values = {"cut": position_to_wire(cut)}
        _record(stream, draft, order, "truncated", new_values=new_values)
    return truncation


def remove(  # noqa: PLR0913, PLR0917 - the writer, and two conditions
    stream: StreamState,
    draft: Draft,
    order: Order,
    writer: str,
    unless_since: int | None = None,
    domain: str | None = None,
) -> None:
    """Exclude a writer, or end its absence in a `domain` that it dropped.

    Raises `UnknownWriter`, and `NotedMeanwhile` if the writer noted after `unless_since` (Unix ms).
    """
    member = stream.aggregator.member(writer)
    exclusion = member.excluded
    heard_at = member.heard_at
    if unless_since is not None and heard_at is not None and heard_at > unless_since:
        raise NotedMeanwhile(writer, heard_at)
    if domain is not None:
        stream.aggregator.end_narrowing(writer, domain)
        draft.touch(stream).add(writer)
        _record(stream, draft, order, "removed", writer=writer, new_values={"domain": domain})
        return
    stream.aggregator.remove(writer, stream.begin(draft), order.who)
    stream.excluded += 1
    stream.withdraw_late(writer, draft)
    draft.touch(stream).add(writer)
    stream.keep_unbounded(draft)
    if exclusion != "removed":
        _record(stream, draft, order, "removed", writer=writer)


def suspend_timeout(
    stream: StreamState, draft: Draft, order: Order, writer: str, for_ms: int | None
) -> None:
    """Suspend the writer's timeout for `for_ms`, or end the suspension; raises `NotLive`."""
    old_values = _find_suspension(stream, writer, draft)
    now = stream.begin(draft)
    ends_served_ms = None if for_ms is None else now + for_ms
    suspended_by = order.label or order.by
    stream.aggregator.suspend_timeout(writer, ends_served_ms, suspended_by, order.comment)
    draft.touch(stream).add(writer)
    suspension = _find_suspension(stream, writer, draft)
    if suspension is not None:
        values = {"old_values": old_values, "new_values": {"for_ms": for_ms} | suspension}
        _record(stream, draft, order, "timeout_suspended", writer=writer, **values)
    elif old_values is not None:
        _record(stream, draft, order, "timeout_resumed", writer=writer, old_values=old_values)


def set_backlog_policy(  # noqa: PLR0913 - the change and its limits
    stream: StreamState,
    draft: Draft,
    order: Order,
    group: str,
    policy: BacklogPolicy | None,
    *,
    limits: GroupLimits = DEFAULT_LIMITS,
) -> None:
    old_policy = group_backlog.set_policy(
        stream, validate_name("reader group", group), policy, draft, limits
    )
    if policy != old_policy:
        old_values = {"group": group, "backlog": old_policy and asdict(old_policy)}
        new_values = {"group": group, "backlog": policy and asdict(policy)}
        _record(
            stream, draft, order, "backlog_policy", old_values=old_values, new_values=new_values
        )


def take_offline(
    stream: StreamState, draft: Draft, group: str, reader: str, position: Mapping[int, int]
) -> ReaderGroup:
    """Take a reader offline, at this position; raises `UnknownReader`."""
    now = stream.served_ms(draft.moment)
    return stream.groups.offline(group, reader, position, draft, now=now)


def _find_suspension(
    stream: StreamState, writer: str, draft: Draft
) -> dict[str, int | None] | None:
    ends_served_ms = stream.aggregator.member(writer).terms.suspension_ends_served_ms
    if ends_served_ms is None:
        return None
    return {"suspension_ends_at": ends_served_ms + stream.unix_shift(draft.moment)}


def _dump_settings(settings: StreamSettings) -> dict[str, Any]:
    values = asdict(settings)
    for name, value in values.items():
        if isinstance(value, tuple):
            values[name] = list(value)
    return values


def _record(
    stream: StreamState,
    draft: Draft,
    order: Order,
    action: Action,
    **fields: Any,  # noqa: ANN401 - fields of `Change`
) -> None:
    change = Change(
        stream.id,
        draft.moment.wall,
        stream.served_ms(draft.moment),
        action,
        **fields,
        by=order.who,
        comment=order.comment,
    )
    draft.batch.put(change)
