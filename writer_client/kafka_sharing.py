"""Several processes observe one Kafka topic together: one writer and one observer a partition.

A consumer group assigns the partitions. The process that gets one takes the name of its writer
over, and looks only after that was accepted. The one that loses it stops noting before another gets
it; if it was silent for too long to learn of it, it is fenced. All notes are true of the log,
whichever process sent them, and time waits for a writer between two processes until its timeout.

Each process looks at the broker once a round, for all of its partitions.
"""

from __future__ import annotations

import logging
import time as clocks
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from noted_time.values import Fenced, NotedTimeError, Rejected, Unreachable
from writer_client.client import WriterClient
from writer_client.kafka_group import PartitionGroup
from writer_client.observing import JOIN_S, SIGN_OF_LIFE_MS, Observer
from writer_client.partition_writers import PartitionWriters
from writer_client.posting import unix_ms
from writer_client.rounds import Rounds

log = logging.getLogger("noted_time.observer")

HAND_OVER_S = 1.0
"""How long a process that loses partitions may take to deliver what it noted of them."""

SESSIONS = 3
"""A writer's timeout must be above that many session timeouts of the group."""


Known = Callable[[], Mapping[int, int]]
"""Returns partitions with the offset that was noted of each, 0 if none was."""


class Found:
    """What looks found in all partitions; `began` is the time (Unix ms) read before the last one.

    >>> found = Found()
    >>> for newest in ({0: 100, 1: 200}, {1: None}):
    ...     found.take(10, ({0: 5, 1: 7}, newest, 200))
    >>> found.of(1), found.of(1)
    (({1: 7}, {1: 200}, 200), ({}, {}, 200))
    """

    def __init__(self) -> None:
        self.began = 0
        self._parts: tuple[Any, ...] = ()
        self._known: dict[tuple[int, int], Any] = {}
        self._new: dict[tuple[int, int], Any] = {}

    def take(self, began: int, found: Any) -> None:  # noqa: ANN401 - whatever a look returns
        """Record a look: a mapping by partition, or a tuple of such and other values."""
        self.began, self._parts = began, found if isinstance(found, tuple) else (found,)
        for index, part in enumerate(self._parts):
            if isinstance(part, Mapping):
                new = {(index, partition): value for partition, value in part.items()}
                known = {key: value for key, value in new.items() if value is not None}
                self._known |= known
                self._new = new | self._new | known

    def of(self, partition: int, *, known: bool = False) -> Any:  # noqa: ANN401 - as the look's
        """Return what was found in one partition since this was last asked, or all that is known.

        A look may leave out what it has returned before. An observer that begins asks for that, and
        none misses anything if a round fails after the look.
        """
        parts = []
        for index, part in enumerate(self._parts):
            key = (index, partition)
            new = {partition: self._new.pop(key)} if key in self._new else {}
            if known and key in self._known:
                new = {partition: self._known[key]}
            parts.append(new if isinstance(part, Mapping) else part)
        return tuple(parts) if len(parts) > 1 else parts[0]


class PartitionView:
    """What the observer of one partition is given in place of a look at all of them."""

    def __init__(self, partition: int, found: Found) -> None:
        self.partition = partition
        self._found = found
        self._is_first = True

    def __call__(self) -> Any:  # noqa: ANN401 - as the look's
        """Return what the last look found in the partition."""
        first, self._is_first = self._is_first, False
        return self._found.of(self.partition, known=first)

    def clock(self) -> int:
        """Return the time (Unix ms) that was read before that look."""
        return self._found.began


class SharedObserver(Rounds):
    """Observes the partitions of a topic that a consumer group assigns to this process.

    `look` makes what looks at the topic, as a noter of all of it is given. It is passed `known`:
    looks that read records read these partitions only. `observer` makes the noter of one partition,
    with its client and a view of the look. `config` is that of any client of librdkafka, and
    `group` the consumer group, by default named after stream and writers.

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
        look: Callable[[Known], Callable[[], Any]],
        observer: Callable[[WriterClient, PartitionView], Observer],
        *,
        group: str | None = None,
        poll_ms: int = 1000,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        """Join the group, which begins to assign partitions once `run` polls it."""
        super().__init__(writers.stream, poll_ms)
        self._writers = writers
        self._look, self._observer, self._clock = look(self.known), observer, clock
        self._found = Found()
        self._observers: dict[int, Observer] = {}
        self._again_at: dict[int, float] = {}
        self._has_left = False
        self._looked_at = 0.0
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

    def begin(self) -> Sequence[int]:
        """Have time wait for all writers, whichever process is to have them.

        Returns the partitions of the topic. Raises `Rejected` if the writers cannot join, and
        `Unreachable` if Kafka or the controller does not answer.
        """
        partitions = self._group.partitions()
        self._writers.wait_for(partitions)
        return partitions

    def known(self) -> Mapping[int, int]:
        """Return the partitions observed here, with the offset that was noted of each, or 0."""
        return {p: each.client.position.get(p, 0) for p, each in self._ready().items()}

    def _ready(self) -> dict[int, Observer]:
        """Return the observers whose writers' names were taken over."""
        return {p: each for p, each in self._observers.items() if not each.client.takes_over}

    def look(self) -> None:
        """Look once, and note what is due of each partition whose name was taken over.

        Raises `Unreachable` if Kafka or the controller does not answer, and what ends an observer.
        """
        self._begin()
        failure = self._join()
        ready = self._ready()
        if ready:
            began = self._clock()
            self._found.take(began, self._whole_look())
            self._wait_for(self._group.partitions())  # after the look: it saw no others
            for partition, observer in ready.items():
                self._note(partition, observer)
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

    def _begin(self) -> None:
        """Begin to observe what was assigned; all clients join at the same time."""
        now = clocks.monotonic()
        for partition in sorted(self._group.assigned - self._observers.keys()):
            if self._again_at.get(partition, now) <= now:
                client = self._writers.client(partition)
                view = PartitionView(partition, self._found)
                self._observers[partition] = self._observer(client, view)
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
                except NotedTimeError as error:
                    failure = error
        return failure

    def _whole_look(self) -> Any:  # noqa: ANN401 - the look's
        """Look; while that fails, the writers that time waits for send signs of life.

        If they all timed out, time would advance to the highest of them, past the partitions that
        are behind.
        """
        now = clocks.monotonic()
        try:
            found = self._look()
        except Unreachable:
            if now - self._looked_at >= SIGN_OF_LIFE_MS / 1000:
                self._looked_at = now
                for observer in self._observers.values():
                    if observer.client.state != "idle":
                        observer.client.join()
            raise
        self._looked_at = now
        return found

    def _wait_for(self, partitions: Iterable[int]) -> None:
        try:
            self._writers.wait_for(partitions)
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
            partition,
            self.stream,
            pause_s,
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
