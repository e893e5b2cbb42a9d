"""The reader groups of one stream in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, UnsetType

from controller.aggregation.draft import Draft
from controller.store.records import BacklogRecord, ReaderRecord
from noted_time.answers import GroupRow
from noted_time.reading import ReaderGroup
from noted_time.values import SEGMENTS_PER_POSITION, LimitReached, UnknownReader

DUE_AT_ONCE = -(2**63)
NEVER_DUE = 2**63

REMOVE_GROUP_REMEDY = "remove a group with DELETE /v1/streams/{stream}/reader-groups/{group}"


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Limits of groups, of readers of one group, and of segments of all groups."""

    groups: int = 100
    readers: int = 1000
    segments: int = 100_000


DEFAULT_LIMITS = GroupLimits()


@dataclass(slots=True)
class _Group:
    position: ReaderGroup = field(default_factory=ReaderGroup)
    reports: dict[str, int] = field(default_factory=dict)
    own: dict[str, bool] = field(default_factory=dict)
    backlog: BacklogRecord | None = None

    @property
    def last_report(self) -> int:
        return max(self.reports.values(), default=DUE_AT_ONCE)

    @property
    def is_configured(self) -> bool:
        return self.backlog is not None and self.backlog.policy is not None


class ReaderGroups:
    """The reader groups of one stream, by name; `now` is its service clock in ms.

    An offline reader is remembered until others have taken over its segments.
    """

    def __init__(self, stream_id: str) -> None:
        self._stream_id = stream_id
        self._groups: dict[str, _Group] = {}
        self._check_at = NEVER_DUE  # never after the last report of any online reader

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __getitem__(self, name: str) -> ReaderGroup:
        return self._find(name).position

    def restore(
        self, records: Iterable[ReaderRecord], backlogs: Iterable[BacklogRecord] = ()
    ) -> int:
        """Return the time of the latest report."""
        for backlog in backlogs:
            self._groups[backlog.group] = _Group(backlog=backlog)
        latest = 0
        for record in records:
            group = self._groups.setdefault(record.group, _Group())
            group.position.report(record.reader, record.position)
            group.reports[record.reader] = record.reported_served_ms
            if record.backlog is not None:
                group.own[record.reader] = record.backlog
            if not record.online:
                group.position.offline(record.reader, {})
            if record.online:
                self._check_at = min(self._check_at, record.reported_served_ms)
            latest = max(latest, record.reported_served_ms)
        return latest

    def online(self) -> Iterator[ReaderGroup]:
        return (group.position for group in self._groups.values() if group.position.readers)

    def page(self, after: str | None, limit: int, *, unix_shift: int) -> list[GroupRow]:
        """Return a page of groups by name; the service clock plus `unix_shift` is Unix ms."""
        names = sorted(name for name in self._groups if after is None or name > after)
        return [_build_row(name, self._groups[name], unix_shift) for name in names[:limit]]

    def backlog(self, name: str) -> BacklogRecord | None:
        return self._find(name).backlog

    def behind(self, name: str) -> list[str]:
        return sorted(reader for reader, backlog in self._find(name).own.items() if backlog)

    def ensure(self, name: str) -> BacklogRecord | None:
        return self._groups.setdefault(name, _Group()).backlog

    def keep_backlog(self, record: BacklogRecord, draft: Draft) -> None:
        self._find(record.group).backlog = record
        draft.batch.put(record)

    def check_room(
        self,
        name: str,
        reader: str | None,
        position: Mapping[int, int],
        limits: GroupLimits,
        *,
        is_admin: bool = False,
    ) -> None:
        """Raise `LimitReached` if a report would exceed the limits.

        Without `reader`, only the group's creation is checked.
        """
        group = self._groups.get(name)
        if group is None and len(self._groups) >= limits.groups and not is_admin:
            raise LimitReached("reader groups of a stream", limits.groups, REMOVE_GROUP_REMEDY)
        group = group or _Group()
        reports = group.reports
        if reader is not None and reader not in reports and len(reports) >= limits.readers:
            remedy = (
                "let readers report under the same names after a restart, or " + REMOVE_GROUP_REMEDY
            )
            raise LimitReached("readers of a group", limits.readers, remedy)
        offsets = group.position.offsets
        added_count = sum(segment not in offsets for segment in position)
        if not added_count:
            return
        if len(offsets) + added_count > SEGMENTS_PER_POSITION:
            raise LimitReached(
                "segments of a reader group", SEGMENTS_PER_POSITION, REMOVE_GROUP_REMEDY
            )
        total_count = sum(
            len(stream_group.position.offsets) for stream_group in self._groups.values()
        )
        if total_count + added_count > limits.segments:
            raise LimitReached(
                "segments of a stream's reader groups", limits.segments, REMOVE_GROUP_REMEDY
            )

    def report(  # noqa: PLR0913 - the fields of a report
        self,
        name: str,
        reader: str,
        position: Mapping[int, int],
        draft: Draft,
        *,
        now: int,
        has_backlog: bool | UnsetType | None = UNSET,
    ) -> ReaderGroup:
        """Report a position. `has_backlog=None` withdraws the reader's own report of a backlog.

        The records of readers that reported these segments before are written, too.
        """
        group = self._groups.setdefault(name, _Group())
        offsets = group.position.offsets
        changed_readers = {reader}
        for segment in position:
            if segment in offsets:
                _, former_reader = offsets[segment]
                changed_readers.add(former_reader)
        group.position.report(reader, position)
        group.reports[reader] = now
        if has_backlog is None:
            group.own.pop(reader, None)
        elif has_backlog is not UNSET:
            group.own[reader] = has_backlog
        self._check_at = min(self._check_at, now)
        self._write_readers(name, changed_readers, draft)
        return group.position

    def offline(
        self, name: str, reader: str, position: Mapping[int, int], draft: Draft, *, now: int
    ) -> ReaderGroup:
        group = self._find(name)
        if reader not in group.position.readers:
            raise UnknownReader(name, reader)
        group.position.offline(reader, position)
        group.own.pop(reader, None)
        group.reports[reader] = now
        self._write_readers(name, {reader}, draft)
        return group.position

    def is_silence_over(self, timeout_ms: int, now: int) -> bool:
        return self._check_at + timeout_ms <= now

    def time_out(self, timeout_ms: int, draft: Draft, *, now: int) -> list[tuple[str, str]]:
        """Take silent readers offline, and return each with its group."""
        timed_out = []
        self._check_at = NEVER_DUE
        for name, group in self._groups.items():
            silent_readers = {
                reader
                for reader in group.position.readers
                if group.reports[reader] + timeout_ms <= now
            }
            for reader in silent_readers:
                group.position.offline(reader, {})
                group.own.pop(reader, None)
            online_readers = group.position.readers
            self._check_at = min(
                [self._check_at, *(group.reports[reader] for reader in online_readers)]
            )
            self._write_readers(name, silent_readers, draft)
            timed_out += [(name, reader) for reader in sorted(silent_readers)]
        return timed_out

    def forget_unused(self, retention_ms: int, draft: Draft, *, now: int) -> list[str]:
        """Remove groups without a policy or online readers, silent for `retention_ms`."""
        unused_names = [
            name
            for name, group in self._groups.items()
            if not (group.position.readers or group.is_configured)
            and group.last_report + retention_ms <= now
        ]
        for name in unused_names:
            self.remove(name, draft)
        return unused_names

    def remove(self, name: str, draft: Draft) -> None:
        group = self._find(name)
        del self._groups[name]
        for reader in group.reports:
            draft.batch.drop(ReaderRecord, self._stream_id, name, reader)
        if group.backlog is not None:
            draft.batch.drop(BacklogRecord, self._stream_id, name)

    def _find(self, name: str) -> _Group:
        try:
            return self._groups[name]
        except KeyError:
            raise UnknownReader(name) from None

    def _write_readers(self, name: str, readers: Collection[str], draft: Draft) -> None:
        if not readers:
            return
        key = (self._stream_id, name)
        group = self._groups[name]
        online = group.position.readers
        segments = group.position.segments_by_reader()
        for reader in sorted(readers):
            if reader in online or reader in segments:
                is_online = reader in online
                position = segments.get(reader, {})
                report = group.reports[reader], group.own.get(reader)
                draft.batch.put(ReaderRecord(*key, reader, is_online, position, *report))
            else:
                del group.reports[reader]
                draft.batch.drop(ReaderRecord, *key, reader)


def _build_row(name: str, group: _Group, unix_shift: int) -> GroupRow:
    reported_at = group.last_report + unix_shift if group.reports else None
    position = group.position
    return GroupRow(name, len(position.readers), len(position.offsets), reported_at)
