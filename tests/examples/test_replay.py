from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from examples.flights.data import Flight
from examples.flights.demo import cuts_of
from examples.flights.replay import STREAM, Replayed, at_work, replay
from examples.flights.schedule import Step, steps
from tests.examples.flown import flight, flown
from tests.support.served import Served

FLIGHTS = flown(
    flight(10, 330, "HA", "JFK"),
    flight(20, 50, "UA"),
    flight(70, 100, "UA"),
    flight(80, 150, "DL"),
    flight(250, 280, "UA"),
)
"""HA's long flight keeps the first four hours open until minute 330."""


def replayed_to(root: Path, served: Served) -> Replayed:
    """Let the carriers write the flights to a log."""
    with at_work(FLIGHTS.carriers, root, served.url) as carriers:
        return replay(steps(FLIGHTS), carriers.take)


def test_all_flights_are_in_the_log(tmp_path: Path, served: Served) -> None:
    """Each once, whichever segment it went to."""
    replayed_to(tmp_path, served)

    rows = pq.read_table(tmp_path / STREAM, partitioning=None).to_pylist()
    assert sorted(
        Flight(
            round(row["landing"].timestamp() * 1000),
            round(row["departure"].timestamp() * 1000),
            row["carrier"],
            row["origin"],
        )
        for row in rows
    ) == list(FLIGHTS.landed)


def test_all_carriers_have_left_when_the_replay_ends(tmp_path: Path, served: Served) -> None:
    """No writer is waited for any more."""
    replayed_to(tmp_path, served)

    states = {name: writer["state"] for name, writer in served.writers(STREAM).items()}
    assert states == {"DL": "finished", "HA": "finished", "UA": "finished"}


def test_each_hours_mark_covers_its_flights(tmp_path: Path, served: Served) -> None:
    """When the log reaches the cut, the replay's clock is at the landing of the last of them."""
    replayed = replayed_to(tmp_path, served)

    cuts = cuts_of(served.url, FLIGHTS.window_ends)
    minutes = [replayed.clock_at(cut, end) // 60_000 for end, cut in sorted(cuts.items())]
    assert minutes == [330, 330, 330]


def test_a_pace_holds_the_replay_back() -> None:
    """At 36,000 hours a second, 1,800 hours take a twentieth of a second."""
    hours = [Step(0, {}, {}), Step(3_600_000 * 1_800, {}, {})]
    began = time.monotonic()

    replay(hours, lambda _: {}, hours_per_second=36_000)

    assert time.monotonic() - began >= 0.05


@pytest.fixture
def served() -> Iterator[Served]:
    """Return a controller in a thread."""
    with Served() as controller:
        yield controller
