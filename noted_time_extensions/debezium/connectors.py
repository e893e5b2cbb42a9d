"""Judges the times of Debezium's connectors by the topics that Kafka Connect writes."""

from __future__ import annotations

from collections.abc import Callable

from noted_time_extensions.debezium.commit_times import CommitTimes, NoTime, ProvenTime
from noted_time_extensions.debezium.kafka_records import ConnectOffsets, Heartbeats, SourceNames
from noted_time_extensions.debezium.start_times import StartTimes


class CommitJudge:
    """Reads committed offsets into `times`, and checks by `names` who wrote the topic."""

    def __init__(
        self, times: CommitTimes, offsets: ConnectOffsets, names: SourceNames | None = None
    ) -> None:
        self._times = times
        self._offsets = offsets
        self._names = names

    def judge(self, clock: Callable[[], int]) -> ProvenTime | NoTime:
        """Read the new records, and return the time that they prove."""
        self._read()
        if self._names is not None and self._times.is_complete:
            self._names.check(self._times.list_prefixes())
        return self._times.judge(clock())

    def _read(self) -> None:
        self._offsets.read_into(self._times)

    def pop_warnings(self) -> list[str]:
        """Return the warnings since the last call."""
        return self._times.pop_warnings()


class StartJudge(CommitJudge):
    """A judge by the starts of transactions, which reads heartbeats, too."""

    def __init__(
        self,
        times: StartTimes,
        offsets: ConnectOffsets,
        heartbeats: Heartbeats,
        names: SourceNames | None = None,
    ) -> None:
        super().__init__(times, offsets, names)
        self._start_times = times
        self._heartbeats = heartbeats

    def _read(self) -> None:
        super()._read()
        self._heartbeats.read_into(self._start_times)
        self._start_times.reach_offsets()
