"""Notes the commit times that Debezium's connectors prove for a topic of Kafka."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from noted_time.extending import GrowingEnds
from noted_time_extensions.debezium.commit_times import NoTime, ProvenTime
from writer_client import Seen, WriterClient
from writer_client.extending import SIGN_OF_LIFE_MS, Observer, unix_ms

log = logging.getLogger("noted_time.observer")


class TimeJudge(Protocol):
    """Reads what Kafka Connect has committed, and judges which time that proves."""

    def judge(self, clock: Callable[[], int]) -> ProvenTime | NoTime: ...

    def pop_warnings(self) -> list[str]: ...


class PlannedNote(NamedTuple):
    """A proven time, and the high watermarks of the topic that were read after its proof."""

    time: int
    ends: Mapping[int, int]


class DebeziumNoter(Observer):
    """Notes proven times, once read_committed readers reach all records below the topic's ends.

    - `looks` returns the last stable offsets of the topic.
    - `read_ends` returns its high watermarks.
    - `judging` reads the offsets of the connectors. It is called before `read_ends`.
    """

    def __init__(  # noqa: PLR0913 - one keyword per option
        self,
        client: WriterClient,
        looks: Callable[[], Seen],
        *,
        read_ends: Callable[[], Mapping[int, int]],
        judging: TimeJudge,
        domain: str | None = None,
        poll_ms: int = 1000,
        clock: Callable[[], int] = unix_ms,
    ) -> None:
        super().__init__(client, looks, poll_ms, SIGN_OF_LIFE_MS + poll_ms, GrowingEnds())
        self._read_stable_ends = looks
        self._read_ends = read_ends
        self._judging = judging
        self._domain = domain
        self._clock = clock
        self._pending: PlannedNote | None = None
        self._reason: str | None = None
        self._spoke_at = clock()

    def _look(self) -> None:
        decision = self._judging.judge(self._clock)
        for warning in self._judging.pop_warnings():
            log.warning("%s", warning)
        if isinstance(decision, NoTime):
            self._pending = None
            self._report_reason(decision.reason)
        else:
            self._report_reason(decision.stall)
            self._plan_note(decision.time)
        stable = self._read_stable_ends()
        self._inner.report_facts(stable.because)
        self._note_if_reached(stable.ends)
        self._give_sign_of_life()

    def _plan_note(self, time: int) -> None:
        """Read the topic's ends, which come after the proof of the time."""
        if self._pending is None and self._is_new(time):
            self._pending = PlannedNote(time, self._ends.take(self._read_ends()))

    def _is_new(self, time: int) -> bool:
        known_times = (
            self._inner.find_noted_time(self._domain),
            self._inner.find_known_time(self._domain),
        )
        return all(known_time is None or time > known_time for known_time in known_times)

    def _note_if_reached(self, stable_ends: Mapping[int, int]) -> None:
        pending = self._pending
        if pending is None:
            return
        for partition, end in pending.ends.items():
            if stable_ends.get(partition, 0) < end:
                return
        self.client.note_time(pending.time, pending.ends, domain=self._domain)
        self._pending = None
        self._spoke_at = self._clock()

    def _report_reason(self, reason: str | None) -> None:
        if reason != self._reason:
            self._reason = reason
            self.client.report_no_time(reason)
            self._spoke_at = self._clock()

    def _give_sign_of_life(self) -> None:
        now = self._clock()
        if not 0 <= now - self._spoke_at < SIGN_OF_LIFE_MS:
            self._spoke_at = now
            self.client.join()
