"""The transactions of a Kafka producer, and what becomes of their notes."""

from __future__ import annotations

import threading
import time as clocks
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException

from noted_time.values import Conflict, NotedTimeError, Rejected, Unreachable
from writer_client.delivery import Phase
from writer_client.kafka_deliveries import Deliveries, error_of

ATTEMPT_S = 1.0
"""How long one attempt of a commit or an abort may hold up a signal."""

COMMIT_S = 60.0
"""How long a commit or an abort is tried, as Kafka's own transaction.timeout.ms."""

FLUSH_S = 10.0
"""How long an abort waits for deliveries first."""

Call = Callable[[float], None]


class Transactions:
    """Begins, commits and aborts; what has no outcome is completed before the next begins."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._kafka, self._tracker = deliveries.kafka, deliveries.tracker
        self._unresolved: Call | None = None
        self._resolving = threading.RLock()

    def begin(self) -> None:
        """Begin one; raises `Conflict` if the one before was not committed after all."""
        if self._tracker.phase is Phase.OPEN:
            raise Rejected("a transaction is open already: they do not nest")
        self.resolve()
        try:
            self._kafka.begin_transaction()
        except KafkaException as error:
            raise self._deliveries.named(error) from error
        self._tracker.begin()

    def commit(self) -> None:
        """Deliver, commit, and note what the transaction noted.

        Raises `Conflict` if Kafka demands an abort, which is done, and `Unreachable` if the outcome
        is unknown.
        """
        self._unresolved = self._kafka.commit_transaction
        try:
            self.resolve()
        finally:
            if self._tracker.phase is Phase.OPEN:
                self._tracker.commit(is_certain=self._unresolved is None)

    def resolve(self, timeout_s: float | None = None) -> None:
        """Find out what became of the last transaction if that is unknown; raises as `commit`."""
        try:
            with self._resolving:
                self._resolve(COMMIT_S if timeout_s is None else timeout_s)
        except KafkaException as error:
            if not error_of(error).retriable() or self._tracker.phase is Phase.CLEAR:
                raise self._deliveries.named(error) from error
            raise Unreachable(
                f"whether the transaction of writer {self._deliveries.client.writer!r} was "
                f"committed is unknown: {error_of(error).str()}; nothing is noted until that is "
                "known, which the next transaction, `flush`, `idle` and `finish` find out"
            ) from error

    def abort(self) -> None:
        """Abort, and drop what was produced and noted; what Kafka refuses is raised later.

        It flushes first: an abort amid the first batch was fatal to librdkafka once.
        """
        self._unresolved = self._kafka.abort_transaction
        try:
            with suppress(NotedTimeError):
                self._deliveries.wait(clocks.monotonic() + FLUSH_S)
            with suppress(KafkaException):
                self._resolve(COMMIT_S)
        finally:
            self._tracker.abort()

    def _resolve(self, timeout_s: float) -> None:
        """Complete the commit or abort that has no outcome yet; a commit may turn out as abort."""
        if self._unresolved is None:
            return
        try:
            self._complete(self._unresolved, timeout_s)
        except KafkaException as error:
            if not error_of(error).txn_requires_abort():
                raise
            self._complete(self._kafka.abort_transaction, timeout_s)
            self._unresolved = None
            self._tracker.abort()
            raise Conflict(
                f"Kafka aborted the transaction of writer {self._deliveries.client.writer!r}: "
                f"{error_of(error).str()}; produce all of its events again"
            ) from error
        self._unresolved = None
        if self._tracker.phase is Phase.UNRESOLVED:
            self._tracker.commit()

    def _complete(self, call: Call, timeout_s: float) -> None:
        """Repeat a call until it has an outcome, or for that long."""
        until = clocks.monotonic() + timeout_s
        while True:
            try:
                with self._deliveries.reporting:
                    call(ATTEMPT_S)
            except KafkaException as error:
                if not error_of(error).retriable() or clocks.monotonic() > until:
                    raise
            else:
                return
