"""Spark's logs in a checkpoint, read and written as Spark does."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any


def list_batches(log: Path) -> list[int]:
    """Return the batches in a log, in order."""
    return sorted(int(file.name) for file in log.glob("*") if file.name.isdigit())


def read_plan(checkpoint: Path, batch: int | None = None) -> list[Any]:
    """Return the metadata and the offsets of a batch, by default of the last one."""
    log = checkpoint / "offsets"
    number = list_batches(log)[-1] if batch is None else batch
    lines = (log / str(number)).read_text().split("\n")[1:]
    return [_parse_offset(line) for line in lines]


def _parse_offset(line: str) -> object:
    """Return an offset; `None` for a source without one."""
    return None if line == "-" else json.loads(line)


def plan(
    checkpoint: Path,
    batch: int,
    *offsets: object,
    version: str = "v1",
    metadata: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Plan a batch of the query `q`; a source without an offset has `None`."""
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_text('{"id": "q"}')
    lines = [version, json.dumps(dict(metadata))]
    for offset in offsets:
        lines.append("-" if offset is None else json.dumps(offset))
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))


def write_start(checkpoint: Path, source: str, start: object) -> None:
    """Write the first offset of a source, as Spark's Kafka connector does."""
    place = checkpoint / "sources" / source
    place.mkdir(parents=True, exist_ok=True)
    (place / "0").write_text(f"\0v1\n{json.dumps(start)}")


def forget_commit(checkpoint: Path) -> None:
    """Make the last batch planned but not committed, as after a crash."""
    commits = checkpoint / "commits"
    last = list_batches(commits)[-1]
    (commits / f".{last}.crc").unlink(missing_ok=True)
    (commits / str(last)).unlink()
