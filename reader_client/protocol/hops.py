"""Reads the hops from a dataset to its writers: streams, tables, groups and checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from noted_time.answers import CutAnswer
from noted_time.client import Json, Question, run
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown
from noted_time.extras import require_extra
from noted_time.progress import ReadOffsets
from noted_time.reading.lineage import Dataset, Hop, Source, describe_table, walk
from noted_time.reading.lineage_sentences import Why
from noted_time.tables.table_urls import open_history
from noted_time.values import UNIX_MS, YEAR_MS, Rejected, Waiting
from reader_client.protocol.answers import decode_answer
from reader_client.protocol.completeness import find_last_reached, make_performer
from reader_client.protocol.questions import ask_cut, ask_explanation

Offsets = Callable[[Mapping[int, int]], ReadOffsets]
"""The read offsets, exact below the given cut."""

GROUP_FORM = "group:NAME@BROKERS/TOPIC, for example group:billing@127.0.0.1:9092/orders"
CHECKPOINT_READER = "pass read_checkpoint= to read a checkpoint, or correct the name of the stream"

_GROUP = re.compile(r"group:(.+)@([^@/]+)/([^/]+)")


@dataclass(frozen=True)
class Explained:
    """The part of an `Explanation` that a hop needs."""

    now: int
    condition: str
    lower: int | None
    waiting_for: tuple[Waiting, ...]
    holders: int
    lower_without: Mapping[str, int | None]
    sentences: tuple[str, ...]

    @property
    def ahead_to(self) -> int | None:
        """The time (Unix ms) that the stream would have without its holders, or now."""
        if self.lower is None or self.condition == "sealed":
            return self.lower
        is_near = self.lower in UNIX_MS and self.now - self.lower < YEAR_MS
        known = [each for each in self.lower_without.values() if each is not None]
        return self.now if is_near else max(known, default=self.lower)


@dataclass(frozen=True)
class HopReader:
    """Reads one hop. `ask` asks the controller, and `kafka` has settings of librdkafka."""

    ask: Callable[[Question], Json]
    kafka: Mapping[str, Any] = field(default_factory=dict)
    read_checkpoint: Callable[[str], Mapping[str, ReadOffsets]] | None = None

    def __call__(self, dataset: Dataset) -> Hop:
        """Return the hop, or raise `NotedTimeError`, or `ImportError` without a package."""
        match dataset.kind:
            case "table":
                return describe_table(dataset, open_history(dataset.name))
            case "stream":
                return self._read_stream(dataset)
            case "group":
                return self._read_group(dataset)
            case "checkpoint":
                if self.read_checkpoint is None:
                    raise Rejected(f"{dataset.name!r} is not a stream: {CHECKPOINT_READER}")
                read = self.read_checkpoint(dataset.name)
                offsets = {name: lambda _, each=each: each for name, each in read.items()}
                return self._read_reader(dataset, offsets)

    def _read_stream(self, dataset: Dataset) -> Hop:
        name, domain = dataset.name, dataset.domain or None
        explained = decode_answer(Explained, self.ask(ask_explanation(name, None, domain)))
        why, lower = explained.sentences[0].rstrip("."), explained.lower
        missing: tuple[str, ...] = ()
        if lower is not None:
            cut = decode_answer(CutAnswer, self.ask(ask_cut(name, lower, domain)))
            missing = tuple(each.writer for each in cut.missing.writers)
        return Hop(
            dataset,
            lower,
            why=why,
            waiting_for=explained.waiting_for,
            holders=explained.holders,
            ahead_to=explained.ahead_to,
            missing=missing,
        )

    def _read_group(self, dataset: Dataset) -> Hop:
        found = _GROUP.fullmatch(dataset.name)
        if found is None:
            raise Rejected(f"{dataset.name!r} does not name a group and its topic: {GROUP_FORM}")
        group, brokers, topic = found.groups()
        with require_extra(f"reading {dataset.name}", "kafka"):
            from noted_time.kafka.groups import GroupOffsets  # noqa: PLC0415 - needs the extra
        config = {**self.kafka, "bootstrap.servers": brokers}
        return self._read_reader(dataset, {topic: GroupOffsets(config, group, topic)})

    def _read_reader(self, dataset: Dataset, offsets: Mapping[str, Offsets]) -> Hop:
        """Return a reader of streams. It is complete to the least of their times."""
        times: dict[str, int | None] = {}
        whys: list[str] = []
        remarks: dict[str, None] = {}
        for stream, read in offsets.items():
            try:
                asked = find_last_reached(stream, None)
                times[stream], _, found = run(asked, make_performer(self.ask, read))
                remarks |= dict.fromkeys(found.remarks)
            except NothingKnown as error:
                times[stream] = None
                whys.append(str(error))
        known = [each for each in times.values() if each is not None]
        least_time = min(known) if len(known) == len(times) > 0 else None
        sources = tuple(Source(Dataset(stream), time) for stream, time in times.items())
        return Hop(dataset, least_time, sources, "; ".join(whys), remarks=tuple(remarks))


def why(  # noqa: PLR0913 - three of them are positional
    url: str,
    dataset: str,
    time: int | None = None,
    *,
    domain: str | None = None,
    token: str | None = None,
    timeout_s: float = 10.0,
    kafka: Mapping[str, Any] | None = None,
    read_checkpoint: Callable[[str], Mapping[str, ReadOffsets]] | None = None,
) -> Why:
    """Return up to when a dataset is complete, and why not to `time` (Unix ms) or a later time.

    `url` is the controller's. `dataset` is a stream, ``delta:LOCATION``, ``iceberg:CATALOG.TABLE``,
    ``group:NAME@BROKERS/TOPIC``, or a checkpoint, which
    `spark_integration.checkpoint.committed.read_streams` reads, as `read_checkpoint`. `kafka` has
    settings of librdkafka.

    Raises `Rejected`, `Conflict`, `Unreachable` and `ImportError` if the dataset itself cannot be
    read. If a later hop cannot be read, the hop has the reason.
    """
    with closing(Transport(url, token=token, timeout_s=timeout_s)) as transport:
        root = Dataset(dataset, domain or "")
        hops = walk(root, HopReader(transport.ask, kafka or {}, read_checkpoint))
    return Why.of(hops, root, time)
