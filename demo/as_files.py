"""Writes the flights of January to examples/flights.parquet, in order of landing.

Run it by `./run python -m demo.as_files [FILE]`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyarrow import Table

from demo.data import read_flights
from demo.replay import table

TARGET = Path(__file__).resolve().parents[1] / "examples" / "flights.parquet"
COLUMNS = ["departure", "landing", "carrier", "origin"]
TIMES = ("departure", "landing")


def make_table() -> Table:
    return table(read_flights(1).landed).select(COLUMNS)


def write(file: Path) -> None:
    """Write the file as small as Parquet can: 0.1 MB."""
    pq.write_table(
        make_table(),
        file,
        compression="zstd",
        use_dictionary=["carrier", "origin"],
        column_encoding=dict.fromkeys(TIMES, "DELTA_BINARY_PACKED"),
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET)
