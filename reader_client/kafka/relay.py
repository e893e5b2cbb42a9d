"""Copies the marks of a stream to a Kafka topic, where consumers can read them."""

from __future__ import annotations

import time as clocks
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Message, Producer
from msgspec.structs import replace

from noted_time.client.arguments import refuse_url
from noted_time.client.polling import PollingLoop
from noted_time.client.transport import Transport
from noted_time.kafka.connecting import create_client
from noted_time.kafka.noted_topic import NotedRecord, name_noted_topic
from noted_time.kafka.records import TopicReader
from noted_time.kafka.topic import Topic
from noted_time.reading import NEW_SEGMENT_MS, RelayQueue, describe_difference
from noted_time.values import MAX_INT64, AnotherLog, Mark, Rejected, Unreachable, validate_name
from reader_client.protocol.answers import StreamReply
from reader_client.protocol.questions import MARKS_PER_PAGE, ask_marks, ask_stream

POLL_MS = 100
LOOK_MS = 1000

WARN_AFTER_MS = 30_000

TOPIC_SETTINGS = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
PRODUCER_SETTINGS = {
    "enable.idempotence": True,
    "message.timeout.ms": 10_000,
    "queue.buffering.max.messages": 1_000_000,
}
FLUSH_TIMEOUT_S = 12.0
MAX_EXCLUDED = 1000  # Kafka limits a record's size


