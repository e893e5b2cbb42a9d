"""The records of the database, each a row of a table, and the set of changes of one transaction.

A new field needs a default and a revision, because older controllers drop unknown fields (see
the first migration).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, ValuesView
from operator import attrgetter
from typing import Any, ClassVar, TypedDict, TypeVar

from msgspec import Struct

from noted_time import BacklogPolicy
from noted_time.answers import Action, EntryAnswer
from noted_time.rules import SLICE_SIZE, MemberRecord, Membership, Seal
from noted_time.values import (
    Absence,
    LateReport,
    Mark,
    ReportClock,
    ScaleEvent,
    StatedForm,
    StreamSettings,
)

Key = tuple[Any, ...]


class Record(Struct, frozen=True):
    """A row of a table.

    The fields in `key_fields` are its primary key. These and `column_fields` have columns, each
    named by the last part of its path. If the record `has_json`, a column `record` has all fields,
    and if it `has_crc`, a last column has the CRC-32 of the others. If it `is_appended`, a stored
    record with its key is a conflict.
    """

    table_name: ClassVar[str]
    key_fields: ClassVar[tuple[str, ...]]
    column_fields: ClassVar[tuple[str, ...]] = ()
    has_json: ClassVar[bool] = True
    has_crc: ClassVar[bool] = False
    is_appended: ClassVar[bool] = False

    @property
    def key(self) -> Key:
        """Return the primary key, which begins with the id of the stream if there is one."""
        return tuple(attrgetter(path)(self) for path in self.key_fields)


R = TypeVar("R", bound=Record)
K = TypeVar("K", bound=Key)
V = TypeVar("V")


class StreamRecord(Record, frozen=True):
    """A stream's identity and settings, and how far back its stored data reaches.

    - `id` is never used again, unlike the name.
    - `declared_served_ms` is when domains were added to the existing stream (service time, ms).
    - `unbounded` are the domains whose later uppers are not bounds.
    - `ledger_from_time` and `late_from_time`: records are complete from this time on.
    - `late_seen_from_served_ms`: reports of late rows that were seen from then on are kept (service
      time, ms).
    - `report_clock` shows the moments of these reports. It is null in records of before, until the
      next note. Reports of before may then be unknown.
    - `first_lowers` are of the first marks, which may have been dropped.
    - `forgotten_lowers` are the lowers when members were last forgotten.
    - `logs` are the ids of the logs that positions were in, the current one last.
    - `event_time_forms` say for each domain how the event times of its log are read.
    """

    table_name = "noted_time_stream"
    key_fields = ("id",)
    column_fields = ("name",)
    has_crc = True

    id: str
    name: str
    settings: StreamSettings
    declared_served_ms: Mapping[str, int] = {}
    seal: Seal | None = None
    unbounded: tuple[str, ...] = ()
    ledger_from_time: Mapping[str, int] = {}
    late_from_time: Mapping[str, int] = {}
    late_seen_from_served_ms: Mapping[str, int] = {}
    first_lowers: Mapping[str, int] = {}
    forgotten_lowers: Mapping[str, int] = {}
    logs: tuple[str, ...] = ()
    report_clock: ReportClock | None = None
    event_time_forms: Mapping[str, tuple[StatedForm, ...]] = {}


class StreamRecordChanges(TypedDict, total=False):
    """Changed fields of a stream's record, which a test compares with its fields."""

    settings: StreamSettings
    declared_served_ms: Mapping[str, int]
    seal: Seal | None
    unbounded: tuple[str, ...]
    ledger_from_time: Mapping[str, int]
    late_from_time: Mapping[str, int]
    late_seen_from_served_ms: Mapping[str, int]
    first_lowers: Mapping[str, int]
    forgotten_lowers: Mapping[str, int]
    logs: tuple[str, ...]
    report_clock: ReportClock | None
    event_time_forms: Mapping[str, tuple[StatedForm, ...]]


class StoredScale(Record, frozen=True):
    """A scale event. The numbers of a stream's events must increase."""

    table_name = "noted_time_scale"
    key_fields = ("stream_id", "seq")
    has_crc = True
    is_appended = True

    stream_id: str
    seq: int
    event: ScaleEvent


