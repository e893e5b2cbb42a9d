"""Judges datasets: streams, their readers, and the ones that a feature opens by a scheme."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec.structs import replace

from noted_time.answers import Completeness
from noted_time.client import Question
from noted_time.client.arguments import refuse_url
from noted_time.client.transport import Transport
from noted_time.client.waiting import NothingKnown, NotYet, until_complete
from noted_time.extensions import describe_absence, find_scheme
from noted_time.extras import require_extra
from noted_time.lineage import Dataset, Hop
from noted_time.progress import ReadOffsets
from noted_time.values import INGESTION_NAME, Rejected, validate_name
from noted_time.verdict import Requirement, combine
from reader_client.protocol.questions import ask_completeness, ask_stream

Offsets = Callable[[Mapping[int, int]], ReadOffsets]  # exact below the given cut

UNKNOWN_LAG_KINDS = frozenset(("no_mark", "unknown_partition", "not_claimed"))

GROUP_FORM = "group:NAME@BROKERS/TOPIC, for example group:billing@127.0.0.1:9092/orders"
NO_DOMAIN = (
    "who vouches is not known, as the claim does not name its time domain: if its query uses "
    "read_relayed_kafka, let it use read_noted_kafka; otherwise start it again"
)
DELTA_TABLE = "{0} is a Delta table and not a checkpoint: write delta:{0}"

_GROUP_URL = re.compile(r"group:(.+)@([^@/]+)/([^/]+)")


Steps = Generator[Question[Any] | partial[ReadOffsets], Any, Completeness]


Asking = Literal["always", "if it answers", "never"]
"""When to ask a controller about a dataset that can be judged without one."""


class OpenDataset(Protocol):
    """A dataset that can be judged."""

    @property
    def dataset(self) -> Dataset: ...

    def judge(self, requirement: Requirement) -> Steps:
        """Judge the dataset.

        Raises `Unreachable`, `Conflict` and `Rejected` as the controller answers, and
        `Unreadable` if the dataset cannot be read.
        """


class FeatureDataset(OpenDataset, Protocol):
    """A dataset that a feature opens. It has sources."""

    def describe_hop(self, time: int | None) -> Hop:
        """Return how far the dataset is complete by itself, for a requested time (Unix ms)."""


@dataclass(frozen=True)
class StreamDataset:
    """A stream, or the offsets that a reader has read, by stream."""

    dataset: Dataset
    readers: Mapping[str, Offsets] = field(default_factory=dict)

    def judge(self, requirement: Requirement) -> Steps:
        """Judge the stream, or its rows that were read. Raises as the questions and the offsets."""
        domain = requirement.domain or self.dataset.domain or None
        requirement = replace(requirement, domain=domain)
        if not self.readers:
            answer: Completeness = yield ask_completeness(self.dataset.name, requirement)
            return answer
        answers = {}
        for stream in self.readers:
            answers[stream] = yield from self.judge_source(stream, requirement)
        return combine(answers)

    def sources(self) -> list[Dataset]:
        """Return the streams that a group or checkpoint has read."""
        return [Dataset(stream, self.dataset.domain) for stream in self.readers]

    def judge_source(self, stream: str, requirement: Requirement) -> Steps:
        """Judge the rows that have been read of one stream.

        Ask for the stream first, whose cut limits what must be looked up of the offsets.
        """
        if requirement.to is None:
            stream_requirement = Requirement(domain=requirement.domain)
        else:
            stream_requirement = requirement
        stream_answer: Completeness = yield ask_completeness(stream, stream_requirement)
        if stream_answer.mark is None or not stream_answer.is_complete:
            return stream_answer
        cut = stream_answer.mark.cut
        offsets: ReadOffsets = yield partial(self.readers[stream], cut.offsets)
        read_requirement = replace(requirement, read=offsets, wait_ms=0)
        read_answer: Completeness = yield ask_completeness(stream, read_requirement)
        return read_answer


class NoDomain(Rejected):
    """It is not known which domain of a stream was read, and the stream has several."""


def find_domain(stream: str, domain: str | None) -> Generator[Question[Any], Any, str]:
    """Return the domain, by default the only one that the stream has ever had.

    Raises `NoDomain` if the stream has several.
    """
    if domain is not None:
        return domain
    domains: tuple[str, ...] = (yield ask_stream(stream)).domains
    if len(domains) > 1 or domains[0] == INGESTION_NAME:  # whose lag is not known
        raise NoDomain(NO_DOMAIN)
    return domains[0]


def open_dataset(
    name: str | Dataset,
    *,
    names: Iterable[str] = (),
    stream: str = "",
    kafka: Mapping[str, Any] | None = None,
    asking: Asking = "always",
) -> StreamDataset | FeatureDataset:
    """Return a stream, a consumer group, the checkpoint of a query, or a feature's dataset.

    `stream` names the stream of a group or a checkpoint, if the topic has another name. A feature's
    dataset gets `names` and `asking`. Raises `Rejected` for a name of another form, and
    `ImportError` if a package must be installed.
    """
    dataset = name if isinstance(name, Dataset) else Dataset(name)
    scheme = find_scheme(dataset.name)
    if scheme is not None:
        module, _, function = scheme.opener.partition(":")
        open_feature = getattr(import_module(module), function)
        feature_dataset: FeatureDataset = open_feature(dataset, names=tuple(names), asking=asking)
        return feature_dataset
    absence = describe_absence(f"{dataset.name.partition(':')[0]}:")
    if absence is not None:
        raise Rejected(absence)
    match dataset.kind:
        case "group":
            return StreamDataset(dataset, _open_group(dataset.name, stream, kafka or {}))
        case "checkpoint":
            return StreamDataset(dataset, _open_checkpoint(dataset.name, stream))
        case _:
            return StreamDataset(dataset)


def _open_group(name: str, stream: str, kafka: Mapping[str, Any]) -> dict[str, Offsets]:
    match = _GROUP_URL.fullmatch(name)
    if match is None:
        raise Rejected(f"{name!r} does not name a group and its topic: {GROUP_FORM}")
    group, brokers, topic = match.groups()
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


def wait_for_dataset(
    dataset: OpenDataset, requirement: Requirement, timeout_s: float
) -> Generator[Any, Any, Completeness]:
    """Judge until the answer is final or the time is up, and return the last answer."""
    return wait_until_final(
        lambda wait_ms: dataset.judge(replace(requirement, wait_ms=wait_ms)), timeout_s
    )


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
            kinds = {lack.kind for lack in answer.lacks}
            if kinds & UNKNOWN_LAG_KINDS:
                raise NothingKnown(answer.sentence)
            raise NotYet(answer.sentence)
        return answer

    try:
        return (yield from until_complete(judge_again, timeout_s))
    except NotYet:
        if answer is None:
            raise
        return answer


@refuse_url("stream, position, controller=URL")
def complete_to(  # noqa: PLR0913 - two of them are positional
    stream: str,
    position: Mapping[int, int] | ReadOffsets,
    *,
    controller: str,
    domain: str | None = None,
    token: str | None = None,
    timeout_s: float = 10.0,
) -> Completeness:
    """Return the time before which a reader of a stream's log has read everything.

    `position` has exclusive offsets by partition, or is the result of `committed_position`. Raises
    `Conflict` if no time is known to be complete yet, `Rejected` for offsets that cannot belong to
    the stream's log, and `Unreachable`.
    """
    offsets = position if isinstance(position, ReadOffsets) else ReadOffsets(position)
    requirement = Requirement(domain=domain, read=offsets)
    with closing(Transport(controller, token=token, timeout_s=timeout_s)) as transport:
        answer = transport.ask(ask_completeness(stream, requirement))
    if answer.complete_to is None:
        raise NothingKnown(answer.sentence)
    return answer
