"""Writes the flights of the demo to a Parquet file, in order of landing.

Run it by `./run python -m demo.as_files flights.parquet`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from demo.data import read_flights
from demo.replay import table


def write(file: Path) -> None:
    pq.write_table(table(read_flights(1).landed), file)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
