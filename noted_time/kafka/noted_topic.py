"""Encodes marks as records of a Kafka topic, for readers that ask no controller.

The *noted topic* has one partition, and the key of a record is its domain. Several relays may
repeat marks, so a reader keeps the largest `lower`.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from noted_time.coding import DECODE_ERRORS, build_decoder, convert_to_json, encode
from noted_time.values import Mark, Rejected


def name_noted_topic(topic: str) -> str:
    return f"{topic}.noted"


class _MarkedTopic(Struct, frozen=True):
    stream: str
    stream_id: str
    domain: str
    topic_id: str | None


class NotedRecord(_MarkedTopic, frozen=True):
    """A mark with its domain, its stream, and the id of the events' topic, `None` if unknown.

    >>> from noted_time.values import StreamCut
    >>> record = NotedRecord("flights", "9f", "default", None, Mark(1, 10, 14, StreamCut({0: 7})))
    >>> record.value  # doctest: +ELLIPSIS
    b'{"stream":"flights","stream_id":"9f","domain":"default","topic_id":null,"seq":1,...}'
    >>> NotedRecord.read(record.value) == record
    True
    """

    mark: Mark

    @property
    def value(self) -> bytes:
        return encode(
            {name: getattr(self, name) for name in _MarkedTopic.__struct_fields__}
            | convert_to_json(self.mark)
        )

    @classmethod
    def read(cls, value: bytes | None) -> NotedRecord:
        try:
            marked_topic = build_decoder(_MarkedTopic).decode(value or b"")
            mark = build_decoder(Mark).decode(value or b"")
        except DECODE_ERRORS as error:
            raise Rejected(f"no relay has written {value!r:.80}") from error
        return cls(**asdict(marked_topic), mark=mark)
