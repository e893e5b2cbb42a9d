"""The program of the page that consumes, transforms and produces in transactions."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from demo.trials.kafka import Broker
from demo.trials.served import Served
from demo.trials.waiting import wait_until
from tests.support.kafka_judge import judge_marks
from tests.support.page import Runner, list_examples, read_page
from tests.support.processes import environment
from writer_client import KafkaNotedProducer

pytestmark = pytest.mark.acceptance

TEN, MINUTE, ROUNDS, EACH = 1_357_034_400_000, 60_000, 1, 60


@contextmanager
def run_program(program: Path) -> Iterator[None]:
    """Run the program during the block."""
    with subprocess.Popen([sys.executable, program], env=environment()) as process:
        try:
            yield
        finally:
            process.kill()


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
    broker: Broker, served: Served, topic: str, program: Path
) -> None:
    """No record is below a note of the killed program."""
    out = f"{topic}-out"

    def count_written() -> int:
        return len(broker.records(out))

    def is_in_work(number: int) -> Callable[[], bool]:
        return lambda: count_written() > number * EACH

    with KafkaNotedProducer(broker.config, topic, served.url, "airline") as airline:
        for number in range(ROUNDS):
            with run_program(program):
                for n in range(EACH):
                    at = TEN + (number * EACH + n) * MINUTE
                    airline.produce(value=f"row {at}", event_time=at)
                    airline.note_time(at + 1)
                airline.flush(60)
                wait_until(is_in_work(number))
        with run_program(program):
            wait_until(lambda: at + 1 in [mark["lower"] for mark in served.all_marks(out)])

    values = sorted((each.value or b"").decode() for each in broker.records(out))
    assert values == [f"ROW {TEN + n * MINUTE}" for n in range(ROUNDS * EACH)]
    verdict = judge_marks(broker, out, controller=served)
    assert (verdict.records, verdict.violations) == (ROUNDS * EACH, ())
