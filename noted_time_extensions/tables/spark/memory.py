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
        self._known: tuple[RememberedBatch, ...] = ()

    def batches(self, run: str) -> tuple[RememberedBatch, ...]:
        if run != self._run or not run:
            self._run, self._known = run, tuple(self._read())
        return self._known

    def keep(self, record: Claim, run: str) -> None:
        """Save the record of a part of a batch, before the part is written."""
        self._save(remember_record(self._known, record, run))

    def withdraw(self, batch: int, part: str | None = None) -> None:
        self._save(withdraw_batch(self._known, batch, part))

    def _save(self, batches: tuple[RememberedBatch, ...]) -> None:
        former_batches, self._known = self._known, batches
        for remembered_batch in batches:
            if remembered_batch not in former_batches:
                self._files.write(
                    self._name(remembered_batch.batch), _format_batch(remembered_batch)
                )
        for batch in {remembered_batch.batch for remembered_batch in former_batches} - {
            remembered_batch.batch for remembered_batch in batches
        }:
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


def _format_batch(remembered_batch: RememberedBatch) -> str:
    records = {
        part: [record.name, record.to_json()] for part, record in remembered_batch.records.items()
    }
    about = {"batch": remembered_batch.batch, "withdrawn_from": remembered_batch.withdrawn_from}
    return json.dumps({**about, "runs": remembered_batch.runs, "records": records})


def _parse_batch(fields: Mapping[str, Any]) -> RememberedBatch:
    claims = {part: Claim.from_json(*record) for part, record in fields["records"].items()}
    first = fields["withdrawn_from"]
    return RememberedBatch(
        int(fields["batch"]), claims, dict(fields["runs"]), None if first is None else int(first)
    )


open_memory = cache(Memory)