class StoredMember(Record, frozen=True):
    """A member of a stream."""

    table_name = "noted_time_member"
    key_fields = ("stream_id", "member.writer")
    column_fields = (
        "member.state",
        "member.position",
        "member.times",
        "member.max_times",
        "member.noted_served_ms",
        "member.changed_served_ms",
        "member.sequence",
        "member.heard_at",
    )
    has_json = False
    has_crc = True

    stream_id: str
    member: MemberRecord

    @property
    def key(self) -> Key:
        return self.stream_id, self.member.writer  # every note creates one


class StoredMembership(Record, frozen=True):
    """A member's status in a domain, and when its marks count it.

    Most members have none: see `Roster.find_default`. Mark `seq` was the last one when the row was
    written. Later entries of the ledger may name the writer, and complete the row. If `seq` is
    null, the row is complete.
    """

    table_name = "noted_time_membership"
    key_fields = ("stream_id", "domain", "writer")
    has_crc = True

    stream_id: str
    domain: str
    writer: str
    membership: Membership
    seq: int | None = None

    @property
    def key(self) -> Key:
        return self.stream_id, self.domain, self.writer  # every exclusion creates one


class AppendedMark(Record, frozen=True):
    """A mark that was appended at `appended_served_ms` (service time, ms).

    The watermark waited for `last_writer` last, if that is known.
    """

    table_name = "noted_time_mark"
    key_fields = ("stream_id", "domain", "mark.seq")
    column_fields = (
        "mark.lower",
        "mark.upper",
        "mark.cut",
        "mark.written_at",
        "mark.excluded",
        "appended_served_ms",
        "last_writer",
        "mark.upper_is_bound",
        "mark.final",
    )
    has_json = False
    has_crc = True
    is_appended = True

    stream_id: str
    domain: str
    mark: Mark
    appended_served_ms: int
    last_writer: str | None = None


class ReaderRecord(Record, frozen=True):
    """A reader of a group; of an offline reader only the position is kept.

    `reported_served_ms` is on the service clock, and `backlog` the reader's own report.
    """

    table_name = "noted_time_reader"
    key_fields = ("stream_id", "group", "reader")

    stream_id: str
    group: str
    reader: str
    online: bool
    position: Mapping[int, int]
    reported_served_ms: int = 0
    backlog: bool | None = None


class BacklogRecord(Record, frozen=True):
    """A reader group's backlog policy, and whether it had a backlog when last checked.

    `backlog_began_at` is when `backlog` last changed (Unix ms). `caught_up` are domains, for the
    sticky rule.
    """

    table_name = "noted_time_backlog"
    key_fields = ("stream_id", "group")

    stream_id: str
    group: str
    policy: BacklogPolicy | None = None
    backlog: bool = False
    backlog_began_at: int | None = None
    caught_up: tuple[str, ...] = ()


class LateRecord(Record, frozen=True):
    """A report of late rows in a stream's domain, one for each place."""

    table_name = "noted_time_late"
    key_fields = ("stream_id", "domain", "writer", "min_time_hour", "max_time_hour", "seen_hour")

    stream_id: str
    domain: str
    writer: str
    min_time_hour: int
    max_time_hour: int
    seen_hour: int
    report: LateReport


class LedgerEntry(Record, frozen=True):
    """A mark that advanced without writers, or learned of their return.

    It was appended at `appended_served_ms` (service time, ms), after `part_count` parts that name
    other writers.
    """

    table_name = "noted_time_ledger"
    key_fields = ("stream_id", "domain", "answer.seq")
    column_fields = ("appended_served_ms",)
    is_appended = True

    stream_id: str
    domain: str
    appended_served_ms: int
    answer: EntryAnswer
    part_count: int = 0


class LedgerPart(Record, frozen=True):
    """Writers that an entry of the ledger names, if there are too many for one commit.

    Parts are written before their entry, which has the number of its parts. Without an entry they
    have no meaning. The numbers of the parts of a mark `seq` begin at 0.
    """

    table_name = "noted_time_ledger_part"
    key_fields = ("stream_id", "domain", "seq", "number")
    column_fields = ("appended_served_ms",)

    stream_id: str
    domain: str
    seq: int
    number: int
    appended_served_ms: int
    from_lower: int | None
    to_lower: int
    writers: tuple[Absence, ...] = ()
    returned_writers: tuple[str, ...] = ()


