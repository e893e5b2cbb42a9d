"""Reports the committed offsets of a query as a reader's position."""

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
from noted_time.client.arguments import refuse_url
from noted_time.values import join_into, validate_name
from reader_client import ReaderClient
from spark_integration.checkpoint.source_positions import KafkaTopic, NotedLog, PositionOf
from spark_integration.marks.offset import is_of_marks

logger = logging.getLogger("noted_time.reader")

OFFLINE_S = 2.0
REFRESH_MS = 60_000


class PositionListener(StreamingQueryListener):
    """Reports how far a query has read, as one reader of a group.

    Add it with ``spark.streams.addListener``, also in a Spark Connect client. The query never waits
    for it. When the query ends, its reader goes offline.
    """

    @refuse_url("stream, group, reader, controller=URL")
    def __init__(  # noqa: PLR0913 - what is reported, and to which controller
        self,
        stream: str,
        group: str,
        reader: str,
        *,
        controller: str,
        token: str | None = None,
        position: PositionOf | None = None,
        query_name: str | None = None,
    ) -> None:
        """Report the query named `query_name`, or every query that reads the stream.

        `position` maps the offset of a source to segment → exclusive offset, or raises `Rejected`
        for another stream's. The default maps file logs and Kafka topics with the stream's name.
        """
        for kind, name in ("stream", stream), ("group", group), ("reader", reader):
            validate_name(kind, name)
        self._controller = controller
        self._reader = (stream, group, reader)
        self._who = f"reader {reader!r} of group {group!r}, stream {stream!r},"
        self._bearer = token
        mappers: Sequence[PositionOf] = (NotedLog(stream), KafkaTopic(stream))
        if position:
            mappers = (position,)
        self._position_of: list[PositionOf] = []
        for mapper in mappers:
            if isinstance(mapper, KafkaTopic):
                self._position_of.append(mapper.among_others)
            else:
                self._position_of.append(mapper)
        self._query_name = query_name
        self._positions: dict[str, dict[int, int]] = {}

    @cached_property
    def _client(self) -> ReaderClient:
        stream, group, reader = self._reader
        return ReaderClient(
            stream,
            controller=self._controller,
            token=self._bearer,
            group=group,
            reader=reader,
            domains=(),
            refresh_ms=REFRESH_MS,
        )

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing; progress events start the reports."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report the end offsets of the committed batch."""
        progress = event.progress
        if self._query_name in {None, progress.name}:
            offsets = [source.endOffset for source in progress.sources]
            position = _join_positions(offsets, self._position_of)
            if position:
                self._positions[str(progress.id)] = position
                self._client.advance(position)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Take the reader offline at the query's last position."""
        position = self._positions.pop(str(event.id), None)
        if position is not None:
            try:
                self._client.offline(position, timeout=OFFLINE_S)
            except NotedTimeError as error:  # not the query's fault; the client retries
                logger.warning("%s may still be online: %s", self._who, error)

    def close(self) -> None:
        """Send the last report, and stop the thread."""
        if "_client" in self.__dict__:
            self._client.close()


def _join_positions(offsets: Sequence[str], mappers: Sequence[PositionOf]) -> dict[int, int]:
    position: dict[int, int] = {}
    for text in offsets:
        offset = _parse_offset(text)
        if is_of_marks(offset):
            continue
        for map_position in mappers:
            with suppress(Rejected):
                join_into(position, map_position(offset))
    return position


def _parse_offset(text: str) -> Any:  # noqa: ANN401 - any JSON value
    """Parse an offset, which is the text `None` before a source's first batch."""
    with suppress(ValueError):
        return json.loads(text)
    return text
