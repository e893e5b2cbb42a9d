"""The flights of the demo as a Parquet file, in the order in which they landed.

Run it by `./run python -m demo.as_files flights.parquet`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from demo.data import read_flights


def write(
    file: Annotated[Path, typer.Argument(help="The file to write.")],
    months: Annotated[int, typer.Option(min=1, max=12, help="How much of 2013.")] = 1,
) -> None:
    """Write them, with `landing` and `departure` as timestamps."""
    landed = read_flights(months).landed
    times = pa.timestamp("ms", "UTC")
    columns = {
        "departure": pa.array([flight.departure for flight in landed], times),
        "landing": pa.array([flight.landing for flight in landed], times),
        "carrier": [flight.carrier for flight in landed],
        "origin": [flight.origin for flight in landed],
    }
    pq.write_table(pa.table(columns), file)
    typer.echo(f"{file}: {len(landed):,} flights")


if __name__ == "__main__":
    typer.run(write)
