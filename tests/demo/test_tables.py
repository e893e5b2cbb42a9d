"""The story of the table: what its judge sees, and what it comes to."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from demo import others, tables
from demo.data import HOUR_MS, Flight
from demo.judge import Look, Seen, seen
from demo.replay import table
from demo.stage import Stage
from tests.demo.flown import flight, flown, minutes

EARLY, LATE, LATER = flight(10, 70), flight(5, 130), flight(100, 190)


def looked_at(path: Path, *versions: int) -> list[Seen]:
    """Return what there was to see at these versions, one at the end of each hour."""
    looks = [Look(HOUR_MS * (n + 2), version, None) for n, version in enumerate(versions)]
    return list(seen(str(path), looks))


def write(path: Path, *flights: Flight, overwrite: bool = False) -> None:
    """Write the flights in a commit of their own."""
    write_deltalake(path, table(flights), mode="overwrite" if overwrite else "append")


def test_flights_that_an_overwrite_removes_are_missing_until_they_are_back(tmp_path: Path) -> None:
    """Compaction removes none."""
    write(tmp_path, EARLY)
    write(tmp_path, LATE)
    DeltaTable(tmp_path).optimize.compact()
    write(tmp_path, EARLY, overwrite=True)
    write(tmp_path, LATE)

    found = looked_at(tmp_path, 1, 2, 3, 4)

    assert [dict(each.missing) for each in found] == [{}, {}, {HOUR_MS: 1}, {}]
    assert found[2].truth == LATE.departure


def test_the_replay_stops_until_all_have_landed_and_all_hours_have_ended() -> None:
    """The last flight lands before its hour ends here."""
    stops = tables.stops_of(flown(EARLY, flight(125, 150)))

    assert [stop.clock for stop in stops] == list(minutes(120, 180))[:2] + list(minutes(240))


@pytest.mark.spark
@pytest.mark.acceptance
@pytest.mark.timeout(600)
def test_the_claim_is_never_wrong_and_the_maximum_is(
    monkeypatch: pytest.MonkeyPatch, morning: Stage
) -> None:
    """Spark fills a real table, others compact, overwrite and repair it."""
    monkeypatch.setattr(others, "COMPACTED_EVERY", 3)
    monkeypatch.setattr(others, "COPIED_BEFORE", 1)
    result = tables.play(morning)

    assert all(tables.opening(morning.flights))
    claim, newest = result.figures["methods"]
    hours = len(morning.flights.window_ends)
    found = result.broken, claim["called"], claim["wrong"], newest["wrong"] > 0
    assert found == ((), hours, 0, True)
    assert result.figures["why"].startswith("flights: ended by WRITE (Overwrite) in version")
    assert "flights is complete to" in result.figures["accepted"]
    assert any("are written without a claim" in sentence for sentence in result.meaning)
