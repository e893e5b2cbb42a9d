from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from examples.flights.bars import Bars
from examples.flights.cli import STORIES, Story
from examples.flights.data import HOUR_MS, read_flights
from examples.flights.simulation import own_watermark
from examples.flights.stories.observers import looks, observed_watermark, outage_of, with_outage
from examples.flights.stories.order import keyed
from examples.flights.stories.stage import Stage
from tests.support.flown import flight, flown
from tests.support.served import Served

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("name", Story)
def test_a_story_keeps_what_it_promises(spark: SparkSession, tmp_path: Path, name: Story) -> None:
    """On the first day of flights, with a real Spark; and it leaves a picture and figures."""
    story, flights, bars = STORIES[name], read_flights(days=1), Bars(Console(quiet=True))
    with Served() as served, ThreadPoolExecutor(2) as beside:
        told = story.play(Stage(flights, served.url, spark, beside, tmp_path, bars))

    told.picture.savefig(tmp_path / "picture.png")
    assert told.broken == ()
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert json.loads(json.dumps(told.figures)) == told.figures
    assert all([*story.opening(flights), *told.meaning])


def test_a_log_by_key_gets_a_segment_in_the_middle() -> None:
    """The fourth carrier goes to the first segment before, and to the added one after."""
    flights = flown(*(flight(0, 10 * n, carrier) for n, carrier in enumerate("ABCD")))
    place = keyed(flights)

    first, last = flights.landed[0].landing, flights.landed[-1].landing
    assert [place("D", clock, {}) for clock in (first, last)] == [0, 3]


CUT_OFF = flown(
    flight(0, 30, origin="EWR"),
    flight(10, 40, origin="JFK"),
    flight(20, 50, origin="LGA"),
    flight(200, 230, origin="LGA"),
    flight(220, 250, origin="EWR"),
    flight(300, 330, origin="EWR"),
    flight(310, 340, origin="JFK"),
    flight(500, 630, origin="JFK"),
)


def test_rows_of_an_outage_become_known_at_its_end() -> None:
    """Nothing else is moved."""
    outage = outage_of(CUT_OFF)
    moved = {
        after.departure: after.landing
        for after in with_outage(CUT_OFF).landed
        if after not in CUT_OFF.landed
    }

    assert moved == {CUT_OFF.landed[3].departure: outage.end}


def test_the_maximum_loses_the_rows_of_an_outage_and_the_minimum_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At a delay at which neither loses any without the outage."""
    monkeypatch.setattr("examples.flights.stories.observers.ROWS_PER_LOOK", 1)
    flights = with_outage(CUT_OFF)

    lost = [method(flights, HOUR_MS // 2).lost for method in (own_watermark, observed_watermark)]
    assert (lost, own_watermark(CUT_OFF, HOUR_MS // 2).lost) == ([1, 0], 0)


def test_looks_miss_no_row_and_take_none_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last look finds what is left."""
    monkeypatch.setattr("examples.flights.stories.observers.ROWS_PER_LOOK", 3)
    seen = [row for _, rows in looks(CUT_OFF) for known in rows.values() for row in known]

    assert sorted(seen) == list(CUT_OFF.landed)
