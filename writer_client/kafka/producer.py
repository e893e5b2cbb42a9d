"""A Kafka producer that notes: a note leaves when what was produced before it is delivered."""

from __future__ import annotations

import os
import threading
import time as clocks
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from noted_time.client.closing import Closing
from noted_time.values import NotedTimeError, Rejected, Time, unix_ms_of
from writer_client.at_exit import open_clients
from writer_client.client import WriterClient
from writer_client.kafka.channel import SLICE_S, Channel, Headers, log
from writer_client.sending.clock import unix_ms
from writer_client.sending.delivery import Epoch, OnFailure, Resting
from writer_client.sending.outcome import Exclusion, Flushed

POLL_EVERY = 64
"""A poll for each event would cost more than the event."""

IDLE_S, WAITING_S = 1.0, 0.005
"""How often reports are looked for while no event is produced: with no note that waits, or one."""

OnDelivery = Callable[[KafkaError | None, Message], None]


@dataclass(frozen=True, slots=True)
class ClockNotes:
    """The clock that a producer notes: `clock()` less `delay_ms`, every `period_ms`.

    Events are to be stamped with this clock, and produced within `delay_ms` of that. Those that the
    producer stamps (`event_time=None`) need no delay.
    """

    delay_ms: int = 0
    period_ms: int = 1000
    clock: Callable[[], Time] = unix_ms

    def now_ms(self) -> int:
        """Return the clock in Unix ms."""
        return unix_ms_of(self.clock())


