"""Connects a producer to Kafka: configuration, deliveries, transactions."""

from __future__ import annotations

import json
import logging
import math
import sys
import threading
import time as clocks
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from noted_time.kafka.connecting import create_client
from noted_time.values import (
    ClientFailed,
    Conflict,
    DeliveryFailed,
    Fenced,
    NotedTimeError,
    Recreated,
    Rejected,
    Session,
    Unreachable,
    format_time,
    pluralize,
)
from writer_client.at_exit import open_clients
from writer_client.client import WriterClient, get_stream_questions
from writer_client.kafka.ends import TopicEnds
from writer_client.kafka.limits import EventLimits
from writer_client.sending.answers import FoundPosition
from writer_client.sending.clock import unix_ms
from writer_client.sending.delivery import DeliveryTracker, OnFailure
from writer_client.sending.producer_state import IN_DOUBT, Call, Event, ProducerState, advance
from writer_client.sending.writer import get_inner_writer

BEGIN_S = 10.0

REPORTS_S = 0.2  # a longer wait for reports would delay signal handlers

ATTEMPT_S = 1.0  # as for reports, of one attempt to commit or to abort

COMMIT_S = 60.0  # Kafka's default of transaction.timeout.ms

FLUSH_S = 10.0

WARN_S = 60.0  # between two warnings of failed events

SIGN_S = 10.0  # at most, between two signs of life without a note

FENCED_CODES = (KafkaError.PRODUCER_FENCED, KafkaError._FENCED)  # noqa: SLF001 - librdkafka's own codes
FATAL_CODE = KafkaError._FATAL  # noqa: SLF001 - likewise

REFUSED_SETTINGS = (
    (("acks", "request.required.acks"), ("0",), "reports no offsets"),
    (("enable.idempotence",), ("false", "f", "0"), "writes events twice, or out of order"),
    (("delivery.report.only.error",), ("true", "t", "1"), "reports no offsets"),
)

MARKED_SOURCE = "is the cut of the stream's last mark, perhaps of another log such as files"

BEYOND_WARNING = (
    "stream %r was noted beyond the ends of Kafka topic %r: partition %s. Readers wait for these "
    "rows: page 'Symptoms and remedies', section 'An offset is wrong'"
)

CHECK_INTERVAL_S = 10.0  # notes may refer to a deleted topic for so long

TimedCall = Callable[[float], None]
Answer = TypeVar("Answer")

log = logging.getLogger("noted_time.writer.kafka")


def lower_retry_level(record: logging.LogRecord) -> bool:
    if record.getMessage().endswith(": retrying"):
        record.levelno = logging.INFO
        record.levelname = logging.getLevelName(logging.INFO)
    return True


log.addFilter(lower_retry_level)


