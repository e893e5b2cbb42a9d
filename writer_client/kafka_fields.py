"""The times in the records of a Kafka topic, each of which is read once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from confluent_kafka import Message

from noted_time.kafka.reading import TopicReader
from noted_time.values import LARGEST_TIME, LEAST_TIME, Rejected, shown_time, unix_ms_of
from writer_client.kafka_ends import SameTopic
from writer_client.posting import unix_ms

TimeOf = Callable[[Message], int | datetime | None]
Start = Literal["earliest", "latest"]

AHEAD_MS = 3_600_000
"""A stream takes no times further ahead either, unless its `max_time_ahead_ms` says so."""


class KafkaFields:
    """How far a topic was read, and how far the times in its records have come; for an observer.

    `field` is that of a JSON object: ``"departure"``, or ``"flight.departure"`` for one within
    another. Its values are integers (Unix ms) or ISO 8601 with a zone. Or it is a function of the
    `Message`, or ``"module:function"`` naming one, that returns an integer, an aware `datetime`, or
    `None` for a record without a time. Records whose time cannot be read, also because the function
    raises, are passed over: `unusable` counts them, and a warning names one at most once a minute.
    So are those whose time is more than `ahead_ms` ahead of `clock` (Unix ms), unless that is
    `None`: one of them would move its partition's time there for good.

    It begins at `known`, the position that the controller has of the writer when it is first
    called; if that has none, at the topic's `start`: its ends or its first records. Partitions that
    are added later are read from their beginning.

    Given `among`, each call reads the partitions that it returns and no others, each from the
    offset that it is mapped to; if that is 0, from `start`.

    Raises `Rejected` for a function that cannot be imported, and as `SameTopic`.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        config: Mapping[str, Any],
        topic: str,
        field: str | TimeOf,
        *,
        known: Callable[[], Mapping[int, int]] = dict,
        start: Start = "latest",
        among: Callable[[], Mapping[int, int]] | None = None,
        ahead_ms: int | None = AHEAD_MS,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        self._time_of = time_in(field) if isinstance(field, str) else _checked(field)
        self._topic = SameTopic(config, topic)
        self._known, self._start, self._among = known, start, among
        self._ahead_ms, self._clock = ahead_ms, clock
        self._reader = TopicReader(self._topic.topic)
        self._newest: dict[int, int] = {}
        self._largest = LEAST_TIME
        self._has_skipped = False

    @property
    def unusable(self) -> int:
        """How many records were passed over."""
        return self._reader.unusable

    def __call__(self) -> tuple[Mapping[int, int], Mapping[int, int | None], int | None]:
        """Return how far each partition was read, and the newest time of each with new records.

        The third is the largest time of all that was read, also of records that were passed over
        as they are far ahead; `None` if it began at ends, as what lies below is not known.

        It reads to the present ends, or for two seconds: a partition that has more is not idle.
        Raises as a look of `SameTopic`, and `Unreachable` if Kafka refuses to be read; what was
        read until then is returned by the next call.
        """
        ends = self._topic.look().ends
        if self._among is None:
            self._begin(ends)
        else:
            ends = self._begin_among(self._among(), ends)
        time_of, newest = self._time_of, self._newest
        latest = LARGEST_TIME if self._ahead_ms is None else self._clock() + self._ahead_ms
        for partition, offset, message in self._reader.read(ends):
            try:
                time = time_of(message)
            except Exception as unreadable:  # noqa: BLE001 - whatever a function of the user's raises
                self._reader.pass_over(partition, offset, unreadable)
            else:
                if time > latest:
                    self._largest = max(time, self._largest)
                    ahead = f"{shown_time(time)} is ahead of this clock"
                    self._reader.pass_over(partition, offset, Rejected(ahead))
                elif time > newest.get(partition, LEAST_TIME - 1):
                    newest[partition] = time
        behind = dict.fromkeys(self._reader.behind(ends))
        self._newest = {}
        largest = self._largest = max((self._largest, *newest.values()))
        bound = None if self._has_skipped or largest == LEAST_TIME else largest
        return dict(self._reader.position), {**behind, **newest}, bound

    def _begin(self, ends: Mapping[int, int]) -> None:
        """Read the partitions that are new from where they begin for this observer."""
        at = self._reader.position
        known = {} if at else self._known()
        is_first = not (at or known)
        for partition in ends.keys() - at.keys():
            begin = self._first(ends[partition]) if is_first else 0
            self._reader.begin(partition, known.get(partition, begin))

    def _begin_among(self, among: Mapping[int, int], ends: Mapping[int, int]) -> Mapping[int, int]:
        """Read these partitions from what was noted, and no others; returns their ends."""
        at = self._reader.position
        for partition in self._reader.keep(among):
            self._newest.pop(partition, None)
        own = {partition: end for partition, end in ends.items() if partition in among}
        for partition in own.keys() - at.keys():
            self._reader.begin(partition, among[partition] or self._first(own[partition]))
        return own

    def _first(self, end: int) -> int:
        """Return the offset at which an observer begins that has noted nothing of a partition."""
        self._has_skipped |= self._start == "latest" and end > 0
        return end if self._start == "latest" else 0


def time_in(field: str) -> Callable[[Message], int]:
    """Return what finds the time in a record: a field of JSON, or the function of a module.

    Raises `Rejected` for a function that cannot be imported.
    """
    module, colon, name = field.partition(":")
    if not colon:
        return _of_json(field)
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return _checked(attrgetter(name)(importlib.import_module(module)))
    except (ImportError, AttributeError, ValueError) as error:
        raise Rejected(f"the function {field!r} cannot be imported: {error}") from error


def timestamp(message: Message) -> int | None:
    """Return the timestamp of a record, which Kafka gives to each unless it is very old."""
    kind, time = message.timestamp()
    return time if kind else None


def _of_json(field: str) -> Callable[[Message], int]:
    kind: Any = (
        Annotated[int, msgspec.Meta(ge=LEAST_TIME, le=LARGEST_TIME)]
        | Annotated[datetime, msgspec.Meta(tz=True)]
    )
    names = field.split(".")
    for name in reversed(names):
        kind = msgspec.defstruct("Object", [("it", kind)], rename={"it": name}, gc=False)
    decode = msgspec.json.Decoder(kind).decode
    inside = attrgetter(".".join("it" for _ in names))

    def time_of(message: Message) -> int:
        time = inside(decode(message.value() or b""))
        return time if type(time) is int else unix_ms_of(time)

    return time_of


def _checked(function: TimeOf) -> Callable[[Message], int]:
    """Return a function that raises for what is no time."""

    def time_of(message: Message) -> int:
        given = function(message)
        if given is None:
            raise Rejected("the function found none")
        time = unix_ms_of(given)
        if not LEAST_TIME <= time <= LARGEST_TIME:
            raise Rejected(f"{time} is outside int64")
        return time

    return time_of
