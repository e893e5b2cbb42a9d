"""`noted-time analyse` over the log of the demo."""

from pathlib import Path

from demo.data import Flights, read_flights
from demo.replay import STREAM, replay, start_carriers
from demo.schedule import steps
from tests.cli.conftest import Commands
from tools.trials.served import Served


def test_the_flights_lose_none(tmp_path: Path, served: Served) -> None:
    """Each carrier notes its flights in the air. A replay has no waits: its marks are of today."""
    flights = Flights(read_flights(months=1, days=1).landed[:400])
    with start_carriers(flights.carriers, tmp_path, served.url) as carriers:
        replay(steps(flights), carriers.take)
    words = ("analyse", "log", str(tmp_path), STREAM, "--time", "departure", "--stream", STREAM)
    result = Commands(served.url)(
        *words, "--arrival", "landing", "--delay", "0s", "--fail-if-broken", "--json"
    )

    noted_figures = result.json["noted"]
    assert (result.status, noted_figures["figures"]["lost"], noted_figures["not_judged"]) == (
        0,
        0,
        0,
    )
    assert noted_figures["figures"]["wait_median_ms"] is None
    assert result.json["delays"][0]["lost"] > 0