class KafkaRelay(PollingLoop):
    """Writes each mark to TOPIC.noted once all records below its cut are committed and readable.

    Several relays may run. Each continues at the end of the noted topic, and skips marks over
    10,000 behind the last. The relay stops after the final mark of a sealed stream.
    """

    @refuse_url("config, topic, controller=URL")
    def __init__(  # noqa: PLR0913 - two of them are positional
        self,
        config: Mapping[str, Any],
        topic: str,
        *,
        controller: str,
        stream: str | None = None,
        domains: Collection[str] = (),
        token: str | None = None,
        new_partition_ms: int = NEW_SEGMENT_MS,
    ) -> None:
        """Create a relay for all `domains`, by default, of a `stream` with the topic's name.

        `config` is a configuration of librdkafka.
        """
        super().__init__(validate_name("stream", stream or topic), POLL_MS, "relay", "relayed")
        self.topic = Topic(config, topic)
        self.noted = Topic(config, name_noted_topic(topic))
        self.is_over = False
        self._domains = domains
        self._transport = Transport(controller, token=token)
        self._queue = RelayQueue(new_partition_ms)
        self._stream: StreamReply | None = None
        self._reader: TopicReader | None = None
        self._producer: Producer | None = None
        self._warn_at = MAX_INT64

    def look(self) -> None:
        """Write the marks that may be written now, or wait for up to a second for one.

        Raises `Unreachable` if the next look may succeed, and `Rejected` if the relay has to end:

        - The topic, stream or domain is unknown or was deleted.
        - The noted topic has a record of another stream or topic, or of another program.
        - A record differs from the controller's mark.
        """
        stream = self._ask_about_stream()
        if self._reader is None and not self._read_noted(stream, self.topic.look_again().id):
            return
        domains = self._domains or stream.domains
        wait_ms = 0 if any(self._queue.waiting.values()) else LOOK_MS // len(domains)
        for domain in domains:
            self._ask_for_marks(stream, domain, wait_ms)
        look = self.topic.look_again(committed=True)
        now = clocks.monotonic_ns() // 1_000_000
        self._queue.look(look.ends, now)
        self._read_noted(stream, look.id)
        records: list[NotedRecord] = []
        for domain, mark in self._queue.due(now):
            short_mark = replace(mark, excluded=mark.excluded[:MAX_EXCLUDED])
            records.append(NotedRecord(self.stream, stream.id, domain, look.id, short_mark))
        self._write(records)
        self._warn_of_waiting(now)
        last_marks = [self._queue.last.get(domain) for domain in domains]
        if not records and all(mark is not None and mark.final for mark in last_marks):
            self.is_over = True
            self.stop()

    def check_refusals(self) -> None:
        """Do nothing; `look` raises all refusals."""

    def close(self) -> None:
        """Stop, and raise the error that ended the thread."""
        with closing(self._transport), closing(self._reader or self._transport):
            super().close()

    def _ask_about_stream(self) -> StreamReply:
        stream = self._transport.ask(ask_stream(self.stream))
        former_stream = self._stream
        self._stream = stream
        if former_stream is not None and former_stream.id != stream.id:
            raise self._build_outdated(f"stream {self.stream!r} was deleted and created again")
        for domain, relayed_mark in self._queue.last.items():
            last_seq = stream.last_seqs.get(domain, 0)
            if relayed_mark.seq > last_seq:
                raise self._build_outdated(
                    f"stream {self.stream!r}, domain {domain!r}, went back to mark {last_seq}, as "
                    f"after a restored backup: mark {relayed_mark.seq} was relayed"
                )
        return stream

    def _ask_for_marks(self, stream: StreamReply, domain: str, wait_ms: int) -> None:
        if len(self._queue.waiting[domain]) >= MARKS_PER_PAGE:
            return
        after = max(0, stream.last_seqs.get(domain, 0) - MARKS_PER_PAGE)
        newest_mark = self._queue.newest(domain)
        if newest_mark is not None:
            after = max(after, newest_mark.seq)
        answer = self._transport.ask(ask_marks(self.stream, after, domain, wait_ms))
        if answer.stream_id == stream.id:
            is_all = answer.final_cut is not None and not answer.marks
            self._queue.add(domain, answer.marks, is_all=is_all)

    def _read_noted(self, stream: StreamReply, topic_id: str | None) -> bool:
        AnotherLog.check(self.stream, stream.logs, topic_id)
        name = f"Kafka topic {self.noted.name!r}"
        try:
            look = self.noted.look_again()
        except Rejected as error:
            if self._reader is not None:
                raise self._build_outdated(f"{name} was deleted: {error}") from error
            self.noted.create(TOPIC_SETTINGS)
            self._log.warning("created %s: one partition, compacted", name)
            return False
        if len(look.partitions) > 1:
            raise self._build_outdated(
                f"{name} has {len(look.partitions)} partitions, and marks need one"
            )
        self.noted.check_leaders(look.unknown)
        if self._reader is None:
            begin = max(self.noted.begins().get(0, 0), look.ends[0] - MARKS_PER_PAGE)
            self._reader = TopicReader(self.noted)
            self._reader.begin({0: begin})
        self._take_records(self._reader.read(look.ends), stream, topic_id)
        if self._reader.find_behind(look.ends):
            raise Unreachable(f"{name} has a transaction of another program, which is open")
        return True

    def _take_records(
        self, records: Iterable[tuple[int, int, Message]], stream: StreamReply, topic_id: str | None
    ) -> None:
        name = f"Kafka topic {self.noted.name!r}"
        relay_source = _Source(self.stream, stream.id, topic_id)
        unexpected_marks: dict[str, list[tuple[int, Mark]]] = {}
        for _, offset, message in records:
            try:
                record = NotedRecord.read(message.value())
            except Rejected as error:
                raise self._build_outdated(f"{name}, offset {offset}: {error}") from error
            log = topic_id if record.topic_id in stream.logs else record.topic_id
            record_source = _Source(record.stream, record.stream_id, log)
            if record_source != relay_source:
                raise self._build_outdated(
                    f"{name}, offset {offset}: this is a mark of {record_source}, and the relay is "
                    f"of {relay_source}. If another relay writes it, end that one"
                )
            if not self._queue.is_waiting(record.domain, record.mark):
                unexpected_marks.setdefault(record.domain, []).append((offset, record.mark))
            self._queue.record_written(record.domain, record.mark)
        for domain, marks in unexpected_marks.items():
            # The relay continues from the last mark, and readers use the largest lower.
            marks_to_compare = dict([marks[-1], max(marks, key=_get_lower)])
            for offset, mark in marks_to_compare.items():
                self._compare(stream, domain, mark, f"{name}, offset {offset}")

    def _compare(self, stream: StreamReply, domain: str, mark: Mark, record_name: str) -> None:
        answer = self._transport.ask(ask_marks(self.stream, mark.seq - 1, domain, 0, 1))
        if not answer.marks or answer.stream_id != stream.id:
            return
        difference = describe_difference(mark, answer.marks[0])
        if difference:
            raise self._build_outdated(
                f"{record_name}: mark {mark.seq} of domain {domain!r} has {difference}. Another "
                "program wrote it: let only relays write there"
            )

    def _build_outdated(self, reason: str) -> Rejected:
        return Rejected(
            f"{reason}. Delete Kafka topic {self.noted.name!r}, start the relay again, and begin "
            "queries on it with a new checkpoint"
        )

    def _write(self, records: Iterable[NotedRecord]) -> None:
        errors: list[KafkaError] = []

        def record_error(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                errors.append(error)

        producer = self._producer or create_client(
            Producer, {**self.noted.connection, **PRODUCER_SETTINGS}
        )
        self._producer = None  # its unsent records must not be sent later
        for record in records:
            producer.produce(
                self.noted.name,
                record.value,
                record.domain.encode(),
                partition=0,
                timestamp=clocks.time_ns() // 1_000_000,
                on_delivery=record_error,
            )
        if producer.flush(FLUSH_TIMEOUT_S) or errors:
            reason = errors[0].str() if errors else "no answer"
            raise Unreachable(f"Kafka topic {self.noted.name!r} takes no marks: {reason}")
        self._producer = producer

    def _warn_of_waiting(self, now: int) -> None:
        warning = self._describe_waiting_mark()
        if warning is None:
            self._warn_at = now + WARN_AFTER_MS
        elif now >= self._warn_at:
            self._warn_at = MAX_INT64
            self._log.warning(warning)

    def _describe_waiting_mark(self) -> str | None:
        """Return which partition a first mark waits for, `None` if no mark waits."""
        for domain, marks in self._queue.waiting.items():
            if not marks:
                continue
            mark = marks[0]
            for lack in self._queue.find_lacking(mark):
                return (
                    f"mark {mark.seq} of stream {self.stream!r}, domain {domain!r}, waits: "
                    f"partition {lack.segment} of Kafka topic {self.topic.name!r} is readable to "
                    f"{lack.offset}, and the cut has {lack.needed}. It has an open transaction, "
                    "or no leader"
                )
        return None


class _Source(NamedTuple):
    """Where a mark is from: a stream, and the log that its positions refer to."""

    stream: str
    stream_id: str
    log: str | None

    def __str__(self) -> str:
        return f"stream {self.stream!r} with id {self.stream_id} over topic id {self.log}"


def _get_lower(place: tuple[int, Mark]) -> int:
    return place[1].lower
