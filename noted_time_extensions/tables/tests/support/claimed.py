"""A Delta table whose commits claim that it is complete to a time."""

import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from msgspec.structs import replace

from noted_time.values import MIN_INT64
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.committing import RememberedBatch, prepare_commit
from noted_time_extensions.tables.table_history import TableHistory
from noted_time_extensions.tables.table_urls import open_history

TEN = 1_357_034_400_000
"""10:00 of a day in January, in Unix ms."""

AHEAD_MS = 7_200_000

ROWS = pa.table({"id": [1]})


class Orders:
    """A Delta table of orders, whose query commits claims."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "orders")
        self.url = f"delta:{self.path}"
        self._last: tuple[RememberedBatch, ...] = ()

    def claim(  # noqa: PLR0913 - fields of a claim
        self,
        complete_to: int | None,
        batch: int,
        *missing: str,
        stream: str = "",
        domain: str | None = "default",
        lag: int = 0,
        asked: bool = True,
        expected: int = 2,
        from_time: int | None = MIN_INT64,
        stated: bool = False,
        first: int | None = MIN_INT64,
        keeps: bool | None = True,
    ) -> None:
        """Append rows with a claim; `asked` says whether it names missing writers.

        `keeps` says whether its query keeps late rows.
        """
        named_writers = missing if asked else None
        vouching = 2 - len(missing)
        counts = {"count": vouching, "expected": expected}
        counts["expected_vouching"] = min(vouching, expected)
        claim = Claim("orders", complete_to, "time", "q", batch, id=f"r{batch}", stream=stream)
        claim = replace(claim, domain=domain if stream else None, lag_ms=lag)
        claim = replace(claim, is_from_time_stated=stated, first_lower=first)
        claim = replace(
            claim,
            missing_writers=named_writers,
            from_time=from_time,
            vouched=counts if asked else {},
        )
        claim = replace(claim, max_time_ahead_ms=AHEAD_MS, keeps_late_rows=keeps)
        exists = DeltaTable.is_deltatable(self.path)
        record = prepare_commit(
            open_history(self.url) if exists else TableHistory(()), claim, self._last
        )
        self._last = (RememberedBatch(batch, {"": record}),)
        self.record(record)

    @property
    def table(self) -> str:
        return str(DeltaTable(self.path).metadata().id)

    def record(self, claim: Claim) -> None:
        metadata = {"userMetadata": json.dumps({claim.key: claim.to_json()})}
        properties = CommitProperties(custom_metadata=metadata)
        write_deltalake(self.path, ROWS, mode="append", commit_properties=properties)

    def overwrite(self) -> None:
        write_deltalake(self.path, ROWS, mode="overwrite")
