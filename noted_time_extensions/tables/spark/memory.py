"""Remembers, in a checkpoint, the batches that a query commits to a table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from typing import Any

from noted_time import NotedTimeError, Rejected
from noted_time_extensions.tables.claim import Claim
from noted_time_extensions.tables.committing import RememberedBatch, remember_record, withdraw_batch
from spark_integration.extending import open_checkpoint

MEMORY_DIRECTORY = "noted-time"


class Memory:
    """The last two batches that a query planned to write to a table under a name.

    Each of them, and the last batch of those withdrawn since, is a file in the checkpoint, read
    once per run.
    """

    def __init__(self, checkpoint: str, name: str, table: str) -> None:
        self._files = open_checkpoint(checkpoint)
        self._prefix = f"{sha256(json.dumps([name, table]).encode()).hexdigest()[:16]}."
        self._run: str | None = None
        self._batches: tuple[RememberedBatch, ...] = ()

    def batches(self, run: str) -> tuple[RememberedBatch, ...]:
        if run != self._run or not run:
            self._run = run
            self._batches = tuple(self._read())
        return self._batches

    def keep(self, record: Claim, run: str) -> None:
        """Save the record of a part of a batch, before the part is written."""
        self._save(remember_record(self._batches, record, run))

    def withdraw(self, batch: int, part: str | None = None) -> None:
        self._save(withdraw_batch(self._batches, batch, part))

    def _save(self, batches: tuple[RememberedBatch, ...]) -> None:
        former_batches = self._batches
        self._batches = batches
        for batch in batches:
            if batch not in former_batches:
                self._files.write(self._name(batch.batch), _format_batch(batch))
        kept_numbers = {batch.batch for batch in batches}
        dropped_numbers = {batch.batch for batch in former_batches} - kept_numbers
        for number in dropped_numbers:
            self._files.delete(self._name(number))

    def _name(self, number: int) -> str:
        return f"{MEMORY_DIRECTORY}/{self._prefix}{number}.json"

    def _read(self) -> Iterator[RememberedBatch]:
        with suppress(OSError, NotedTimeError):
            for file in self._files.list_names(MEMORY_DIRECTORY):
                if file.startswith(self._prefix) and file.endswith(".json"):
                    with suppress(ValueError, KeyError, TypeError, AttributeError, Rejected):
                        yield _parse_batch(
                            json.loads(self._files.read(f"{MEMORY_DIRECTORY}/{file}") or "")
                        )


def _format_batch(batch: RememberedBatch) -> str:
    records = {part: [record.name, record.to_json()] for part, record in batch.records.items()}
    fields = {
        "batch": batch.batch,
        "withdrawn_from": batch.withdrawn_from,
        "runs": batch.runs,
        "records": records,
    }
    return json.dumps(fields)


def _parse_batch(fields: Mapping[str, Any]) -> RememberedBatch:
    records = {part: Claim.from_json(*record) for part, record in fields["records"].items()}
    withdrawn_from = fields["withdrawn_from"]
    if withdrawn_from is not None:
        withdrawn_from = int(withdrawn_from)
    return RememberedBatch(int(fields["batch"]), records, dict(fields["runs"]), withdrawn_from)


open_memory = cache(Memory)