class KafkaNotedProducer(Closing):
    """Produces events to one topic, and notes the time of one writer.

    Stream = topic, segment = partition. `produce` and `note_time` return at once: a note leaves as
    soon as every event produced before it is delivered, with the offsets that the broker reported.
    All calls may be made from any thread; a transaction belongs to all of them.

    `config` is confluent-kafka's (librdkafka's). Idempotence is on; `acks=0`,
    `enable.idempotence=false` and `delivery.report.only.error` are refused. With a
    `transactional.id`, events are produced inside ``with producer.transaction():``, and a note
    leaves after the commit.

    Creating one joins the stream. It takes over the writer's name (and transactions) from a former
    process, and then looks the ends of the topic up, so that the next note covers what that one
    wrote. From then on the former raises `Fenced`. This takes at most ten seconds; raises
    `Rejected` for a configuration, topic or stream that cannot work, `Unreachable` if Kafka or the
    controller does not answer.

    Event times have to be the timestamps of the records: positive Unix ms, or aware `datetime`s.

    *Failures*: see `flush`. *Leaving* is explicit, as with `WriterClient`: only `finish` reports
    that the writer is finished; after `close`, the end of a ``with`` block and the end of the
    process, which deliver what they can, the watermark waits for the writer until its timeout.

    *Logging* is under ``noted_time.writer``, what librdkafka reports under
    ``noted_time.writer.kafka``.
    """

    def __init__(  # noqa: PLR0913 - one keyword for each thing there is to choose
        self,
        config: Mapping[str, Any],
        topic: str,
        controller_url: str,
        writer: str,
        *,
        stream: str | None = None,
        domain: str | None = None,
        timeout_ms: int | None = None,
        token: str | None = None,
        on_excluded: Callable[[Exclusion], object] | None = None,
        on_failure: OnFailure = "raise",
        auto: ClockNotes | None = None,
    ) -> None:
        """Join the stream, which is by default that of the topic's name.

        `domain` is the one that event times are of, by default the only one of the stream; the
        writer vouches for no other. `timeout_ms`, `token` and `on_excluded` are `WriterClient`'s.

        After an event was not delivered, every call raises `DeliveryFailed` until `forgive()`. With
        `on_failure="hold"`, for programs that handle failures in `on_delivery`, events and notes
        are accepted as before, and a warning names the failure each minute. In both cases notes are
        held, and the controller is shown that the writer lives and why it does not note.

        With `auto` a clock is noted, never beyond an event that was produced and not delivered.
        """
        config = dict(config)
        self.topic = topic
        self._own: OnDelivery | None = config.pop("on_delivery", config.pop("dr_cb", None))
        self._on_delivery: OnDelivery | None = self._first_delivery

        def writing() -> WriterClient:
            client = WriterClient(
                controller_url,
                topic if stream is None else stream,
                writer,
                token=token,
                timeout_ms=timeout_ms,
                domains=None if domain is None else (domain,),
                on_excluded=on_excluded,
            )
            open_clients.discard(client)  # it is closed after what was produced is delivered
            return client

        self._channel = channel = Channel(
            config, topic, writing, domain=domain, on_failure=on_failure
        )
        self.client = channel.client
        """The client that notes: its state, the stream's lower, the position noted."""
        # what each event needs: a lookup less
        self._tracker, self._limits = channel.tracker, channel.limits
        self._produces_in = channel.produces_in
        self._produced, self._produce = channel.tracker.produced, channel.kafka.produce
        self._auto = auto
        self._next_beat = 0.0
        self._closed = False
        self._since_poll = 0
        self._pid = os.getpid()
        self._wake = threading.Event()
        name = f"noted-time producer {writer}"
        self._thread = threading.Thread(target=self._tend, name=name, daemon=True)
        self._thread.start()
        open_clients.add(self)

    @property
    def kafka(self) -> Producer:
        """The producer of confluent-kafka, for `send_offsets_to_transaction` or `list_topics`.

        What is produced with it is not noted; it is polled and flushed here alone.
        """
        return self._channel.kafka

    @property
    def time(self) -> int | None:
        """The last time noted, also by a former process: notes may not go back behind it."""
        return self._tracker.time

    # Events

    def produce(  # noqa: PLR0913 - what Kafka's clients take
        self,
        value: str | bytes | None,
        *,
        event_time: Time | None,
        key: str | bytes | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> None:
        """Produce an event; waits only while librdkafka's queue is full.

        With `auto`, `event_time=None` stamps it with the clock, or with the last time noted where
        the clock is behind that: such an event is never late.

        `on_delivery(error, message)` is called with the outcome; what it raises is logged. Raises,
        before anything is sent, `Fenced` if another process took over, `DeliveryFailed` (see
        `on_failure`), and `Rejected` for an event that would be refused: outside a transaction if
        there are any, larger than the client or the topic takes, with a time that is further from
        now than the topic allows, or of 0, which Kafka takes for now, or below.

        The first event after `idle` or `finish` joins again, as creating the producer does.
        """
        stamp = event_time if type(event_time) is int else self._time_of(event_time)
        tracker = self._tracker
        if (
            tracker.failed
            or tracker.phase is not self._produces_in
            or self.client.is_fenced
            or self._channel.fault is not None
        ):
            self._check_phase()
        limits, size = self._limits, len(value or "") + len(key or "")
        if size > limits.light or headers or not limits.earliest <= stamp <= limits.latest:
            limits.check(stamp, value, key, headers)
        part = -1 if partition is None else partition
        epoch, stamp = self._count(stamp, is_now=event_time is None)
        deliver: OnDelivery = epoch.on_delivery
        asked = on_delivery or self._on_delivery
        if asked is not None:
            deliver = _both(deliver, asked)
        try:
            while True:
                try:
                    self._produce(self.topic, value, key, part, deliver, deliver, stamp, headers)
                    break
                except BufferError:
                    self._channel.poll(SLICE_S)
        except KafkaException as error:
            self._tracker.refused(epoch)
            raise self._channel.named(error) from error
        except BaseException:
            self._tracker.refused(epoch)
            raise
        self._since_poll += 1
        if self._since_poll >= POLL_EVERY:
            self._since_poll = 0
            self._channel.poll(0)

    def note_time(self, time: Time) -> None:
        """Note that all events with a time below `time` were produced by now; returns at once.

        The note leaves once they are delivered, in a transaction once it is committed: of several
        notes in one, the last. Raises `InvalidNote` if time goes back (also behind what a former
        process noted, see `time`), `DeliveryFailed` (see `on_failure`), and `Fenced`.
        """
        if self._auto is not None:
            raise Rejected("the producer notes the clock: create it without auto to note times")
        self.check()
        self._tracker.note(time)
        self.check()
        if self._tracker.is_waiting:
            self._wake.set()

    def flush(self, timeout: float = 10.0) -> Flushed:
        """Wait until all events are delivered and all notes durable, at most `timeout` seconds.

        Returns what `WriterClient.flush` returns, and raises what it raises. Raises
        `DeliveryFailed` if events were not delivered, and holds all notes, until `forgive`; a
        warning is logged as soon as the first fails. Raises `Unreachable` when time is up: all is
        kept and tried further.
        """
        until = clocks.monotonic() + timeout
        self._channel.deliver(until)
        self._tracker.report()
        return self.client.flush(max(0.0, until - clocks.monotonic()))

    def forgive(self) -> None:
        """Continue after a failure; the notes that were held for it are dropped.

        Produce what failed again, if it is not given up, and then note again. With
        `on_failure="hold"` that was done by now: the notes leave, in one, once all produced until
        now is delivered.
        """
        self._channel.forgive()
        self._wake.set()

    def check(self) -> None:
        """Raise what every call raises: `Fenced`, `ClientFailed`, `Rejected`, `DeliveryFailed`."""
        self._channel.check()

    # Transactions

    def transaction(self) -> AbstractContextManager[None]:
        """Produce, and note, in a transaction: it is committed at the end of the block.

        One note leaves after the commit. If the block raises, the transaction is aborted, and what
        was produced and noted in it is dropped. Raises `DeliveryFailed` or `Conflict` if it had to
        be aborted, so that all of its events are to be produced again, and `Unreachable` if the
        outcome of the commit is unknown: then nothing leaves until the next transaction begins, or
        `flush`, `idle` or `finish` is called, which find it out. They raise `Conflict` if it was an
        abort, and what was noted meanwhile is dropped; otherwise the next note covers both.
        """
        return self._channel.transaction()

    # Leaving

    def idle(self, timeout: float = 10.0) -> None:
        """Deliver all events, and report that time need not wait for the writer.

        It waits again from the next event or note on. Raises what `flush` raises of deliveries.
        """
        self._channel.rest(clocks.monotonic() + timeout, self.client.idle)

    def finish(self, timeout: float = 10.0) -> Flushed:
        """Deliver all events, report that the writer is finished, and flush; raises as `flush`."""
        until = clocks.monotonic() + timeout

        def leave() -> Flushed:
            return self.client.finish(timeout=max(0.0, until - clocks.monotonic()))

        return self._channel.rest(until, leave)

    def close(self, timeout: float = 10.0) -> None:
        """Flush, and release the resources; the writer stays a member.

        Raises what `flush` raises; even then the producer is closed.
        """
        if self._closed or self._pid != os.getpid():
            return
        until = clocks.monotonic() + timeout
        try:
            self.flush(timeout)
        finally:
            self._closed = True
            open_clients.discard(self)
            self._wake.set()
            self.client.end(max(0.0, until - clocks.monotonic()))
            closed = Rejected(f"the producer of writer {self.client.writer!r} is closed")
            self._channel.fault = self._channel.fault or closed

    def end_soon(self) -> None:
        """Post what waits at once; the process is about to end."""
        self.client.end_soon()

    def end(self, timeout_s: float) -> None:
        """Close without raising: the process ends, and what is not delivered is logged."""
        try:
            self.close(timeout_s)
        except NotedTimeError as error:
            log.warning("%s", error)

    def _time_of(self, event_time: Time | None) -> int:
        """Return an event's time, that of the clock for `None`; raises `Rejected` without one."""
        if event_time is not None:
            return unix_ms_of(event_time)
        if self._auto is None:
            raise Rejected("event_time is missing: only a producer with auto stamps events")
        return self._auto.now_ms()

    def _count(self, stamp: int, *, is_now: bool) -> tuple[Epoch, int]:
        """Count an event once the writer has joined, and return its epoch and its time."""
        while True:
            try:
                if is_now:
                    return self._tracker.stamped(partial(self._time_of, None))
                return self._produced(stamp), stamp
            except Resting:
                self._channel.join_again()

    def _check_phase(self) -> None:
        """Raise as `check`, and for an event outside a transaction if there are any."""
        self.check()
        if self._tracker.phase is not self._produces_in:
            raise Rejected("a producer with a transactional.id produces inside `transaction()`")

    def _first_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Look once whether the topic keeps the timestamps of its events."""
        if error is None:
            self._on_delivery = self._own
            if message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME:
                log.warning(
                    "Kafka topic %r stamps its records with the broker's time "
                    "(message.timestamp.type=LogAppendTime): readers have to take the event time "
                    "from the value, not from the timestamp",
                    self.topic,
                )
        if self._own is not None:
            self._own(error, message)

    # The thread

    def _tend(self) -> None:
        """Look for deliveries while no event is produced, and note the clock.

        It leaves them to a thread that produces: each report that is served here would wait for
        that thread to pass the interpreter's lock.
        """
        self._next_beat = clocks.monotonic() + (self._auto.period_ms / 1000 if self._auto else 0.0)
        while not self._closed:
            polls = self._channel.polls
            self._wake.clear()
            self._wake.wait(self._pause_s())
            try:
                if self._channel.polls == polls and not self._closed:
                    self._channel.poll(0)
                self._note_clock(clocks.monotonic())
            except Exception:  # noqa: BLE001 - the clock's, or of a callback in the configuration
                log.exception("writer %r", self.client.writer)

    def _pause_s(self) -> float:
        pause_s = WAITING_S if self._tracker.is_waiting else IDLE_S
        if self._auto is None:
            return pause_s
        return max(0.0, min(pause_s, self._next_beat - clocks.monotonic()))

    def _note_clock(self, now: float) -> None:
        """Note the clock if that is due, and nothing has to be produced again first."""
        if self._auto is None or now < self._next_beat:
            return
        self._next_beat = now + self._auto.period_ms / 1000
        with self._tracker.lock:
            holds = self._tracker.rests or self._channel.is_held or self._tracker.failed
            if holds or self._closed or self._channel.fault:
                return
            time, last = self._auto.now_ms() - self._auto.delay_ms, self._tracker.time
            self.client.clock_behind(0 if last is None else last - time)
            self._tracker.note(time if last is None else max(time, last))


def _both(first: OnDelivery, second: OnDelivery) -> OnDelivery:
    def deliver(error: KafkaError | None, message: Message) -> None:
        first(error, message)
        try:
            second(error, message)
        except Exception:  # noqa: BLE001 - it would be raised in whatever thread polls
            log.exception("on_delivery failed")

    return deliver
