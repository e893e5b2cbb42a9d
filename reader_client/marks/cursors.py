"""Cursors over the known marks and the complete windows of a domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from noted_time.answers import CompleteWindowsPage
from noted_time.client import Question
from noted_time.reading import CompleteWindow, Gaps, Tiling
from noted_time.values import Mark
from reader_client.marks.follower import Follower
from reader_client.marks.following import Following
from reader_client.protocol.questions import ask_windows

Item = TypeVar("Item")


class Cursor(ABC, Generic[Item]):
    """A cursor over a growing sequence, which moves to `restart` if the stream is recreated."""

    what = "item"
    most = 1000
    find_end: Callable[[Any], int]

    def __init__(
        self, following: Following, domain: str | None, after: int | None, restart: int | None
    ) -> None:
        self._following = following
        self._domain = domain
        self._after = after
        self._restart = restart
        self._stream_id: str | None = None

    def take_page(self) -> list[Item]:
        page = self._look(self.most)
        if page:
            self._after = self.find_end(page[-1])
        return page

    def has_more(self) -> bool:
        return bool(self._look(1))

    def is_over(self) -> bool:
        follower = self._following.get_follower(self._domain)
        return follower is not None and follower.is_sealed and not self.has_more()

    def _look(self, limit: int) -> list[Item]:
        follower = self._following.get_follower(self._domain)
        if follower is None or follower.stream_id is None:
            return []
        if self._stream_id not in {None, follower.stream_id}:
            self._after = self._restart
        self._stream_id = follower.stream_id
        return self._find(follower, limit)

    @abstractmethod
    def _find(self, follower: Follower, limit: int) -> list[Item]: ...


class MarkCursor(Cursor["Mark"]):
    """A cursor over marks, which moves to the first mark of a recreated stream.

    If the controller lost marks (a restored backup), the last remaining mark is returned again.
    """

    what = "mark"
    find_end = attrgetter("seq")

    def __init__(self, following: Following, after: int, domain: str | None) -> None:
        super().__init__(following, domain, after, 0)
        self._chain: int | None = None

    def _find(self, follower: Follower, limit: int) -> list[Mark]:
        if self._chain not in {None, follower.chain}:
            self._after = min(self._after or 0, max(0, follower.restarted_at - 1))
        self._chain = follower.chain
        return follower.marks_after(self._after or 0, limit)


class WindowCursor(Cursor["CompleteWindow"]):
    """A cursor over complete windows, which moves to the start of a recreated stream."""

    what = "complete window"
    most = 100
    find_end = attrgetter("end")

    def __init__(
        self, following: Following, tiling: Tiling, after: int | None, domain: str | None
    ) -> None:
        super().__init__(following, domain, after, after)
        self._tiling = tiling

    def ask_missing(self, page: Sequence[CompleteWindow]) -> Question[CompleteWindowsPage]:
        stream = self._following.stream
        return ask_windows(stream, self._tiling, page[0].start, self._domain, limit=len(page))

    def add_missing(
        self, page: Sequence[CompleteWindow], answer: CompleteWindowsPage | None
    ) -> Iterator[CompleteWindow]:
        answered_windows = {}
        if answer is not None and answer.stream_id == self._stream_id:
            # by another release of zone data, a window with this start may have another end
            for window in answer.windows:
                answered_windows[window.start, window.end] = window
        for window in page:
            answered_window = answered_windows.get((window.start, window.end), window)
            gaps = {name: getattr(answered_window, name) for name in Gaps.__struct_fields__}
            yield replace(window, last_writer=answered_window.last_writer, **gaps)

    def _find(self, follower: Follower, limit: int) -> list[CompleteWindow]:
        return follower.complete_windows(self._tiling, self._after, limit)
