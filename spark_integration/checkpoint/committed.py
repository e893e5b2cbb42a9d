"""Finds how far a query has read, from the committed batches in its checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noted_time import Rejected
from noted_time.client.waiting import NothingKnown
from noted_time.kafka.noted_topic import name_noted_topic
from noted_time.progress import ReadOffsets
from noted_time.values import format_time
from spark_integration.checkpoint.files import open_checkpoint
from spark_integration.checkpoint.query_progress import QueryProgress
from spark_integration.checkpoint.source_positions import KafkaTopic, NotedLog
from spark_integration.marks.offset import is_noted, is_of_log, is_of_marks, list_facts


def open_streams(checkpoint: str) -> dict[str, Callable[[Mapping[int, int]], ReadOffsets]]:
    """Return a reader of the committed offsets for each stream of a query.

    A topic is the stream of the same name, unless the query reads only one topic, with the marks of
    another stream.
    """
    progress, batch_id = _find_last_batch(checkpoint)
    topics: set[str] = set()
    marks_streams: set[str] = set()
    for offset in progress.read_batch(batch_id).offsets:
        if not isinstance(offset, dict):
            continue
        if is_of_log(offset):
            topics.update(offset["noted_streams"])
        if is_of_marks(offset):
            marks_streams.add(",".join(offset["noted_streams"]))
        topics.update(name for name, ends in offset.items() if _is_topic(ends))
    topics -= {name_noted_topic(topic) for topic in topics}
    if not topics:
        raise Rejected(f"no source of the query of {checkpoint} is a topic or a file log")

    def make_reader(topic: str) -> Callable[[Mapping[int, int]], ReadOffsets]:
        return lambda _: read_committed_offsets(checkpoint, topic)

    if len(topics) == 1 and len(marks_streams) == 1:
        (topic,) = topics
        (stream,) = marks_streams
        return {stream or topic: make_reader(topic)}
    return {topic: make_reader(topic) for topic in sorted(topics)}


def _is_topic(ends: object) -> bool:
    return (
        isinstance(ends, dict) and bool(ends) and all(partition.isdecimal() for partition in ends)
    )


def read_committed_offsets(checkpoint: str, topic: str) -> ReadOffsets:
    """Return the offsets that a query's last committed batch has read of a topic or file log.

    If the query keeps state, only rows below the watermark count: later rows may still be in it.
    """
    progress, batch_id = _find_last_batch(checkpoint)
    try:
        batch = progress.read_batch(batch_id)
        positions = list(_find_positions(batch.offsets, topic))
    except (ValueError, LookupError) as error:
        raise Rejected(f"{checkpoint} has no offset log of Spark: {error!r}") from error
    if not positions:
        raise Rejected(
            f"no source of the query of {checkpoint} reads {topic!r}: pass --topic with the topic "
            "that the query reads, and the stream of that topic"
        )
    position: dict[int, int] = {}
    for segment in set().union(*positions):
        offsets = [source_position.get(segment, 0) for source_position in positions]
        position[segment] = min(offsets)
    origin = f"batch {batch_id} of the query of {checkpoint}"
    if not progress.has_state():
        return ReadOffsets(position, origin)
    if batch.watermark_ms is None:
        raise NothingKnown(f"the query of {checkpoint} keeps state, and has no watermark yet")
    remark = (
        f"the query keeps state: only rows below its watermark {format_time(batch.watermark_ms)} "
        "count, and rows that the watermark dropped are not in its sink"
    )
    domain = _find_only_domain(batch.offsets)
    return ReadOffsets(position, origin, None, batch.watermark_ms, (remark,), domain)


def _find_only_domain(offsets: tuple[Any, ...]) -> str | None:
    """Return the domain of the query's marks, `None` if it is unknown or there are several."""
    domains: set[str] = set()
    for offset in offsets:
        if not is_noted(offset):
            continue
        for facts in list_facts(offset).values():
            if facts.domain is not None:
                domains.add(facts.domain)
    if len(domains) != 1:
        return None
    return domains.pop()


def _find_last_batch(checkpoint: str) -> tuple[QueryProgress, int]:
    file_names = open_checkpoint(checkpoint).list_names("commits")
    batch_ids = [int(name) for name in file_names if name.isdigit()]
    if not batch_ids:
        raise NothingKnown(f"{checkpoint} has no committed micro-batch of a query")
    return QueryProgress(checkpoint), max(batch_ids)


def _find_positions(offsets: tuple[Any, ...], topic: str) -> Iterator[Mapping[int, int]]:
    for offset in offsets:
        if not isinstance(offset, dict):
            continue
        if is_of_log(offset) and topic in offset["noted_streams"]:
            yield NotedLog(topic)(offset)
        elif isinstance(offset.get(topic), dict):
            yield KafkaTopic(topic).among_others({topic: offset[topic]})
