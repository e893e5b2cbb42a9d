"""The noted topic of a topic: its marks as records, for readers that ask no controller.

A record's key is its domain in UTF-8, its value the JSON of a `NotedRecord`. There is one
partition, and the records of a domain are in no order that a reader may rely on: relays that run
side by side, or start again, write marks again. The largest `lower` counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from noted_time.client import MISREAD, mark_from_wire, mark_to_wire, text
from noted_time.values import Mark, Rejected

SUFFIX = ".noted"
SHOWN = 80


@dataclass(frozen=True, slots=True)
class NotedRecord:
    """A mark, and what it is of.

    `stream_id` is the creation id of the stream, `topic_id` that of the events' topic or `None` if
    the broker gives none. All that the cut names was readable when this was written, for
    read_committed readers too.

    >>> from noted_time.values import StreamCut
    >>> record = NotedRecord("flights", "9f", "default", None, Mark(1, 10, 14, StreamCut({0: 7})))
    >>> record.value  # doctest: +ELLIPSIS
    b'{"stream":"flights","stream_id":"9f","domain":"default","topic_id":null,"seq":1,...}'
    >>> NotedRecord.read(record.value) == record
    True
    """

    stream: str
    stream_id: str
    domain: str
    topic_id: str | None
    mark: Mark

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return self.domain.encode()

    @property
    def value(self) -> bytes:
        """The value of the record."""
        of = {
            "stream": self.stream,
            "stream_id": self.stream_id,
            "domain": self.domain,
            "topic_id": self.topic_id,
        }
        return json.dumps(of | mark_to_wire(self.mark), separators=(",", ":")).encode()

    @classmethod
    def read(cls, value: bytes | None) -> NotedRecord:
        """Return a record from its value; raises `Rejected` if no relay has written it.

        >>> NotedRecord.read(b"[1]")
        Traceback (most recent call last):
            ...
        noted_time.Rejected: no relay has written b'[1]'
        """
        try:
            wire = json.loads(value or b"")
            topic_id = wire["topic_id"]
            return cls(
                stream=text(wire["stream"]),
                stream_id=text(wire["stream_id"]),
                domain=text(wire["domain"]),
                topic_id=None if topic_id is None else text(topic_id),
                mark=mark_from_wire(wire),
            )
        except (*MISREAD, RecursionError) as error:
            raise Rejected(f"no relay has written {value!r:.{SHOWN}}") from error


def noted_topic_of(topic: str) -> str:
    """Return the name of a topic's noted topic.

    >>> noted_topic_of("flights")
    'flights.noted'
    """
    return topic + SUFFIX
