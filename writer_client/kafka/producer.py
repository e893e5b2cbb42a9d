"""A Kafka producer that notes: a note leaves when what was produced before it is delivered."""

from __future__ import annotations

import os
import sys
import time as clocks
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import Any, Self, TypedDict, Unpack

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import ClusterMetadata

from noted_time.client.closing import Closing
from noted_time.values import NotedTimeError, Rejected, Time, check_least, unix_ms_of
from writer_client.at_exit import open_clients
from writer_client.client import WriterClient
from writer_client.kafka import channel as channels
from writer_client.kafka.background import (
    BackgroundThread,
    ClockNotes,
    WaitingCalls,
    compute_deadline,
)
from writer_client.kafka.channel import REPORTS_S, Channel, log
from writer_client.sending.delivery import Epoch, OnFailure, Resting
from writer_client.sending.outcome import Exclusion, Flushed
from writer_client.sending.producer_state import ProducerState
from writer_client.sending.vouched import validate_domains

POLL_EVERY = 64
"""A poll for each event would cost more than the event."""

OWN_QUEUE = 100_000
"""librdkafka's own `queue.buffering.max.messages`, if it is not set."""

Text = str | bytes | None
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]
OnDelivery = Callable[[KafkaError | None, Message], None]


class ClientOptions(TypedDict, total=False):
    """What a producer passes on to its `WriterClient`, where it means the same."""

    timeout_ms: int | None
    token: str | None
    on_excluded: Callable[[Exclusion], object] | None
    idle_after_ms: int | None


class Delivered(int):
    """What `flush` returns: 0, as no event is left (Confluent's), with what `Flushed` has."""

    _answer: Flushed

    def __new__(cls, flushed: Flushed) -> Self:
        """Return 0 with the answer."""
        self = super().__new__(cls, 0)
        self._answer = flushed
        return self

    @property
    def lower(self) -> int | None:
        """See `Flushed`."""
        return self._answer.lower

    @property
    def excluded(self) -> Exclusion | None:
        """See `Flushed`."""
        return self._answer.excluded

    @property
    def late_rows(self) -> int:
        """See `Flushed`."""
        return self._answer.late_rows

    def __repr__(self) -> str:
        return repr(self._answer)


