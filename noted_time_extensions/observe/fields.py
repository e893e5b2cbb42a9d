"""Observes the times in the records of a Kafka topic, reading each record once."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Literal

from confluent_kafka import Message

from noted_time.extending import (
    FIRST_TIMES,
    IN_MS,
    LABEL_LENGTH,
    LARGEST_TIME,
    LEAST_TIME,
    NULL_WARNING,
    TWICE_WARNING,
    EventTimeForm,
    EventTimeKind,
    FirstPass,
    LateRows,
    LogFact,
    NotObservable,
    Nulls,
    PassedOver,
    Passes,
    Rejected,
    TimeForm,
    TopicLook,
    TopicReader,
    Unreachable,
    describe_form,
    find_arrival,
    format_line,
    format_time,
)
from noted_time_extensions.observe.event_times import (
    EventTime,
    NullParent,
    NullTime,
    TimeOf,
    make_time_getter,
    make_values_getter,
)
from writer_client import Seen, WriterClient
from writer_client.extending import CLOCK_AHEAD_MS, LateHours, TopicPoller, unix_ms

log = logging.getLogger("noted_time.observer")

Start = Literal["earliest", "latest"]

AHEAD_MS = 300_000  # clocks differ, but not by hours

FIRST_DISTANCE = 16  # records below the position at the start
MOST_READ_BACK = 1000


class RecordTimes(TopicPoller):
    """The base of observers that read each record once, from the noted position."""

    _time_of: Callable[[Message], EventTime]
    _start: Start = "earliest"
    _latest = LARGEST_TIME
    _client: WriterClient | None = None

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        known: Callable[[], Mapping[int, int]] = dict,
        ahead_ms: int | None = AHEAD_MS,
        clock: Callable[[], int] = unix_ms,
        passes: Passes | None = None,
        nulls: Nulls = "hold",
    ) -> None:
        super().__init__(config, topic, clock)
        self._nulls = nulls
        self._passed = PassedOver(passes, now=clock())
        self._reader = TopicReader(self._topic)
        self._known = known
        self._ahead_ms = ahead_ms
        self._moved_by: dict[int, LogFact] = {}
        self._times: dict[int, int] = {}
        self._reached: dict[int, int] = {}
        self._largest = LEAST_TIME
        self._has_skipped = False
        self.without_value = 0
        self.without_time = 0
        self.null_times = 0
        self.twice = 0
        self._late = LateHours()

    @property
    def unusable(self) -> int:
        return self._reader.unusable

    def _read(self) -> TopicLook:
        """Read new records for at most two seconds."""
        look = self._begin()
        named_from_time = LARGEST_TIME
        if self._ahead_ms is not None:
            now = self._clock()
            self._latest = now + self._ahead_ms
            named_from_time = now + CLOCK_AHEAD_MS
        late_below = self._find_late_bound()
        times = self._times
        for partition, offset, message in self._reader.read(look.ends):
            event_time = self._find_times(partition, offset, message)
            if isinstance(event_time, int):
                least_time = event_time
                time = event_time
            elif event_time:
                least_time = min(event_time)
                time = max(event_time)
            else:
                continue
            self._reached[partition] = offset
            if time > times.get(partition, LEAST_TIME - 1):
                times[partition] = time
                if time > named_from_time:
                    self._remember_moved(partition, offset, time, message)
            if least_time < late_below and type(least_time) is not FirstPass:
                self._late.add(LateRows(1, least_time, least_time))
        for late_rows in self._late.take():
            if self._client is not None:
                self._client.wrote_late(late_rows.rows, late_rows.min_time, late_rows.max_time)
        return look

    def _find_late_bound(self) -> int:
        """Return the least time that is not late, for this look."""
        bound = None
        if self._client is not None:
            bound = self._client.late_below()
        return LEAST_TIME if bound is None else bound

    def _remember_moved(self, partition: int, offset: int, time: int, message: Message) -> None:
        fact = self._moved_by.get(partition)
        if fact is None or time > fact.time:
            key = _as_text(message.key())
            self._moved_by[partition] = LogFact("moved_by", partition, offset, time, key)

    def _build_facts(self, look: TopicLook) -> Sequence[LogFact]:
        now = self._clock()
        for partition, fact in list(self._moved_by.items()):
            if fact.time <= now:
                del self._moved_by[partition]
        return (*self._find_open_transactions(look), *self._moved_by.values())

    def _find_times(self, partition: int, offset: int, message: Message) -> EventTime:
        """Return no time for a record without an event, and for one that is passed over."""
        fault: Exception | None = None
        latest_time = LARGEST_TIME
        event_time: EventTime = []
        try:
            event_time = self._time_of(message)
        except (Unreachable, NotObservable):  # of its schema, so the record is read again
            self._reader.restart(dict(self._reader.position))
            raise
        except NullParent:
            self.without_value += 1
            return None
        except NullTime as null:
            self._take_null(partition, offset, null, message)
            return None
        except Exception as unreadable:  # noqa: BLE001 - the user's function may raise anything
            fault = unreadable
        if isinstance(event_time, int):
            time = event_time
        else:
            time = max(event_time or (), default=LEAST_TIME)
        if time > self._latest:
            self._largest = max(time, self._largest)
            fault = Rejected(f"{format_time(time)} is ahead of this clock")
            latest_time = time
        if type(time) is FirstPass:
            self.twice += 1
            if self.twice == 1:
                log.warning(TWICE_WARNING, f"Kafka topic {self._topic.name!r}")
        if event_time is None:
            self.without_time += 1
        elif event_time == [] and message.value() is None:  # a tombstone, which has no event
            self.without_value += 1
        elif fault is None:
            self._passed.end(partition)
        else:
            self._reader.pass_over(partition, offset, fault, _as_text(message.key()))
            self._passed.add(partition, offset, now=self._clock(), until=latest_time)
        return None if fault else event_time

    def _take_null(self, partition: int, offset: int, null: NullTime, message: Message) -> None:
        self.null_times += 1
        if self.null_times == 1:
            place = f"partition {partition}, offset {offset}"
            key = _as_text(message.key())
            if key:
                place += f", key {key}"
            log.warning(NULL_WARNING, f"Kafka topic {self._topic.name!r}, {place}", null)
        if self._nulls == "hold":
            self._passed.add(partition, offset, now=self._clock(), is_null=True)

    def _begin(self) -> TopicLook:
        """Poll the ends, and begin to read the partitions that are not read yet."""
        look = self._poll_ends()
        begun_partitions = self._reader.position.keys()
        noted_position: Mapping[int, int] = {}
        if not begun_partitions:
            noted_position = self._known()
        begins_at_ends = self._start == "latest" and not begun_partitions and not noted_position
        starts: dict[int, int] = {}
        for partition in look.ends.keys() - begun_partitions:
            if begins_at_ends:
                starts[partition] = look.ends[partition]
            else:
                starts[partition] = noted_position.get(partition, 0)
        if begins_at_ends:
            self._has_skipped = any(starts.values())
        if any(starts.values()):
            self._look_back({number: min(at, look.ends[number]) for number, at in starts.items()})
        self._reader.begin(starts)
        self._reached |= starts
        return look

    def _look_back(self, position: Mapping[int, int]) -> None:
        """Learn whether the newest records below a position were passed over.

        Reads back over tombstones, each time twice as far. Beyond a thousand, the record counts as
        passed over.
        """
        unusable = self._reader.unusable
        twice = self.twice
        without_value = self.without_value
        without_time = self.without_time
        null_times = self.null_times
        begins = self._topic.begins()
        self._latest = LARGEST_TIME if self._ahead_ms is None else self._clock()
        try:
            self._read_back(position, begins)
        finally:
            self._reader.restart({})
            self._reader.unusable = unusable
            self.twice = twice
            self.without_value = without_value
            self.without_time = without_time
            self.null_times = null_times

    def _read_back(self, position: Mapping[int, int], begins: Mapping[int, int]) -> None:
        """Read below a position until a record of each partition is found, or its first one."""
        distance = FIRST_DISTANCE
        starts = dict(position)
        found_partitions: set[int] = set()
        while True:
            for partition, start in list(starts.items()):
                if partition in found_partitions or start <= begins.get(partition, 0):
                    del starts[partition]
            if not starts:
                return
            for partition in starts:
                begin = begins.get(partition, 0)
                starts[partition] = max(begin, position[partition] - distance)
            ends = {partition: position[partition] for partition in starts}
            found_partitions |= self._find_newest(starts, ends)
            distance *= 2

    def _find_newest(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> set[int]:
        """Return the partitions with a record there that may hold back or advance time."""
        self._reader.restart(starts)
        found_partitions: set[int] = set()
        record_counts = Counter[int]()
        for partition, offset, message in self._reader.read(ends):
            if offset >= ends[partition]:
                continue
            count_before = self._count_without()
            self._find_times(partition, offset, message)
            if self._count_without() == count_before:
                found_partitions.add(partition)
            record_counts[partition] += 1
        unread_partitions = {*self._reader.find_behind(ends)}
        full_partitions: set[int] = set()
        for partition, count in record_counts.items():
            if count >= MOST_READ_BACK:
                full_partitions.add(partition)
        if unread_partitions - full_partitions:
            raise Unreachable(f"Kafka topic {self._topic.name!r} is not read in time")
        for partition in full_partitions - (found_partitions - unread_partitions):
            self._passed.add(partition, ends[partition] - 1, now=self._clock())
        return found_partitions | full_partitions

    def _count_without(self) -> int:
        """Return how many records were read that say nothing of their partition."""
        passed_nulls = self.null_times if self._nulls == "pass" else 0
        return self.without_value + passed_nulls


class KafkaFields(RecordTimes):
    """Reads a topic, and finds the times in its records, for an observer.

    `field` is the path of a JSON field, such as ``"flight.departure"``, also through arrays. Its
    values are numbers or ISO 8601, as described by `form`, by default Unix ms. With `TimeForm()`,
    the unit is inferred from the first records; if it is in doubt, a call raises `NotObservable`.

    `field` may also be a function of the `Message`, or its name, ``"module:function"``. The
    function returns such a value, a `datetime`, a list for several events, or `None` for no event.
    If it raises `Unreachable` or `NotObservable`, the record is not passed over.

    If a record has several events, the largest time counts, and the least time may be late.

    *Skipped records.* A record is skipped and counted (`unusable`) if its time cannot be read, or
    is more than `ahead_ms` ahead of `clock` (Unix ms). With `None`, any time is allowed. If most of
    the first times are from 1971 to 2199, records outside are skipped, except for `IN_MS`. Records
    without a value, and those with null above the field, are only counted (`without_value`), and so
    are times that stand for none, such as 0 (`without_time`).

    *Nulls.* A record whose field is null is counted (`null_times`). While it is the newest of its
    partition, this is not idle, unless `nulls` is ``"pass"`` or `passes` has it.

    *Summer time.* A local time in an hour that its zone had twice is read as of the first one, and
    counted (`twice`). It is not reported as late.

    While the newest record of a partition was skipped, the partition is not idle, until the clock
    has passed the record's time. `passes` has the partitions that do not wait, each with the last
    skipped offset, or with `None` if later records are skipped too; with `"all"`, none waits.

    *Start.* Reading begins at `known`, the writer's position at the controller. Without a position,
    `start` is the `latest` or the `earliest` record. Partitions added later are read from their
    beginning.

    With a `client`, late records are reported as late rows. Raises `Rejected` if the function
    cannot be imported, and as `KafkaEnds`.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        config: Mapping[str, Any],
        topic: str,
        field: str | TimeOf,
        *,
        known: Callable[[], Mapping[int, int]] = dict,
        start: Start = "latest",
        ahead_ms: int | None = AHEAD_MS,
        clock: Callable[[], int] = unix_ms,
        client: WriterClient | None = None,
        form: TimeForm = IN_MS,
        passes: Passes | None = None,
        nulls: Nulls = "hold",
    ) -> None:
        self._field = field
        self._form = form
        self._kind: EventTimeKind | None = None
        self._time_of = make_time_getter(field, form)
        super().__init__(
            config, topic, known=known, ahead_ms=ahead_ms, clock=clock, passes=passes, nulls=nulls
        )
        self._start = start
        self._client = client

    @property
    def event_time_form(self) -> EventTimeForm | None:
        """How the field is read. `None` before its first values, and for a function."""
        if self._kind is None or not isinstance(self._field, str) or ":" in self._field:
            return None
        return describe_form(self._field, self._kind, self._form)

    def __call__(self) -> Seen:
        """Return the position, and the newest time of each partition with new records.

        The largest time includes skipped records; it is `None` if reading began at ends.

        Reads to the current ends, for at most two seconds. A partition with more records, even in
        an open transaction, is not idle.
        """
        look = self._read()
        now = self._clock()
        if self._passed.find_waiting(now=now):
            self._passed.drop_below(self._topic.begins())
        active_partitions = self._open.find_active(look.high, self._reader.position)
        active_partitions |= self._passed.find_active(now=now)
        newest_times: dict[int, int | None] = dict.fromkeys(active_partitions)
        newest_times |= self._times
        self._largest = max((self._largest, *self._times.values()))
        self._times = {}
        largest_time = None
        if not self._has_skipped and self._largest != LEAST_TIME:
            largest_time = self._largest
        facts = (*self._passed.list_facts(now=now), *self._build_facts(look))
        return Seen(dict(self._reader.position), newest_times, largest_time, facts)

    def _begin(self) -> TopicLook:
        look = super()._begin()
        if self._form.bounds is None and self._reader.find_behind(look.ends):
            self._judge_form(dict(self._reader.position), look.ends)
        return look

    def _look_back(self, position: Mapping[int, int]) -> None:
        if self._form.bounds is None:
            begins = self._topic.begins()
            starts: dict[int, int] = {}
            for partition, offset in position.items():
                starts[partition] = max(begins.get(partition, 0), offset - MOST_READ_BACK)
            with suppress(NotObservable):  # earlier records may have had another unit
                self._judge_form(starts, position)
        super()._look_back(position)

    def _judge_form(self, starts: Mapping[int, int], ends: Mapping[int, int]) -> None:
        """Infer the unit and the kind of the first times there. The reader's position is kept."""
        position = dict(self._reader.position)
        values: list[object] = []
        timestamps: list[int] = []
        values_of = make_values_getter(self._field)
        self._reader.restart(starts)
        try:
            for _, _, message in islice(self._reader.read(ends), FIRST_TIMES):
                try:
                    values += values_of(message)
                    timestamps.append(message.timestamp()[1])
                except (Unreachable, NotObservable):
                    raise
                except Exception:  # noqa: BLE001, S112 - it is named when it is read again
                    continue
        finally:
            self._reader.restart(position)
        if values:
            self._kind = "text" if isinstance(values[0], str) else "number"
        name = self._field if isinstance(self._field, str) else "the function"
        arrival = find_arrival(timestamps, unix_ms())
        self._form = self._form.judge(name, values, arrival)
        self._time_of = make_time_getter(self._field, self._form)


def _as_text(key: bytes | str | None) -> str | None:
    if isinstance(key, bytes):
        try:
            key = key.decode()
        except UnicodeDecodeError:
            return None
    if not key or not key.isprintable():
        return None
    return format_line(key, LABEL_LENGTH)
