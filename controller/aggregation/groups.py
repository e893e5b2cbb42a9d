"""The reader groups of one stream in memory: how far each has read, and its readers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.aggregation.draft import Draft
from controller.store.port import BacklogRecord, ReaderRecord
from noted_time import ReaderGroup
from noted_time.values import SEGMENTS_PER_POSITION, LimitReached, UnknownReader

DUE_AT_ONCE, NEVER_DUE = -(2**63), 2**63

UNDATED_REPORT = -1
"""When a reader that is stored without a date was last heard of."""

REMOVE_GROUP_REMEDY = "remove a group with DELETE /v1/streams/{stream}/reader-groups/{group}"


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Maximum number of groups of a stream, of readers of a group, and of segments of all groups.

    A single group has at most `SEGMENTS_PER_POSITION` segments, as any position.
    """

    groups: int = 100
    readers: int = 1000
    segments: int = 100_000


DEFAULT_LIMITS = GroupLimits()


@dataclass(frozen=True)
class GroupRow:
    """A reader group in a list: readers online, segments of its position, last report if any.

    `reported_at` is in Unix ms.
    """

    group: str
    readers: int
    segments: int
    reported_at: int | None


class OwnBacklog(NamedTuple):
    """What a reader reports of its own backlog; `None` withdraws what it reported before."""

    backlog: bool | None


class Silent(NamedTuple):
    """A reader that went offline because it was silent for too long."""

    group: str
    reader: str


@dataclass(slots=True)
class _Group:
    """A group, and when each of its readers that is remembered was last heard of.

    `own` is what readers online report of their own backlog, `backlog` what is kept of the group's.
    """

    position: ReaderGroup = field(default_factory=ReaderGroup)
    heard: dict[str, int] = field(default_factory=dict)
    own: dict[str, bool] = field(default_factory=dict)
    backlog: BacklogRecord | None = None

    @property
    def last_heard(self) -> int:
        return max(self.heard.values(), default=DUE_AT_ONCE)

    @property
    def is_configured(self) -> bool:
        """Whether the group was given a policy, which outlasts its readers."""
        return self.backlog is not None and self.backlog.policy is not None


