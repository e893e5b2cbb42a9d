"""The outcome of a writer's notes, for `flush` and `on_excluded`."""

from __future__ import annotations

from dataclasses import dataclass

from noted_time.values import Exclusion


@dataclass(frozen=True, slots=True)
class Flushed:
    """The outcome of a flush."""

    lower: int | None
    """The lower of the domain last noted, as of the last answer; rows below it are late."""
    excluded: Exclusion | None = None
    """Set if the watermark advances without the writer."""
    late_rows: int = 0
    """The number of late rows reported since the client was created."""
