"""How a query's committed offsets become a reader's position at the controller."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from noted_time import NotedTimeError, Rejected
from noted_time.values import join_into, validate_name
from reader_client import ReaderClient
from spark_integration.checkpoint.source_positions import KafkaTopic, NotedLog, PositionOf
from spark_integration.marks.released import is_of_marks

logger = logging.getLogger("noted_time.reader")

OFFLINE_S = 2.0
REFRESH_MS = 60_000


class PositionListener(StreamingQueryListener):
    """Reports how far a query has read as the position of one reader of a group.

    Add it with ``spark.streams.addListener``, in a Spark Connect client too. It never delays the
    query: a thread sends the reports, only the latest counts, and an unreachable controller gets it
    when it is back. A query that ends takes its reader offline at its last position.
    """

    def __init__(  # noqa: PLR0913 - what is reported, and to which controller
        self,
        url: str,
        stream: str,
        group: str,
        reader: str,
        *,
        token: str | None = None,
        position: PositionOf | None = None,
        query_name: str | None = None,
    ) -> None:
        """Report the query named `query_name`, or every one that reads the stream.

        `position` maps a source's offset to segment → exclusive offset and raises `Rejected` for a
        source of another stream; by default file logs and Kafka topics of the stream's name.
        `token` is that of a reader, by default the one in the variable NOTED_TIME_TOKEN.
        """
        for what, name in ("stream", stream), ("group", group), ("reader", reader):
            validate_name(what, name)
        self._reader = (url, stream, group, reader)
        self._who = f"reader {reader!r} of group {group!r}, stream {stream!r},"
        self._bearer = token
        given = (position,) if position else (NotedLog(stream), KafkaTopic(stream))
        self._position_of = [p.among_others if isinstance(p, KafkaTopic) else p for p in given]
        self._query_name = query_name
        self._positions: dict[str, dict[int, int]] = {}

    @cached_property
    def _client(self) -> ReaderClient:
        url, stream, group, reader = self._reader
        return ReaderClient(
            url,
            stream,
            token=self._bearer,
            group=group,
            reader=reader,
            domains=(),
            refresh_ms=REFRESH_MS,
        )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Wait for the first progress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report where the batch ended that was just committed."""
        progress = event.progress
        if self._query_name in {None, progress.name}:
            position = _join_positions([s.endOffset for s in progress.sources], self._position_of)
            if position:
                self._positions[str(progress.id)] = position
                self._client.advance(position)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Take the reader offline at the last position of the query, if it had one."""
        position = self._positions.pop(str(event.id), None)
        if position is not None:
            try:
                self._client.offline(position, timeout=OFFLINE_S)
            except NotedTimeError as error:  # no fault of the query; the client keeps trying
                logger.warning("%s may still be online: %s", self._who, error)

    def close(self) -> None:
        """Send the remaining report, for a few seconds at most, and end the thread."""
        if "_client" in self.__dict__:
            self._client.close()


def _join_positions(offsets: Sequence[str], position_of: Sequence[PositionOf]) -> dict[int, int]:
    """Return the joined position of the sources that are of the stream."""
    position: dict[int, int] = {}
    events = (offset for offset in map(_parse_offset, offsets) if not is_of_marks(offset))
    for offset in events:
        for each in position_of:
            with suppress(Rejected):
                join_into(position, each(offset))
    return position


def _parse_offset(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Return a source's offset; `None` (as text) stands for none yet."""
    with suppress(ValueError):
        return json.loads(text)
    return text
