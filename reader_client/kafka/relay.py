"""Copies the marks of a stream to a Kafka topic, where consumers can read them."""

from __future__ import annotations

import time as clocks
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from msgspec.structs import replace

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

POLL_MS, LOOK_MS = 100, 1000

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

    def __init__(  # noqa: PLR0913 - three of them are positional
        self,
        config: Mapping[str, Any],
        topic: str,
        url: str,
        *,
        stream: str | None = None,
        domains: Collection[str] = (),
        token: str | None = None,
        new_partition_ms: int = NEW_SEGMENT_MS,
    ) -> None:
        """Create a relay for all `domains`, by default, of a `stream` with the topic's name.

        `config` is a configuration of librdkafka.
        """
        super().__init__(validate_name("stream", stream or topic), POLL_MS, "relay", "relayed")
        self.topic, self.noted = Topic(config, topic), Topic(config, name_noted_topic(topic))
        self.is_over = False
        self._domains = domains
        self._transport = Transport(url, token=token)
        self._queue = RelayQueue(new_partition_ms)
        self._known: StreamReply | None = None
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
        look, now = self.topic.look_again(committed=True), clocks.monotonic_ns() // 1_000_000
        self._queue.look(look.ends, now)
        self._read_noted(stream, look.id)
        due = self._queue.due(now)
        marks = ((d, replace(mark, excluded=mark.excluded[:MAX_EXCLUDED])) for d, mark in due)
        self._write(NotedRecord(self.stream, stream.id, d, look.id, mark) for d, mark in marks)
        self._warn_of_waiting(now)
        last = map(self._queue.last.get, domains)
        if not due and all(mark is not None and mark.final for mark in last):
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
        before, self._known = self._known or stream, stream
        if before.id != stream.id:
            raise self._build_outdated(f"stream {self.stream!r} was deleted and created again")
        for domain, last in self._queue.last.items():
            if last.seq > (known := stream.last_seqs.get(domain, 0)):
                raise self._build_outdated(
                    f"stream {self.stream!r}, domain {domain!r}, went back to mark {known}, as "
                    f"after a restored backup: mark {last.seq} was relayed"
                )
        return stream

    def _ask_for_marks(self, stream: StreamReply, domain: str, wait_ms: int) -> None:
        if len(self._queue.waiting[domain]) < MARKS_PER_PAGE:
            newest, last_seq = self._queue.newest(domain), stream.last_seqs.get(domain, 0)
            after = max(0, last_seq - MARKS_PER_PAGE, newest.seq if newest else 0)
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
        ours = self.stream, stream.id, topic_id
        doubtful: dict[str, list[tuple[int, Mark]]] = {}
        for _, offset, message in records:
            try:
                record = NotedRecord.read(message.value())
            except Rejected as error:
                raise self._build_outdated(f"{name}, offset {offset}: {error}") from error
            log = topic_id if record.topic_id in stream.logs else record.topic_id
            theirs = record.stream, record.stream_id, log
            if theirs != ours:
                two = ["stream {!r} with id {} over topic id {}".format(*x) for x in (theirs, ours)]
                raise self._build_outdated(
                    f"{name}, offset {offset}: this is a mark of {two[0]}, and the relay is of "
                    f"{two[1]}. If another relay writes it, end that one"
                )
            if not self._queue.is_waiting(record.domain, record.mark):
                doubtful.setdefault(record.domain, []).append((offset, record.mark))
            self._queue.record_written(record.domain, record.mark)
        for domain, marks in doubtful.items():
            # The relay continues from the last mark, and readers use the largest lower.
            judged = dict([marks[-1], max(marks, key=lambda each: each[1].lower)])
            for offset, mark in judged.items():
                self._compare(stream, domain, mark, f"{name}, offset {offset}")

    def _compare(self, stream: StreamReply, domain: str, mark: Mark, where: str) -> None:
        answer = self._transport.ask(ask_marks(self.stream, mark.seq - 1, domain, 0, 1))
        if answer.marks and answer.stream_id == stream.id:
            differs = describe_difference(mark, answer.marks[0])
            if differs:
                raise self._build_outdated(
                    f"{where}: mark {mark.seq} of domain {domain!r} has {differs}. Another program "
                    "wrote it: let only relays write there"
                )

    def _build_outdated(self, why: str) -> Rejected:
        return Rejected(
            f"{why}. Delete Kafka topic {self.noted.name!r}, start the relay again, and begin "
            "queries on it with a new checkpoint"
        )

    def _write(self, records: Iterable[NotedRecord]) -> None:
        failed: list[KafkaError] = []
        producer = self._producer or create_client(
            Producer, {**self.noted.connection, **PRODUCER_SETTINGS}
        )
        self._producer = None  # its unsent records must not be sent later
        for each in records:
            producer.produce(
                self.noted.name,
                each.value,
                each.domain.encode(),
                partition=0,
                timestamp=clocks.time_ns() // 1_000_000,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        if producer.flush(FLUSH_TIMEOUT_S) or failed:
            why = failed[0].str() if failed else "no answer"
            raise Unreachable(f"Kafka topic {self.noted.name!r} takes no marks: {why}")
        self._producer = producer

    def _warn_of_waiting(self, now: int) -> None:
        first = {domain: marks[0] for domain, marks in self._queue.waiting.items() if marks}
        lacking = [
            (d, mark, at) for d, mark in first.items() for at in self._queue.find_lacking(mark)
        ]
        if not lacking:
            self._warn_at = now + WARN_AFTER_MS
        elif now >= self._warn_at:
            self._warn_at = MAX_INT64
            domain, mark, at = lacking[0]
            self._log.warning(
                f"mark {mark.seq} of stream {self.stream!r}, domain {domain!r}, waits: partition "
                f"{at.segment} of Kafka topic {self.topic.name!r} is readable to {at.offset}, and "
                f"the cut has {at.needed}. It has an open transaction, or no leader"
            )
