"""Where marks come from: a controller, which may be away."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from noted_time import Rejected, StreamSettings, Succession
from noted_time.client import Backoff, mark_from_wire, position_from_wire
from reader_client.answers import marks_answer, stream_answer
from reader_client.connection import Connection
from reader_client.questions import Pause, about_stream, marks_after
from reader_client.repeating import Health, Repeating, own_chance
from spark_integration.offsets import Released

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from noted_time import Mark
    from reader_client.questions import Steps

WAIT_MS = 10_000
CATCH_UP_S = 5.0
CLOSE_S = 2.0
AT_ONCE_S = 0.05
SEALED_S = 10.0
BACKOFF = Backoff(cap_s=2.0)


@dataclass(frozen=True, slots=True)
class Marks:
    """Marks in the order of their seq, of the stream with that creation id, `""` if unknown.

    `succession` has the scale events that their cuts may rest on.
    `final_cut` is where the stream ends, once it is sealed and all its marks are here. `is_quiet`
    says that no writer was waited for at the last look.
    """

    stream_id: str = ""
    marks: Sequence[Mark] = ()
    succession: Succession = field(default_factory=Succession)
    final_cut: Mapping[int, int] | None = None
    is_quiet: bool = False


class MarksFeed(Protocol):
    """Where a source learns of marks; while the controller is away there is nothing new."""

    @property
    def subject(self) -> str:
        """Stream and domain, for people."""

    def begin(self, released: Released) -> None:
        """Follow the marks after the one last let in; wait briefly until all noted by now are here.

        Raises `Rejected` where a controller answers that there is no such stream or domain, and as
        `take`.
        """

    def take(self) -> Marks:
        """Return the marks that came since the last call, at once.

        A creation id other than before says that the stream was made again: its marks begin anew.
        Raises `ClientFailed` where what follows them ended by a fault of its own.
        """

    def close(self) -> None:
        """Stop following."""


class ControllerFeed:
    """The marks of one (stream, domain) of a controller, followed by long polls in a thread.

    An unnamed domain is the only one the stream declares, or `default`.
    """

    def __init__(
        self,
        url: str,
        stream: str,
        domain: str | None,
        *,
        token: str | None = None,
        wait_ms: int = WAIT_MS,
    ) -> None:
        """Begin with nothing; no connection is made before `begin`.

        `wait_ms` is how long one poll may wait; a stream made again is noticed that late.
        """
        self._connection = Connection(url, stream, None, token)
        self._stream = stream
        self._domain = domain
        self._wait_ms = wait_ms
        self._news = threading.Condition()
        self._caught_up = False
        self._final_cut: Mapping[int, int] | None = None
        self._is_quiet = False
        self._last = Released()
        self._new: list[Mark] = []
        self._succession = Succession()
        self._scaled = ("", 0)
        self._begun, self._corrections = Released(), 0
        self._health = Health(f"the marks of {stream!r}", BACKOFF, own_chance, self._notify)
        self._thread = Repeating("noted marks", self._step, self._connection.ask, self._health)

    @property
    def subject(self) -> str:
        """See `MarksFeed`."""
        return f"stream {self._stream!r}, domain {self._domain!r}"

    def begin(self, released: Released) -> None:
        """See `MarksFeed`."""
        self._last = self._begun = released
        self._thread.start()
        with self._news:
            self._news.wait_for(self._has_begun, CATCH_UP_S)
        failure = self._thread.attempts.failure
        if isinstance(failure, Rejected):
            self.close()
            raise failure
        self._health.check()

    def take(self) -> Marks:
        """See `MarksFeed`."""
        self._health.check()
        with self._news:
            new, self._new = self._new, []
            return Marks(
                self._last.stream_id, new, self._succession, self._final_cut, self._is_quiet
            )

    def close(self) -> None:
        """See `MarksFeed`."""
        self._thread.stop()
        self._connection.hang_up()
        self._thread.join(CLOSE_S)
        self._connection.close()

    # The thread

    def _has_begun(self) -> bool:
        failure, fault = self._thread.attempts.failure, self._health.fault
        return self._caught_up or failure is not None or fault is not None

    def _step(self) -> Steps:
        if self._domain is None:
            domains = stream_answer((yield about_stream(self._stream))).domains
            self._domain = StreamSettings(domains=domains).domain_or_default(None)
        asked, asked_at = self._last, time.monotonic()
        wait_ms = self._wait_ms if self._caught_up else 0
        answer = yield marks_after(self._stream, asked.seq, self._domain, wait_ms)
        marks_answer(answer)
        yield from self._learn_scale_events(answer)
        self._accept(asked, answer)
        if self._final_cut is not None:
            yield Pause(SEALED_S)  # no mark follows, unless the stream is made again
        elif wait_ms and not answer["marks"] and time.monotonic() - asked_at < AT_ONCE_S:
            yield Pause(AT_ONCE_S)  # a controller about to stop does not wait
        return True

    def _learn_scale_events(self, answer: dict[str, Any]) -> Steps:
        """Ask for the scale events before marks are taken that come after more than are known."""
        scaled = (answer["stream_id"], answer["scale_events"])
        if scaled == self._scaled:
            return True
        succession = Succession()
        if answer["scale_events"]:
            stream = stream_answer((yield about_stream(self._stream)))
            succession, scaled = stream.succession, (stream.id, stream.scale_events)
        with self._news:
            self._succession, self._scaled = succession, scaled
        return True

    def _accept(self, asked: Released, answer: dict[str, Any]) -> None:
        stream_id = answer["stream_id"]
        with self._news:
            if asked.seq and stream_id != asked.stream_id:
                self._last, self._new, self._caught_up = Released(stream_id), [], False
                self._final_cut = None
                return
            corrections = answer.get("corrections", 0)
            if corrections != self._corrections:
                self._corrections = corrections
                if self._new or asked != self._begun:  # all are read again, as they are now
                    seq = self._begun.seq if self._begun.stream_id == stream_id else 0
                    self._last, self._new, self._caught_up = Released(stream_id, seq), [], False
                    return
            marks = [mark_from_wire(mark) for mark in answer["marks"]]
            self._last = Released(stream_id, marks[-1].seq if marks else asked.seq)
            self._new.extend(marks)
            self._caught_up, self._is_quiet = not marks, answer.get("quiet") is True
            ended = answer["sealed"] and not marks
            self._final_cut = position_from_wire(answer["final_cut"]) if ended else None
            self._news.notify_all()

    def _notify(self) -> None:
        with self._news:
            self._news.notify_all()
