"""A place in the complete windows of a domain, as far as they are known here."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noted_time.windows import CompleteWindow, Tiling
    from reader_client.following import Following

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
