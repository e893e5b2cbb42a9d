"""The program of the page that consumes, transforms and produces in transactions."""

import sys
from pathlib import Path

import pytest

from demo.trials.daemons import Daemon
from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from tests.kafka.conftest import Flights
from tests.support.page import Runner, list_examples, read_page
from tests.support.processes import environment

pytestmark = pytest.mark.acceptance

TEN, MINUTE, ROWS = 1_357_034_400_000, 60_000, 60


@pytest.fixture
def program(broker: Broker, served: Served, topic: str, tmp_path: Path) -> Path:
    """Return the program of the page for two topics of the test."""
    broker.create(f"{topic}-out", 2, {"retention.ms": -1})
    served.make(f"{topic}-out")
    (block,) = (
        each
        for each in list_examples(read_page("docs/guides/kafka-producers.md"))
        if "cat > clean.py" in each.program
    )
    names = {'"flights"': f'"{topic}"', '"cleaned"': f'"{topic}-out"', '"clean"': f'"{topic}"'}
    quick = {'"enable.auto.commit"': '"session.timeout.ms": 2000, "enable.auto.commit"'}
    Runner(tmp_path, served.url, {"127.0.0.1:9092": broker.address, **names, **quick}).run(block)
    return tmp_path / "clean.py"


def test_killed_transform_loop_writes_each_record_once(
    broker: Broker, served: Served, flights: Flights, program: Path, tmp_path: Path
) -> None:
    """No record is below a note of the killed program."""
    written, airline = Flights(broker, served, f"{flights.topic}-out"), flights.start("airline")

    def run_program() -> Daemon:
        return Daemon([sys.executable, str(program)], tmp_path / "log", environment())

    with run_program() as killed:
        for at in range(TEN, TEN + ROWS * MINUTE, MINUTE):
            airline.produce(value=f"row {at}", event_time=at)
            airline.note_time(at + 1)
        airline.flush(60)
        wait_until(written.list_records)
        killed.kill()
    with run_program():
        wait_until(lambda: at + 1 in [mark["lower"] for mark in written.list_marks()])

    values = sorted((value or b"").decode() for value in written.list_values())
    assert values == [f"ROW {TEN + n * MINUTE}" for n in range(ROWS)]
    assert written.check_marks() == ROWS
