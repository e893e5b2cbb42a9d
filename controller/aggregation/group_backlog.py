"""Decides whether reader groups have a backlog, by their policy or their readers' reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.groups import GroupLimits
from controller.aggregation.stream import StreamState
from controller.store.records import BacklogRecord
from noted_time.answers import Cause
from noted_time.progress import Backlog, BacklogPolicy, BacklogState


@dataclass(frozen=True, slots=True)
class GroupBacklog:
    """A group's backlog, and the `record` to store, if any."""

    record: BacklogRecord | None = None
    causes: tuple[Cause, ...] = ()

    @property
    def backlog(self) -> bool:
        return bool(self.causes)

    @property
    def began_at(self) -> int | None:
        return None if self.record is None else self.record.backlog_began_at

    @property
    def policy(self) -> BacklogPolicy | None:
        return None if self.record is None else self.record.policy


def assess(stream: StreamState, group: str, moment: Moment) -> GroupBacklog:
    stored_record = stream.groups.backlog(group)
    causes = [Cause("reported", reader=reader) for reader in stream.groups.behind(group)]
    if stored_record is None and not causes:
        return GroupBacklog()
    former_record = stored_record or BacklogRecord(stream.id, group)
    states = dict(_assess_domains(stream, group, former_record, moment))
    for domain, state in states.items():
        causes += [Cause(cause, domain) for cause in state.backlog_causes]
    began_at = former_record.backlog_began_at
    if began_at is None or former_record.backlog != bool(causes):
        began_at = moment.wall
    record = replace(
        former_record,
        backlog=bool(causes),
        backlog_began_at=began_at,
        caught_up=_list_caught_up(former_record, states),
    )
    return GroupBacklog(record, tuple(causes))


def list_flags(stream: StreamState, moment: Moment) -> list[tuple[str, bool]]:
    flags = []
    for group in stream.groups:
        group_backlog = assess(stream, group, moment)
        if group_backlog.record is not None:
            flags.append((group, group_backlog.backlog))
    return flags


def keep(stream: StreamState, draft: Draft, group: str) -> GroupBacklog:
    backlog = assess(stream, group, draft.moment)
    if backlog.record is not None and backlog.record != stream.groups.backlog(group):
        stream.groups.keep_backlog(backlog.record, draft)
    return backlog


def set_policy(
    stream: StreamState, group: str, policy: BacklogPolicy | None, draft: Draft, limits: GroupLimits
) -> BacklogPolicy | None:
    """Set the policy of a group, which then has not caught up; raises `LimitReached`."""
    stream.groups.check_room(group, None, {}, limits)
    stored_record = stream.groups.ensure(group)
    before = stored_record.policy if stored_record else None
    if policy != before:
        record = stored_record or BacklogRecord(stream.id, group)
        stream.groups.keep_backlog(replace(record, policy=policy, caught_up=()), draft)
    keep(stream, draft, group)
    return before


def _assess_domains(
    stream: StreamState, group: str, before: BacklogRecord, moment: Moment
) -> Iterator[tuple[str, BacklogState]]:
    policy = before.policy
    if policy is None or policy.is_never:
        return
    for domain, window in stream.windows(stream.groups[group].position).items():
        last = stream.histories[domain].last
        backlog = Backlog(policy, BacklogState(caught_up=domain in before.caught_up))
        lower = last.lower if last else None
        yield (
            domain,
            backlog.look(
                moment.wall, window.lower, lower, idle=stream.aggregator.domains[domain].is_quiet
            ),
        )


def _list_caught_up(before: BacklogRecord, states: dict[str, BacklogState]) -> tuple[str, ...]:
    if before.policy is None or before.policy.rule != "sticky":
        return ()
    return tuple(sorted(domain for domain, state in states.items() if state.caught_up))
