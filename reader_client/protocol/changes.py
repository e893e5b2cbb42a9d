"""Collects the complete windows that changed by late rows."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from noted_time.answers import CompleteWindowsPage
from noted_time.client import Json, Question
from noted_time.reading import CompleteWindow, Tiling
from reader_client.protocol.answers import decode_answer
from reader_client.protocol.questions import ask_changed_windows


@dataclass(frozen=True, slots=True)
class ChangedWindows:
    """The complete windows with late rows since a time, in order; `late` has only these rows."""

    windows: tuple[CompleteWindow, ...]
    are_known: bool
    """False if older reports were deleted, or some writers reported no least time."""

    writers_without_least: tuple[str, ...] = ()


def collect_changed_windows(
    stream: str, since: int, tiling: Tiling, domain: str | None
) -> Generator[Question, Json, ChangedWindows]:
    windows: list[CompleteWindow] = []
    after: int | None = None
    while True:
        question = ask_changed_windows(stream, since, tiling, after, domain)
        page = decode_answer(CompleteWindowsPage, (yield question))
        windows += page.windows
        after = page.next
        if not page.has_more:
            return ChangedWindows(
                tuple(windows), bool(page.changes_are_known), page.writers_without_least
            )
