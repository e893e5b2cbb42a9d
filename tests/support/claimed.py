"""A Delta table whose commits claim to which time it is complete."""

import json
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from noted_time.values import Claim

TEN = 1_357_034_400_000
"""10:00 of a day in January, in Unix ms."""

ROWS = pa.table({"id": [1]})


class Orders:
    """A Delta table of orders, whose query commits claims."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory / "orders")
        self.url = f"delta:{self.path}"

    def claim(
        self, complete_to: int, batch: int, *missing: str, stream: str = "", asked: bool = True
    ) -> None:
        """Append rows with a claim, which asked who is missing or did not."""
        named = missing if asked else None
        self.record(Claim("orders", complete_to, "time", "q", batch, missing=named, stream=stream))

    def record(self, claim: Claim) -> None:
        """Append rows with this record."""
        metadata = {"userMetadata": json.dumps({claim.key: claim.to_json()})}
        properties = CommitProperties(custom_metadata=metadata)
        write_deltalake(self.path, ROWS, mode="append", commit_properties=properties)

    def overwrite(self) -> None:
        """Replace all rows, in the name of nobody."""
        write_deltalake(self.path, ROWS, mode="overwrite")
