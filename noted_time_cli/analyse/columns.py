"""The columns of files that `noted-time analyse` takes, as flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from noted_time_cli.terminal.options import option


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The columns of files."""

    time: Annotated[str, option("COLUMN", "The column of the event time.")]
    arrival: Annotated[
        str | None, option("COLUMN", "The column with the time at which each row came in.")
    ] = None
    who: Annotated[str | None, option("COLUMN", "Show whose rows are late, by this column.")] = None
