"""Reads the hops from a dataset to its writers."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from noted_time import UnknownStream
from noted_time.answers import Completeness
from noted_time.client import Question, run
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown, build_performer
from noted_time.lineage import RUN_QUERY, Dataset, Hop, HopSource, Why, walk
from noted_time.progress import ReadOffsets
from noted_time.values import UNIX_MS, YEAR_MS
from noted_time.verdict import Requirement, describe_objections
from reader_client.protocol.datasets import StreamDataset, find_domain, open_dataset
from reader_client.protocol.questions import ask_completeness

EXPLAIN_WRITERS = "`{{program}} explain {{dataset}}{}` explains each writer"
RUN_CONSUMERS = "check that its consumers run and keep up, and commit after writing"
LET_NOTE = "let the writers of the topic note to its stream, or correct the name"


@dataclass(frozen=True)
class HopReader:
    """Reads one hop, for a requested time in Unix ms; `kafka` has settings of librdkafka."""

    ask: Callable[[Question[Any]], Any]
    time: int | None = None
    kafka: Mapping[str, Any] = field(default_factory=dict)

    def find_why(self, root: Dataset, names: tuple[str, ...] = ()) -> Why:
        return Why(root, self.time, walk(self.read(root, names), self.read))

    def read(self, dataset: Dataset, names: tuple[str, ...] = ()) -> Hop:
        if dataset.kind == "stream":
            domain = run(find_domain(*dataset), self.ask)
            return self._read_stream(dataset._replace(domain=domain))
        opened = open_dataset(dataset, names=names, kafka=self.kafka)
        if isinstance(opened, StreamDataset):
            return self._read_reader(opened)
        return opened.describe_hop(self.time)

    def _read_stream(self, dataset: Dataset) -> Hop:
        found = self._judge(dataset)
        lower, later, ahead_to = found.complete_to, found, found.complete_to
        if lower is not None and (self.time is not None or not found.sealed):
            later = self._judge(dataset, lower + 1 if self.time is None else self.time)
        if found.mark is not None and not found.sealed:
            now = int(clock.time() * 1000)
            is_near = found.mark.lower in UNIX_MS and now - found.mark.lower < YEAR_MS
            ahead_to = now if is_near else found.mark.upper
        options = f" --domain {dataset.domain}" if str(dataset) != dataset.name else ""
        return Hop(
            dataset,
            self.time if found.sealed and later.is_complete and self.time is not None else lower,
            why="; ".join(describe_objections(later.lacks)),
            remedy=EXPLAIN_WRITERS.format(options),
            lack=f", {found.writers_clause}" if found.vouched else "",
            doubt=_find_doubt(later),
            ahead_to=ahead_to,
        )

    def _judge(self, stream: Dataset, to: int | None = None) -> Completeness:
        asked = Requirement(to=to, domain=stream.domain or None)
        found: Completeness = self.ask(ask_completeness(stream.name, asked))
        return found

    def _read_reader(self, opened: StreamDataset) -> Hop:
        dataset, sources = opened.dataset, list[HopSource]()
        remedy = RUN_QUERY if dataset.kind == "checkpoint" else RUN_CONSUMERS
        reasons, remarks, doubts = list[str](), list[str](), list[str]()

        def perform(step: Any) -> Any:  # noqa: ANN401 - a question, or the offsets
            outcome = build_performer(self.ask)(step)
            if isinstance(outcome, ReadOffsets):
                remarks.extend(outcome.remarks)
            return outcome

        asked = Requirement(domain=dataset.domain or None)
        for stream in opened.sources():
            time = None
            try:
                found = run(opened.judge_source(stream.name, asked), perform)
                time = found.complete_to
                if time is None:
                    reasons.append(found.sentence)
                if self.time is not None:
                    doubts.append(_find_doubt(self._judge(stream, self.time)))
            except (NothingKnown, UnknownStream) as error:
                remedy = LET_NOTE if isinstance(error, UnknownStream) else remedy
                reasons.append(str(error))
            sources.append(HopSource(stream, time))
        known = [each.taken_to for each in sources if each.taken_to is not None]
        return Hop(
            dataset,
            min(known) if len(known) == len(sources) else None,
            tuple(sources),
            "; ".join(reasons),
            remedy,
            "".join(f"; {each}" for each in dict.fromkeys(remarks)),
            next(filter(None, doubts), ""),
        )


def _find_doubt(answer: Completeness) -> str:
    """Return why a time is not complete although the watermark has passed it, or `""`."""
    return answer.sentence if answer.status == "incomplete" else ""


def why(  # noqa: PLR0913 - three of them are positional
    url: str,
    dataset: str,
    time: int | None = None,
    *,
    names: Iterable[str] = (),
    domain: str | None = None,
    token: str | None = None,
    timeout_s: float = 10.0,
    kafka: Mapping[str, Any] | None = None,
) -> Why:
    """Return why a dataset is not complete to `time` (Unix ms), or without it to a later time.

    `url` is the controller's. `dataset` is a stream, ``delta:LOCATION``, ``iceberg:CATALOG.TABLE``,
    ``group:NAME@BROKERS/TOPIC``, or the path of a checkpoint. `names` are the claims that count in
    a table, and `kafka` has settings of librdkafka.

    Raises `Rejected`, `Conflict`, `Unreachable` and `ImportError` if the dataset itself cannot be
    read. If a later hop cannot be read, the hop has the reason.
    """
    with closing(Transport(url, token=token, timeout_s=timeout_s)) as transport:
        reader = HopReader(transport.ask, time, kafka or {})
        return reader.find_why(Dataset(dataset, domain or ""), tuple(names))
