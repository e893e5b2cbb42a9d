"""A Kafka producer that notes time."""

from __future__ import annotations

import os
import sys
import time as clocks
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, TypedDict, Unpack

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from noted_time.client.arguments import refuse_url
from noted_time.client.closing import Closing
from noted_time.values import Exclusion, NotedTimeError, Rejected, Time, check_least, unix_ms_of
from writer_client.at_exit import OpenClient, open_clients
from writer_client.client import WriterClient
from writer_client.kafka import channel as channels
from writer_client.kafka.background import (
    BackgroundThread,
    ClockNotes,
    WaitingCalls,
    compute_deadline,
)
from writer_client.kafka.channel import REPORTS_S, Channel, log
from writer_client.sending.delivery import DeliveryEpoch, OnFailure, Resting
from writer_client.sending.posting import Flushed
from writer_client.sending.producer_state import ProducerState
from writer_client.sending.vouched import validate_domains

POLL_EVERY = 64  # a poll takes longer than an event

OWN_QUEUE = 100_000  # librdkafka's default of queue.buffering.max.messages

Text = str | bytes | None
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]
OnDelivery = Callable[[KafkaError | None, Message], None]


class ClientOptions(TypedDict, total=False):
    """Options that a producer passes to its `WriterClient`."""

    timeout_ms: int | None
    token: str | None
    on_excluded: Callable[[Exclusion], object] | None
    idle_after_ms: int | None


