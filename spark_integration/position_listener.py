"""How a query's committed offsets become a reader's position at the controller."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import httpx
from pyspark.sql.streaming.listener import StreamingQueryListener

from noted_time import Rejected
from noted_time.cut import join_into
from noted_time.settings import checked_name
from noted_time.wire import position_to_wire
from spark_integration.positions import KafkaTopic, NotedLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.streaming.listener import (
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from spark_integration.positions import PositionOf

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
TIMEOUT_S = 5.0


class PositionListener(StreamingQueryListener):
    """Reports how far a query has read as the position of one reader of a group.

    Add it with ``spark.streams.addListener``, in a Spark Connect client too. It never holds up the
    query: reports are sent by a thread, only the latest counts, and a controller that is away gets
    it when it is back. A query that ends takes its reader offline at its last position.
    """

    def __init__(  # noqa: PLR0913 - who reports what, and where
        self,
        url: str,
        stream: str,
        group: str,
        reader: str,
        *,
        position: PositionOf | None = None,
        query_name: str | None = None,
    ) -> None:
        """Report the query named `query_name`, or every one that reads the stream.

        `position` maps a source's offset to segment → exclusive offset and raises `Rejected` for a
        source of another stream; by default file logs and Kafka topics of the stream's name.
        """
        names = ("stream", stream), ("group", group), ("reader", reader)
        stream, group, reader = (checked_name(what, name) for what, name in names)
        path = f"/v1/streams/{stream}/reader-groups/{group}/readers/{reader}"
        self._outbox = _Outbox(url.rstrip("/") + path)
        self._position_of = (position,) if position else (NotedLog(stream), KafkaTopic(stream))
        self._query_name = query_name
        self._positions: dict[str, dict[int, int]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Wait for the first progress."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report where the batch ended that was just committed."""
        progress = event.progress
        if self._query_name in {None, progress.name}:
            position = _position([s.endOffset for s in progress.sources], self._position_of)
            if position:
                self._positions[str(progress.id)] = position
                self._outbox.put(_Report("position", position))

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Take the reader offline at the last position of the query, if it had one."""
        position = self._positions.pop(str(event.id), None)
        if position is not None:
            self._outbox.put(_Report("offline", position))

    def close(self) -> None:
        """Give up what is not reported yet, and end the thread."""
        self._outbox.close()


def _position(offsets: Sequence[str], position_of: Sequence[PositionOf]) -> dict[int, int]:
    """Return the joined position of the sources that are of the stream."""
    position: dict[int, int] = {}
    for text in offsets:
        offset = _offset(text)
        for each in position_of:
            try:
                join_into(position, each(offset))
            except Rejected:
                continue
    return position


def _offset(text: str) -> Any:  # noqa: ANN401 - whatever JSON holds
    try:
        return json.loads(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True)
class _Report:
    kind: Literal["position", "offline"]
    position: Mapping[int, int]


class _Outbox:
    """The latest report, sent by a thread that begins with the first one."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._changed = threading.Condition()
        self._latest: _Report | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, report: _Report) -> None:
        with self._changed:
            self._latest = report
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="position", daemon=True)
                self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        pause = FIRST_PAUSE_S
        with httpx.Client(timeout=TIMEOUT_S) as client:
            while (report := self._next()) is not None:
                try:
                    self._send(client, report)
                except httpx.HTTPError:
                    pause = self._try_again(report, pause)
                else:
                    pause = FIRST_PAUSE_S

    def _next(self) -> _Report | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._latest)
            report, self._latest = self._latest, None
            return None if self._closed else report

    def _send(self, client: httpx.Client, report: _Report) -> None:
        body = {"position": position_to_wire(report.position)}
        if report.kind == "offline":
            client.post(f"{self._url}/offline", json=body).raise_for_status()
        else:
            client.put(self._url, json=body).raise_for_status()

    def _try_again(self, report: _Report, pause: float) -> float:
        with self._changed:
            self._changed.wait_for(lambda: self._closed, pause)
            if self._latest is None:
                self._latest = report
        return min(2 * pause, LONGEST_PAUSE_S)
