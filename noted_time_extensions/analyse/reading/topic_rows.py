"""Read rows of a Kafka topic once, as read_committed consumers see them, without a group."""

from __future__ import annotations

import time as clocks
from array import array
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message
from rich.console import Console
from rich.progress import Progress

from noted_time.extending import (
    FIRST_TIMES,
    FirstPass,
    NotObservable,
    Rejected,
    TimeForm,
    Topic,
    TopicReader,
    Unreachable,
    find_arrival,
    format_time,
    join_names,
    pluralize,
)
from noted_time_cli.extending import say
from noted_time_extensions.analyse.reading.rows import Rows
from noted_time_extensions.analyse.reading.timestamps import (
    describe_event_timestamps,
    find_event_timestamps,
    order_by_offset,
)
from noted_time_extensions.observe.extending import (
    NullParent,
    get_timestamp,
    make_time_getter,
    make_values_getter,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from noted_time.extending import TopicLook
    from noted_time_extensions.observe.extending import TimeOf

READ_S = 0.5

Who = Callable[[Message], str]


def read_topic(  # noqa: PLR0913 - one parameter for each flag
    config: Mapping[str, Any],
    name: str,
    field: str | None,
    time: str | TimeOf | None,
    form: TimeForm,
    *,
    who: str | None,
    since_ms: int | None,
    max_records: int,
    live_ms: int | None,
) -> Rows:
    """Read the last records, or the records of the next `live_ms`."""
    topic = Topic(config, name)
    look = topic.look_again(committed=True)
    topic.check_leaders(look.unknown)
    notices: list[str] = []
    with suppress(Rejected):  # the client may not read the settings
        if "compact" in topic.settings().get("cleanup.policy", ""):
            notices.append(f"{name} is compacted: its replaced records are not judged.")
    reading = _Reading(field, get_timestamp if time is None else time, form, who)
    with closing(TopicReader(topic)) as reader:
        if live_ms is not None:
            reader.begin(look.ends)
            notices += _follow(topic, reader, reading, live_ms)
        else:
            begins = _find_begins(topic, look, since_ms, max_records, notices)
            reader.begin(begins)
            _read(reader, reading, begins, look.ends)
    topic.look_again()  # raises if the topic was recreated
    return reading.build_rows(topic, notices, is_live=live_ms is not None)


def _find_begins(
    topic: Topic, look: TopicLook, since_ms: int | None, max_records: int, notices: list[str]
) -> dict[int, int]:
    """Return where to begin in each partition, and add the skipped records to `notices`.

    The order matters: the age narrows the kept records, and the number narrows the rest.
    """
    first_offsets = topic.begins()
    topic.check_leaders(look.ends.keys() - first_offsets.keys())
    begins = {partition: first_offsets[partition] for partition in look.ends}
    deleted_count = sum(begin > 0 for begin in begins.values())
    if deleted_count:
        partitions = pluralize(deleted_count, "partition")
        notices.append(f"Records that were deleted from {partitions} are not judged.")
    if since_ms is not None:
        since = int(clocks.time() * 1000) - since_ms
        offsets_at_since = topic.offsets_at(since)
        has_all = True
        for partition, begin in begins.items():
            if offsets_at_since[partition] > begin:
                has_all = False
                begins[partition] = offsets_at_since[partition]
        if has_all:
            notices.append(f"The log has nothing before {format_time(since)}: all of it is read.")
    counts = {partition: look.ends[partition] - begin for partition, begin in begins.items()}
    empty_partitions = [str(partition) for partition, count in counts.items() if count <= 0]
    if empty_partitions:
        notices.append(f"Without a record: partition {join_names(empty_partitions)}.")
    record_count = sum(counts.values())
    if record_count <= max_records:
        return begins
    read_count = 0
    for partition, count in counts.items():
        share = _divide_up(count * max_records, record_count)
        begins[partition] = look.ends[partition] - share
        read_count += share
    notices.append(
        f"The last {read_count:,} of {record_count:,} records are read, an equal share of each "
        "partition; --records takes more."
    )
    return begins


def _divide_up(number: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-number // divisor)


def _read(
    reader: TopicReader, reading: _Reading, begins: Mapping[int, int], ends: Mapping[int, int]
) -> None:
    total = sum(ends[partition] - begins[partition] for partition in ends)
    say(f"Reading {pluralize(total, 'record')} of {pluralize(len(ends), 'partition')}.")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=total)
        while reader.find_behind(ends):
            for partition, offset, message in reader.read(ends, for_s=READ_S):
                if offset < ends[partition]:
                    reading.take(partition, message)
            read_count = 0
            for partition, end in ends.items():
                read_count += min(reader.position[partition], end) - begins[partition]
            progress.update(bar, completed=read_count)


def _follow(topic: Topic, reader: TopicReader, reading: _Reading, live_ms: int) -> list[str]:
    until = clocks.monotonic() + live_ms / 1000
    say("Reading new records. Ctrl-C stops reading and shows the results.")
    try:
        while clocks.monotonic() < until:
            log_ends = topic.look(committed=True).ends
            ends = {
                partition: end
                for partition, end in log_ends.items()
                if partition in reader.position
            }
            for partition, _, message in reader.read(ends, for_s=READ_S):
                reading.take(partition, message, int(clocks.time() * 1000))
            clocks.sleep(0.1)
    except KeyboardInterrupt:
        pass
    return ["Rows came in when this machine read them, by its clock."]


class _Reading:
    """The columns of the rows read so far."""

    def __init__(
        self, field: str | None, time: str | TimeOf, form: TimeForm, name_option: str | None
    ) -> None:
        self._field = field
        self._form = form
        self._time_of = make_time_getter(time, form)
        self._values_of = make_values_getter(time)
        self._first_values: list[object] = []
        self._name_option = name_option
        self._name_of: Who | None = None
        if name_option is not None:
            self._name_of = _make_name_getter(name_option)
        self._times = array("q")
        self._timestamps = array("q")
        self._partitions = array("i")
        self._offsets = array("q")
        self._producers = array("q")
        self._appended = array("b")
        self._name_numbers = array("i")
        self._names: dict[str, int] = {}
        self._second: dict[int, int] = {}
        self._without = 0
        self._without_value = 0
        self._refused: Exception | None = None

    def take(self, partition: int, message: Message, now: int | None = None) -> None:
        try:
            event_times = self._time_of(message)
            if len(self._first_values) < FIRST_TIMES:
                self._first_values += self._values_of(message)
        except (Unreachable, NotObservable):
            raise
        except NullParent:
            self._without_value += 1
            return
        except Exception as error:  # noqa: BLE001 - a user's function may raise any error
            if message.value() is None:
                self._without_value += 1
                return
            self._refused = self._refused or error
            self._without += 1
            return
        times = [event_times] if isinstance(event_times, int) else event_times or ()
        kind, stamp = message.timestamp()
        group_name = None if self._name_of is None else self._name_of(message)
        producer = hash(message.key() if group_name is None else group_name)
        for time in times:
            if isinstance(time, FirstPass):
                self._second[len(self._times)] = time.second
            self._producers.append(producer)
            self._appended.append(kind == TIMESTAMP_LOG_APPEND_TIME)
            self._times.append(time)
            self._timestamps.append(stamp if now is None else now)
            self._partitions.append(partition)
            self._offsets.append(message.offset() or 0)
            if group_name is not None:
                self._name_numbers.append(self._names.setdefault(group_name, len(self._names)))

    def build_rows(self, topic: Topic, notices: list[str], *, is_live: bool) -> Rows:
        if not self._times:
            raise Rejected(self._describe_nothing(topic.name))
        event_time = self._field or "timestamp"
        arrival = find_arrival(self._timestamps[:FIRST_TIMES], int(clocks.time() * 1000))
        self._form.judge(event_time, self._first_values, arrival)
        if self._field is None and all(self._appended):
            raise Rejected(
                f"the timestamps of {topic.name} are its brokers' and rise: name the event time "
                "in the records with --field"
            )
        arrivals: NDArray[np.int64] | None = None
        if is_live:
            arrivals = np.asarray(self._timestamps)
        elif self._field is not None:
            arrivals, arrival_notices = self._find_arrivals(event_time.rpartition(".")[2])
            notices = [*arrival_notices, *notices]
        if self._without_value:
            notices.append(f"{pluralize(self._without_value, 'record')} without a value skipped.")
        if self._refused is not None:
            notices.append(f"The first record without {event_time}: {self._refused}.")
        group_names: NDArray[Any] | None = None
        if self._names:
            group_names = np.array(list(self._names))[np.asarray(self._name_numbers)]
        times = np.asarray(self._times)
        second_times: NDArray[np.int64] | None = None
        if self._second:
            second_times = times.copy()
            second_times[[*self._second]] = [*self._second.values()]
        return Rows(
            event_time.rpartition(".")[2],
            times,
            np.asarray(self._partitions),
            np.asarray(self._offsets),
            arrivals,
            self._name_option,
            group_names,
            self._without,
            notices,
            topic.id,
            second_times,
        )

    def _find_arrivals(self, event_time: str) -> tuple[NDArray[np.int64] | None, list[str]]:
        """Return the arrivals, `None` if no timestamp is one, and what to say about them."""
        timestamps = np.asarray(self._timestamps)
        partitions = np.asarray(self._partitions)
        is_appended = np.asarray(self._appended, dtype=np.bool_)
        if is_appended.all():
            return timestamps, ["Records came in at their timestamps, which are their brokers'."]
        is_unknown = ~is_appended & find_event_timestamps(
            np.asarray(self._times), timestamps, partitions, np.asarray(self._producers)
        )
        notice = describe_event_timestamps(event_time, is_unknown)
        if is_unknown.all():
            return None, [notice]
        clocks_notice = (
            "Records came in at their timestamps, which are their producers', by their clocks."
        )
        if not is_unknown.any():
            return timestamps, [clocks_notice]
        return order_by_offset(timestamps, partitions, is_unknown), [clocks_notice, notice]

    def _describe_nothing(self, topic: str) -> str:
        if not self._without:
            return f"{topic} has no records to judge: is it the right topic, and was it written to?"
        return f"none of {pluralize(self._without, 'record')} has a time: {self._refused}"


def _make_name_getter(name_option: str) -> Who:
    kind, _, name = name_option.partition(":")
    if name_option == "key":
        return lambda message: _format_text(message.key())
    if kind == "header" and name:
        return lambda message: _format_text(dict(message.headers() or ()).get(name))
    if kind == "field" and name:
        path = name.split(".")
        return lambda message: _get_inside(message.value(), path)
    raise Rejected(f"--who {name_option!r} is none of key, header:NAME and field:a.b")


def _get_inside(value: Any, path: list[str]) -> str:  # noqa: ANN401 - as Kafka's
    try:
        inner_value = msgspec.json.decode(value or b"")
        for name in path:
            inner_value = inner_value[name]
    except (msgspec.DecodeError, LookupError, TypeError):
        return "-"
    return str(inner_value)


def _format_text(value: Any) -> str:  # noqa: ANN401 - as Kafka's
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value or "-")
