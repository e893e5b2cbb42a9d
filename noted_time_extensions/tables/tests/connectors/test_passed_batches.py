"""Batches that a query skips: no claim is too high, and withdrawn batches keep the claim."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import fs

from noted_time_extensions.tables import TableClaims
from noted_time_extensions.tables.claim import parse_claims
from noted_time_extensions.tables.spark import claims as claiming
from noted_time_extensions.tables.spark import memory as remembering
from noted_time_extensions.tables.spark.claims import BatchClaim, RunningQuery
from noted_time_extensions.tables.spark.formats import OpenTable, WriteOptions
from noted_time_extensions.tables.table_history import Commit, NoClaim, TableHistory
from spark_integration.checkpoint.files import Files
from tests.support.offset_log import plan
from tests.support.page import Session

TABLE = "delta:/orders"
PARTS = ("even", "odd")
Row = tuple[int, str]
"""A batch, and a part of it."""


class Killed(Exception):
    """The driver was killed."""


class Rows(OpenTable):
    """A table of Delta in memory.

    One call to it or to a checkpoint fails, before or after its effect.
    """

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.rows: set[Row] = set()
        self.fault: tuple[int, type[Exception], bool] | None = None

    def call(self, act: Callable[[], None]) -> None:
        fault = self.fault
        self.fault = self.fault and (self.fault[0] - 1, *self.fault[1:])
        is_now = fault is not None and fault[0] == 0
        if fault is None or fault[2] or not is_now:
            act()
        if fault is not None and is_now:
            raise fault[1]

    def history(self) -> TableHistory:
        table = "t" if self.commits else ""
        return TableHistory([*self.commits], {}, table, is_numbered=True)

    def append(self, rows: Any, options: WriteOptions) -> None:  # noqa: ANN401 - rows of the model
        self.call(lambda: self.add(rows, options["userMetadata"]))

    def commit(self, options: WriteOptions) -> None:
        self.append((), options)

    def add(self, rows: Collection[Row], metadata: str) -> None:
        number = len(self.commits)
        claims = parse_claims(json.loads(metadata))
        if all(claims != commit.claims for commit in self.commits):  # Delta knows the transaction
            parent = number - 1 if number else None
            self.commits.append(Commit(number, parent, "append", claims=claims))
            self.rows |= {*rows}

    @property
    def complete_to(self) -> int | None:
        claim = self.history().claim()
        return None if isinstance(claim, NoClaim) else claim.complete_to


def start_driver(checkpoint: str, table: Rows, url: str = TABLE) -> TableClaims:
    remembering.open_memory.cache_clear()
    claims = TableClaims(checkpoint, "orders", "time")
    claims.tables[url] = table
    return claims


def plan_batch(checkpoint: str, batch: int) -> None:
    about = {"batchWatermarkMs": 10 * batch, "conf": {}}
    ends = {"a.noted": {"0": batch}}
    plan(Path(checkpoint), batch, {**ends, "a": {"0": batch}}, metadata=about)


def write(
    claim: BatchClaim, table: Rows, rows: Sequence[Row], parts: Sequence[str] = ("",)
) -> None:
    for part in parts:
        options = claim.options(TABLE, part=part, last=part != PARTS[0])
        table.append([row for row in rows if part in {"", row[1]}], options)


def write_parts(claim: BatchClaim, table: Rows, rows: Sequence[Row]) -> None:
    write(claim, table, rows, PARTS)


def withdraw_empty(claim: BatchClaim, table: Rows, rows: Sequence[Row]) -> None:
    write(claim, table, rows) if rows else claim.withdraw(TABLE)


def merge(claim: BatchClaim, table: Rows, rows: Sequence[Row], *, fails: bool = False) -> None:
    settings: dict[str, str] = {}
    conf = SimpleNamespace(get=settings.get, set=settings.__setitem__, unset=settings.__delitem__)
    session: Any = SimpleNamespace(conf=conf)
    with suppress(ValueError), claim.writing(TABLE, session):
        if fails:
            raise ValueError
        if not table.rows.issuperset(rows):
            table.append(rows, {"userMetadata": settings[claiming.USER_METADATA]})
    claim.commit(TABLE)


CAREFUL = (write, write_parts, withdraw_empty, merge)
CARELESS: tuple[Callable[..., object], ...] = (
    lambda claim, *_: claim.options(TABLE),
    lambda claim, table, rows: write(claim, table, rows, PARTS[:1]),
    lambda *batch: merge(*batch, fails=True),
    lambda *_: None,
)
FAULTS = st.tuples(st.integers(0, 4), st.sampled_from([Killed, OSError]), st.booleans())
FAULT = st.none() | st.none() | st.none() | FAULTS
BATCH = st.tuples(st.sampled_from(CAREFUL * 2 + CARELESS), st.booleans(), FAULT)
WRITTEN = (write, False, None)
PASSED = (CARELESS[-1], True, None)


@given(st.lists(BATCH, min_size=3, max_size=8))
@example([WRITTEN, PASSED, WRITTEN])
@example([WRITTEN, (CARELESS[1], True, None), WRITTEN])
def test_no_claim_is_too_high_if_a_program_skips_batches(batches: list[Any]) -> None:
    """Kills and lost answers happen anywhere. A careful program keeps its claim."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        table = Rows()
        files = Files(fs.LocalFileSystem(), directory)
        runs = [0]
        truth = set[Row]()
        write_file = files.write
        is_careful = True
        patch.setattr(files, "write", lambda *file: table.call(lambda: write_file(*file)))
        patch.setattr(remembering, "open_checkpoint", lambda _: files)
        patch.setattr(claiming, "find_running_query", lambda: RunningQuery("q", str(runs)))
        claims = start_driver(directory, table)
        for batch, (act, has_rows, fault) in enumerate(batches):
            rows = [(batch, part) for part in PARTS if has_rows]
            truth.update(rows)
            plan_batch(directory, batch)
            table.fault = fault
            try:
                act(claims.of(batch), table, rows)
            except (Killed, OSError):
                table.fault = None
                runs = [*runs, batch]
                claims = start_driver(directory, table)
                act(claims.of(batch), table, rows)
            is_careful &= act in CAREFUL and (fault is None or fault[1] is Killed)
            complete_to = table.complete_to
            true_rows = {
                row for row in truth if complete_to is not None and 10 * row[0] <= complete_to
            }
            assert true_rows <= table.rows, batches
            if is_careful and batch and (has_rows or act is not withdraw_empty):
                assert complete_to == 10 * batch


@pytest.mark.parametrize(
    ("function", "url"),
    [("save", "delta:/data/flights"), ("save_to_iceberg", "iceberg:lake.db.flights")],
)
def test_programs_of_the_page_keep_the_claim(tmp_path: Path, function: str, url: str) -> None:
    """The program withdraws a batch without rows. A skipped batch ends the claim."""
    table = Rows()
    times = []
    claims = start_driver(str(tmp_path), table, url)
    save = Session("docs/guides/tables.md", {}, claims=claims).run("def save_to_iceberg")[function]

    def commit(**options: str) -> MagicMock:
        properties = {key.removeprefix("snapshot-property."): text for key, text in options.items()}
        table.add((), options.get("userMetadata") or json.dumps(properties))
        return MagicMock()

    for batch, is_empty in enumerate([False, True, False, None, False]):
        plan_batch(str(tmp_path), batch)
        rows = MagicMock(isEmpty=lambda is_empty=is_empty: is_empty)
        rows.write.format().mode().options = rows.writeTo().options = commit
        if is_empty is not None:
            save(rows, batch)
        times.append(table.complete_to)

    assert times == [None, None, 20, 20, None]
