"""Batches that a query passes over: no claim is too high, and withdrawn ones keep the claim."""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from noted_time.reading import Commit, NoClaim, TableHistory
from noted_time.values import parse_claims
from spark_integration import TableClaims
from spark_integration.checkpoint.files import Files
from spark_integration.tables import claims as claiming
from spark_integration.tables import memory as remembering
from spark_integration.tables.claims import RunningQuery
from spark_integration.tables.formats import OpenTable, WriteOptions
from tests.support.offset_log import plan
from tests.support.page import Session

TABLE = "delta:/orders"
PARTS = ("even", "odd")
Row = tuple[int, str]
"""A batch, and a part of it."""


class Killed(Exception):
    """The driver was killed."""


class Rows(OpenTable):
    """A table of Delta in memory. One call to it, or to a checkpoint, may fail, done or not."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.rows: set[Row] = set()
        self.transactions: set[str] = set()
        self.fault: tuple[int, type[Exception], bool] | None = None

    def call(self, act: Callable[[], None]) -> None:
        fault = self.fault
        if fault is None or fault[0] > 0:
            self.fault = fault and (fault[0] - 1, *fault[1:])
            return act()
        self.fault = None
        if fault[2]:
            act()
        raise fault[1]

    def history(self) -> TableHistory:
        return TableHistory([*self.commits], {}, "t" * bool(self.commits), is_numbered=True)

    def append(self, rows: Any, options: WriteOptions) -> None:  # noqa: ANN401 - rows of the model
        transaction = options["txnAppId"] + options["txnVersion"]
        if transaction not in self.transactions:
            self.call(lambda: self.add(rows, options["userMetadata"]))
            self.transactions.add(transaction)

    def commit(self, options: WriteOptions) -> None:
        self.append((), options)

    def add(self, rows: Collection[Row], metadata: str) -> None:
        number, claims = len(self.commits), parse_claims(json.loads(metadata))
        change: Any = "other" if any(each.merges for each in claims.values()) else "append"
        self.commits.append(Commit(number, number - 1 if number else None, change, claims=claims))
        self.rows |= {*rows}


Action = Callable[..., None]


class Driver:
    """A program that writes the batches of a query."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.table, self.runs = directory, Rows(), 0
        self.start()

    def start(self) -> None:
        self.runs += 1
        remembering.open_memory.cache_clear()
        self.claims = TableClaims(str(self.directory), "orders", "time")
        self.claims.tables[TABLE] = self.table

    def plan(self, batch: int) -> None:
        about = {"batchWatermarkMs": 10 * batch, "conf": {}}
        plan(self.directory, batch, {"a.noted": {"0": batch}, "a": {"0": batch}}, metadata=about)

    def run(self, act: Action, batch: int, rows: Sequence[Row]) -> None:
        """Let Spark run a batch, again if the driver ends in it."""
        self.plan(batch)
        try:
            act(self, batch, *rows)
        except (Killed, OSError):
            self.table.fault = None
            self.start()
            act(self, batch, *rows)

    def write(self, batch: int, *rows: Row) -> None:
        self.table.append(rows, self.claims.of(batch).options(TABLE))

    def write_parts(self, batch: int, *rows: Row, parts: Sequence[str] = PARTS) -> None:
        claim = self.claims.of(batch)
        for part in parts:
            options = claim.delta_options(TABLE, part=part, last=part == PARTS[-1])
            self.table.append([row for row in rows if row[1] == part], options)

    def merge(self, batch: int, *rows: Row, fails: bool = False) -> None:
        claim, known = self.claims.of(batch), dict[str, str]()
        conf = SimpleNamespace(get=known.get, set=known.__setitem__, unset=known.__delitem__)
        session: Any = SimpleNamespace(conf=conf)
        with suppress(ValueError), claim.writing(TABLE, session):
            if fails:
                raise ValueError
            if not self.table.rows.issuperset(rows):
                metadata = known[claiming.USER_METADATA]
                self.table.call(lambda: self.table.add(rows, metadata))
        claim.commit(TABLE)

    def withdraw(self, batch: int, *rows: Row) -> None:
        self.write(batch, *rows) if rows else self.claims.of(batch).withdraw(TABLE)

    def take_options(self, batch: int, *_: Row) -> None:
        self.claims.of(batch).options(TABLE)

    def write_one_part(self, batch: int, *rows: Row) -> None:
        self.write_parts(batch, *rows, parts=PARTS[:1])

    def fail_to_merge(self, batch: int, *rows: Row) -> None:
        self.merge(batch, *rows, fails=True)

    def pass_over(self, batch: int, *_: Row) -> None:
        """Ask for no claim."""

    @property
    def complete_to(self) -> int | None:
        found = self.table.history().claim()
        return None if isinstance(found, NoClaim) else found.complete_to


