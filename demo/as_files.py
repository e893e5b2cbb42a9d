"""The flights of the demo as a Parquet file, in the order in which they landed.

Run it by `./run python -m demo.as_files flights.parquet`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from demo.data import read_flights


def write(file: Path) -> None:
    """Write those of January, with `landing` and `departure` as timestamps."""
    landed = read_flights(1).landed
    times = pa.timestamp("ms", "UTC")
    columns = {
        "departure": pa.array([flight.departure for flight in landed], times),
        "landing": pa.array([flight.landing for flight in landed], times),
        "carrier": [flight.carrier for flight in landed],
        "origin": [flight.origin for flight in landed],
    }
    pq.write_table(pa.table(columns), file)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
