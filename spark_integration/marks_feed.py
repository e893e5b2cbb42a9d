"""Where marks come from: followed at a controller that may be away."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from noted_time import Mark, Rejected
from noted_time.wire import mark_from_wire
from spark_integration.offsets import Released

if TYPE_CHECKING:
    from collections.abc import Sequence

LIMIT = 1000
WAIT_MS = 10_000
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks in the order of their seq, of the stream with that creation id, `""` if unknown."""

    stream_id: str = ""
    marks: Sequence[Mark] = ()


class MarksFeed(Protocol):
    """Where a source learns of marks; while the controller is away there is nothing new."""

    def begin(self, released: Released) -> None:
        """Follow the marks after the one last let in; wait briefly until all noted by now are here.

        Raises `Rejected` where a controller answers that there is no such stream or key.
        """

    def take(self) -> Marks:
        """Return the marks that came since the last call, at once.

        A creation id other than before says that the stream was made again: its marks begin anew.
        """

    def close(self) -> None:
        """Stop following."""


class ControllerFeed:
    """The marks of one (stream, key) of a controller, followed by long polls in a thread."""

    def __init__(self, url: str, stream: str, key: str | None) -> None:
        """Begin with nothing; no connection is made before `begin`."""
        self._url = f"{url.rstrip('/')}/v1/streams/{stream}/marks"
        self._params = {} if key is None else {"key": key}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._last = Released()
        self._new: list[Mark] = []

    def begin(self, released: Released) -> None:
        """See `MarksFeed`."""
        self._last = released
        try:
            with httpx.Client(timeout=httpx.Timeout(3.0, connect=1.0)) as client:
                while self._poll(client, wait_ms=0):
                    pass
        except httpx.HTTPError:
            pass  # away: the thread keeps trying
        threading.Thread(target=self._follow, name="noted-marks", daemon=True).start()

    def take(self) -> Marks:
        """See `MarksFeed`."""
        with self._lock:
            new, self._new = self._new, []
            return Marks(self._last.stream_id, new)

    def close(self) -> None:
        """See `MarksFeed`."""
        self._closed.set()

    def _follow(self) -> None:
        pause = FIRST_PAUSE_S
        with httpx.Client(timeout=httpx.Timeout(WAIT_MS / 1000 + 10, connect=3.0)) as client:
            while not self._closed.is_set():
                try:
                    self._poll(client, wait_ms=WAIT_MS)
                    pause = FIRST_PAUSE_S
                except (httpx.HTTPError, Rejected):
                    self._closed.wait(pause)
                    pause = min(2 * pause, LONGEST_PAUSE_S)

    def _poll(self, client: httpx.Client, wait_ms: int) -> bool:
        """Ask once; returns whether there may be more at once."""
        asked = self._last
        params = self._params | {"after": str(asked.seq), "limit": str(LIMIT)}
        params["wait_ms"] = str(wait_ms)
        answer = client.get(self._url, params=params)
        if answer.is_client_error:
            raise Rejected(_reason(answer))
        return self._accept(asked, answer.raise_for_status().json())

    def _accept(self, asked: Released, answer: dict[str, Any]) -> bool:
        stream_id = answer["stream_id"]
        if stream_id != asked.stream_id and asked.seq:
            with self._lock:
                self._last, self._new = Released(stream_id), []
            return True
        marks = [mark_from_wire(mark) for mark in answer["marks"]]
        with self._lock:
            self._last = Released(stream_id, marks[-1].seq if marks else asked.seq)
            self._new.extend(marks)
        return len(marks) == LIMIT


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.request.url} answered {answer.status_code}"
