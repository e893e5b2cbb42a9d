"""Judges datasets: streams, their readers, and tables that claim."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from noted_time.answers import Completeness, LedgerPage
from noted_time.client import Question
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown, NotYet, until_complete
from noted_time.extras import require_extra
from noted_time.lineage import Dataset
from noted_time.progress import ReadOffsets
from noted_time.tables import NoClaim, TableClaim, standing
from noted_time.values import INGESTION_NAME, ClaimSource, NotedTimeError, Rejected, validate_name
from noted_time.verdict import (
    NO_DOMAIN,
    Lack,
    Requirement,
    ask_source,
    can_use_counts,
    combine,
    describe_marks_not_kept,
    find_reported_writers,
    judge_claim,
    judge_no_claim,
    list_asked_sources,
    list_late_writers,
    refuse_late_rows,
)
from reader_client.protocol.questions import ask_completeness, ask_late_reports, ask_stream

Offsets = Callable[[Mapping[int, int]], ReadOffsets]  # exact below the given cut

UNKNOWN_LAG_KINDS = frozenset(("no_mark", "unknown_partition", "not_claimed"))

GROUP_FORM = "group:NAME@BROKERS/TOPIC, for example group:billing@127.0.0.1:9092/orders"
DELTA_TABLE = "{0} is a Delta table and not a checkpoint: write delta:{0}"

_GROUP_URL = re.compile(r"group:(.+)@([^@/]+)/([^/]+)")


Steps = Generator[Question[Any] | partial[ReadOffsets], Any, Completeness]


@dataclass(frozen=True)
class OpenDataset:
    """A dataset that can be judged.

    `readers` are the offsets that it has read, by stream. `names` are the claims that count in a
    table, and `asks` says when to ask its streams.
    """

    dataset: Dataset
    readers: Mapping[str, Offsets] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    asks: Literal["always", "if it answers", "never"] = "always"

    def judge(self, asked: Requirement) -> Steps:
        """Judge the dataset. Raises as the questions and as its offsets or its table."""
        if self.dataset.kind == "table":
            return (yield from self._judge_table(asked))
        asked = replace(asked, domain=asked.domain or self.dataset.domain or None)
        if not self.readers:
            found: Completeness = yield ask_completeness(self.dataset.name, asked)
            return found
        parts = {}
        for stream in self.readers:
            parts[stream] = yield from self.judge_source(stream, asked)
        return combine(parts)

    def sources(self) -> list[Dataset]:
        """Return the streams that a group or checkpoint has read."""
        return [Dataset(stream, self.dataset.domain) for stream in self.readers]

    def wait(self, asked: Requirement, timeout_s: float) -> Generator[Any, Any, Completeness]:
        """Judge until the answer is final or the time is up, and return the last answer."""
        return wait_until_final(
            lambda wait_ms: self.judge(replace(asked, wait_ms=wait_ms)), timeout_s
        )

    def judge_source(self, stream: str, asked: Requirement) -> Steps:
        """Judge the rows that have been read of one stream.

        Ask for the stream first, whose cut limits what must be looked up of the offsets.
        """
        first: Completeness
        latest = asked if asked.to is not None else Requirement(domain=asked.domain)
        first = yield ask_completeness(stream, latest)
        if first.mark is None or not first.is_complete:
            return first
        read: ReadOffsets = yield partial(self.readers[stream], first.mark.cut.offsets)
        found: Completeness
        found = yield ask_completeness(stream, replace(asked, read=read, wait_ms=0))
        return found

    def _judge_table(self, asked: Requirement) -> Steps:
        table = self.dataset.name
        found = standing(table, self.names or None)
        if isinstance(found, NoClaim):
            return judge_no_claim(table, found)
        time = asked.to
        if time is None:
            time = asked.tiling.start_of(found.complete_to)
        answer = yield from self._judge_time(found, asked, time)
        earlier = answer.complete_to
        if asked.to is None and answer.status == "waiting" and earlier and earlier < time:
            before = yield from self._judge_time(found, asked, earlier)
            answer = before if before.is_complete else answer
        return answer

    def _judge_time(self, found: TableClaim, asked: Requirement, time: int) -> Steps:
        """Judge by the first claim that is complete to the time, then by the last one."""
        table, version = self.dataset.name, found.version_at(time)
        first: TableClaim | NoClaim = found
        if version is not None:
            first = standing(table, self.names or None, at=version)
        asked = replace(asked, to=time)
        claim = found if isinstance(first, NoClaim) else first
        answers = yield from self._ask_sources(claim, asked)
        answer = judge_claim(table, claim, time, asked, answers)
        if answer.is_complete or claim == found:
            return answer
        answers = yield from self._ask_sources(found, asked, is_later=version is not None)
        return replace(judge_claim(table, found, time, asked, answers), version=found.version)

    def _ask_sources(
        self, claim: TableClaim, asked: Requirement, *, is_later: bool = False
    ) -> Generator[Any, Any, dict[ClaimSource, Completeness | Lack] | None]:
        sources = list_asked_sources(claim, asked)
        if sources is None or (sources and self.asks == "never"):
            return None
        answers: dict[ClaimSource, Completeness | Lack] = {}
        for source in sources:
            if source.at_most is None:
                answers[source] = describe_marks_not_kept(source)
                continue
            try:
                domain = yield from find_domain(source)
                named = source._replace(domain=domain)
                answers[source] = yield from ask_claimed_source(
                    claim, named, asked, is_later=is_later
                )
            except NoDomain as error:
                answers[source] = Lack(kind="not_asked", status="unknown", sentence=str(error))
            except NotedTimeError:
                if self.asks == "always":
                    raise
                return None
        return answers


def ask_claimed_source(
    claim: TableClaim, source: ClaimSource, asked: Requirement, *, is_later: bool
) -> Generator[Question[Any], Any, Completeness]:
    """Ask the stream of a claim as of the claim's marks, and for late rows that the table lacks.

    `is_later` says that an earlier version of the table had the time, and lacked a writer.
    """
    requirement = ask_source(source, asked)
    answer: Completeness = yield ask_completeness(source.stream, requirement)
    if can_use_counts(claim, source, asked, answer):
        without_counts = replace(requirement, require_all=False, require_known=True)
        counted: Completeness = yield ask_completeness(source.stream, without_counts)
        if counted.is_complete:
            answer = counted
    writers = list_late_writers(claim, asked, answer, is_later=is_later)
    if writers and requirement.to is not None:
        writers = yield from _find_reported_writers(source, writers, requirement.to)
    return refuse_late_rows(claim, answer, writers)


def _find_reported_writers(
    source: ClaimSource, writers: Collection[str], to: int
) -> Generator[Question[Any], Any, set[str]]:
    """Return the writers that reported rows below a time, up to the last mark of the claim."""
    last = Requirement(to=source.at_most, domain=source.domain)
    answer: Completeness = yield ask_completeness(source.stream, last)
    if answer.mark is None:
        return {*writers}
    page: LedgerPage = yield ask_late_reports(source.stream, source.domain)
    reports, count = page.late_reports, page.late_report_count
    return find_reported_writers(writers, reports, count, to, answer.mark.written_at)


class NoDomain(Rejected):
    """A claim names no domain, and its stream has several."""


def find_domain(source: ClaimSource) -> Generator[Question[Any], Any, str]:
    """Return the domain of a source, by default the only one that its stream has ever had.

    Raises `NoDomain` if the stream has several.
    """
    if source.domain is not None:
        return source.domain
    domains: tuple[str, ...] = (yield ask_stream(source.stream)).domains
    if len(domains) > 1 or domains[0] == INGESTION_NAME:  # whose lag is not known
        raise NoDomain(NO_DOMAIN)
    return domains[0]


def open_dataset(
    name: str | Dataset,
    *,
    names: Iterable[str] = (),
    stream: str = "",
    kafka: Mapping[str, Any] | None = None,
) -> OpenDataset:
    """Return a stream, a table, a consumer group or the checkpoint of a query, by its name.

    `stream` names the stream of a group or a checkpoint, if the topic has another name. Raises
    `Rejected` for a name of another form, and `ImportError` if a package must be installed.
    """
    dataset = name if isinstance(name, Dataset) else Dataset(name)
    match dataset.kind:
        case "group":
            return OpenDataset(dataset, _open_group(dataset.name, stream, kafka or {}))
        case "checkpoint":
            return OpenDataset(dataset, _open_checkpoint(dataset.name, stream))
        case _:
            return OpenDataset(dataset, names=tuple(names))


def _open_group(name: str, stream: str, kafka: Mapping[str, Any]) -> dict[str, Offsets]:
    found = _GROUP_URL.fullmatch(name)
    if found is None:
        raise Rejected(f"{name!r} does not name a group and its topic: {GROUP_FORM}")
    group, brokers, topic = found.groups()
    with require_extra(f"reading {name}", "kafka"):
        from noted_time.kafka.groups import GroupOffsets  # noqa: PLC0415 - needs the extra
    offsets = GroupOffsets({**kafka, "bootstrap.servers": brokers}, group, topic)
    return {stream or topic: offsets}


def _open_checkpoint(name: str, stream: str) -> dict[str, Offsets]:
    if "/" not in name and not Path(name).exists():
        validate_name("stream", name)
    if Path(name, "_delta_log").is_dir():
        raise Rejected(DELTA_TABLE.format(name))
    with require_extra(f"reading {name}", "spark"):
        from spark_integration.checkpoint.committed import open_streams  # noqa: PLC0415 - needs the extra
    streams = open_streams(name)
    if not stream:
        return streams
    if len(streams) > 1:
        raise Rejected(f"the query of {name} reads {', '.join(streams)}: leave the stream out")
    return dict.fromkeys([stream], *streams.values())


def wait_until_final(
    judge: Callable[[int], Steps], timeout_s: float
) -> Generator[Any, Any, Completeness]:
    """Judge until the answer is final or the time is up, and return the last answer.

    Raises `Unreachable` and `Conflict` as `judge`, after the timeout.
    """
    answer: Completeness | None = None

    def judge_again(wait_ms: int) -> Steps:
        nonlocal answer
        answer = None
        answer = yield from judge(wait_ms)
        if answer.status == "waiting":
            kinds = {each.kind for each in answer.lacks}
            raise (NothingKnown if kinds & UNKNOWN_LAG_KINDS else NotYet)(answer.sentence)
        return answer

    try:
        return (yield from until_complete(judge_again, timeout_s))
    except NotYet:
        if answer is None:
            raise
        return answer


def complete_to(  # noqa: PLR0913 - three of them are positional
    url: str,
    stream: str,
    position: Mapping[int, int] | ReadOffsets,
    *,
    domain: str | None = None,
    token: str | None = None,
    timeout_s: float = 10.0,
) -> Completeness:
    """Return the time before which a reader of a stream's log has read everything.

    `position` has exclusive offsets by partition, or is the result of `committed_position`. Raises
    `Conflict` if no time is known to be complete yet, `Rejected` for offsets that cannot belong to
    the stream's log, and `Unreachable`.
    """
    read = position if isinstance(position, ReadOffsets) else ReadOffsets(position)
    with closing(Transport(url, token=token, timeout_s=timeout_s)) as transport:
        answer = transport.ask(ask_completeness(stream, Requirement(domain=domain, read=read)))
    if answer.complete_to is None:
        raise NothingKnown(answer.sentence)
    return answer
