"""Several processes observe one Kafka topic together: one writer and one observer a partition.

A consumer group assigns the partitions. The process that gets one takes the name of its writer
over, and looks only after that was accepted. The one that loses it stops noting before another gets
it; if it was silent for too long to learn of it, it is fenced. All notes are true of the log,
whichever process sent them, and time waits for a writer between two processes until its timeout.
"""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from noted_time.client.repeated_looks import Rounds
from noted_time.observing import Seen, log_of, passed_over
from noted_time.values import (
    AnotherLog,
    Fenced,
    NotedTimeError,
    Recreated,
    Rejected,
    Unreachable,
)
from writer_client.client import WriterClient
from writer_client.kafka.group import PartitionGroup
from writer_client.observing.observer import JOIN_S, Observer
from writer_client.observing.partition_writers import PartitionWriters
from writer_client.sending.clock import unix_ms

log = logging.getLogger("noted_time.observer")

HAND_OVER_S = 1.0
"""How long a process that loses partitions may take to deliver what it noted of them."""

SESSIONS = 3
"""A writer's timeout must be above that many session timeouts of the group."""

Known = Callable[[], Mapping[int, int]]
"""Returns partitions with the offset that was noted of each, 0 if none was."""


class SharedObserver(Rounds):
    """Observes the partitions of a topic that a consumer group assigns to this process.

    It looks once a round for all of them. `look` makes what looks, as a noter of the whole topic is
    given, and is passed `known`: looks that read records read these partitions only. `observer`
    makes the noter of one partition, with its client and a view of the look. `config` is that of
    any client of librdkafka, and `group` the consumer group, by default named after stream and
    writers.

    A partition whose name was taken over by a process outside the group is observed again after
    `session.timeout.ms`, if it is still assigned. Raises `Rejected` if the writers' timeout is not
    above three times that (10 s by default): time would advance without a partition whose process
    ended before another one has it.
    """

    def __init__(  # noqa: PLR0913 - one for each thing that it brings together
        self,
        config: Mapping[str, Any],
        topic: str,
        writers: PartitionWriters,
        look: Callable[[Known], Callable[[], Seen]],
        observer: Callable[[WriterClient, PartitionView], Observer],
        *,
        group: str | None = None,
        poll_ms: int = 1000,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        """Join the group, which assigns partitions while `run` polls it."""
        super().__init__(writers.stream, poll_ms)
        self.began = 0
        self.seen = Seen({})
        self._due: dict[int, Observer] = {}
        self._writers = writers
        self._look, self._observer, self._clock = look(self.known), observer, clock
        self._observers: dict[int, Observer] = {}
        self._again_at: dict[int, float] = {}
        self._has_left = False
        self.group = group or f"noted-time.{writers.stream}.{writers.prefix}"
        self._group = PartitionGroup(config, topic, self.group, self._gone)
        least = SESSIONS * self._group.session_ms
        if writers.timeout_ms <= least:
            self._leave()
            raise Rejected(
                f"the writers' timeout must be above {least} ms, not {writers.timeout_ms}: a "
                f"process that ended keeps its partitions for {self._group.session_ms} ms"
            )

    @property
    def partitions(self) -> Sequence[int]:
        """The partitions that are observed here now."""
        return sorted(self._observers)

    @property
    def log_id(self) -> str | None:
        """The id of the topic, `None` before the first look, and if it has none."""
        return log_of(self._look)

    @property
    def unusable(self) -> int:
        """How many records were passed over because of their times."""
        return passed_over(self._look)

    def known(self) -> Mapping[int, int]:
        """Return the partitions observed here, with the offset that was noted of each, or 0."""
        return {p: each.client.position.get(p, 0) for p, each in self._ready().items()}

    def client_of(self, partition: int) -> WriterClient | None:
        """Return the client that notes a partition, `None` if it is not observed here."""
        observer = self._observers.get(partition)
        return None if observer is None else observer.client

    def begin(self) -> Sequence[int]:
        """Have time wait for all writers, whichever process is to have them.

        Returns the partitions of the topic. Raises `Rejected` if the writers cannot join, and
        `Unreachable` if Kafka or the controller does not answer.
        """
        partitions = self._group.partitions()
        self._writers.wait_for(partitions, self.log_id)
        return partitions

    def look(self) -> None:
        """Look once, and note what is due of each partition whose name was taken over.

        Raises `Unreachable` if Kafka or the controller does not answer, and what ends an observer.
        """
        self._take_on()
        failure = self._join()
        ready = {} if self._due else self._ready()
        if ready:
            self._look_at(ready)
        if self._due:  # also if the last round failed after its look, which may say things once
            self._wait_for_new()
            for partition, observer in self._due.items():
                if self._observers.get(partition) is observer:
                    try:
                        self._note(partition, observer)
                    except Recreated:
                        self._due = {}  # the next look judges
                        raise
            self._due = {}
        if failure is not None:
            raise Unreachable(f"the observer cannot join: {failure}") from failure

    def check_refusals(self) -> None:
        """Do nothing: a look has checked those of each observer."""

    def run(self) -> None:
        """Look until `stop` is called, then leave the group; raises the error that ends it."""
        try:
            super().run()
        finally:
            self._leave()

    def close(self) -> None:
        """Stop looking, and leave the group; raises the error that ended the thread before."""
        try:
            super().close()
        finally:
            if not self._thread.is_alive():  # else it leaves once its look has ended
                self._leave()

    def _leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self._end(self._observers, JOIN_S)
            self._group.close()
            self._writers.close()

    def _pause(self) -> None:
        until = clocks.monotonic() + self.poll_ms / 1000
        while not self._stopping.is_set() and (left := until - clocks.monotonic()) > 0:
            self._group.poll(left)

    def _ready(self) -> dict[int, Observer]:
        """Return the observers whose writers' names were taken over."""
        return {p: each for p, each in self._observers.items() if not each.client.takes_over}

    def _take_on(self) -> None:
        """Begin to observe what was assigned; all clients join at the same time."""
        now = clocks.monotonic()
        for partition in sorted(self._group.assigned - self._observers.keys()):
            if self._again_at.get(partition, now) <= now:
                client = self._writers.client(partition)
                self._observers[partition] = self._observer(client, PartitionView(partition, self))
                if client.state != "live":
                    client.join()

    def _join(self) -> NotedTimeError | None:
        """Wait until the names are taken over; returns why one is not."""
        until, failure = clocks.monotonic() + JOIN_S, None
        for partition, observer in list(self._observers.items()):
            if observer.client.takes_over:
                try:
                    observer.client.flush(max(0.0, until - clocks.monotonic()))
                except Fenced:
                    self._fenced(partition)
                except AnotherLog:
                    raise
                except NotedTimeError as error:
                    failure = error
        return failure

    def _look_at(self, ready: dict[int, Observer]) -> None:
        """Look for these observers; one whose partition the look does not know yet has to wait.

        If that fails, the writers that time waits for show that they are live: if all of them timed
        out, time would advance to the highest of theirs.
        """
        try:
            began = self._clock()
            self.began, self.seen = began, self._look()
        except Unreachable:
            for observer in ready.values():
                if observer.client.state != "idle":
                    observer.client.join()
            raise
        self._due = {each: ready[each] for each in ready if each in self.seen.ends}

    def _wait_for_new(self) -> None:
        """Have time wait for the writers of all partitions that there are after the look."""
        try:
            self._writers.wait_for(self._group.partitions(), self.log_id)
        except AnotherLog:
            raise
        except Rejected as error:
            raise Unreachable(f"the writers of new partitions cannot join: {error}") from error

    def _note(self, partition: int, observer: Observer) -> None:
        try:
            observer.look()
            observer.check_refusals()
        except Fenced:
            self._fenced(partition)

    def _fenced(self, partition: int) -> None:
        """Stop observing a partition, and try again when the group must know if it has moved."""
        self._end([partition], 0.0)
        pause_s = self._group.session_ms / 1000
        self._again_at[partition] = clocks.monotonic() + pause_s
        log.warning(
            "partition %d of %s is observed by another process; if it is still assigned to this "
            "one in %g s, two groups share its writers: give one of them other names",
            *(partition, self.stream, pause_s),
        )

    def _gone(self, partitions: Iterable[int]) -> None:
        self._end(partitions, HAND_OVER_S)

    def _end(self, partitions: Iterable[int], timeout_s: float) -> None:
        """Stop observing partitions; their writers stay members."""
        until = clocks.monotonic() + timeout_s
        for partition in list(partitions):
            observer = self._observers.pop(partition, None)
            if observer is not None:
                left_s = 0.0 if observer.client.takes_over else until - clocks.monotonic()
                with suppress(NotedTimeError):  # a warning names what was not delivered
                    observer.client.close(max(0.0, left_s))


class PartitionView:
    """What the observer of one partition is given in place of a look at all of them."""

    def __init__(self, partition: int, shared: SharedObserver) -> None:
        self._partition, self._shared = partition, shared

    def __call__(self) -> Seen:
        """Return what the last look found in the partition."""
        return self._shared.seen.of([self._partition])

    @property
    def log_id(self) -> str | None:
        """The id of the topic, as that of the `SharedObserver`."""
        return self._shared.log_id

    def clock(self) -> int:
        """Return the time (Unix ms) that was read before that look."""
        return self._shared.began