class Change(Record, frozen=True, omit_defaults=True):
    """A change of a stream by an operator, `at` (Unix ms), which is `changed_served_ms`.

    `old_values` and `new_values` are JSON, `by` the operator's address or a token's label and id.
    The store gives a `number`: from 1 on within a stream, without gaps.
    """

    table_name = "noted_time_change"
    key_fields = ("stream_id", "number")
    column_fields = ("changed_served_ms",)

    stream_id: str
    at: int
    changed_served_ms: int
    action: Action
    writer: str | None = None
    old_values: Mapping[str, Any] | None = None
    new_values: Mapping[str, Any] | None = None
    by: str | None = None
    comment: str | None = None
    number: int = 0

    @property
    def key(self) -> Key:
        """Return a key of the object, because it has no number yet."""
        return self.stream_id, id(self)


class BucketClock(Record, frozen=True):
    """The service clock of a bucket at its last commit."""

    table_name = "noted_time_bucket"
    key_fields = ("number",)
    column_fields = ("served_ms",)
    has_json = False

    number: int
    served_ms: int


class TokenRecord(Record, frozen=True):
    """A token: `digest` is the SHA-256 of its secret in hex, times are in Unix ms."""

    table_name = "noted_time_token"
    key_fields = ("id",)
    column_fields = ("digest", "scopes", "label", "created_at", "expires_at", "revoked_at")
    has_json = False

    id: str
    digest: str
    scopes: Mapping[str, Any]
    label: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None


RECORD_KINDS: tuple[type[Record], ...] = (
    StreamRecord,
    StoredScale,
    StoredMember,
    StoredMembership,
    AppendedMark,
    ReaderRecord,
    BacklogRecord,
    LateRecord,
    LedgerEntry,
    LedgerPart,
    Change,
    BucketClock,
)
"""The order of the records in a commit."""


class ChangeSet:
    """All writes of one transaction.

    A record replaces an earlier one with the same key. For each kind of record, a store first
    deletes the dropped ones, and then writes the others. Old data is deleted last.
    """

    def __init__(self, *records: Record) -> None:
        self._puts: defaultdict[type[Record], dict[Key, Any]] = defaultdict(dict)
        self._drops: defaultdict[type[Record], dict[Key, None]] = defaultdict(dict)
        self.expired: dict[tuple[type[Record], str], int] = {}
        self.truncated: dict[tuple[str, str], int] = {}
        self.put(*records)

    def put(self, *records: Record) -> None:
        for record in records:
            self._puts[type(record)][record.key] = record

    def drop(self, kind: type[Record], *key: Any) -> None:  # noqa: ANN401 - fields of the key
        """Delete the record with the key, and a stream with all its data.

        A stream's id is never used again, so all its other changes are dropped, too.
        """
        self._puts[kind].pop(key, None)
        self._drops[kind][key] = None
        if kind is StreamRecord:
            self._forget_stream(*key)

    def drop_old(self, kind: type[Record], stream_id: str, before: int) -> None:
        """Delete ledger entries or changes older than a service time (ms).

        The last change is kept, because its number is needed.
        """
        self.expired[kind, stream_id] = before

    def drop_marks(self, stream_id: str, domain: str, through: int) -> None:
        """Delete the marks of a domain up to a seq, except the last mark."""
        chain = stream_id, domain
        self.truncated[chain] = max(through, self.truncated.get(chain, through))

    def list_puts(self, kind: type[R]) -> ValuesView[R]:
        return self._puts.get(kind, {}).values()

    def list_drops(self, kind: type[Record]) -> Collection[Key]:
        return self._drops.get(kind, {})

    def has_changes(self, *, besides: type[Record] | None = None) -> bool:
        """Return whether anything is written or deleted, besides new records of one kind."""
        puts = (records for kind, records in self._puts.items() if kind is not besides)
        return any(puts) or any(self._drops.values()) or bool(self.expired or self.truncated)

    def free(self) -> Iterator[None]:
        """Free the records in slices, because 50,000 at once take 50 ms."""
        for records in self._puts.values():
            while len(records) > SLICE_SIZE:
                for _ in range(SLICE_SIZE):
                    records.popitem()
                yield

    def _forget_stream(self, stream_id: str) -> None:
        for kind in RECORD_KINDS:
            self._puts[kind] = _leave_out(self._puts[kind], stream_id)
            if kind is not StreamRecord:
                self._drops[kind] = _leave_out(self._drops[kind], stream_id)
        self.expired = {key: ms for key, ms in self.expired.items() if key[1] != stream_id}
        self.truncated = _leave_out(self.truncated, stream_id)


def _leave_out(by_key: dict[K, V], stream_id: str) -> dict[K, V]:
    return {key: value for key, value in by_key.items() if key[0] != stream_id}
