"""Calls of the HTTP API of any controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx

from noted_time.client import Json
from noted_time.values import ScaleEvent, State
from tools.trials.waiting import PATIENCE_S

HTTP = httpx.Client(
    timeout=PATIENCE_S, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
)
"""A client of all controllers, which tests end now and then: it keeps no connection."""

HOUR_MS = 3_600_000
TEN = 1_357_034_400_000
"""10:00 of a day in January."""


def wire(position: dict[int, int]) -> dict[str, int]:
    return {str(segment): offset for segment, offset in position.items()}


class Calls:
    """Calls of the controller at `url`, with a token if there is one."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = url
        self.token = token

    @property
    def url(self) -> str:
        return self._url

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def ask(self, method: str, path: str, body: object = None, **query: Any) -> httpx.Response:  # noqa: ANN401 - any value
        """Call ``/v1<path>``, and return any answer."""
        url = f"{self.url}/v1{path}"
        return HTTP.request(method, url, json=body, headers=self.headers, params=query or None)

    def call(self, method: str, path: str, body: object = None, **query: Any) -> Json:  # noqa: ANN401 - any value
        """Call ``/v1/streams<path>``, and return the answer's body.

        The call must succeed, and all notes in it must be accepted.
        """
        answer = self.ask(method, f"/streams{path}", body, **query)
        if not answer.is_success:
            raise httpx.HTTPStatusError(answer.text, request=answer.request, response=answer)
        answer_json = dict(answer.json()) if answer.content else {}
        refusals = [
            result for result in answer_json.get("results", []) if result["status"] != "accepted"
        ]
        assert refusals == [], refusals[:3]
        return answer_json

    def two_minutes(self) -> str:
        """Make a stream with two marks: at 10:00 {0: 10, 1: 4}, a minute later {0: 20, 1: 4}."""
        name = self.new()
        for minute, position in enumerate([{"0": 10, "1": 4}, {"0": 20}]):
            note = {"writer": "shop", "time": TEN + minute * 60_000, "position": position}
            self.call("POST", f"/{name}/notes", {"notes": [note]})
        return name

    def get(self, path: str, **query: Any) -> Json:  # noqa: ANN401 - any value
        """GET ``/v1/streams/<path>``."""
        return self.call("GET", f"/{path}", **query)

    def create(self, stream: str, **settings: Any) -> Json:  # noqa: ANN401 - any JSON
        """Create or change a stream, without a mark interval."""
        return self.call("PUT", f"/{stream}", {"mark_interval_ms": 0, **settings})

    def new(self, **settings: Any) -> str:  # noqa: ANN401 - any JSON
        """Create a new stream for a test, and return its name."""
        name = uuid4().hex
        self.create(name, **settings)
        return name

    def make(self, stream: str, **settings: Any) -> None:  # noqa: ANN401 - any setting
        """Make a stream that waits hours for each writer."""
        self.create(stream, **{"writer_timeout_ms": HOUR_MS, **settings})

    def stream(self, name: str, *domains: str, **settings: Any) -> CalledStream:  # noqa: ANN401 - any setting
        """Make a stream that takes any times, in place of an existing one."""
        self.ask("DELETE", f"/streams/{name}")
        self.make(name, domains=domains or ["default"], max_time_ahead_ms=None, **settings)
        return CalledStream(self, name)

    def note(
        self, stream: str, time: int, position: dict[str, int], *, domain: str | None = None
    ) -> None:
        """Note as the writer `w`, which alone makes a mark."""
        note = {"writer": "w", "time": time, "position": position, "domain": domain}
        self.post(stream, note)

    def post(self, stream: str, *notes: Json) -> None:
        """Post the notes in large requests; all must be accepted."""
        for first in range(0, len(notes), 1000):
            body = {"notes": notes[first : first + 1000]}
            self.call("POST", f"/{stream}/notes", body)

    def lower(self, stream: str, domain: str = "default") -> int:
        return int(self.get(stream)["marks"][domain]["lower"])

    def all_marks(self, stream: str, domain: str = "default") -> list[Json]:
        marks: list[Json] = []
        after = 0
        while page := self.get(f"{stream}/marks", domain=domain, after=after)["marks"]:
            marks += page
            after = page[-1]["seq"]
        return marks

    def writers(self, stream: str) -> dict[str, Json]:
        shown_fields = ("state", "times", "position")
        writers: dict[str, Json] = {}
        start: int | None = 0
        while start is not None:
            page = self.get(f"{stream}/writers", start=start, limit=1000)
            for row in page["writers"]:
                writers[row["writer"]] = {name: row[name] for name in shown_fields}
            start = page["next"]
        return writers

    def read_group(self, stream: str, group: str) -> tuple[Json, list[str]]:
        """Return the position of a reader group, and its online readers."""
        answer = self.ask("GET", f"/streams/{stream}/reader-groups/{group}")
        found = answer.json() if answer.is_success else {"position": {}, "readers": {}}
        return found["position"], list(found["readers"])


@dataclass(frozen=True)
class CalledStream:
    """A stream of a controller for the notes of a test."""

    calls: Calls
    name: str

    def note(
        self,
        writer: str,
        time: int | None,
        position: dict[int, int],
        domain: str | None = None,
        state: State = "live",
        **more: object,
    ) -> None:
        """Note, with `more` fields; the note must be accepted."""
        note = {"writer": writer, "time": time, "position": wire(position), "state": state, **more}
        self.calls.post(self.name, note if domain is None else note | {"domain": domain})

    def seal(self, **asked: Any) -> None:  # noqa: ANN401 - any of a request
        """Seal the stream, with the fields of a `SealRequest`."""
        if "cut" in asked:
            asked["cut"] = wire(asked["cut"])
        self.calls.call("POST", f"/{self.name}/seal", asked)

    def scale(self, event: ScaleEvent) -> None:
        created_segments = {str(segment): list(before) for segment, before in event.created.items()}
        body = {"sealed": wire(dict(event.sealed)), "created": created_segments}
        self.calls.call("POST", f"/{self.name}/scale", body)

    def truncate(self, cut: dict[int, int]) -> None:
        self.calls.call("POST", f"/{self.name}/truncate", {"cut": wire(cut)})
