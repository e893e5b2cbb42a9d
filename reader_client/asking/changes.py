"""Which complete windows changed: rows of them were reported late from a moment on."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from noted_time.client import Json, Question
from noted_time.reading import CompleteWindow, Tiling
from reader_client.asking.answers import windows_answer
from reader_client.asking.questions import windows_changed


@dataclass(frozen=True, slots=True)
class ChangedWindows:
    """The complete windows of which rows were reported late from a moment on, in order.

    The `late` of each has these reports alone; rows of one writer that were reported within an hour
    count together. If `are_known` is false, the reports that are kept do not reach back to that
    moment: other windows may have changed, too.
    """

    windows: tuple[CompleteWindow, ...]
    are_known: bool


def changed(
    stream: str, since: int, tiling: Tiling, domain: str | None
) -> Generator[Question, Json, ChangedWindows]:
    """Ask for all windows that changed, page by page."""
    windows: list[CompleteWindow] = []
    after: int | None = None
    while True:
        asked = windows_changed(stream, since, tiling.size_ms, tiling.origin, after, domain)
        page = windows_answer((yield asked))
        windows += page.windows
        after = page.next
        if after is None:
            return ChangedWindows(tuple(windows), page.are_known)
