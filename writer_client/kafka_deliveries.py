"""How a Kafka producer's deliveries are reported, and what Kafka refuses it: kept and named."""

from __future__ import annotations

import logging
import math
import threading
import time as clocks
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Producer

from noted_time.values import (
    ClientFailed,
    DeliveryFailed,
    Fenced,
    NotedTimeError,
    Recreated,
    Rejected,
    Session,
    Unreachable,
    shown_time,
)
from writer_client.answers import Found
from writer_client.client import WriterClient
from writer_client.delivery import DeliveryTracker, OnFailure
from writer_client.kafka_ends import TopicEnds
from writer_client.posting import unix_ms

SLICE_S = 0.2
"""How long one wait in librdkafka may hold up a signal."""

log = logging.getLogger("noted_time.writer.kafka")


def lower_what_is_retried(record: logging.LogRecord) -> bool:
    """Lower what librdkafka retries by itself to INFO: a broker that just started is not ready."""
    if record.getMessage().endswith(": retrying"):
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
    return True


log.addFilter(lower_what_is_retried)

FENCED = (KafkaError.PRODUCER_FENCED, KafkaError._FENCED)  # noqa: SLF001 - librdkafka's own begin so
FATAL = KafkaError._FATAL  # noqa: SLF001 - likewise


WARN_S, SIGN_S = 60.0, 10.0
"""How often a warning names what failed, and at least the controller learns that it lives."""


@dataclass(slots=True)
class Failing:
    """Events failed `since` that moment in Unix ms; when that is said again."""

    since: int
    warn_at: float = 0.0
    sign_at: float = 0.0


class Deliveries:
    """A producer of Kafka's whose deliveries are reported to the tracker of `client`.

    Nothing is raised where an event may just have been sent, nor in callbacks: `fault` is the error
    that every later call raises.
    """

    def __init__(
        self,
        kafka: Producer,
        client: WriterClient,
        ends: TopicEnds,
        domain: str | None,
        on_failure: OnFailure,
    ) -> None:
        self.kafka = kafka
        self.client = client
        self.tracker = DeliveryTracker(
            client, domain=domain, look_again=self.begin, on_failure=on_failure
        )
        self.raises = on_failure == "raise"
        self.fault: NotedTimeError | None = None
        self.polls = 0
        """How many times reports were looked for."""
        self.reporting = threading.RLock()
        """Held by the one thread that has deliveries reported."""
        self._ends = ends
        self._failing: Failing | None = None

    def begin(self) -> None:
        """Join, and look the ends of the topic up once no other process may note."""
        self.client.begin(self._look_up)

    def _look_up(self, known: Mapping[int, int]) -> Found:
        """Return the ends; that the topic is another one is raised by every later call."""
        try:
            return self._ends.look_up(known)
        except Recreated as error:
            self.fault = self.fault or error
            raise

    def check(self) -> None:
        """Raise if nothing can be sent or noted any more: `Fenced`, `ClientFailed`, `Rejected`."""
        if self.fault is not None:
            raise self.fault
        if self.client.is_fenced:
            self.tracker.count_rows()
        self.client.check()
        if self.raises:
            self.tracker.check()

    def poll(self, timeout_s: float) -> None:
        """Have deliveries reported, and note what may leave."""
        self.polls += 1
        if self.reporting.acquire(blocking=timeout_s > 0):
            try:
                self.kafka.poll(timeout_s)
            finally:
                self.reporting.release()
        self.settle()

    def wait(self, until: float) -> None:
        """Wait until no event is under way; raises `DeliveryFailed`, or `Unreachable` then."""
        while under_way := self.tracker.under_way:
            left_s = until - clocks.monotonic()
            if left_s <= 0:
                raise Unreachable(
                    f"Kafka has not taken {under_way} events of writer {self.client.writer!r} in "
                    "time: they are kept and tried further"
                )
            try:
                with self.reporting:
                    self.kafka.flush(min(left_s, SLICE_S))
            except KafkaException as error:
                raise self.named(error) from error
            self.settle()
        self.settle()
        self.check()
        self.tracker.check()

    def settle(self) -> None:
        """Note what may leave."""
        try:
            self.tracker.settle()
        except Fenced:
            return  # the client says so whenever it is asked
        except NotedTimeError as error:
            self.fault = self.fault or error
        if self.tracker.failed or self._failing is not None:
            with suppress(Rejected):  # it cannot note any more
                self._say(self.tracker.failure, clocks.monotonic())

    def _say(self, failure: DeliveryFailed | None, now: float) -> None:
        """Log that events failed, and have the controller know that the writer lives."""
        failing = self._failing
        if failure is None:
            self._failing = None
            self.client.hold(None)
            return
        if failing is None:
            self._failing = failing = Failing(unix_ms())
        if now >= failing.warn_at:
            failing.warn_at = math.inf if self.raises else now + WARN_S
            log.warning("%s", failure)
        if now >= failing.sign_at:
            timeout_s = (self.client.known_timeout_ms or math.inf) / 1000
            failing.sign_at = now + min(SIGN_S, timeout_s / 3)
            events = "1 event was" if failure.failed == 1 else f"{failure.failed} events were"
            since = shown_time(failing.since // 1000 * 1000)
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


def error_of(error: KafkaException) -> KafkaError:
    """Return what librdkafka says."""
    found: KafkaError = error.args[0]
    return found
