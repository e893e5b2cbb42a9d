"""Reads the hops from a dataset to its writers: streams, tables, groups and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from noted_time import UnknownStream
from noted_time.answers import Completeness, Explanation
from noted_time.client import Question, run
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown
from noted_time.lineage import RUN_QUERY, Dataset, Hop, HopSource, Why, describe_table, walk
from noted_time.tables.table_urls import open_history
from noted_time.values import UNIX_MS, YEAR_MS, ClaimSource, format_time
from noted_time.verdict import Requirement
from reader_client.protocol.datasets import OffsetsUpTo, OpenDataset, find_domain, open_dataset
from reader_client.protocol.questions import ask_completeness, ask_explanation

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
        match dataset.kind:
            case "table":
                return describe_table(dataset, open_history(dataset.name), self.time, names)
            case "stream":
                domain = run(find_domain(ClaimSource(*dataset)), self.ask)
                return self._read_stream(dataset._replace(domain=domain))
            case _:
                return self._read_reader(open_dataset(dataset, kafka=self.kafka))

    def _read_stream(self, dataset: Dataset) -> Hop:
        found: Explanation = self.ask(ask_explanation(dataset.name, None, dataset.domain or None))
        lower, without = found.lower, found.lower_without.values()
        ahead_to = lower
        if lower is not None and found.condition != "sealed":
            is_near = lower in UNIX_MS and found.now - lower < YEAR_MS
            known = [each for each in without if each is not None]
            ahead_to = found.now if is_near else max(known, default=lower)
        options = f" --domain {dataset.domain}" if str(dataset) != dataset.name else ""
        return Hop(
            dataset,
            lower,
            why=_describe_holders(found),
            remedy=EXPLAIN_WRITERS.format(options),
            lack=f", {found.vouched.sentence}" if found.vouched else "",
            doubt=self._find_doubt(dataset, lower),
            ahead_to=ahead_to,
        )

    def _find_doubt(self, stream: Dataset, complete_to: int | None) -> str:
        """Return why the requested time is not complete, although it is not later, or `""`."""
        if self.time is None or complete_to is None or complete_to < self.time:
            return ""
        asked = Requirement(to=self.time, domain=stream.domain or None)
        answer: Completeness = self.ask(ask_completeness(stream.name, asked))
        return "" if answer.is_complete else answer.sentence

    def _read_reader(self, opened: OpenDataset) -> Hop:
        dataset, sources = opened.dataset, list[HopSource]()
        remedy = RUN_QUERY if dataset.kind == "checkpoint" else RUN_CONSUMERS
        reasons, remarks, doubts = list[str](), list[str](), list[str]()

        def perform(step: Any) -> Any:  # noqa: ANN401 - a question, or the offsets
            outcome = opened.perform(self.ask)(step)
            if type(step) is OffsetsUpTo:
                remarks.extend(outcome.remarks)
            return outcome

        for name, offsets in opened.readers.items():
            stream, time = Dataset(name, dataset.domain), None
            one = OpenDataset(dataset, {name: offsets})
            try:
                found = run(one.judge(Requirement()), perform)
                time = found.complete_to
                if time is None:
                    reasons.append(f"nothing is known of {dataset.name}: {found.sentence}")
                doubts.append(self._find_doubt(stream, time))
            except (NothingKnown, UnknownStream) as error:
                remedy = LET_NOTE if isinstance(error, UnknownStream) else remedy
                reasons.append(f"nothing is known of {dataset.name}: {error}")
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


def _describe_holders(explained: Explanation) -> str:
    if not explained.waiting_for:
        return explained.sentences[0].rstrip(".")
    first = min(explained.waiting_for, key=lambda each: (each.time is not None, each.time))
    time = "" if first.time is None else f" after {format_time(first.time)}"
    more = explained.holders - 1
    others = f", and {more:,} more" if more else ""
    return f"{first.writer} has noted no time{time or ' yet'}{others}"


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
