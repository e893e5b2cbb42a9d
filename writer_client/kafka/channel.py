"""The channel from a noting producer to Kafka: its configuration, deliveries and transactions.

All that Kafka reports goes to a `DeliveryTracker`, whose `phase` is the state of the channel: no
transaction, an open one, or one whose outcome is unknown.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import time as clocks
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from noted_time.kafka import Topic
from noted_time.kafka.connecting import client_of
from noted_time.values import (
    LARGEST_TIME,
    ClientFailed,
    Conflict,
    DeliveryFailed,
    Fenced,
    NotedTimeError,
    Recreated,
    Rejected,
    Session,
    Unreachable,
    shown_duration,
    shown_time,
)
from writer_client.client import WriterClient
from writer_client.kafka.ends import TopicEnds
from writer_client.sending.answers import Found
from writer_client.sending.clock import unix_ms
from writer_client.sending.delivery import DeliveryTracker, OnFailure, Phase

BEGIN_S = 10.0
"""How long a producer waits for Kafka, and for the controller, before its first event."""

REPORTS_S, ATTEMPT_S = 0.2, 1.0
"""How long a wait in librdkafka, and an attempt of a commit or an abort, may hold up a signal."""

COMMIT_S = 60.0
"""How long a commit or an abort is tried, as Kafka's own transaction.timeout.ms."""

FLUSH_S = 10.0
"""How long an abort waits for deliveries first."""

WARN_S, SIGN_S = 60.0, 10.0
"""How often a warning names what failed, and at least the controller learns that it lives."""

FENCED = (KafkaError.PRODUCER_FENCED, KafkaError._FENCED)  # noqa: SLF001 - librdkafka's own begin so
FATAL = KafkaError._FATAL  # noqa: SLF001 - likewise

REFUSED = (
    (("acks", "request.required.acks"), ("0",), "reports no offsets"),
    (("enable.idempotence",), ("false", "f", "0"), "writes events twice, or out of order"),
    (("delivery.report.only.error",), ("true", "t", "1"), "reports no offsets"),
)
"""Settings that leave nothing to note: their names, the values refused, and why."""

OWN_BYTES = 1_000_000
"""librdkafka's own `message.max.bytes`, if it is not set."""

BATCH_BYTES = 61
"""What a batch of records has before the first."""

TIME_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")

LOOK_EVERY_S = 10.0
"""How often the topic's id is looked up: so long may notes carry the id of one that is gone."""

SETTINGS_S = 2.0
"""How long the settings of a topic are waited for, and how long they count at least."""

Text = str | bytes | None
Headers = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]]
TimedCall = Callable[[float], None]
Answer = TypeVar("Answer")

log = logging.getLogger("noted_time.writer.kafka")


def lower_what_is_retried(record: logging.LogRecord) -> bool:
    """Lower what librdkafka retries by itself to INFO: a broker that just started is not ready."""
    if record.getMessage().endswith(": retrying"):
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
    return True


log.addFilter(lower_what_is_retried)


