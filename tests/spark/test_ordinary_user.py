"""What an ordinary user does with writers and a query: no row is lost without a report.

Batches are planned and read as in Spark, and counted as there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from spark_integration import Noted, WatermarkPolicy
from spark_integration.log.query import LogQuery
from tests.support.log_reading import Batch, batches, counted
from tests.support.served import Served
from tests.support.waiting import eventually
from writer_client import Exclusion, SegmentLogWriter, WriterClient

SOON_MS = 300
"""The writer timeout of the streams here."""


class User:
    """Writes to one stream, and counts its rows by a query that continues from run to run."""

    def __init__(self, served: Served, log: Path) -> None:
        self.url, self.log = served.url, log
        self.api = httpx.Client(base_url=f"{served.url}/v1/streams/")
        settings = {"writer_timeout_ms": SOON_MS, "mark_interval_ms": 0}
        self.api.put("orders", json=settings).raise_for_status()
        self._found: list[Batch] = []

    def writer(self, name: str, segment: int, **options: object) -> SegmentLogWriter:
        """Begin to write under a name."""
        client = WriterClient(self.url, "orders", name, **options)  # type: ignore[arg-type]
        log = self.log
        return SegmentLogWriter(
            log, "orders", segments=(segment,), client=client, event_time="time"
        )

    def counts(self) -> list[tuple[int, int]]:
        """Run the query again; returns (second, rows) of every second that came out so far."""
        noted, policy = Noted(self.url, "orders"), WatermarkPolicy(strict=False)
        query = LogQuery.create(self.log, noted, (), event_time="time", policy=policy)
        self._found += batches(query, self._found[-1].end if self._found else None)
        return counted(self._found)

    def lower(self) -> int | None:
        """Return the lower of the last mark."""
        mark = self.api.get("orders").json()["marks"]["default"]
        lower: int | None = mark and mark["lower"]
        return lower


def wrote(log: SegmentLogWriter, *times: int, note: int) -> None:
    """Append rows of these times, and note that all below `note` are written."""
    log.append([{"time": time} for time in times])
    log.note_time(note)


def run(user: User, name: str, segment: int, *times: int, note: int, **options: object) -> object:
    """Run a job that joins, appends, notes and ends silently; return what was reported to it."""
    log = user.writer(name, segment, **options)
    assert isinstance(log.client, WriterClient)
    with log.client as client:
        client.flush()
        wrote(log, *times, note=note)
        return client.flush()


@pytest.fixture
def user(tmp_path: Path) -> Iterator[User]:
    """Return a user of a controller of his own."""
    served = Served()
    user = User(served, tmp_path / "log")
    yield user
    user.api.close()
    served.stop()


def test_a_job_that_runs_now_and_then_loses_rows_and_is_reported(
    user: User, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a timeout of its own: the other writer's time advanced between its runs."""
    run(user, "nightly", 0, 1000, note=1200)
    run(user, "steady", 1, 1500, note=9000)
    assert eventually(user.lower, 9000)
    before = user.counts()
    late: list[Exclusion] = []
    with caplog.at_level(logging.WARNING, "noted_time.writer"):
        flushed = run(user, "nightly", 0, 2500, 3500, note=9500, on_excluded=late.append)

    ledger = user.api.get("orders/ledger").json()
    row = user.api.get("orders/writers/nightly").json()
    assert (before, user.counts()) == ([(1, 2)], [(1, 2)])
    assert [each.reason for each in late] == ["timed_out"]
    assert flushed.late_rows == 2  # type: ignore[attr-defined]
    assert "the watermark has been advancing without it since" in caplog.text
    absences = [each for entry in ledger["entries"] for each in entry["writers"]]
    reasons = [each["reason"] for each in absences if each["writer"] == "nightly"]
    assert reasons == ["timed_out"]
    assert [(each["writer"], each["rows"]) for each in ledger["late"]] == [("nightly", 2)]
    assert row["late"] == {"default": {"rows": 2, "least": 2500, "most": 3500}}


def test_a_job_that_says_how_rarely_it_runs_loses_none(user: User) -> None:
    """Time waits for it between its runs, whatever the stream's timeout is."""
    run(user, "nightly", 0, 1000, note=1200, timeout_ms=60_000)
    run(user, "steady", 1, 1500, note=9000)
    run(user, "other", 2, 1500, note=9000)
    assert eventually(lambda: user.api.get("orders/explain").json()["holders"], 1)
    before = user.counts()
    flushed = run(user, "nightly", 0, 2500, 3500, note=9500, timeout_ms=60_000)

    assert (before, user.counts()) == ([], [(1, 3), (2, 1), (3, 1)])
    assert flushed.excluded is None  # type: ignore[attr-defined]


def test_a_writer_that_returns_after_its_timeout_is_notified_and_catches_up(user: User) -> None:
    """What it wrote below the lower is lost; from there on nothing is."""
    log = user.writer("slow", 0)
    client = log.client
    assert isinstance(client, WriterClient)
    wrote(log, 1000, note=1200)
    client.flush()
    run(user, "steady", 1, 1500, note=5000)
    assert eventually(user.lower, 5000)
    user.counts()
    client.note_time(1200, log.position)
    flushed = client.flush()
    state = client.state
    wrote(log, 3500, 6500, note=7000)
    run(user, "steady", 1, 6800, note=8000)
    wrote(log, 7500, note=9000)
    after = client.flush()
    client.finish()

    assert (flushed.excluded and flushed.excluded.reason, state) == ("timed_out", "excluded")
    assert (after.late_rows, after.excluded, client.state) == (1, None, "finished")
    assert user.counts() == [(1, 2), (6, 2), (7, 1)]
