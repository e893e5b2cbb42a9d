"""Rules for a checkpoint of Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from noted_time.installation import name_program
from noted_time_cli.doctor.verdict import Finding

READ_REMEDY = "read with read_noted_kafka, read_noted_log or with_noted_watermark: page 'Spark'"
NEW_CHECKPOINT_REMEDY = "begin with a new checkpoint; start_at= skips rows that are written already"


class NotedSource(NamedTuple):
    """A source of a query; the id is empty before the first mark, and for a topic of marks."""

    stream: str
    domain: str = ""
    stream_id: str = ""


def find_sources(offsets: Sequence[Any]) -> Iterator[NotedSource]:
    """Yield the noted-time sources in a query's offsets. Other sources are skipped.

    >>> read = {"mark": {"stream_id": "9b"}, "facts": {"domain": "ship"}}
    >>> offsets = [{"noted_streams": {"flights": read}}, {"t": {}}, {"t.noted": {}}]
    >>> [tuple(source) for source in find_sources(offsets)]
    [('flights', 'ship', '9b'), ('t.noted', '', '')]
    """
    for offset in offsets:
        if not isinstance(offset, dict):
            continue
        for name, progress in offset.get("noted_streams", {}).items():
            domain = progress.get("facts", {}).get("domain") or ""
            yield NotedSource(name, domain, progress.get("mark", {}).get("stream_id", ""))
        for topic in offset:
            if topic.endswith(".noted"):
                yield NotedSource(topic)


def judge_checkpoint(
    place: str,
    sources: Sequence[NotedSource],
    ids: Mapping[str, str | None],
    required_names: Collection[str] = (),
) -> Iterator[Finding]:
    """Judge whether the sources in a checkpoint still have the same stream ids.

    `ids` has `None` for a stream that does not exist. If there are `required_names`, a source must
    have one of them.
    """
    if not sources:
        fact = f"{place} is of a query that reads no marks of noted-time"
        yield Finding("checkpoint", "wrong", fact, READ_REMEDY)
    names = sorted({source.stream.removesuffix(".noted") for source in sources})
    if names and required_names and not set(names).intersection(required_names):
        fact = (
            f"{place} is of a query that reads {' and '.join(names)}, "
            f"not {next(iter(required_names))}"
        )
        command = f"{name_program()} doctor {names[0]} --checkpoint {place}"
        yield Finding("checkpoint", "wrong", fact, f"name another, or its own stream: {command}")
        return
    for source in sources:
        yield from _judge_source(place, source, ids)


def _judge_source(place: str, source: NotedSource, ids: Mapping[str, str | None]) -> list[Finding]:
    stream, domain, stream_id = source
    fact = f"{place} is of {stream}"
    if domain:
        fact += f", domain {domain}"
    if not stream_id:
        return [Finding("checkpoint", "ok", f"{fact}, no mark yet")]
    if stream not in ids:
        fact += f", id {stream_id}: no controller tells whether the stream still has that"
        return [Finding("checkpoint", "not checked", fact)]
    present_id = ids[stream]
    if present_id == stream_id:
        return [Finding("checkpoint", "ok", f"{fact}, with the same id")]
    present = f"has the id {present_id} now" if present_id else "no longer exists"
    fact += f", id {stream_id}; that stream {present}"
    return [Finding("checkpoint", "wrong", fact, NEW_CHECKPOINT_REMEDY)]
