"""What the demo shows while it works: a bar for everything that takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from rich.console import Console


class Bars:
    """Bars on a console, live while it is entered."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<50}"),
            BarColumn(bar_width=28),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=console,
        )

    def bar(self, description: str, total: int) -> Callable[[int], None]:
        """Show a bar and return what to call with how much is done; `total` fills it."""
        task = self._progress.add_task(description, total=total)

        def done(completed: int) -> None:
            self._progress.update(task, completed=min(completed, total))

        return done

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
