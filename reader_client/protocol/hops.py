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
from noted_time.client.arguments import refuse_url
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown, build_performer
from noted_time.lineage import RUN_QUERY, Dataset, Hop, HopSource, Why, walk
from noted_time.progress import ReadOffsets
from noted_time.values import UNIX_MS, YEAR_MS
from noted_time.verdict import Requirement, describe_objections
from reader_client.protocol.datasets import StreamDataset, find_domain, open_dataset
from reader_client.protocol.questions import ask_completeness, ask_writer_counts, have_all_finished

EXPLAIN_WRITERS = "`{{program}} explain {{dataset}}{}` explains each writer"
SEAL_STREAM = "if no writer follows, `{program} seal {dataset}` completes the last window"
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
        reader_dataset = open_dataset(dataset, names=names, kafka=self.kafka)
        if isinstance(reader_dataset, StreamDataset):
            return self._read_reader(reader_dataset)
        return reader_dataset.describe_hop(self.time)

    def _read_stream(self, dataset: Dataset) -> Hop:
        answer = self._judge(dataset)
        # Why the stream is not complete to the requested time, or to a later one.
        later_answer = answer
        complete_to = answer.complete_to
        if complete_to is not None and (self.time is not None or not answer.sealed):
            later_time = complete_to + 1 if self.time is None else self.time
            later_answer = self._judge(dataset, later_time)
        if answer.sealed and later_answer.is_complete and self.time is not None:
            complete_to = self.time
        why = "; ".join(describe_objections(later_answer.lacks))
        options = f" --domain {dataset.domain}" if str(dataset) != dataset.name else ""
        remedy = EXPLAIN_WRITERS.format(options)
        is_waiting = _waits_for_writers(later_answer)
        if later_answer.status == "waiting" and not is_waiting and self._needs_seal(dataset.name):
            why = f"{why}, and all its writers have finished"
            remedy = SEAL_STREAM
            is_waiting = True
        return Hop(
            dataset,
            complete_to,
            why=why,
            remedy=remedy,
            lack=f", {answer.writers_clause}" if answer.vouched else "",
            doubt=_find_doubt(later_answer),
            ahead_to=_find_ahead_to(answer),
            is_waiting=is_waiting,
        )

    def _judge(self, stream: Dataset, to: int | None = None) -> Completeness:
        requirement = Requirement(to=to, domain=stream.domain or None)
        answer: Completeness = self.ask(ask_completeness(stream.name, requirement))
        return answer

    def _needs_seal(self, stream: str) -> bool:
        return have_all_finished(self.ask(ask_writer_counts(stream)))

    def _read_reader(self, reader_dataset: StreamDataset) -> Hop:
        dataset = reader_dataset.dataset
        sources: list[HopSource] = []
        remedy = RUN_QUERY if dataset.kind == "checkpoint" else RUN_CONSUMERS
        reasons: list[str] = []
        remarks: list[str] = []
        doubts: list[str] = []

        def perform(step: Any) -> Any:  # noqa: ANN401 - a question, or the offsets
            outcome = build_performer(self.ask)(step)
            if isinstance(outcome, ReadOffsets):
                remarks.extend(outcome.remarks)
            return outcome

        requirement = Requirement(domain=dataset.domain or None)
        for stream in reader_dataset.sources():
            time = None
            try:
                answer = run(reader_dataset.judge_source(stream.name, requirement), perform)
                time = answer.complete_to
                if time is None:
                    reasons.append(answer.sentence)
                if self.time is not None:
                    doubt = _find_doubt(self._judge(stream, self.time))
                    if doubt:
                        doubts.append(doubt)
            except UnknownStream as error:
                remedy = LET_NOTE
                reasons.append(str(error))
            except NothingKnown as error:
                reasons.append(str(error))
            sources.append(HopSource(stream, time))
        times = [source.taken_to for source in sources if source.taken_to is not None]
        return Hop(
            dataset,
            min(times) if len(times) == len(sources) else None,
            tuple(sources),
            "; ".join(reasons),
            remedy,
            "".join(f"; {remark}" for remark in dict.fromkeys(remarks)),
            doubts[0] if doubts else "",
        )


def _waits_for_writers(answer: Completeness) -> bool:
    return any(lack.writer is not None and lack.status == "waiting" for lack in answer.lacks)


def _find_ahead_to(answer: Completeness) -> int | None:
    """Return the time of the newest rows; `why` compares others with it."""
    if answer.mark is None or answer.sealed:
        return answer.complete_to
    now = int(clock.time() * 1000)
    is_near = answer.mark.lower in UNIX_MS and now - answer.mark.lower < YEAR_MS
    return now if is_near else answer.mark.upper


def _find_doubt(answer: Completeness) -> str:
    """Return why a time is not complete although the watermark has passed it, or `""`."""
    return answer.sentence if answer.status == "incomplete" else ""


@refuse_url("dataset, time, controller=URL", url_pattern="^https?://")
def why(  # noqa: PLR0913 - two of them are positional
    dataset: str,
    time: int | None = None,
    *,
    controller: str,
    names: Iterable[str] = (),
    domain: str | None = None,
    token: str | None = None,
    timeout_s: float = 10.0,
    kafka: Mapping[str, Any] | None = None,
) -> Why:
    """Return why a dataset is not complete to `time` (Unix ms), or without it to a later time.

    `dataset` is a stream, ``delta:LOCATION``, ``iceberg:CATALOG.TABLE``,
    ``group:NAME@BROKERS/TOPIC``, or the path of a checkpoint. `controller` is a URL. `names` are
    the claims that count in a table, and `kafka` has settings of librdkafka.

    Raises `Rejected`, `Conflict`, `Unreachable` and `ImportError` if the dataset itself cannot be
    read. If a later hop cannot be read, the hop has the reason.
    """
    with closing(Transport(controller, token=token, timeout_s=timeout_s)) as transport:
        reader = HopReader(transport.ask, time, kafka or {})
        return reader.find_why(Dataset(dataset, domain or ""), tuple(names))
