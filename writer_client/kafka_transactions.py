"""The transactions of a Kafka producer, and what becomes of their notes."""

from __future__ import annotations

import threading
import time as clocks
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException, Producer

from noted_time.values import Conflict, NotedTimeError, Rejected, Unreachable
from writer_client.delivery import DeliveryTracker
from writer_client.kafka_errors import error_of

SLICE_S = 1.0
"""How long one wait in librdkafka may hold up a signal."""

COMMIT_S = 60.0
"""How long a commit or an abort is tried, as Kafka's own transaction.timeout.ms."""

FLUSH_S = 10.0
"""How long an abort waits for deliveries first."""

Call = Callable[[float], None]


class Transactions:
    """Begins, commits and aborts.

    A commit whose outcome is unknown is completed before the next transaction begins.
    """

    def __init__(  # noqa: PLR0913 - what it acts on, and what it leaves to the producer
        self,
        writer: str,
        producer: Producer,
        tracker: DeliveryTracker,
        *,
        reporting: threading.RLock,
        deliver: Callable[[float], None],
        named: Callable[[KafkaException], NotedTimeError],
    ) -> None:
        self._writer = writer
        self._producer = producer
        self._tracker = tracker
        self._reporting = reporting
        self._deliver = deliver
        self._named = named
        self._unresolved: Call | None = None

    def begin(self) -> None:
        """Begin one, after the one before is resolved."""
        if self._tracker.in_transaction:
            raise Rejected("a transaction is open already: they do not nest")
        try:
            if self._unresolved is not None:
                self._resolve(self._unresolved)
            self._producer.begin_transaction()
        except KafkaException as error:
            raise self._named(error) from error
        self._tracker.begin()

    def _resolve(self, call: Call) -> None:
        """Complete what Kafka did not answer; if that was a commit it may turn out as an abort."""
        try:
            self._complete(call)
        except KafkaException as error:
            if not error_of(error).txn_requires_abort():
                raise
            self._complete(self._producer.abort_transaction)
        self._unresolved = None

    def commit(self) -> None:
        """Commit, and note what the transaction noted.

        Raises `Conflict` if Kafka demands an abort, which is done, and `Unreachable` if the outcome
        is unknown.
        """
        is_certain = False
        try:
            self._complete(self._producer.commit_transaction)
            is_certain = True
        except KafkaException as error:
            if error_of(error).txn_requires_abort():
                self.abort()
                raise Conflict(
                    f"Kafka aborted the transaction of writer {self._writer!r}: "
                    f"{error_of(error).str()}; produce all of its events again"
                ) from error
            if not error_of(error).retriable():
                raise self._named(error) from error
            raise Unreachable(
                f"whether the transaction of writer {self._writer!r} is committed is unknown: "
                f"{error_of(error).str()}; it is not noted, and the next note covers its events"
            ) from error
        finally:
            if self._tracker.in_transaction:
                self._unresolved = None if is_certain else self._producer.commit_transaction
                self._tracker.commit(is_certain=is_certain)

    def abort(self) -> None:
        """Abort, and drop what was produced and noted; raises nothing.

        It flushes first: an abort amid the first batch was fatal to librdkafka once.
        """
        try:
            with suppress(NotedTimeError):
                self._deliver(clocks.monotonic() + FLUSH_S)
            self._complete(self._producer.abort_transaction)
        except KafkaException as error:  # a fatal one is raised by what comes next
            if error_of(error).retriable():
                self._unresolved = self._producer.abort_transaction
        finally:
            self._tracker.abort()

    def _complete(self, call: Call) -> None:
        """Repeat a call until it has an outcome, or for a minute."""
        until = clocks.monotonic() + COMMIT_S
        while True:
            try:
                with self._reporting:
                    call(SLICE_S)
            except KafkaException as error:
                if not error_of(error).retriable() or clocks.monotonic() > until:
                    raise
            else:
                return