class Channel:
    """A producer of Kafka's whose deliveries and transactions are reported to its `tracker`.

    Nothing is raised where an event may just have been sent, nor in callbacks: `fault` is the error
    that every later call raises. A commit or an abort without an outcome is completed before the
    next transaction begins.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topic: str,
        writer: Callable[[], WriterClient],
        *,
        domains: Sequence[str] | None,
        on_failure: OnFailure,
    ) -> None:
        """Connect, for the `writer` that is created; `begin` has it join.

        The timestamps of events are of the first of the `domains`. Raises `Rejected` for a
        configuration that cannot work.
        """
        config = checked(config)
        self.kafka = client_of(Producer, {"logger": log, **config})
        self._ends = TopicEnds(config, topic, domain=domains[0] if domains else None)
        self.limits = EventLimits(self._ends.topic, config)
        self._steps: list[Callable[[], object]] = [self._find, self._join, self._settle_in]
        self.produces_in = Phase.CLEAR
        if "transactional.id" in config:
            self.produces_in = Phase.OPEN
            self._steps.insert(1, self._take_over)
        self.client = writer()
        """The client that notes."""
        self.tracker = DeliveryTracker(
            self.client, domain=domains, look_again=self._begin, on_failure=on_failure
        )
        self.fault: NotedTimeError | None = None
        self.ended = threading.Event()
        """Set once nothing more is produced."""
        self.is_held = False
        """Whether the events of a transaction that was not committed have to be produced again."""
        self.polls = self.served = 0
        """How many times reports were looked for, and how many that were."""
        self._reporting = threading.RLock()
        """Held by the one thread that has deliveries reported; that is `_reports_in`."""
        self._reports_in: int | None = None
        self._membership = threading.RLock()
        self._resolving = threading.RLock()
        self._unresolved: TimedCall | None = None
        self._failed_since: int | None = None
        self._warn_at = self._sign_at = 0.0

    # The begin

    def begin(self) -> None:
        """Fence the producer's former self, and have the writer join, as far as that is not done.

        Raises `Rejected` for a topic or stream that cannot work, `Unreachable` if Kafka or the
        controller does not answer: then the next call continues.
        """
        while self._steps:
            self._steps[0]()
            del self._steps[0]

    def _find(self) -> None:
        """Find the topic."""
        self._ends.topic.look_again(timeout_s=BEGIN_S)
        self.limits.read()

    def _take_over(self) -> None:
        """End the transactions of the producer's former self, which is fenced from then on."""
        try:
            self.kafka.init_transactions(BEGIN_S)
        except KafkaException as error:
            kind = Unreachable if error_of(error).retriable() else Rejected
            raise kind(f"Kafka begins no transactions: {error_of(error).str()}") from error

    def _join(self) -> None:
        self.client.of_log(self._ends.topic.id)
        self._begin()

    def _settle_in(self) -> None:
        """Wait until the controller has accepted the join."""
        self.client.flush(BEGIN_S)
        self.tracker.settle()  # what is late is known from here on

    def _begin(self) -> None:
        """Join, and look the ends of the topic up once no other process may note."""
        self.client.begin(self._look_up)

    def _look_up(self, known: Mapping[int, int]) -> Found:
        """Return the ends. If the topic is another one, every later call raises that.

        What was written before the begin has timestamps, and no times of other domains.
        """
        try:
            found = self._ends.look_up(known)
        except Recreated as error:
            self.fail(error)
            raise
        if self._steps and found.max_times:
            self.tracker.knows_all = False
        return found

    def watch(self) -> None:
        """Look every ten seconds whether the topic is the same, which no delivery tells.

        If it is another one, every later call raises that, and nothing more is noted.
        """
        while not self.ended.wait(LOOK_EVERY_S):
            try:
                self._ends.check_same(self.client.position)
            except Recreated as error:
                self.fault = self.fault or error
                log.warning("%s", error)
                self.client.end(0.0)
                return
            except NotedTimeError as error:  # nobody answers, or it is deleted and not yet created
                log.debug("%s", error)

    # Events

    def join_again(self) -> None:
        """Have the controller wait again for the writer, if it rests."""
        with self._membership:
            if self.tracker.rests:
                self.client.join()
                self.client.flush(BEGIN_S)
                self.tracker.rests = False

    def rest(self, until: float, leave: Callable[[], Answer]) -> Answer:
        """Deliver all events, and `leave`, which asks the controller not to wait.

        Every later event joins first; both under the tracker's lock.
        """
        with self._membership:
            while True:
                self.deliver(until)
                with self.tracker.lock:
                    if not self.tracker.under_way:  # else another thread has produced since
                        self.tracker.ends()
                        self.tracker.rests = True
                        break
            return leave()

    def rest_if_done(self) -> None:
        """Do so at once, unless something is under way, open or held."""
        with self._membership, suppress(NotedTimeError):
            with self.tracker.lock:
                self.tracker.ends()
                self.tracker.rests = True
            self.client.idle()

    def deliver(self, until: float) -> None:
        """Deliver all events, once it is known whether the last transaction was committed."""
        self.check()
        if self.tracker.phase is Phase.UNRESOLVED:
            self._resolve(max(0.0, until - clocks.monotonic()))
        self._wait(until)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Log in with these from the next connection on, also to look at the topic."""
        self.kafka.set_sasl_credentials(username, password)
        self._ends.topic.set_sasl_credentials(username, password)

    def forgive(self) -> None:
        """Continue after a failure, as the tracker does."""
        self.is_held = False
        self.tracker.forgive()
        self.poll(0)

    def fail(self, fault: NotedTimeError) -> None:
        """Have every later call raise the error, unless there is one that they raise."""
        self.fault = self.fault or fault

    def check(self) -> None:
        """Raise if nothing can be sent or noted any more: `Fenced`, `ClientFailed`, `Rejected`."""
        if self.fault is not None:
            raise self.fault
        if self.client.is_fenced:
            self.tracker.count_rows()
        self.client.check()
        if self.tracker.raises:
            self.tracker.check()

    def poll(self, timeout_s: float) -> None:
        """Have deliveries reported, and note what may leave.

        Without a timeout it leaves them to a thread that has them reported already.
        """
        self.polls += 1
        if self._reports_in is None or (timeout_s > 0 and not self.is_reporting):
            self.served += self._have_reported(lambda: self.kafka.poll(timeout_s))
        self._settle()

    @property
    def is_reporting(self) -> bool:
        """Whether this thread is inside a delivery callback: it cannot wait for another one."""
        return self._reports_in == threading.get_ident()

    def _have_reported(self, call: Callable[[], Answer]) -> Answer:
        """Have deliveries reported by a call of librdkafka's; one thread at a time does so.

        A signal handler may raise at any call. `with` alone takes and releases the lock for sure.
        """
        with self._reporting:
            outer = self._reports_in
            try:
                self._reports_in = threading.get_ident()
                answer = _as_raised(call)
                if outer is None:
                    self.tracker.resolve(lambda: len(self.kafka))
                return answer
            finally:
                self._reports_in = outer

    def _wait(self, until: float) -> None:
        """Wait until no event is under way; raises `DeliveryFailed`, or `Unreachable` then."""
        while under_way := self.tracker.under_way:
            if self.is_reporting:
                raise Rejected("on_delivery runs inside a poll: it cannot wait for deliveries")
            left_s = until - clocks.monotonic()
            if left_s <= 0:
                raise Unreachable(
                    f"Kafka has not taken {under_way} events of writer {self.client.writer!r} in "
                    "time: they are kept and tried further"
                )
            try:
                self._have_reported(partial(self.kafka.flush, min(left_s, REPORTS_S)))
            except KafkaException as error:
                raise self.named(error) from error
            self._settle()
        self._settle()
        self.check()
        self.tracker.check()

    def _settle(self) -> None:
        """Note what may leave."""
        try:
            self.tracker.settle()
        except Fenced:
            return  # the client says so whenever it is asked
        except NotedTimeError as error:
            self.fail(error)
        if self.tracker.failed or self._failed_since is not None:
            with suppress(Rejected):  # it cannot note any more
                self._say(self.tracker.failure, clocks.monotonic())

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit the block, or abort it if it raises; see `KafkaNotedProducer.transaction`."""
        self.begin_transaction()
        try:
            yield
            self._wait(clocks.monotonic() + COMMIT_S)
        except BaseException:
            if self.tracker.phase is Phase.OPEN:
                self._abort(COMMIT_S)
            raise
        self.commit_transaction(COMMIT_S)

    def begin_transaction(self) -> None:
        """Begin a transaction, once it is known what became of the last one."""
        self.check_transactional()
        self.check()
        if self.tracker.phase is Phase.OPEN:
            raise Rejected("a transaction is open already: they do not nest")
        self._resolve(COMMIT_S)
        try:
            self.kafka.begin_transaction()
        except KafkaException as error:
            raise self.named(error) from error
        self.tracker.begin()

    def commit_transaction(self, timeout_s: float) -> None:
        """Commit, and note what the transaction noted; raises as `_wait` and `_resolve`.

        If the outcome of the last commit is unknown, find it out.
        """
        until = clocks.monotonic() + timeout_s
        if self.tracker.phase is not Phase.UNRESOLVED:
            self._check_open()
            self.is_held = True
            self._wait(until)
            self._unresolved = self.kafka.commit_transaction
        try:
            self._resolve(max(0.0, until - clocks.monotonic()))
        finally:
            if self.tracker.phase is Phase.OPEN:
                self.tracker.commit(is_certain=self._unresolved is None)
        self.is_held = False

    def abort_transaction(self, timeout_s: float) -> None:
        """Abort, and drop what was produced and noted; without a transaction, do nothing."""
        self.check_transactional()
        if self.tracker.phase is Phase.UNRESOLVED:
            raise Rejected(
                "whether the transaction was committed is unknown: call `commit_transaction` again"
            )
        if self.tracker.phase is Phase.OPEN:
            self._abort(timeout_s)

    def send_offsets(
        self, positions: list[TopicPartition], group_metadata: object, timeout_s: float
    ) -> None:
        """Commit consumed offsets with the transaction."""
        self.check()
        self._check_open()
        send = partial(self.kafka.send_offsets_to_transaction, positions, group_metadata)
        try:
            self._complete(send, timeout_s)
        except KafkaException as error:
            said = f"the offsets of writer {self.client.writer!r}: {error_of(error).str()}"
            if error_of(error).txn_requires_abort():
                raise Conflict(f"{said}; abort the transaction, and do it again") from error
            if error_of(error).retriable():
                raise Unreachable(f"{said}; send them again") from error
            raise self.named(error) from error

    def check_transactional(self) -> None:
        """Raise `Rejected` without a transactional.id."""
        if self.produces_in is Phase.CLEAR:
            raise Rejected("transactions need a transactional.id in the configuration")

    def _check_open(self) -> None:
        self.check_transactional()
        if self.tracker.phase is not Phase.OPEN:
            raise Rejected("no transaction is open: begin one first")

    def _resolve(self, timeout_s: float) -> None:
        """Find out what became of the last transaction if that is unknown.

        Raises `Conflict` if Kafka demands an abort, which is done, and `Unreachable` if the outcome
        is still unknown.
        """
        try:
            with self._resolving:
                self._end(timeout_s)
        except KafkaException as error:
            if not error_of(error).retriable() or self.tracker.phase is Phase.CLEAR:
                raise self.named(error) from error
            raise Unreachable(
                f"whether the transaction of writer {self.client.writer!r} was "
                f"committed is unknown: {error_of(error).str()}; nothing is noted until that is "
                "known, which the next transaction, `flush`, `idle` and `finish` find out"
            ) from error

    def _abort(self, timeout_s: float) -> None:
        """Abort, and drop what was produced and noted; what Kafka refuses is raised later.

        It flushes first: an abort amid the first batch was fatal to librdkafka once.
        """
        self.is_held = True
        self._unresolved = self.kafka.abort_transaction
        try:
            with suppress(NotedTimeError):
                self._wait(clocks.monotonic() + min(FLUSH_S, timeout_s))
            with suppress(KafkaException):
                self._end(timeout_s)
        finally:
            self.tracker.abort()

    def _end(self, timeout_s: float) -> None:
        """Complete the commit or abort that has no outcome yet; a commit may turn out as abort."""
        if self._unresolved is None:
            return
        try:
            self._complete(self._unresolved, timeout_s)
        except KafkaException as error:
            if not error_of(error).txn_requires_abort():
                raise
            self._complete(self.kafka.abort_transaction, timeout_s)
            self._unresolved = None
            self.tracker.abort()
            raise Conflict(
                f"Kafka aborted the transaction of writer {self.client.writer!r}: "
                f"{error_of(error).str()}; produce all of its events again"
            ) from error
        self._unresolved = None
        if self.tracker.phase is Phase.UNRESOLVED:
            self.tracker.commit()

    def _complete(self, call: TimedCall, timeout_s: float) -> None:
        """Repeat a call until it has an outcome, or for that long."""
        until = clocks.monotonic() + timeout_s
        while True:
            try:
                self._have_reported(partial(call, ATTEMPT_S))
            except KafkaException as error:
                if not error_of(error).retriable() or clocks.monotonic() > until:
                    raise
            else:
                return

    # Failures

    def _say(self, failure: DeliveryFailed | None, now: float) -> None:
        """Log that events failed, and have the controller know that the writer lives."""
        if failure is None:
            self._failed_since, self._warn_at, self._sign_at = None, 0.0, 0.0
            self.client.hold(None)
            return
        self._failed_since = self._failed_since or unix_ms()
        if now >= self._warn_at:
            self._warn_at = math.inf if self.tracker.raises else now + WARN_S
            log.warning("%s", failure)
        if now >= self._sign_at:
            timeout_s = (self.client.known_timeout_ms or math.inf) / 1000
            self._sign_at = now + min(SIGN_S, timeout_s / 3)
            events = "1 event was" if failure.failed == 1 else f"{failure.failed} events were"
            since = shown_time(self._failed_since // 1000 * 1000)
            self.client.hold(f"{events} not delivered since {since}")

    def named(self, error: KafkaException) -> NotedTimeError:
        """Return an error of Kafka's as one of ours; a fatal one is raised from now on."""
        found = self._fatal(error_of(error))
        if found is None:
            return Rejected(f"Kafka's client refuses: {error_of(error).str()}")
        writer = self.client.writer
        if found.code() in FENCED:
            # Kafka says the same in both cases
            label = (
                "another producer with its transactional.id, "
                "or the broker after transaction.timeout.ms,"
            )
            self.fault = Fenced(writer, Session(None, label, unix_ms()), 0)
        else:
            self.fault = ClientFailed(
                f"Kafka's client of writer {writer!r} failed for good: {found.str()}; create a new "
                "producer, which begins at the ends of the topic"
            )
        return self.fault

    def _fatal(self, error: KafkaError) -> KafkaError | None:
        """Return the error after which nothing can be done any more, if it is such a one.

        A call only says that there was one; to begin a transaction says which.
        """
        if error.code() == FATAL:
            try:
                self.kafka.begin_transaction()
            except KafkaException as again:
                return error_of(again) if error_of(again).fatal() else error
        return error if error.fatal() else None


class EventLimits:
    """What the client and the topic's settings refuse of an event: known before it is sent.

    Only an event with a time outside `earliest` to `latest`, more than `light` bytes or characters,
    or headers needs a `check`. Until the settings are read, and without the right to read them, the
    broker alone judges.
    """

    def __init__(self, topic: Topic, config: Mapping[str, Any]) -> None:
        self._topic = topic
        self._own = int(config.get("message.max.bytes", OWN_BYTES))
        codec = config.get("compression.type", config.get("compression.codec", "none"))
        self._is_compressed = str(codec).lower() != "none"
        self._read_at = -SETTINGS_S
        self._before = self._after = self._bytes = LARGEST_TIME
        self._weigh()

    def check(self, stamp: int, value: Text, key: Text, headers: Headers | None) -> None:
        """Raise `Rejected`, with the limit, for an event that would be refused."""
        if self._fault(stamp, value, key, headers):
            self.read()  # they may have been changed
            fault = self._fault(stamp, value, key, headers)
            if fault:
                raise Rejected(f"the event was not sent: {fault}")

    def _fault(self, stamp: int, value: Text, key: Text, headers: Headers | None) -> str:
        now, name = self._bound(), f"Kafka topic {self._topic.name!r}"
        if not 0 < stamp < LARGEST_TIME:
            return f"event_time must be positive and in int64, got {stamp}: Kafka reads 0 as 'now'"
        if not self.earliest <= stamp <= self.latest:
            is_ahead = stamp > now
            limit = f"after.max.ms={self._after}" if is_ahead else f"before.max.ms={self._before}"
            apart = f"{shown_duration(abs(stamp - now))} {'ahead of' if is_ahead else 'behind'}"
            at = f"event_time {shown_time(stamp)} is {apart} this clock"
            return f"{at}, and {name} has message.timestamp.{limit}"
        parts = [_bytes(value), _bytes(key)]
        names = list(headers.items() if isinstance(headers, dict) else headers or ())
        parts += [_bytes(each) for header in names for each in header]
        if sum(parts) > self._own:
            return f"it has {sum(parts)} bytes, and this client message.max.bytes={self._own}"
        size = 3 + _varint(len(names)) + sum(_varint(part) + part for part in parts)
        size += BATCH_BYTES + _varint(size)
        if size > self._bytes and not self._is_compressed:
            return f"it takes {size} bytes, and {name} has max.message.bytes={self._bytes}"
        return ""

    def _bound(self) -> int:
        """Move the bounds of times with the clock, and return it."""
        now = unix_ms()
        self.earliest = max(1, now - self._before)
        self.latest = min(LARGEST_TIME - 1, now + self._after)
        return now

    def read(self) -> None:
        """Read the settings, unless that was just done; what cannot be read is left as it was."""
        if clocks.monotonic() - self._read_at < SETTINGS_S:
            return
        try:
            found = self._topic.settings(timeout_s=SETTINGS_S)
        except NotedTimeError as error:
            log.info("what Kafka topic %r refuses is not known: %s", self._topic.name, error)
        else:
            any_time = found.get("message.timestamp.type") == "LogAppendTime"
            between = found.get("message.timestamp.difference.max.ms", LARGEST_TIME)
            self._before, self._after = (
                LARGEST_TIME if any_time else int(found.get(name, between)) for name in TIME_LIMITS
            )
            self._bytes = int(found.get("max.message.bytes", LARGEST_TIME))
        self._read_at = clocks.monotonic()
        self._weigh()

    def _weigh(self) -> None:
        is_aging = self._before < self._bound()  # then each event is checked
        self.light = -1 if is_aging else min(self._own, self._bytes) // 4 - BATCH_BYTES


def checked(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration that reports where events are written; raises `Rejected`."""
    for names, values, why in REFUSED:
        for name in names:
            if str(config.get(name, "")).lower() in values:
                raise Rejected(
                    f"{name}={config[name]} {why}, so time cannot be noted: leave it out"
                )
    return {**config, "enable.idempotence": True}


def error_of(error: KafkaException) -> KafkaError:
    """Return what librdkafka says."""
    found: KafkaError = error.args[0]
    return found


class _Reporting(Exception):
    """See `_as_raised`."""


def _as_raised(call: Callable[[], Answer]) -> Answer:
    """Make a call of librdkafka's, which raises what callbacks and signal handlers raise in it.

    Before Python 3.12 confluent-kafka garbles an exception of which Python has not yet created the
    object, such as that of `sys.exit` or Ctrl-C in a handler that runs as a callback begins. While
    another exception is handled, Python creates it at once.
    """
    if sys.version_info >= (3, 12):
        return call()
    try:
        raise _Reporting  # noqa: TRY301 - only to be handled
    except _Reporting as reporting:
        try:
            return call()
        except BaseException as error:
            if error.__context__ is reporting:
                error.__context__ = reporting.__context__
            raise


def _bytes(part: Text) -> int:
    return len(part.encode() if isinstance(part, str) else part or b"")


def _varint(number: int) -> int:
    """Return how many bytes Kafka writes a length in."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