class Channel:
    """A Kafka producer whose deliveries and transactions are reported to its `tracker`.

    Every later call raises its `fault`. A commit or abort without an outcome is completed before
    the next transaction.
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
        """Timestamps belong to the first of the `domains`."""
        config = validate_config(config)
        self.kafka = create_client(Producer, {"logger": log, **config})
        self._first_domain = {"domain": domains[0]} if domains else {}
        self._ends = TopicEnds(config, topic, **self._first_domain)
        self.limits = EventLimits(self._ends.topic)
        self._steps: list[Callable[[], object]] = [self._find, self._join, self._wait_for_join]
        self._is_transactional = "transactional.id" in config
        self.produces_in = ProducerState.OPEN if self._is_transactional else ProducerState.CLEAR
        if self._is_transactional:
            self._steps.insert(1, self._take_over)
        self.client = writer()
        self.inner = get_inner_writer(self.client)
        self._questions = get_stream_questions(self.client)
        self.ending = open_clients.pop(self.client)  # the producer ends it, after deliveries
        self.tracker = DeliveryTracker(
            self.client, domain=domains, look_again=self._begin_at_ends, on_failure=on_failure
        )
        self.fault: NotedTimeError | None = None
        self._ended = threading.Event()
        self.polls = 0
        self.served = 0
        self._reporting = threading.RLock()  # held while serving delivery reports
        self._reports_in: int | None = None
        self._membership = threading.RLock()
        self._resolving = threading.RLock()
        self._failed_since: int | None = None
        self._warn_at = 0.0
        self._hold_at = 0.0

    def begin(self) -> None:
        """Fence the earlier process, and join. After `Unreachable`, the next call continues."""
        while self._steps:
            self._steps[0]()
            del self._steps[0]
        name = f"noted-time topic {self._ends.topic.name}"
        threading.Thread(target=self._watch, name=name, daemon=True).start()

    def _find(self) -> None:
        self._ends.topic.look_again()
        self.limits.read()
        # if writers noted another log, readers of the topic would wait for offsets that it lacks
        self._ends.check_same(self._questions.find_cut_without_log().offsets, MARKED_SOURCE)

    def _take_over(self) -> None:
        try:
            self.kafka.init_transactions(BEGIN_S)
        except KafkaException as error:
            kind = Unreachable if get_kafka_error(error).retriable() else Rejected
            raise kind(
                f"Kafka cannot begin transactions: {get_kafka_error(error).str()}"
            ) from error

    def _join(self) -> None:
        self.client.of_log(self._ends.topic.id)
        self._begin_at_ends()

    def _wait_for_join(self) -> None:
        self.client.flush(BEGIN_S)
        self.tracker.settle()  # the bound for late events is known now

    def _begin_at_ends(self) -> None:
        self.client.begin(self._look_up)

    def _look_up(self, noted_position: Mapping[int, int]) -> FoundPosition:
        try:
            found_position = self._ends.look_up(noted_position)
        except Recreated as error:
            self.fail(error)
            raise
        is_beginning = bool(self._steps)
        if is_beginning and found_position.max_times:
            self.tracker.knows_all = False  # earlier events have no times of other domains
        return found_position

    def _warn_of_offsets_beyond(self) -> None:
        topic = self._ends.topic
        facts = []
        needed_position = {}
        try:
            query = {"position": json.dumps(topic.look_again().ends), **self._first_domain}
            reader = self._questions.explain(query).reader
            if reader is None or not reader.waiting_for:
                return
            for segment in reader.waiting_for:
                facts.append(f"{segment.segment} to {segment.needed} by {segment.writer}")
                needed_position[segment.segment] = segment.needed
            self._ends.check_same(needed_position)
        except Recreated:
            log.warning(BEYOND_WARNING, self.client.stream, topic.name, ", ".join(facts))
        except NotedTimeError as error:  # such as a token that may not read
            log.debug("%s", error)

    def _watch(self) -> None:
        self._warn_of_offsets_beyond()
        while not self._ended.wait(CHECK_INTERVAL_S):
            try:
                self._ends.check_same(self.client.position)
            except Recreated as error:
                self.fail(error)
                log.warning("%s", error)
                self.ending.end(0.0)
                return
            except NotedTimeError as error:  # no answer, or a deleted topic
                log.debug("%s", error)

    def join_again(self) -> None:
        with self._membership:
            if self.tracker.rests:
                self.client.join()
                self.client.flush(BEGIN_S)
                self.tracker.rests = False

    def rest(self, until: float, leave: Callable[[], Answer]) -> Answer:
        with self._membership:
            while True:
                self.deliver(until)
                with self.tracker.lock:
                    if not self.tracker.under_way:  # otherwise another thread has produced since
                        self.tracker.leave()
                        self.tracker.rests = True
                        break
            return leave()

    def deliver(self, until: float) -> None:
        self.check()
        if self.tracker.phase in IN_DOUBT:
            self._resolve(max(0.0, until - clocks.monotonic()))
        self._wait(until)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        self.kafka.set_sasl_credentials(username, password)
        self._ends.topic.set_sasl_credentials(username, password)

    def fail(self, fault: NotedTimeError) -> None:
        self.fault = self.fault or fault

    def close(self) -> None:
        self.fail(Rejected(f"the producer of writer {self.client.writer!r} is closed"))
        self._ended.set()

    @property
    def is_closed(self) -> bool:
        return self._ended.is_set()

    def check_event(self) -> None:
        self.check()
        if self._is_transactional:
            advance(self.tracker.phase, "produce")

    def check(self) -> None:
        if self.fault is not None:
            raise self.fault
        if self.inner.is_fenced:
            self.tracker.count_rows()
        self.client.check()
        if self.tracker.raises:
            self.tracker.check()

    def poll(self, timeout_s: float) -> None:
        """Serve delivery reports, and send the notes that are ready.

        Without a timeout, leaves the reports to another thread that serves them.
        """
        self.polls += 1
        if self._reports_in is None or (timeout_s > 0 and not self.is_reporting):
            self.served += self._report_during(lambda: self.kafka.poll(timeout_s))
        self._settle()

    @property
    def is_reporting(self) -> bool:
        """Whether this thread is in a delivery callback, and so cannot wait."""
        return self._reports_in == threading.get_ident()

    def _report_during(self, call: Callable[[], Answer]) -> Answer:
        with self._reporting:  # `with` releases the lock even if a signal handler raises
            outer = self._reports_in
            try:
                self._reports_in = threading.get_ident()
                answer = _call_librdkafka(call)
                if outer is None:
                    self.tracker.resolve(lambda: len(self.kafka))
                return answer
            finally:
                self._reports_in = outer

    def _wait(self, deadline: float) -> None:
        while under_way := self.tracker.under_way:
            if self.is_reporting:
                raise Rejected("on_delivery runs inside a poll: it cannot wait for deliveries")
            left_s = deadline - clocks.monotonic()
            if left_s <= 0:
                raise Unreachable(
                    f"writer {self.client.writer!r}: Kafka has not acknowledged "
                    f"{pluralize(under_way, 'event')} in time; all events are kept and retried"
                )
            try:
                self._report_during(partial(self.kafka.flush, min(left_s, REPORTS_S)))
            except KafkaException as error:
                raise self.translate_error(error) from error
            self._settle()
        self._settle()
        self.check()
        self.tracker.check()

    def _settle(self) -> None:
        try:
            self.tracker.settle()
        except Fenced:
            return  # `check` of the client raises it
        except NotedTimeError as error:
            self.fail(error)
        if self.tracker.failed or self._failed_since is not None:
            with suppress(Rejected):  # the client cannot note any more
                self._report_failure(self.tracker.failure, clocks.monotonic())

    def begin_transaction(self) -> None:
        self.check_transactional()
        self.check()
        advance(self.tracker.phase, "begin")
        self._resolve(COMMIT_S)
        try:
            self.kafka.begin_transaction()
        except KafkaException as error:
            raise self.translate_error(error) from error
        self.tracker.begin()

    def commit_transaction(self, timeout_s: float) -> None:
        until = clocks.monotonic() + timeout_s
        self._check_call("commit")
        if self.tracker.phase is ProducerState.OPEN:
            self._wait(until)
            self.tracker.step("commit")
        try:
            self._resolve(max(0.0, until - clocks.monotonic()))
        finally:
            self.tracker.step("doubted")

    def abort_transaction(self, timeout_s: float) -> None:
        """Flush first: librdkafka failed fatally when an abort interrupted the first batch."""
        self._check_call("abort")
        if self.tracker.phase is not ProducerState.OPEN:
            return
        outcome: Event = "dropped"
        try:
            with suppress(NotedTimeError):
                self._wait(clocks.monotonic() + min(FLUSH_S, timeout_s))
            with suppress(KafkaException):
                self._complete(self.kafka.abort_transaction, timeout_s)
                outcome = "aborted"
        finally:
            self.tracker.step(outcome)

    def send_offsets(
        self, positions: list[TopicPartition], group_metadata: object, timeout_s: float
    ) -> None:
        self.check()
        self._check_call("offsets")
        send = partial(self.kafka.send_offsets_to_transaction, positions, group_metadata)
        try:
            self._complete(send, timeout_s)
        except KafkaException as error:
            fact = f"the offsets of writer {self.client.writer!r}: {get_kafka_error(error).str()}"
            if get_kafka_error(error).txn_requires_abort():
                raise Conflict(f"{fact}; abort the transaction, and do it again") from error
            if get_kafka_error(error).retriable():
                raise Unreachable(f"{fact}; send them again") from error
            raise self.translate_error(error) from error

    def check_transactional(self) -> None:
        if not self._is_transactional:
            raise Rejected("transactions need a transactional.id in the configuration")

    def _check_call(self, call: Call) -> None:
        self.check_transactional()
        advance(self.tracker.phase, call)

    def _resolve(self, timeout_s: float) -> None:
        """Complete a commit or an abort whose outcome is unknown."""
        with self._resolving:
            phase = self.tracker.phase
            try:
                if phase is ProducerState.UNABORTED:
                    self._complete(self.kafka.abort_transaction, timeout_s)
                    self.tracker.step("aborted")
                elif phase in IN_DOUBT:
                    self._commit(timeout_s)
            except KafkaException as error:
                if not get_kafka_error(error).retriable() or phase is ProducerState.UNABORTED:
                    raise self.translate_error(error) from error
                raise Unreachable(
                    f"it is unknown whether the transaction of writer {self.client.writer!r} was "
                    f"committed: {get_kafka_error(error).str()}; nothing is noted until the next "
                    "transaction, `flush`, `idle` or `finish` finds it out"
                ) from error

    def _commit(self, timeout_s: float) -> None:
        try:
            self._complete(self.kafka.commit_transaction, timeout_s)
        except KafkaException as error:
            if not get_kafka_error(error).txn_requires_abort():
                raise
            self._complete(self.kafka.abort_transaction, timeout_s)
            self.tracker.abort()
            raise Conflict(
                f"Kafka aborted the transaction of writer {self.client.writer!r}: "
                f"{get_kafka_error(error).str()}; produce all of its events again"
            ) from error
        self.tracker.step("committed")

    def _complete(self, call: TimedCall, timeout_s: float) -> None:
        until = clocks.monotonic() + timeout_s
        while True:
            try:
                self._report_during(partial(call, ATTEMPT_S))
            except KafkaException as error:
                if not get_kafka_error(error).retriable() or clocks.monotonic() > until:
                    raise
            else:
                return

    def _report_failure(self, failure: DeliveryFailed | None, now: float) -> None:
        if failure is None:
            self._failed_since = None
            self._warn_at = 0.0
            self._hold_at = 0.0
            self.client.report_no_time(None)
            return
        self._failed_since = self._failed_since or unix_ms()
        if now >= self._warn_at:
            self._warn_at = math.inf if self.tracker.raises else now + WARN_S
            log.warning("%s", failure)
        if now >= self._hold_at:
            timeout_s = (self.inner.known_timeout_ms or math.inf) / 1000
            self._hold_at = now + min(SIGN_S, timeout_s / 3)
            events = "1 event was" if failure.failed == 1 else f"{failure.failed} events were"
            since = format_time(self._failed_since // 1000 * 1000)
            self.client.report_no_time(f"{events} not delivered since {since}")

    def translate_error(self, error: KafkaException) -> NotedTimeError:
        fatal = self._find_fatal(get_kafka_error(error))
        if fatal is None:
            return Rejected(f"Kafka's client refuses: {get_kafka_error(error).str()}")
        writer = self.client.writer
        if fatal.code() in FENCED_CODES:
            # Kafka reports the same error in both cases
            label = (
                "another producer with its transactional.id, "
                "or the broker after transaction.timeout.ms,"
            )
            fault: NotedTimeError = Fenced(writer, Session(None, label, unix_ms()), 0)
        else:
            fault = ClientFailed(
                f"Kafka's client of writer {writer!r} failed for good: {fatal.str()}; create a new "
                "producer, which begins at the ends of the topic"
            )
        self.fail(fault)
        return fault

    def _find_fatal(self, error: KafkaError) -> KafkaError | None:
        """Return the fatal error, `None` if the error is not fatal.

        Begins a transaction if needed, because librdkafka then reports the fatal error.
        """
        if error.code() == FATAL_CODE:
            try:
                self.kafka.begin_transaction()
            except KafkaException as exception:
                fatal_error = get_kafka_error(exception)
                if fatal_error.fatal():
                    return fatal_error
                return error
        if error.fatal():
            return error
        return None


def validate_config(config: Mapping[str, Any]) -> dict[str, Any]:
    for names, values, effect in REFUSED_SETTINGS:
        for name in names:
            if str(config.get(name, "")).lower() in values:
                raise Rejected(
                    f"{name}={config[name]} {effect}, so time cannot be noted: leave it out"
                )
    return {**config, "enable.idempotence": True}


def get_kafka_error(error: KafkaException) -> KafkaError:
    kafka_error: KafkaError = error.args[0]
    return kafka_error


class _Reporting(Exception): ...


def _call_librdkafka(call: Callable[[], Answer]) -> Answer:
    """Call librdkafka, and raise exceptions of callbacks and signal handlers unchanged.

    Before Python 3.12, confluent-kafka garbles exceptions without an object, such as
    `KeyboardInterrupt`. While another exception is handled, the object exists at once.
    """
    if sys.version_info >= (3, 12):
        return call()
    try:
        raise _Reporting  # noqa: TRY301 - raised to be handled
    except _Reporting as reporting:
        try:
            return call()
        except BaseException as error:
            if error.__context__ is reporting:
                error.__context__ = reporting.__context__
            raise
