"""What others do to the table: compaction, a row of their own, an overwrite, and the repair.

Everything goes by deltalake and the command line, as from programs that know nothing of the query.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from demo.data import DAY_MS, Flight
from demo.judge import FOREIGN
from demo.replay import INSTANT, SCHEMA, table
from noted_time.tables import NoClaim, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from demo.judge import Look
    from demo.schedule import Step

COMPACTED_EVERY = 24
"""The number of looks between two compactions."""

COPIED_BEFORE = 6
"""The number of looks between the copy and the overwrite by it, and from there to the repair."""

APPENDED, OVERWRITTEN = 0.4, 0.6
"""The parts of the flights that have landed when it happens."""

COMMENT = "flights of the gap written again, checked: Ada"


@dataclass(slots=True)
class Others:
    """Others at work on the table at `path`, after each of the `stops`; `looks` are those before.

    `when` is the clock (Unix ms) of each thing that they did, but for compactions. `reason` is why
    nothing was claimed after the overwrite, `gap` has the rows that it removed, and `accepted` is
    what the command said that vouched for the table.
    """

    path: Path
    stops: Sequence[Step]
    looks: Sequence[Look]
    when: dict[str, int] = field(default_factory=dict)
    compactions: int = 0
    reason: str = ""
    accepted: str = ""
    looked_at: int = 0
    gap: pa.Table = field(default_factory=SCHEMA.empty_table)

    @property
    def location(self) -> str:
        """The table's location, without the kind of it."""
        return str(self.path)

    def act(self) -> None:
        """Do what is due after the present stop."""
        number = len(self.looks)
        if (number + 1) % COMPACTED_EVERY == 0:
            DeltaTable(self.location).optimize.compact()
            self.compactions += 1
        for name, (due, act) in self._acts().items():
            if number == due:
                act()
                self.when[name] = self.stops[number].clock

    def _acts(self) -> Mapping[str, tuple[int, Callable[[], None]]]:
        overwritten = self._stop_of(OVERWRITTEN)
        return {
            "append": (self._stop_of(APPENDED), self._append),
            "overwrite": (overwritten, self._overwrite),
            "accept": (overwritten + COPIED_BEFORE, self._repair),
        }

    def _stop_of(self, share: float) -> int:
        """Return the number of the stop at which this part of the flights has landed."""
        landed = [sum(map(len, stop.landed.values())) for stop in self.stops]
        return next(n for n in range(len(landed)) if sum(landed[: n + 1]) >= share * sum(landed))

    def _append(self) -> None:
        clock = self.stops[len(self.looks)].clock
        row = Flight(landing=clock, departure=clock + DAY_MS, carrier=FOREIGN, origin="EWR")
        write_deltalake(self.location, table([row]), mode="append")

    def _overwrite(self) -> None:
        copied, present = self.looks[-COPIED_BEFORE], DeltaTable(self.location)
        rows = present.to_pyarrow_table()
        self.gap = rows.filter(pc.greater(rows["landing"], pa.scalar(copied.clock, INSTANT)))
        copy = DeltaTable(self.location, version=copied.version)
        write_deltalake(self.location, copy.to_pyarrow_table(), mode="overwrite")
        self.when["copy"] = copied.clock
        found = standing(f"delta:{self.location}")
        self.reason = found.why if isinstance(found, NoClaim) else ""

    def _repair(self) -> None:
        """Write the rows again that the overwrite removed, and vouch for the table."""
        write_deltalake(self.location, self.gap, mode="append")
        self.looked_at = DeltaTable(self.location).version()
        self.accepted = subprocess.run(
            [sys.executable, "-m", "noted_time", *self._words],
            cwd=self.path.parent,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    @property
    def _words(self) -> tuple[str, ...]:
        at = str(self.looked_at)
        return ("claim", "accept", f"delta:{self.path.name}", "--at", at, "--comment", COMMENT)

    @property
    def command(self) -> str:
        """The command by which the table is accepted."""
        return f"noted-time {shlex.join(self._words)}"