class KafkaNotedProducer(Closing):
    """Produces events to one topic, and notes the time of one writer.

    It has the methods of `confluent_kafka.Producer`, with the same parameters. Stream = topic,
    segment = partition. `produce` and `note_time` return at once: a note leaves as soon as every
    event produced before it is delivered, with the offsets that the broker reported. All calls may
    be made from any thread; a transaction belongs to all of them.

    `config` is confluent-kafka's (librdkafka's). Idempotence is on; `acks=0`,
    `enable.idempotence=false` and `delivery.report.only.error` are refused. With a
    `transactional.id`, events are produced inside ``with producer.transaction():``, or between
    `begin_transaction` and `commit_transaction`, and a note leaves after the commit.

    *Beginning.* Creating one joins the stream. It takes over the writer's name (and transactions)
    from a former process. Then it looks the ends of the topic up, so that the next note covers what
    that one wrote. From then on the former raises `Fenced`. The constructor waits for it, at most
    ten seconds. If Kafka or the controller does not answer for longer, it goes on in the
    background: events and notes wait for it, at most `queue.buffering.max.messages`, and no event
    is sent before. All other calls that need it wait as well. If topic or stream turns out then to
    be one that cannot work, the log says so, and every call raises it.

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
        domain: str | Sequence[str] | None = None,
        on_failure: OnFailure = "raise",
        auto: ClockNotes | None = None,
        wait: float | None = channels.BEGIN_S,
        **of_client: Unpack[ClientOptions],
    ) -> None:
        """Join the stream, which is by default that of the topic's name.

        `domain` is the one that event times are of, by default the only one of the stream. It may
        be several: event times are of the first then, and `event_times` of the others. The writer
        vouches for no other. `timeout_ms`, `token` and `on_excluded` are `WriterClient`'s, and so
        is `idle_after_ms`: after it without an event or a note the producer goes idle, as by
        `idle`, once no event or transaction is open.

        After an event was not delivered, every call raises `DeliveryFailed` until `forgive()`. With
        `on_failure="hold"`, for programs that handle failures in `on_delivery`, events and notes
        are accepted as before, and a warning names the failure each minute. In both cases notes are
        held, and the controller is shown that the writer lives and why it does not note.

        With `auto` a clock is noted, never beyond an event that was produced and not delivered.

        It has begun on return, unless Kafka or the controller did not answer for `wait` seconds: a
        warning says so then. With `wait=0` it returns at once, with `wait=None` it waits for ever.

        Raises `Rejected` for a configuration that cannot work, and for a topic or stream that
        cannot, if that is known by then.
        """
        if isinstance(wait, bool):
            raise Rejected("wait is a number of seconds, 0 for at once, or None for ever")
        if unknown := of_client.keys() - ClientOptions.__annotations__:
            raise TypeError(f"a KafkaNotedProducer has no argument {', '.join(sorted(unknown))}")
        idle_after_ms = of_client.pop("idle_after_ms", None)
        check_least("idle_after_ms", idle_after_ms, 1)
        if auto is not None and idle_after_ms is not None:
            raise Rejected("a clock that is noted never rests: leave out auto or idle_after_ms")
        domains = validate_domains((domain,) if isinstance(domain, str) else domain)
        config = dict(config)
        self.topic = topic
        self._own: OnDelivery | None = config.pop("on_delivery", config.pop("dr_cb", None))
        self._on_delivery: OnDelivery | None = self._check_first_delivery

        named = topic if stream is None else stream
        client = partial(WriterClient, controller_url, named, writer, domains=domains, **of_client)
        self._channel = channel = Channel(
            config, topic, client, domains=domains, on_failure=on_failure
        )
        self.client = channel.client
        """The client that notes: its state, the stream's lower, the position noted."""
        # what each event needs: a lookup less
        self._tracker, self._limits = channel.tracker, channel.limits
        self._produces_in = channel.produces_in
        self._produced, self._produce = channel.tracker.produced, channel.kafka.produce
        most = int(config.get("queue.buffering.max.messages", OWN_QUEUE))
        self._waiting = WaitingCalls(most or sys.maxsize)
        self._auto = auto
        self._since_poll = 0
        self._pid = os.getpid()
        self._background = BackgroundThread(
            channel, self._waiting, clock=auto, idle_after_ms=idle_after_ms
        )
        open_clients.add(self)
        try:
            self._background.wait_at_first(wait)
        except BaseException:
            with suppress(NotedTimeError):
                self.close(0.0)
            raise

    @property
    def kafka(self) -> Producer:
        """The producer of confluent-kafka.

        What is produced with it is not noted; it is polled and flushed here alone.
        """
        return self._channel.kafka

    @property
    def time(self) -> int | None:
        """The last time noted of the first domain; see `last_time`."""
        return self.last_time()

    def last_time(self, domain: str | None = None) -> int | None:
        """Return the last time noted, also by a former process: notes may not go back behind it.

        It waits until the producer has begun, at most ten seconds; raises `Unreachable` then.
        """
        self._background.wait_for_begin(clocks.monotonic() + channels.BEGIN_S)
        return self._tracker.last_time(domain)

    # Events

    def produce(  # noqa: PLR0913, PLR0917 - Confluent's, in their order
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
        """Produce an event; waits only while librdkafka's queue is full.

        `topic` is the producer's, and may be left out by keyword. `event_time` is needed, and is
        the record's timestamp: `timestamp` is another name for it, in Unix ms. With `auto`,
        without it the event is stamped with the clock, or with the last time noted where the clock
        is behind that: such an event is never late. `event_times` are the event's times of other
        domains that the producer is created for; the first domain's may be among them instead.

        `on_delivery(error, message)`, or `callback`, is called with the outcome; what it raises is
        logged. Raises, before anything is sent, `Fenced` if another process took over,
        `DeliveryFailed` (see `on_failure`), and `Rejected` for an event that would be refused. It
        is for another topic, outside a transaction if there are any, or larger than the client or
        the topic takes. Or its time is further from now than the topic allows, or not above 0,
        which Kafka takes for now.

        Until the producer has begun, events wait. One that is refused then was not delivered: a
        warning says why, and the others are sent. Raises `BufferError` if too many wait, and in a
        delivery callback also while the queue is full: keep the event, and produce it outside.

        The first event after `idle` or `finish` joins again, as creating the producer does.
        """
        if topic != self.topic and topic is not None:
            raise Rejected(
                f"the first argument of `produce` is the topic, here {self.topic!r} and no other: "
                "pass the event as value="
            )
        if event_times:
            event_time, event_times = self._split_times(event_time, event_times)
        if timestamp:
            event_time = _check_timestamp(timestamp, event_time)
        stamp = event_time if type(event_time) is int else self._find_time(event_time)
        tracker = self._tracker
        if (
            tracker.failed
            or tracker.phase is not self._produces_in
            or self.client.is_fenced
            or self._channel.fault is not None
        ):
            self._channel.check_event()
        limits = self._limits
        if not limits.earliest <= stamp <= limits.latest:
            limits.check(stamp)
        asked, is_now = callback or on_delivery or self._on_delivery, event_time is None
        if not self._waiting.is_over:
            kept = value, key, partition, asked, copy(headers), stamp, event_times
            waits = not self._channel.is_reporting
            if self._waiting.keep(partial(self._send_deferred, *kept, is_now=is_now), waits=waits):
                return
        self._send(value, key, partition, asked, headers, stamp, event_times, is_now=is_now)

    def produce_batch(
        self,
        topic: str,
        messages: Sequence[Mapping[str, Any]],
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> int:
        """Produce events; each has `value`, `key`, `partition`, `callback`, all as for `produce`.

        It has `event_time` or `timestamp`, and `event_times`, as well. Returns how many; raises as
        `produce` does, at the first event that is refused: those before it are produced.
        """
        for message in messages:
            self.produce(
                topic,
                message.get("value"),
                message.get("key"),
                message.get("partition", partition),
                message.get("callback") or callback or on_delivery,
                timestamp=message.get("timestamp", 0),
                event_time=message.get("event_time"),
                event_times=message.get("event_times"),
            )
        return len(messages)

    def poll(self, timeout: float = -1) -> int:
        """Have deliveries reported, and wait at most `timeout` seconds for the first.

        Returns how many reports there were. Below 0 it waits without limit, while events are under
        way. Reports come without it as well: a thread looks for them each second.
        """
        self.check()
        until, before = compute_deadline(timeout), self._channel.served
        while True:
            left_s = until - clocks.monotonic()
            self._channel.poll(max(0.0, min(REPORTS_S, left_s)))
            served = self._channel.served - before
            is_over = left_s <= REPORTS_S or (timeout < 0 and not len(self))
            if served or is_over or self._channel.is_reporting:
                return served

    def __len__(self) -> int:
        """How many events are neither delivered nor failed, and how many calls wait to begin."""
        return self._tracker.under_way + len(self._waiting)

    def __bool__(self) -> bool:
        return True

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Return what Kafka's metadata say of a topic, or of all; raises Confluent's errors."""
        found: ClusterMetadata = self.kafka.list_topics(topic, timeout=timeout)
        return found

    def cluster_id(self, timeout: float = -1) -> str:
        """Return the id of the cluster; raises Confluent's errors."""
        return self.kafka.cluster_id(timeout)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in to Kafka with these from the next connection on."""
        self._channel.set_sasl_credentials(username, password)

    def purge(
        self,
        in_queue: bool = True,  # noqa: FBT001, FBT002, ARG002 - Confluent's
        in_flight: bool = True,  # noqa: FBT001, FBT002, ARG002 - likewise
        blocking: bool = True,  # noqa: FBT001, FBT002, ARG002 - likewise
    ) -> None:
        """Raise `Rejected`: an event that was sent once may be written, whatever is purged."""
        raise Rejected(
            "purge cannot tell whether an event is written: abort the transaction, or let events "
            "time out by message.timeout.ms"
        )

    def note_time(self, time: Time, *, domain: str | None = None) -> None:
        """Note that all events with a time below `time` were produced by now; returns at once.

        `domain` is the first that the producer is created for, or another one of those. The note
        leaves once they are delivered, in a transaction once it is committed: of several
        notes in one, the last. Raises `InvalidNote` if time goes back (also behind what a former
        process noted, see `time`), `DeliveryFailed` (see `on_failure`), and `Fenced`. What is
        refused of a note that waited for the begin is logged, and raised by the next call that is
        no `produce`.
        """
        if self._auto is not None and domain in (None, self._tracker.domain):
            raise Rejected("the producer notes the clock: create it without auto to note times")
        self.check()
        time = unix_ms_of(time)
        self._background.notes += 1
        note = partial(self._note_deferred, time, domain)
        if self._waiting.is_over or not self._waiting.keep(note):
            self._tracker.note(time, domain)
            self.check()
        if self._tracker.is_waiting:
            self._background.wake()

    def flush(self, timeout: float = -1) -> Delivered:
        """Wait until all events are delivered and all notes durable, at most `timeout` seconds.

        Below 0 there is no limit. Returns 0, with the attributes of what `WriterClient.flush`
        returns, and raises what it raises. Raises `DeliveryFailed` if events were not delivered,
        and holds all notes, until `forgive`; a warning is logged as soon as the first fails. Raises
        `Unreachable` when time is up, where Confluent's returns the number of events that are left:
        everything is kept and retried.
        """
        until = compute_deadline(timeout)
        self._background.wait_for_begin(until)
        self._channel.deliver(until)
        self._tracker.report()
        return Delivered(self.client.flush(max(0.0, until - clocks.monotonic())))

    def forgive(self) -> None:
        """Continue after a failure; the notes that were held for it are dropped.

        Produce what failed again, if it is not given up, and then note again. With
        `on_failure="hold"` that was done by now: the notes leave, in one, once all produced until
        now is delivered.
        """
        self._channel.forgive()
        self._background.wake()

    def check(self) -> None:
        """Raise what every call raises: `Fenced`, `ClientFailed`, `Rejected`, `DeliveryFailed`."""
        self._background.check()

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Produce, and note, in a transaction: it is committed at the end of the block.

        One note leaves after the commit. If the block raises, the transaction is aborted, and what
        was produced and noted in it is dropped. Raises `DeliveryFailed` or `Conflict` if it had to
        be aborted: then all of its events are to be produced again. Raises `Unreachable` if the
        outcome of the commit is unknown: then nothing leaves until the next transaction begins, or
        `flush`, `idle` or `finish` is called, which find it out. They raise `Conflict` if it was an
        abort, and what was noted meanwhile is dropped; otherwise the next note covers both.
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
        """Wait until the producer has begun; raises as a call after it.

        It takes its transactions over from a former process by itself.
        """
        self._channel.check_transactional()
        self._background.wait_for_begin(compute_deadline(timeout))

    def begin_transaction(self) -> None:
        """Begin a transaction; see `transaction`."""
        self._background.wait_for_begin(clocks.monotonic() + channels.BEGIN_S)
        self._channel.begin_transaction()

    def commit_transaction(self, timeout: float = -1) -> None:
        """Commit, in at most `timeout` seconds, by default 60; one note leaves then.

        Raises `DeliveryFailed` if events were not delivered: call `abort_transaction`. Raises
        `Unreachable` when time is up: call it again. Raises `Conflict` if Kafka demanded an abort,
        which is done.
        """
        self._channel.commit_transaction(timeout if timeout >= 0 else channels.COMMIT_S)

    def abort_transaction(self, timeout: float = -1) -> None:
        """Abort, in at most `timeout` seconds, by default 60; nothing happens if none is open.

        Raises `Rejected` while the outcome of a commit is unknown.
        """
        self._channel.abort_transaction(timeout if timeout >= 0 else channels.COMMIT_S)

    def send_offsets_to_transaction(
        self, positions: list[TopicPartition], group_metadata: object, timeout: float = -1
    ) -> None:
        """Commit the offsets that a consumer has reached with the transaction.

        Raises `Conflict` if Kafka demands an abort, and `Unreachable` after `timeout` seconds, by
        default 60: then call it again.
        """
        timeout_s = timeout if timeout >= 0 else channels.COMMIT_S
        self._channel.send_offsets(positions, group_metadata, timeout_s)

    # Leaving

    def idle(self, timeout: float = 10.0) -> None:
        """Deliver all events, and report that time need not wait for the writer.

        It waits again from the next event or note on. Raises what `flush` raises of deliveries.
        """
        until = compute_deadline(timeout)
        self._background.wait_for_begin(until)
        self._channel.rest(until, self.client.idle)

    def finish(self, timeout: float = 10.0) -> Flushed:
        """Deliver all events, report that the writer is finished, and flush; raises as `flush`."""
        until = compute_deadline(timeout)
        self._background.wait_for_begin(until)

        def leave() -> Flushed:
            return self.client.finish(timeout=max(0.0, until - clocks.monotonic()))

        return self._channel.rest(until, leave)

    def close(self, timeout: float = 10.0) -> None:
        """Flush, and release the resources; the writer stays a member.

        A transaction that is open is aborted. Raises what `flush` raises; even then the producer is
        closed.
        """
        if self._channel.is_closed or self._pid != os.getpid():
            return
        until = compute_deadline(timeout)
        try:
            if self._tracker.phase is ProducerState.OPEN:
                self._channel.abort_transaction(max(0.0, until - clocks.monotonic()))
            self.flush(max(0.0, until - clocks.monotonic()))
        finally:
            self._channel.close()
            self._waiting.fail()
            open_clients.discard(self)
            self._background.wake()
            self.client.end(max(0.0, until - clocks.monotonic()))

    def end_soon(self) -> None:
        """Post what waits at once; the process is about to end."""
        self.client.end_soon()

    def end(self, timeout_s: float) -> None:
        """Close without raising: the process ends, and what is not delivered is logged."""
        try:
            self.close(timeout_s)
        except NotedTimeError as error:
            log.warning("%s", error)

    def belong_elsewhere(self) -> None:
        """Refuse every later call, in a child of the process that created the producer."""
        elsewhere = f"the producer of writer {self.client.writer!r} belongs to another process"
        self._channel.fail(Rejected(f"{elsewhere}: create one here, under a name of its own"))

    def _find_time(self, event_time: Time | None) -> int:
        """Return an event's time, that of the clock for `None`; raises `Rejected` without one."""
        if event_time is not None:
            return unix_ms_of(event_time)
        if self._auto is None:
            raise Rejected(
                "event_time is missing: pass it, or create the producer with auto=ClockNotes(…)"
            )
        return self._auto.now_ms()

    def _split_times(
        self, event_time: Time | None, event_times: Mapping[str, Time]
    ) -> tuple[Time | None, Mapping[str, Time]]:
        """Return an event's time of the first domain, and those of others; raises `Rejected`."""
        self._tracker.check_times(event_times)
        others = dict(event_times)
        own = others.pop(self._tracker.domain or "", None)
        if own is not None and event_time is not None:
            raise Rejected(f"event_time is that of {self._tracker.domain!r}: leave one of them out")
        return event_time if own is None else own, others

    def _send(  # noqa: PLR0913, PLR0917 - what an event has
        self,
        value: Text,
        key: Text,
        partition: int,
        asked: OnDelivery | None,
        headers: Headers | None,
        stamp: int,
        others: Mapping[str, Time] | None,
        *,
        is_now: bool,
    ) -> None:
        """Give an event to librdkafka."""
        call, placing = object(), self._tracker.placing
        try:
            placing.add(call)
            epoch, stamp = self._count(stamp, others, is_now=is_now)
            deliver: OnDelivery = epoch.on_delivery
            if asked is not None:
                deliver = _call_both(deliver, asked)
            self._place(epoch, value, key, partition, deliver, deliver, stamp, headers)
        finally:
            placing.discard(call)
        self._since_poll += 1
        if self._since_poll >= POLL_EVERY:
            self._since_poll = 0
            self._channel.poll(0)

    def _place(self, epoch: Epoch, *event: Any) -> None:  # noqa: ANN401 - Confluent's
        """Give an event to librdkafka, which takes it, unless the call itself raises.

        After any other error, such as that of a signal handler, `DeliveryTracker.resolve` finds out
        whether it did.
        """
        while True:
            try:
                self._produce(self.topic, *event)
            except BufferError:
                if self._channel.is_reporting:  # no report comes before this one ends
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
        self, stamp: int, others: Mapping[str, Time] | None, *, is_now: bool
    ) -> tuple[Epoch, int]:
        """Count an event once the writer has joined, and return its epoch and its time."""
        while True:
            try:
                if is_now:
                    return self._tracker.stamped(lambda: stamp, others)
                return self._produced(stamp, others), stamp
            except Resting:
                self._channel.join_again()

    def _check_first_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Look once whether the topic keeps the timestamps of its events."""
        if error is None and self._on_delivery is not self._own:
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

    # Calls that have waited for the begin

    def _send_deferred(self, *event: Any, is_now: bool) -> None:  # noqa: ANN401 - those of `_send`
        """Send an event that has waited; one that is refused is reported as not delivered.

        It is judged by itself: Kafka would refuse the others of its batch as well.
        """
        value, key, partition, asked, headers, stamp, _ = event
        try:
            self._limits.check(stamp)
            self._send(*event, is_now=is_now)
        except Exception as error:  # noqa: BLE001 - it was accepted
            log.warning("an event of writer %r was not sent: %s", self.client.writer, error)
            with self._tracker.lock:
                self._produced().failed(error)
            if asked is not None:
                sent = {"key": _encode(key), "value": _encode(value), "headers": headers}
                why = _build_kafka_error(error)
                _report(asked, why, Message(self.topic, partition, error=why, **sent))

    def _note_deferred(self, time: int, domain: str | None) -> None:
        """Note a time that has waited; a refusal is raised later."""
        try:
            self._tracker.note(time, domain)
        except NotedTimeError as error:
            log.warning("%s", error)
            self._background.refused = self._background.refused or error


def _refuse_in_child() -> None:
    """Have all calls refused in a forked child: librdkafka's threads are the parent's."""
    for each in open_clients:
        if isinstance(each, KafkaNotedProducer):
            each.belong_elsewhere()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_in_child)


def _call_both(first: OnDelivery, second: OnDelivery) -> OnDelivery:
    def deliver(error: KafkaError | None, message: Message) -> None:
        first(error, message)
        _report(second, error, message)

    return deliver


def _report(asked: OnDelivery, error: KafkaError | None, message: Message) -> None:
    try:
        asked(error, message)
    except Exception:  # noqa: BLE001 - it would be raised in whatever thread polls
        log.exception("on_delivery failed")


def _build_kafka_error(error: Exception) -> KafkaError:
    """Return the error by which Kafka would have reported what was refused before it was sent."""
    if isinstance(error.__cause__, KafkaException):
        found: KafkaError = error.__cause__.args[0]
        return found
    is_of_time = isinstance(error, Rejected)
    code = KafkaError.INVALID_TIMESTAMP if is_of_time else KafkaError.INVALID_RECORD
    return KafkaError(code, str(error))


def _encode(part: Text) -> bytes | None:
    return part.encode() if isinstance(part, str) else part


def _check_timestamp(timestamp: int, event_time: Time | None) -> int:
    """Return the time of an event whose timestamp is given, too."""
    if event_time is not None and unix_ms_of(event_time) != timestamp:
        raise Rejected(
            f"timestamp={timestamp} is not event_time={event_time}: a record's timestamp is its "
            "event time, so leave timestamp out"
        )
    return timestamp
