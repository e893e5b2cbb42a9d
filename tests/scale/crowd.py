"""Many writers of one stream that note the same time in large requests, and their leader.

The leader notes last, so the watermark follows it. At the mark of their common time all others
begin to hold the watermark back, and the leader's next note overtakes them, so they time out
together. The leader never times out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import httpx

from noted_time.client import Json
from noted_time.values import MAX_NOTES_PER_REQUEST
from tests.support.processes import ServeProcess
from tools.trials.calls import HOUR_MS

BEGUN_MS = 1_700_000_000_000
STEP_MS = 1000
SEGMENTS = 16
LEADER_SEGMENT = SEGMENTS
CONNECTIONS = 2
"""They keep a controller busy; with more, a commit has more notes, and others wait longer."""

PATIENCE_S = 600.0
"""How long a request and a mark may take, so that only a failure waits for it."""

LONG_POLL_MS = 20_000
REPEAT_S = 0.1
ACCEPTED = b'"accepted"'


class NotAccepted(AssertionError):
    """A request with notes was refused, or one of its notes."""


class Request(NamedTuple):
    """A request, whose body is built before the time is taken."""

    body: bytes
    notes: int


def time_of(step: int) -> int:
    return BEGUN_MS + step * STEP_MS


class Crowd:
    """The writers of a stream; at step n, the offset of each is n."""

    def __init__(self, owner: ServeProcess, stream: str, size: int) -> None:
        self.stream = stream
        self.size = size
        self._client = httpx.Client(
            base_url=f"{owner.url}/v1/streams/{stream}/",
            timeout=PATIENCE_S,
            trust_env=False,
            headers={"content-type": "application/json"},
        )
        self._last_seq = 0
        self.repeats = 0
        self.lowers: list[int] = []
        self.marked_at_s = 0.0

    def close(self) -> None:
        self._client.close()

    def build_requests(self, step: int) -> list[Request]:
        """Build the requests of all writers but the leader, with the time of a step."""
        return list(self._build_requests(step))

    def _build_requests(self, step: int) -> Iterator[Request]:
        times = f'"time":{time_of(step)},"max_time":{time_of(step)}'  # as our clients declare it
        form = f'{{"writer":"writer-%07d",{times},"position":{{"%d":{step}}}}}'
        for first in range(0, self.size, MAX_NOTES_PER_REQUEST):
            writers = range(first, min(self.size, first + MAX_NOTES_PER_REQUEST))
            notes = ",".join([form % (writer, writer % SEGMENTS) for writer in writers])
            yield Request(f'{{"notes":[{notes}]}}'.encode(), len(writers))

    def post(self, requests: list[Request]) -> None:
        """Post requests over a few connections. Raises `NotAccepted`."""
        with ThreadPoolExecutor(CONNECTIONS) as executor:
            for _ in executor.map(self._post, requests):
                pass

    def lead(self, step: int) -> None:
        """Let the leader note the time of a step."""
        position = f'{{"{LEADER_SEGMENT}":{step}}}'
        note = f'"writer":"leader","time":{time_of(step)},"position":{position}'
        self._post(Request(f'{{"notes":[{{{note},"timeout_ms":{HOUR_MS}}}]}}'.encode(), 1))

    def _post(self, request: Request) -> None:
        answer = self._call("POST", "notes", request.body)
        if answer.status_code != httpx.codes.OK or answer.content.count(ACCEPTED) != request.notes:
            raise NotAccepted(f"{answer.status_code}: {answer.text[:500]}")

    def wait_for_mark(self, step: int) -> int:
        """Wait until a mark has the time of a step; return how many writers the marks excluded."""
        until = time.monotonic() + PATIENCE_S
        excluded_count = 0
        while time_of(step) not in self.lowers:
            assert time.monotonic() < until, f"no mark at {time_of(step)}, but at {self.lowers}"
            for mark in self.ask("marks", after=self._last_seq, wait_ms=LONG_POLL_MS)["marks"]:
                self._last_seq = mark["seq"]
                self.lowers.append(mark["lower"])
                self.marked_at_s = mark["written_at"] / 1000
                excluded_count += mark.get("excluded_count", len(mark["excluded"]))
        return excluded_count

    def count_missing(self, step: int) -> int:
        """Return how many writers are missing at the mark of a step."""
        return int(self.ask("cut", complete_to=time_of(step))["missing_count"])

    def read_answers(self) -> None:
        """Read the answers that a page of the dashboard asks for."""
        for path in ("explain", "writers", "ledger"):
            self.ask(path)

    def ask(self, path: str, **query: int) -> Json:
        """GET an answer about the stream."""
        answer = self._call("GET", path, None, query)
        answer.raise_for_status()
        return dict(answer.json())

    def _call(
        self, method: str, path: str, body: bytes | None, query: Mapping[str, int] | None = None
    ) -> httpx.Response:
        """Call as clients do: where a controller is not available, the call is repeated."""
        until = time.monotonic() + PATIENCE_S
        while True:
            answer = self._client.request(method, path, content=body, params=query)
            is_refused = answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
            if not is_refused or time.monotonic() > until:
                return answer
            self.repeats += 1
            time.sleep(REPEAT_S)
