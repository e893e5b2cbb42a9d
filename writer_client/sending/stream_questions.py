"""What observers and producers ask the controller about their stream."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import reduce

from msgspec import Struct, to_builtins

from noted_time.answers import Explanation
from noted_time.client import Question, stream_path
from noted_time.client.transport import Transport
from noted_time.values import EventTimeForm, Mark, NotAllowed, StreamCut, UnknownStream


class _MarkedStream(Struct, frozen=True):
    logs: tuple[str, ...]
    marks: Mapping[str, Mark | None]


class StreamQuestions:
    """Questions about one stream, which wait for their answers."""

    def __init__(self, transport: Transport, stream: str) -> None:
        self._transport = transport
        self._stream = stream

    def explain(self, query: Mapping[str, str]) -> Explanation:
        """Return the explanation of the stream."""
        path = stream_path(self._stream, "explain")
        return self._transport.ask(Question("GET", path, query, answer=Explanation))

    def find_cut_without_log(self) -> StreamCut:
        """Return the cut of the last marks, empty if the stream is unknown or has a log id."""
        question = Question("GET", stream_path(self._stream), answer=_MarkedStream)
        with suppress(UnknownStream, NotAllowed):
            stream = self._transport.ask(question)
            if not stream.logs:
                cuts = [mark.cut for mark in stream.marks.values() if mark]
                return reduce(StreamCut.join, cuts, StreamCut({}))
        return StreamCut({})

    def state_form(self, form: EventTimeForm, domain: str | None = None) -> None:
        """State how the event times of the log are read, for all readers of the stream.

        Raises `AnotherForm` if another form is stated, `NotAllowed` without the right to observe
        the stream, `UnknownCall` from an older controller, and `Unreachable`.
        """
        body = to_builtins(form) | {"domain": domain}
        path = stream_path(self._stream, "event-time-form")
        self._transport.ask(Question("POST", path, body=body))
