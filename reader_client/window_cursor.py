"""A place in the complete windows of a domain, as far as they are known here."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from noted_time.values import NOT_KNOWN
from reader_client.answers import windows_answer
from reader_client.questions import windows_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from noted_time.client import Question
    from noted_time.reading import CompleteWindow, Tiling
    from reader_client.following import Following
    from reader_client.questions import Json

PAGE = 100


class WindowCursor:
    """A place in the windows of a domain; of a stream made again, it begins where it began."""

    what = "complete window"

    def __init__(
        self, following: Following, tiling: Tiling, after: int | None, domain: str | None
    ) -> None:
        """Begin with the window that `after` lies in, see `complete_windows`."""
        self._following = following
        self._tiling = tiling
        self._domain = domain
        self._begin = self._after = after
        self._stream_id: str | None = None

    def page(self) -> list[CompleteWindow]:
        """Return the next windows that are known to be complete, and go past them."""
        found = self._look(PAGE)
        if found:
            self._after = found[-1].end
        return found

    def about_missing(self, page: Sequence[CompleteWindow]) -> Question:
        """Ask which writers are missing from the windows of a page: marks do not tell."""
        of, size_ms = self._following.stream, self._tiling.size_ms
        return windows_from(of, page[0].start, size_ms, len(page), self._domain)

    def with_missing(
        self, page: Sequence[CompleteWindow], answer: Json | None
    ) -> Iterator[CompleteWindow]:
        """Yield the windows with those that are missing, as far as the answer says it."""
        known = {}
        if answer is not None and answer.get("stream_id") == self._stream_id:
            known = {each.start: each.missing for each in windows_answer(answer)}
        for window in page:
            yield replace(window, missing=known.get(window.start, NOT_KNOWN))

    def has_more(self) -> bool:
        """Whether the next page has windows."""
        return bool(self._look(1))

    def is_over(self) -> bool:
        """Whether the stream is sealed, and no page has any more windows."""
        follower = self._following.follower(self._domain)
        return follower is not None and follower.is_sealed and not self.has_more()

    def _look(self, limit: int) -> list[CompleteWindow]:
        follower = self._following.follower(self._domain)
        if follower is None or follower.stream_id is None:
            return []
        if self._stream_id not in {None, follower.stream_id}:
            self._after = self._begin
        self._stream_id = follower.stream_id
        return follower.complete_windows(self._tiling, self._after, limit)