class KafkaNotedProducer(Closing):
    """Produces events to one topic, and notes the time of one writer.

    `produce`, `poll`, `flush` and the methods of transactions are called as in
    `confluent_kafka.Producer`. For all else, use `kafka`. `produce` and `note_time` return at once.
    A note is sent when all events produced before it are delivered, with the offsets that the
    broker reported. All methods are thread-safe. A transaction has the events of all threads.

    `config` is a configuration of confluent-kafka (librdkafka). The settings `acks=0`,
    `enable.idempotence=false` and `delivery.report.only.error` are refused. With a
    `transactional.id`, produce events inside ``with producer.transaction():``, or between
    `begin_transaction` and `commit_transaction`.

    *Event times* are the timestamps of the records: positive Unix ms, or aware `datetime`s.

    *Startup.* The producer joins the stream and takes over the writer's name and transactions, so
    an earlier process raises `Fenced`. The next note covers the earlier process's events. After ten
    seconds this continues in the background, and events and notes are queued. If the topic or the
    stream proves invalid, every call raises it.

    *Leaving.* Only `finish` reports that the writer is finished. After `close`, a ``with`` block or
    the end of the process, the watermark waits for the writer until its timeout.

    Messages of librdkafka are logged under ``noted_time.writer.kafka``.
    """

    @refuse_url("config, topic, writer, controller=URL")
    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        config: Mapping[str, Any],
        topic: str,
        writer: str,
        *,
        controller: str,
        stream: str | None = None,
        domain: str | Sequence[str] | None = None,
        on_failure: OnFailure = "raise",
        auto: ClockNotes | None = None,
        wait: float | None = channels.BEGIN_S,
        **client_options: Unpack[ClientOptions],
    ) -> None:
        """Join the stream.

        * `stream` is by default the stream with the topic's name.
        * `domain` is the time domain of event times, by default the only one of the stream. Of
          several, `event_time` has the first and `event_times` the others. The writer vouches for
          these only.
        * `on_failure` is the behaviour after an event was not delivered. With `"raise"`, every call
          raises `DeliveryFailed` until `forgive()`. With `"keep"`, for programs that handle
          failures in `on_delivery`, calls continue, and a warning is logged each minute. In both
          cases notes are kept back, and `explain` shows why.
        * `auto` notes a clock, but never beyond an event that is not delivered yet.
        * `wait` is the time limit for startup, in seconds; after it, a warning is logged. `None`
          waits forever.
        * `idle_after_ms` makes the writer idle after this time without an event or a note. Events
          and transactions that are not completed postpone this.
        * `timeout_ms`, `token` and `on_excluded` are passed to `WriterClient`.

        Raises `Rejected` for an invalid configuration, and for an invalid topic or stream if this
        is known in time.
        """
        if isinstance(wait, bool):
            raise Rejected("wait is a number of seconds, 0 for at once, or None for ever")
        if unknown := client_options.keys() - ClientOptions.__annotations__:
            raise TypeError(f"a KafkaNotedProducer has no argument {', '.join(sorted(unknown))}")
        idle_after_ms = client_options.pop("idle_after_ms", None)
        check_least("idle_after_ms", idle_after_ms, 1)
        if auto is not None and idle_after_ms is not None:
            raise Rejected("with auto, the producer is never idle: leave out auto or idle_after_ms")
        domains = validate_domains((domain,) if isinstance(domain, str) else domain)
        config = dict(config)
        self.topic = topic
        self._on_delivery: OnDelivery | None
        self._on_delivery = config.pop("on_delivery", config.pop("dr_cb", None))

        stream_name = topic if stream is None else stream
        client = partial(
            WriterClient,
            stream_name,
            writer,
            controller=controller,
            domains=domains,
            **client_options,
        )
        self._channel = channel = Channel(
            config, topic, client, domains=domains, on_failure=on_failure
        )
        self.client = channel.client
        """The client that notes. It has the writer's state, the lower and the position."""
        # saves a lookup per event
        self._inner = channel.inner
        self._tracker = channel.tracker
        self._limits = channel.limits
        self._produces_in = channel.produces_in
        self._produced = channel.tracker.produced
        self._produce = channel.kafka.produce
        queue_limit = int(config.get("queue.buffering.max.messages", OWN_QUEUE))
        self._waiting = WaitingCalls(queue_limit or sys.maxsize)
        self._auto = auto
        self._since_poll = 0
        self._pid = os.getpid()
        self._background = BackgroundThread(
            channel, self._waiting, clock=auto, idle_after_ms=idle_after_ms
        )
        open_clients[self] = OpenClient(
            self._end_with_process, channel.ending.end_soon, self._leave_to_parent
        )
        try:
            self._background.wait_at_first(wait)
        except BaseException:
            with suppress(NotedTimeError):
                self.close(0.0)
            raise

    @property
    def kafka(self) -> Producer:
        """The producer of confluent-kafka.

        Events produced with it are not noted. Do not poll or flush it.
        """
        return self._channel.kafka

    @property
    def time(self) -> int | None:
        """The last noted time of the first domain; see `last_time`."""
        return self.last_time()

    def last_time(self, domain: str | None = None) -> int | None:
        """Return the last noted time, including notes of an earlier process."""
        self._background.wait_for_begin(clocks.monotonic() + channels.BEGIN_S)
        return self._tracker.last_time(domain)

    def produce(  # noqa: PLR0913, PLR0917 - Confluent's parameters
        self,
        topic: str | None = None,
        value: Text = None,
        key: Text = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Headers | None = None,
        *,
        event_time: Time | None = None,
        event_times: Mapping[str, Time] | None = None,
    ) -> None:
        """Produce an event; wait only while librdkafka's queue is full.

        * `topic` is the producer's topic. It can be omitted if `value` is passed by keyword.
        * `event_time` is required and becomes the record's timestamp. `timestamp` is another name
          for it, in Unix ms. With `auto` it can be omitted: the event is stamped with the clock, or
          with the last noted time if the clock is behind, so it is never late.
        * `event_times` has the event's times in the other domains of the producer.
        * `on_delivery(error, message)`, or `callback`, is called with the outcome. Its exceptions
          are logged.

        Raises, before anything is sent:

        * `Fenced` if another process took over the writer's name;
        * `DeliveryFailed` after failures, see `on_failure`;
        * `Rejected` for another topic, an event that is too large, a time that the topic does not
          allow, or a `transactional.id` outside a transaction;
        * `BufferError` if too many events are queued before startup, or in a delivery callback
          while librdkafka's queue is full. Keep the event, and produce it later outside the
          callback.

        If an event that was queued before startup is refused later, it counts as not delivered,
        and a warning says why. The first event after `idle` or `finish` joins again.
        """
        if topic != self.topic and topic is not None:
            raise Rejected(
                f"the first argument of `produce` is the topic, here {self.topic!r} and no other: "
                "pass the event as value="
            )
        if event_times:
            event_times = self._check_times(event_times)
        if timestamp:
            event_time = _check_timestamp(timestamp, event_time)
        stamp = event_time if type(event_time) is int else self._find_time(event_time)
        tracker = self._tracker
        if (
            tracker.failed
            or tracker.phase is not self._produces_in
            or self._inner.is_fenced
            or self._channel.fault is not None
        ):
            self._channel.check_event()
        limits = self._limits
        if not limits.earliest <= stamp <= limits.latest:
            limits.check(stamp)
        user_callback = callback or on_delivery or self._on_delivery
        is_now = event_time is None
        if not self._waiting.is_over:
            event = (value, key, partition, user_callback, copy(headers), stamp, event_times)
            waits = not self._channel.is_reporting
            if self._waiting.keep(partial(self._send_deferred, *event, is_now=is_now), waits=waits):
                return
        self._send(value, key, partition, user_callback, headers, stamp, event_times, is_now=is_now)

    def poll(self, timeout: float = -1) -> int:
        """Serve delivery reports, and return their number.

        Waits at most `timeout` seconds for the first report; with a negative timeout, while events
        are in flight. Polling is optional: a thread serves reports.
        """
        self._background.check()
        until = compute_deadline(timeout)
        served_before = self._channel.served
        while True:
            left_s = until - clocks.monotonic()
            self._channel.poll(max(0.0, min(REPORTS_S, left_s)))
            reports = self._channel.served - served_before
            is_over = left_s <= REPORTS_S or (timeout < 0 and not len(self))
            if reports or is_over or self._channel.is_reporting:
                return reports

    def __len__(self) -> int:
        return self._tracker.under_way + len(self._waiting)

    def __bool__(self) -> bool:
        return True

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Use these credentials for all new connections to Kafka."""
        self._channel.set_sasl_credentials(username, password)

    def note_time(self, time: Time, *, domain: str | None = None) -> None:
        """Note that all events with a time below `time` were produced before this call.

        `domain` is by default the first domain of the producer. The note is sent when these events
        are delivered, and in a transaction after its commit. Only the last note of a transaction is
        sent.

        Raises `InvalidNote` if the time goes back, even behind notes of an earlier process (see
        `time`), `DeliveryFailed` (see `on_failure`) and `Fenced`. If a note is refused at startup,
        the next call other than `produce` raises it.
        """
        if self._auto is not None and domain in (None, self._tracker.domain):
            raise Rejected("the producer notes the clock: create it without auto to note times")
        self._background.note(time, domain)

    def flush(self, timeout: float = -1) -> Flushed:
        """Wait at most `timeout` seconds until all events are delivered and all notes are durable.

        A negative timeout has no limit. Raises the same as `WriterClient.flush`, and
        `DeliveryFailed` if events were not delivered; notes are kept back until `forgive`. Raises
        `Unreachable` if the time is up; everything is kept.
        """
        until = compute_deadline(timeout)
        self._background.wait_for_begin(until)
        self._channel.deliver(until)
        self._tracker.report()
        return self.client.flush(max(0.0, until - clocks.monotonic()))

    def forgive(self) -> None:
        """Continue after a failure.

        By default, these notes are dropped. Produce the failed events again, and note again. With
        `on_failure="keep"`, produce them *before* this call. The notes are then merged, and
        sent once all events produced so far are delivered.
        """
        self._tracker.forgive()
        self._channel.poll(0)
        self._background.wake()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Produce and note in a transaction, which is committed at the end of the block.

        If the block raises, the transaction is aborted, and its events and notes are dropped.

        Raises `DeliveryFailed` or `Conflict` after an abort: produce its events again. Raises
        `Unreachable` if the outcome of the commit is unknown. The next transaction, `flush`, `idle`
        or `finish` finds it out.
        """
        self.begin_transaction()
        try:
            yield
            self._channel.deliver(clocks.monotonic() + channels.COMMIT_S)
        except BaseException:
            if self._tracker.phase is ProducerState.OPEN:
                self._channel.abort_transaction(channels.COMMIT_S)
            raise
        self._channel.commit_transaction(channels.COMMIT_S)

    def init_transactions(self, timeout: float = -1) -> None:
        """Wait for startup, which takes over transactions, or raise its error."""
        self._channel.check_transactional()
        self._background.wait_for_begin(compute_deadline(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction. See `transaction`."""
        self._background.wait_for_begin(clocks.monotonic() + channels.BEGIN_S)
        self._channel.begin_transaction()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit in at most `timeout` seconds, by default 60.

        Raises `DeliveryFailed` if events were not delivered: call `abort_transaction`. Raises
        `Unreachable` if the time is up: call it again. Raises `Conflict` after an abort.
        """
        self._channel.commit_transaction(timeout if timeout >= 0 else channels.COMMIT_S)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort in at most `timeout` seconds, by default 60, if a transaction is open.

        Raises `Rejected` while the outcome of a commit is unknown.
        """
        self._channel.abort_transaction(timeout if timeout >= 0 else channels.COMMIT_S)

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float = -1
    ) -> None:
        """Commit the offsets of a consumer with the transaction.

        Raises `Conflict` if Kafka demands an abort. Raises `Unreachable` after `timeout` seconds,
        by default 60: call it again.
        """
        timeout_s = timeout if timeout >= 0 else channels.COMMIT_S
        self._channel.send_offsets(positions, group_metadata, timeout_s)

    def idle(self, timeout: float = 10.0) -> None:
        """Deliver all events, and become idle until the next event or note."""
        until = compute_deadline(timeout)
        self._background.wait_for_begin(until)
        self._channel.rest(until, self.client.idle)

    def finish(self, timeout: float = 10.0) -> Flushed:
        """Deliver all events, report that the writer is finished, and flush."""
        until = compute_deadline(timeout)
        self._background.wait_for_begin(until)

        def leave() -> Flushed:
            return self.client.finish(timeout=max(0.0, until - clocks.monotonic()))

        return self._channel.rest(until, leave)

    def close(self, timeout: float = 10.0) -> None:
        """Flush, and close the producer. The writer stays a member.

        An open transaction is aborted.
        """
        if self._channel.is_closed or self._pid != os.getpid():
            return
        deadline = compute_deadline(timeout)
        try:
            if self._tracker.phase is ProducerState.OPEN:
                self._channel.abort_transaction(max(0.0, deadline - clocks.monotonic()))
            self.flush(max(0.0, deadline - clocks.monotonic()))
        finally:
            self._channel.close()
            self._waiting.fail()
            open_clients.pop(self, None)
            self._background.wake()
            self._channel.ending.end(max(0.0, deadline - clocks.monotonic()))

    def _end_with_process(self, timeout_s: float) -> None:
        """Close the producer: log errors, and raise nothing."""
        try:
            self.close(timeout_s)
        except NotedTimeError as error:
            log.warning("%s", error)

    def _leave_to_parent(self) -> None:
        """Refuse every later call in a forked process."""
        elsewhere = f"the producer of writer {self.client.writer!r} belongs to another process"
        self._channel.fail(Rejected(f"{elsewhere}: create one here, under another name"))

    def _find_time(self, event_time: Time | None) -> int:
        if event_time is not None:
            return unix_ms_of(event_time)
        if self._auto is None:
            raise Rejected(
                "event_time is missing: pass it, or create the producer with auto=ClockNotes(…)"
            )
        return self._auto.now_ms()

    def _check_times(self, event_times: Mapping[str, Time]) -> Mapping[str, Time]:
        self._tracker.check_times(event_times)
        if self._tracker.domain in event_times:
            raise Rejected(f"pass the time of {self._tracker.domain!r} as event_time")
        return dict(event_times)

    def _send(  # noqa: PLR0913, PLR0917 - the parts of an event
        self,
        value: Text,
        key: Text,
        partition: int,
        user_callback: OnDelivery | None,
        headers: Headers | None,
        stamp: int,
        other_times: Mapping[str, Time] | None,
        *,
        is_now: bool,
    ) -> None:
        call = object()
        placing = self._tracker.placing
        try:
            placing.add(call)
            epoch, stamp = self._count(stamp, other_times, is_now=is_now)
            deliver: OnDelivery = epoch.on_delivery
            if user_callback is not None:
                deliver = _call_both(deliver, user_callback)
            self._place(epoch, value, key, partition, deliver, deliver, stamp, headers)
        finally:
            placing.discard(call)
        self._since_poll += 1
        if self._since_poll >= POLL_EVERY:
            self._since_poll = 0
            self._channel.poll(0)

    def _place(self, epoch: DeliveryEpoch, *event: Any) -> None:  # noqa: ANN401 - Confluent's
        while True:
            try:
                self._produce(self.topic, *event)
            except BufferError:
                if self._channel.is_reporting:  # the queue cannot drain before this callback ends
                    self._tracker.refused(epoch)
                    raise
                self._channel.poll(REPORTS_S)
            except KafkaException as error:
                self._tracker.refused(epoch)
                raise self._channel.translate_error(error) from error
            except (TypeError, ValueError):
                self._tracker.refused(epoch)
                raise
            else:
                return

    def _count(
        self, stamp: int, other_times: Mapping[str, Time] | None, *, is_now: bool
    ) -> tuple[DeliveryEpoch, int]:
        while True:
            try:
                if is_now:
                    return self._tracker.stamped(stamp, other_times)
                return self._produced(stamp, other_times), stamp
            except Resting:
                self._channel.join_again()

    def _send_deferred(self, *event: Any, is_now: bool) -> None:  # noqa: ANN401 - as of `_send`
        """Send a queued event; a refused one is reported as not delivered."""
        value, key, partition, user_callback, headers, stamp, _ = event
        try:
            self._limits.check(stamp)
            self._send(*event, is_now=is_now)
        except Exception as error:  # noqa: BLE001 - the caller cannot get it any more
            log.warning("an event of writer %r was not sent: %s", self.client.writer, error)
            self._produced().failed(error)
            if user_callback is not None:
                parts = {"key": _encode(key), "value": _encode(value), "headers": headers}
                kafka_error = _build_kafka_error(error)
                message = Message(self.topic, partition, error=kafka_error, **parts)
                _report(user_callback, kafka_error, message)


def _call_both(first: OnDelivery, second: OnDelivery) -> OnDelivery:
    def deliver(error: KafkaError | None, message: Message) -> None:
        first(error, message)
        _report(second, error, message)

    return deliver


def _report(callback: OnDelivery, error: KafkaError | None, message: Message) -> None:
    try:
        callback(error, message)
    except Exception:  # noqa: BLE001 - otherwise raised in any polling thread
        log.exception("on_delivery failed")


def _build_kafka_error(error: Exception) -> KafkaError:
    if isinstance(error.__cause__, KafkaException):
        kafka_error: KafkaError = error.__cause__.args[0]
        return kafka_error
    if isinstance(error, Rejected):  # its time is outside the topic's limits
        return KafkaError(KafkaError.INVALID_TIMESTAMP, str(error))
    return KafkaError(KafkaError.INVALID_RECORD, str(error))


def _encode(part: Text) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _check_timestamp(timestamp: int, event_time: Time | None) -> int:
    if event_time is not None and unix_ms_of(event_time) != timestamp:
        raise Rejected(
            f"timestamp={timestamp} is not event_time={event_time}: a record's timestamp is its "
            "event time, so leave timestamp out"
        )
    return timestamp
