"""Hours by carrier: a batch job makes their table from the flights' table, and inherits its claim.

Once, when a carrier holds back the watermark longest, a reader asks why the hours are not complete.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from demo.data import HOUR_MS, hour_after
from demo.replay import EVENT_TIME, INSTANT
from demo.schedule import Step
from demo.stage import HOURS_TABLE
from noted_time.installation import PROGRAM_VARIABLE
from noted_time.values import format_time

NAME = "hours"
HOUR_END = "hour_end"
NOT_YET_STATUS = 124


class Hours:
    """The job and its reader. `flights` is the directory of the flights' table.

    They act once, at the stop where one carrier is furthest behind all others.
    `asked` is the reader's command, and `answer` its lines.
    """

    def __init__(self, flights: Path, url: str, stops: Sequence[Step]) -> None:
        self._flights = flights
        self._url = url
        self._stop = max(stops, key=_compute_lead)
        self.asked = ""
        self.answer = ""
        self.status = 0

    @property
    def clock(self) -> int:
        return self._stop.clock

    def act(self, stop: Step) -> None:
        """Run the job at its stop, and ask for the first hour that is not complete."""
        if stop is not self._stop:
            return
        flights = f"delta:{self._flights.name}"
        hours = f"delta:{HOURS_TABLE}"
        pin = self._run("claim", "pin", flights).stdout.strip()
        rows = DeltaTable(self._flights).to_pyarrow_table()
        write_deltalake(self._flights.parent / HOURS_TABLE, count_hours(rows), mode="overwrite")
        words = ["claim", "inherit", hours, "--name", NAME, "--time-of", HOUR_END, "--from", pin]
        self._run(*words).check_returncode()
        words = ["why", hours, format_time(hour_after(min(stop.notes.values())))]
        process = self._run(*words)
        self.asked = shlex.join(["noted-time", *words])
        self.answer = process.stdout.strip()
        self.status = process.returncode

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        ours: Mapping[str, str] = {"NOTED_TIME_URL": self._url, PROGRAM_VARIABLE: "noted-time"}
        return subprocess.run(
            [sys.executable, "-m", "noted_time", *words],
            cwd=self._flights.parent,
            env={**os.environ, **ours},
            check=False,
            stdout=subprocess.PIPE,
            text=True,
        )


def count_hours(flights: pa.Table) -> pa.Table:
    """Count the departures of each carrier by hour, and return them with the end of the hour.

    >>> count_hours(pa.table({"departure": [5], "carrier": ["UA"]})).to_pylist()[0]["flights"]
    1
    """
    begins = pc.divide(flights[EVENT_TIME].cast(INSTANT).cast(pa.int64()), HOUR_MS)
    ends = pc.multiply(pc.add(begins, 1), HOUR_MS).cast(INSTANT)
    rows = pa.table({HOUR_END: ends, "carrier": flights["carrier"]})
    counts = rows.group_by([HOUR_END, "carrier"]).aggregate([("carrier", "count")])
    return counts.rename_columns([HOUR_END, "carrier", "flights"])


def _compute_lead(stop: Step) -> int:
    last, next_last, *_ = sorted(stop.notes.values())
    return next_last - last
