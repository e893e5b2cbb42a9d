"""Other programs that write the table: compaction, an overwrite, and the repair.

They use deltalake and the command line, and know nothing of the query.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from demo.judge import Look
from demo.replay import INSTANT, SCHEMA
from demo.schedule import Step
from noted_time_extensions.tables import NoClaim, standing

COMPACTED_EVERY = 24
"""The number of looks between two compactions."""

COPIED_BEFORE = 6
"""The number of looks between the copy and the overwrite by it, and from there to the repair."""

OVERWRITTEN = 0.6
"""The part of the flights that have landed when it happens."""

COMMENT = "flights of the gap written again, checked: Ada"


@dataclass(slots=True)
class Others:
    """Other programs at a table, after each of the `stops`; `looks` are the earlier looks.

    `when` has the clock (Unix ms) of each action except compactions. `reason` is why nothing was
    claimed after the overwrite, `gap` has the removed rows, and `accepted` is the output of the
    accepting `command`.
    """

    location: str
    stops: Sequence[Step]
    looks: Sequence[Look]
    when: dict[str, int] = field(default_factory=dict)
    compactions: int = 0
    reason: str = ""
    command: str = ""
    accepted: str = ""
    gap: pa.Table = field(default_factory=SCHEMA.empty_table)

    def act(self) -> None:
        """Make the changes that are due after this stop."""
        number = len(self.looks)
        clock = self.stops[number].clock
        if (number + 1) % COMPACTED_EVERY == 0:
            DeltaTable(self.location).optimize.compact()
            self.compactions += 1
        if number == self.overwritten_at:
            self._overwrite(clock)
        elif number == self.overwritten_at + COPIED_BEFORE:
            self._repair(clock)

    @property
    def overwritten_at(self) -> int:
        """Return the number of the stop where six tenths of the flights have landed."""
        landed_counts = []
        landed_count = 0
        for stop in self.stops:
            landed_count += sum(len(flights) for flights in stop.landed.values())
            landed_counts.append(landed_count)
        return bisect_left(landed_counts, OVERWRITTEN * landed_counts[-1])

    def _overwrite(self, clock: int) -> None:
        copied_look = self.looks[-COPIED_BEFORE]
        present = DeltaTable(self.location)
        rows = present.to_pyarrow_table()
        self.gap = rows.filter(pc.greater(rows["landing"], pa.scalar(copied_look.clock, INSTANT)))
        copy = DeltaTable(self.location, version=copied_look.version)
        write_deltalake(self.location, copy.to_pyarrow_table(), mode="overwrite")
        self.when |= {"copy": copied_look.clock, "overwrite": clock}
        claim = standing(f"delta:{self.location}")
        self.reason = claim.why if isinstance(claim, NoClaim) else ""

    def _repair(self, clock: int) -> None:
        """Write the removed rows again, and accept the table."""
        self.when["accept"] = clock
        write_deltalake(self.location, self.gap, mode="append")
        version = str(DeltaTable(self.location).version())
        words = ["claim", "accept", f"delta:{Path(self.location).name}", "--at", version]
        words += ["--comment", COMMENT]
        self.command = shlex.join(["noted-time", *words])
        process = subprocess.run(
            [sys.executable, "-m", "noted_time", *words],
            cwd=Path(self.location).parent,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.accepted = process.stdout.strip()
