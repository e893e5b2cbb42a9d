"""The program of the page that consumes, transforms and produces in transactions."""

import sys
from pathlib import Path

import pytest

from tests.kafka.conftest import Flights
from tests.support.page import Runner, list_examples, read_page
from tests.support.processes import environment
from tools.trials.daemons import Daemon
from tools.trials.waiting import wait_until

pytestmark = pytest.mark.acceptance

TEN = 1_357_034_400_000
MINUTE = 60_000
ROWS = 60


def write_program(flights: Flights, out: str, directory: Path) -> Path:
    """Write the program of the page for two topics of the test."""
    page = list_examples(read_page("docs/guides/kafka-producers.md"))
    (block,) = (page_block for page_block in page if "cat > clean.py" in page_block.program)
    topic = flights.topic
    places = {"127.0.0.1:9092": flights.broker.address}
    names = {'"flights"': f'"{topic}"', '"cleaned"': f'"{out}"', '"clean"': f'"{topic}"'}
    quick = {'"enable.auto.commit"': '"session.timeout.ms": 2000, "enable.auto.commit"'}
    Runner(directory, flights.served.url, {**places, **names, **quick}).run(block)
    return directory / "clean.py"


def test_killed_transform_loop_writes_each_record_once(flights: Flights, tmp_path: Path) -> None:
    """No record is below a note of the killed program."""
    written_flights = Flights(flights.broker, flights.served, f"{flights.topic}-out")
    written_flights.broker.create(written_flights.topic, 2, {"retention.ms": -1})
    written_flights.served.make(written_flights.topic)
    program = write_program(flights, written_flights.topic, tmp_path)
    airline = flights.start("airline")

    def run_program() -> Daemon:
        return Daemon([sys.executable, str(program)], tmp_path / "log", environment())

    with run_program() as killed:
        for time in range(TEN, TEN + ROWS * MINUTE, MINUTE):
            airline.produce(value=f"row {time}", event_time=time)
            airline.note_time(time + 1)
        airline.flush(60)
        wait_until(written_flights.list_records)
        killed.kill()
    with run_program():
        wait_until(lambda: time + 1 in [mark["lower"] for mark in written_flights.list_marks()])

    values = sorted((value or b"").decode() for value in written_flights.list_values())
    assert values == [f"ROW {TEN + n * MINUTE}" for n in range(ROWS)]
    assert written_flights.check_marks() == ROWS
