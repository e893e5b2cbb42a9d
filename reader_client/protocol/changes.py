"""Which complete windows changed: rows of them were reported late from a moment on."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from noted_time.client import Json, Question
from noted_time.reading import CompleteWindow, Tiling
from reader_client.protocol.answers import decode_windows
from reader_client.protocol.questions import ask_changed_windows


@dataclass(frozen=True, slots=True)
class ChangedWindows:
    """The complete windows of which rows were reported late from a moment on, in order.

    The `late` of each has these reports alone; rows of one writer that were reported within an hour
    count together. If `are_known` is false, the reports that are kept do not reach back to that
    moment: other windows may have changed, too.
    """

    windows: tuple[CompleteWindow, ...]
    are_known: bool


def collect_changed_windows(
    stream: str, since: int, tiling: Tiling, domain: str | None
) -> Generator[Question, Json, ChangedWindows]:
    """Ask for all windows that changed, page by page."""
    windows: list[CompleteWindow] = []
    after: int | None = None
    while True:
        asked = ask_changed_windows(stream, since, tiling.size_ms, tiling.origin, after, domain)
        page = decode_windows((yield asked))
        windows += page.windows
        after = page.next
        if after is None:
            return ChangedWindows(tuple(windows), page.are_known)