class ReaderGroups:
    """The reader groups of the stream with this creation id, by name.

    `now` is the service clock of the stream in ms. Readers that are online are remembered, and
    others as long as no other reader took over their segments. `_check_at` is no later than the
    last report of any reader online.
    """

    def __init__(self, stream_id: str) -> None:
        self._stream_id = stream_id
        self._groups: dict[str, _Group] = {}
        self._check_at = NEVER_DUE

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __getitem__(self, name: str) -> ReaderGroup:
        """Return the group of that name; raises `UnknownReader` if there is none."""
        return self._group(name).position

    def restore(
        self, records: Iterable[ReaderRecord], backlogs: Iterable[BacklogRecord] = ()
    ) -> int:
        """Restore the readers after a restart; returns when the last of them was heard of.

        A reader whose last report has no date is given one at the first `time_out`.
        """
        for kept in backlogs:
            self._groups[kept.group] = _Group(backlog=kept)
        latest = 0
        for record in records:
            group = self._groups.setdefault(record.group, _Group())
            group.position.report(record.reader, record.position)
            group.heard[record.reader] = record.reported_at or UNDATED_REPORT
            if record.backlog is not None:
                group.own[record.reader] = record.backlog
            if not record.online:
                group.position.offline(record.reader, {})
            if not record.reported_at:
                self._check_at = DUE_AT_ONCE
            elif record.online:
                self._check_at = min(self._check_at, record.reported_at)
            latest = max(latest, record.reported_at)
        return latest

    def online(self) -> Iterator[ReaderGroup]:
        """Yield the groups with a reader online."""
        return (each.position for each in self._groups.values() if each.position.readers)

    def page(self, after: str | None, limit: int, *, unix_shift: int) -> list[GroupRow]:
        """Return up to `limit` groups by name, those after a name.

        `unix_shift` plus the service clock is Unix ms.
        """
        names = sorted(name for name in self._groups if after is None or name > after)
        return [_build_row(name, self._groups[name], unix_shift) for name in names[:limit]]

    def backlog(self, name: str) -> BacklogRecord | None:
        """Return what is kept of the group's backlog; raises `UnknownReader`."""
        return self._group(name).backlog

    def behind(self, name: str) -> list[str]:
        """Return the readers online that report a backlog; raises `UnknownReader`."""
        return sorted(reader for reader, backlog in self._group(name).own.items() if backlog)

    def ensure(self, name: str) -> BacklogRecord | None:
        """Create the group if it does not exist; returns what is kept of its backlog."""
        return self._groups.setdefault(name, _Group()).backlog

    def keep_backlog(self, record: BacklogRecord, draft: Draft) -> None:
        """Keep another record of the group's backlog; raises `UnknownReader`."""
        self._group(record.group).backlog = record
        draft.keep_backlog(record)

    def check_room(
        self,
        name: str,
        reader: str | None,
        position: Mapping[int, int],
        limits: GroupLimits,
        *,
        is_admin: bool = False,
    ) -> None:
        """Raise `LimitReached` if there is no room for what a report brings.

        Without a `reader`, the group is created without any. An admin may always create one.
        """
        group = self._groups.get(name)
        if group is None and len(self._groups) >= limits.groups and not is_admin:
            raise LimitReached("reader groups of a stream", limits.groups, REMOVE_GROUP_REMEDY)
        group = group or _Group()
        if reader is not None and reader not in group.heard and len(group.heard) >= limits.readers:
            remedy = (
                "let readers report under the same names after a restart, or " + REMOVE_GROUP_REMEDY
            )
            raise LimitReached("readers of a group", limits.readers, remedy)
        offsets = group.position.offsets
        added = sum(segment not in offsets for segment in position)
        if not added:
            return
        if len(offsets) + added > SEGMENTS_PER_POSITION:
            raise LimitReached(
                "segments of a reader group", SEGMENTS_PER_POSITION, REMOVE_GROUP_REMEDY
            )
        known = sum(len(each.position.offsets) for each in self._groups.values())
        if known + added > limits.segments:
            raise LimitReached(
                "segments of a stream's reader groups", limits.segments, REMOVE_GROUP_REMEDY
            )

    def report(  # noqa: PLR0913 - who reports what, and when
        self,
        name: str,
        reader: str,
        position: Mapping[int, int],
        draft: Draft,
        *,
        now: int,
        own: OwnBacklog | None = None,
    ) -> ReaderGroup:
        """Record how far a reader has read in its segments; `check_room` was called before.

        Without `own`, what the reader reported of its backlog stays.
        """
        group = self._groups.get(name) or _Group()
        self._groups[name] = group
        offsets = group.position.offsets
        owners = {offsets[segment][1] for segment in position if segment in offsets}
        group.position.report(reader, position)
        group.heard[reader] = now
        if own is not None:
            _remember(group, reader, own)
        self._check_at = min(self._check_at, now)
        self._draft(name, owners | {reader}, draft)
        return group.position

    def offline(
        self, name: str, reader: str, position: Mapping[int, int], draft: Draft, *, now: int
    ) -> ReaderGroup:
        """Put a reader's segments back to `position`; raises `UnknownReader`."""
        group = self._group(name)
        if reader not in group.position.readers:
            raise UnknownReader(name, reader)
        group.position.offline(reader, position)
        group.own.pop(reader, None)
        group.heard[reader] = now
        self._draft(name, {reader}, draft)
        return group.position

    def is_silence_over(self, timeout_ms: int, now: int) -> bool:
        """Whether `time_out` may have something to do."""
        return self._check_at + timeout_ms <= now

    def time_out(self, timeout_ms: int, draft: Draft, *, now: int) -> list[Silent]:
        """Take the readers offline that were silent for the timeout, each at its last position."""
        gone = []
        self._check_at = NEVER_DUE
        for name, group in self._groups.items():
            undated = {each for each, heard in group.heard.items() if heard == UNDATED_REPORT}
            group.heard.update(dict.fromkeys(undated, now))
            silent = {
                each for each in group.position.readers if group.heard[each] + timeout_ms <= now
            }
            for reader in silent:
                group.position.offline(reader, {})
                group.own.pop(reader, None)
            online = group.position.readers
            self._check_at = min([self._check_at, *(group.heard[each] for each in online)])
            self._draft(name, undated | silent, draft)
            gone += [Silent(name, reader) for reader in sorted(silent)]
        return gone

    def forget_unused(self, retention_ms: int, draft: Draft, *, now: int) -> list[str]:
        """Remove the groups without a reader online that were not heard of for `retention_ms`.

        One that was given a policy stays until it is removed.
        """
        unused = [
            name
            for name, group in self._groups.items()
            if not (group.position.readers or group.is_configured)
            and group.last_heard + retention_ms <= now
        ]
        for name in unused:
            self.remove(name, draft)
        return unused

    def remove(self, name: str, draft: Draft) -> None:
        """Remove a group with all that is known of its readers; raises `UnknownReader`."""
        group = self._group(name)
        del self._groups[name]
        draft.forget_readers((self._stream_id, name, reader) for reader in group.heard)
        if group.backlog is not None:
            draft.forget_backlog(self._stream_id, name)

    def _group(self, name: str) -> _Group:
        try:
            return self._groups[name]
        except KeyError:
            raise UnknownReader(name) from None

    def _draft(self, name: str, readers: Collection[str], draft: Draft) -> None:
        """Write the readers, or forget those without anything left to remember."""
        if not readers:
            return
        stream, group = self._stream_id, self._groups[name]
        online, segments = group.position.readers, group.position.segments_by_reader()
        kept = sorted(each for each in readers if each in online or each in segments)
        draft.report(
            ReaderRecord(
                stream,
                name,
                each,
                each in online,
                segments.get(each, {}),
                group.heard[each],
                group.own.get(each),
            )
            for each in kept
        )
        forgotten = [each for each in readers if each not in online and each not in segments]
        for reader in forgotten:
            del group.heard[reader]
        draft.forget_readers((stream, name, reader) for reader in forgotten)


def _remember(group: _Group, reader: str, own: OwnBacklog) -> None:
    if own.backlog is None:
        group.own.pop(reader, None)
    else:
        group.own[reader] = own.backlog


def _build_row(name: str, group: _Group, unix_shift: int) -> GroupRow:
    position, reported_at = group.position, group.last_heard + unix_shift if group.heard else None
    return GroupRow(name, len(position.readers), len(position.offsets), reported_at)
