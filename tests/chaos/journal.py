"""What a trial leaves on disk: one line of JSON for each thing that happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.chaos.history import History

_encode = msgspec.json.Encoder().encode


class Journal:
    """Writes the notes while they are made, as there are too many to remember them.

    Each is told twice: when it is first sent, and when it is answered, with all tries before.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._notes = (directory / "notes.jsonl").open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._notes.close()

    def note(self, **line: Any) -> None:  # noqa: ANN401 - any JSON
        """Write what was sent or answered."""
        self._notes.write(_encode(line) + b"\n")

    def keep(self, history: History) -> None:
        """Write all that is remembered."""
        self._write("faults", history.spans)
        self._write("violations", history.violations)
        self._write(
            "events",
            (
                {"stream": stream.name, "at": [event.segment, event.offset], "times": event.times}
                for stream in history.streams.values()
                for event in stream.events
            ),
        )
        for (stream, domain), chain in history.chains.items():
            self._write(f"marks-{stream}-{domain}", chain.seen.values())
            self._write(f"windows-{stream}-{domain}", chain.windows)

    def _write(self, name: str, lines: Iterable[object]) -> None:
        with (self._directory / f"{name}.jsonl").open("wb") as file:
            file.writelines(_encode(line) + b"\n" for line in lines)
