"""What is asked about one stream, for a caller that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noted_time.client.transport import Transport
from reader_client import answers, questions

if TYPE_CHECKING:
    import httpx

    from noted_time.reading import CompleteWindow
    from reader_client.questions import Json


class StreamTransport(Transport):
    """The questions of one reader of one stream; raises as `Transport`."""

    def __init__(
        self,
        url: str,
        stream: str,
        transport: httpx.BaseTransport | None = None,
        token: str | None = None,
    ) -> None:
        super().__init__(url, token=token, transport=transport)
        self._stream = stream

    def stream(self) -> Json:
        """Return settings, id, last marks and scale events."""
        answer = self.ask(questions.about_stream(self._stream))
        answers.stream_answer(answer)
        return answer

    def window(
        self, start: int, end: int, domain: str | None, *, wait_ms: int
    ) -> CompleteWindow | None:
        """Return the window from `start` to `end`, `None` if it is not complete in time."""
        size_ms = end - start
        question = questions.windows_from(self._stream, start, size_ms, 1, domain, wait_ms)
        return next(iter(answers.windows_answer(self.ask(question))), None)

    def check_complete(self, time: int, domain: str | None) -> None:
        """Raise `NotCompleteYet` if the stream is not complete to a time."""
        self.ask(questions.complete_to(self._stream, time, domain))
