"""A controller with planned answers, one for each post."""

import json
from itertools import chain
from typing import Any

import httpx

from noted_time.client import Backoff
from tools.trials.served import Served
from writer_client import Pace, WriterClient

URL = "http://controller:7464"
SOON = Backoff(first_s=0.001, cap_s=0.01)


def accepted(**facts: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return the result of a note that was accepted."""
    return {"status": "accepted", "lower": None, **facts}


BY_THEMSELVES = ("sequence", "session", "takes_over", "label")
"""Fields that the client adds to its notes."""


class Scripted(httpx.MockTransport):
    """Gives the planned answers, then accepts every note; for both writer clients.

    A plan is a whole response, or its body. `posts` has the notes
    of each request. `forms` has the stated forms, which all get the `form_answer`.
    """

    def __init__(self, *answers: httpx.Response | dict[str, Any]) -> None:
        super().__init__(self._answer)
        self.planned = list(answers)
        self.form_answer = httpx.Response(200, json={})
        self.posts: list[list[dict[str, Any]]] = []
        self.forms: list[dict[str, Any]] = []

    @property
    def notes(self) -> list[dict[str, Any]]:
        """All notes, without the fields that each client adds."""
        notes = []
        for note in chain.from_iterable(self.posts):
            fields = note.items()
            notes.append({name: value for name, value in fields if name not in BY_THEMSELVES})
        return notes

    def _answer(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/notes"):
            self.forms.append(json.loads(request.content))
            return self.form_answer
        notes = json.loads(request.content)["notes"]
        self.posts.append(notes)
        plan = self.planned.pop(0) if self.planned else {"results": [accepted()] * len(notes)}
        return plan if isinstance(plan, httpx.Response) else _build_answer(plan)


def _build_answer(body: dict[str, Any]) -> httpx.Response:
    """Return an answer with the body; it is a problem if it accepts no note."""
    results_of_notes = body["results"] or [accepted()]
    if any(
        isinstance(result, dict) and result["status"] == "accepted" for result in results_of_notes
    ):
        return httpx.Response(200, json=body)
    kind = {"type": "urn:noted-time:problem:notes_refused", "title": "Notes refused"}
    return httpx.Response(422, json=kind | body)


def results(*each: dict[str, Any], **further: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return the body of an answer."""
    return {"results": list(each), **further}


def hasty(served: Served, stream: str, network: httpx.BaseTransport | None = None) -> WriterClient:
    """Return a client of the writer `UA` that retries quickly."""
    return WriterClient(
        stream, "UA", controller=served.url, pace=Pace(backoff=SOON), transport=network
    )


class Now:
    """A clock that a test moves."""

    def __init__(self, now: Any) -> None:  # noqa: ANN401 - ms or seconds
        self.now = now

    def __call__(self) -> Any:  # noqa: ANN401 - likewise
        """Read it."""
        return self.now
