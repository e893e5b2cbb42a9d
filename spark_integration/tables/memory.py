"""Remembers, in a checkpoint, the batches that a query commits to a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256

from noted_time import NotedTimeError, Rejected
from noted_time.reading import RememberedBatch
from noted_time.values import Claim
from spark_integration.checkpoint.files import open_checkpoint

MEMORY_DIRECTORY = "noted-time"
BATCHES_KEPT = 2  # the current batch, and the previous one, which the table must contain


class Memory:
    """The last two batches that a query planned to write to a table under a name.

    Each batch is a file in the checkpoint, read once per run.
    """

    def __init__(self, checkpoint: str, name: str, table: str) -> None:
        self._files = open_checkpoint(checkpoint)
        self._prefix = f"{sha256(json.dumps([name, table]).encode()).hexdigest()[:16]}."
        self._run: str | None = None
        self._known: dict[int, RememberedBatch] = {}

    def batches(self, run: str) -> tuple[RememberedBatch, ...]:
        if run != self._run or not run:
            self._run, self._known = run, {each.batch: each for each in self._read()}
        return tuple(self._known.values())

    def keep(self, record: Claim, run: str) -> None:
        """Save the record of a part of a batch, before the part is written."""
        before = self._known.get(record.batch, RememberedBatch(record.batch, {}))
        records = {**before.records, record.part: record}
        remembered = RememberedBatch(record.batch, records, {**before.runs, record.part: run})
        self._known[record.batch] = remembered
        written = {part: each.to_json() for part, each in records.items()}
        text = json.dumps({"name": record.name, "runs": remembered.runs, "records": written})
        self._files.write(self._name(record.batch), text)
        for batch in sorted(self._known)[:-BATCHES_KEPT]:
            del self._known[batch]
            self._files.delete(self._name(batch))

    def withdraw(self, batch: int) -> None:
        if self._known.pop(batch, None) is not None:
            self._files.delete(self._name(batch))

    def _name(self, batch: int) -> str:
        return f"{MEMORY_DIRECTORY}/{self._prefix}{batch}.json"

    def _read(self) -> Iterator[RememberedBatch]:
        with suppress(OSError, NotedTimeError):
            for file in self._files.list_names(MEMORY_DIRECTORY):
                if file.startswith(self._prefix) and file.endswith(".json"):
                    with suppress(ValueError, KeyError, TypeError, AttributeError, Rejected):
                        yield _parse_batch(
                            json.loads(self._files.read(f"{MEMORY_DIRECTORY}/{file}") or "")
                        )


def _parse_batch(record: Mapping[str, object]) -> RememberedBatch:
    name, records, runs = str(record["name"]), record["records"], record["runs"]
    if not (isinstance(records, dict) and isinstance(runs, dict)):
        raise TypeError(record)
    claims = {part: Claim.from_json(name, text) for part, text in records.items()}
    (batch,) = {claim.batch for claim in claims.values()}
    return RememberedBatch(batch, claims, runs)


@cache
def open_memory(checkpoint: str, name: str, table: str) -> Memory:
    return Memory(checkpoint, name, table)