@pytest.mark.parametrize(
    ("function", "url"),
    [("save", "delta:/data/flights"), ("save_to_iceberg", "iceberg:lake.db.flights")],
)
def test_programs_of_the_page_keep_the_claim(tmp_path: Path, function: str, url: str) -> None:
    """A batch without rows is withdrawn; a batch that the program does not ask for ends it."""
    driver = Driver(tmp_path)
    driver.claims.tables[url] = driver.table
    session = Session("docs/guides/tables.md", {}, claims=driver.claims)
    save = session.run("def save_to_iceberg")[function]

    def commit(**options: str) -> MagicMock:
        found = {key.removeprefix("snapshot-property."): text for key, text in options.items()}
        driver.table.add((), options.get("userMetadata") or json.dumps(found))
        return MagicMock()

    found = []
    for batch, is_empty in enumerate([False, True, False, None, False]):
        driver.plan(batch)
        rows = MagicMock(isEmpty=lambda is_empty=is_empty: is_empty)
        rows.write.format().mode().options = rows.writeTo().options = commit
        if is_empty is not None:
            save(rows, batch)
        found.append(driver.complete_to)

    assert found == [None, None, 20, 20, None]


CAREFUL = (Driver.write, Driver.write_parts, Driver.merge, Driver.withdraw)
CARELESS = (Driver.take_options, Driver.write_one_part, Driver.fail_to_merge, Driver.pass_over)
FAULTS = st.tuples(st.integers(0, 4), st.sampled_from([Killed, OSError]), st.booleans())
BATCH = st.tuples(st.sampled_from(CAREFUL * 2 + CARELESS), st.booleans(), st.none() | FAULTS)


@given(st.lists(BATCH, max_size=8))
def test_no_claim_is_too_high_whatever_a_program_passes_over(batches: list[Any]) -> None:
    """The driver is killed and its answers are lost anywhere; a careful program keeps its claim."""
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        driver = Driver(Path(directory))
        patch.setattr(claiming, "find_running_query", lambda: RunningQuery("q", str(driver.runs)))
        files = Files(fs.LocalFileSystem(), directory)
        write = files.write
        patch.setattr(files, "write", lambda *file: driver.table.call(lambda: write(*file)))
        patch.setattr(remembering, "open_checkpoint", lambda _: files)
        truth: set[Row] = set()
        is_careful = True
        for batch, (act, has_rows, fault) in enumerate(batches):
            rows = [(batch, part) for part in PARTS if has_rows]
            truth.update(rows)
            driver.table.fault = fault
            driver.run(act, batch, rows)
            is_careful &= act in CAREFUL and (fault is None or fault[1] is Killed)
            complete_to = driver.complete_to
            below = {row for row in truth if complete_to is not None and 10 * row[0] <= complete_to}
            assert below <= driver.table.rows, [(a.__name__, *x) for a, *x in batches]
            if is_careful and batch and (has_rows or act is not Driver.withdraw):
                assert complete_to == 10 * batch
