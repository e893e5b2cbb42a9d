"""The scripts of examples/: each runs as it is copied, and a page prints it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from noted_time.values import format_time
from tests.pages.test_pages import JARS
from tests.support.page import (
    BLOCK,
    DEFAULT_RETENTION,
    ROOT,
    Example,
    Runner,
    find_yesterday,
    read_page,
    read_section,
)
from tests.support.processes import ServeProcess, run_python
from tools.trials.kafka import Broker
from tools.trials.postgres import Server

SCRIPTS = {
    "note_time.py": "docs/guides/writers.md",
    "note_table.py": "docs/guides/writers.md",
    "note_time.sh": "docs/guides/any-language.md",
    "count_files.py": "docs/start/quickstart.md",
    "claim_table.py": "docs/guides/tables.md",
    "produce_to_kafka.py": "docs/guides/kafka-producers.md",
    "count_topic.py": "docs/guides/kafka-readers.md",
    "read_complete_hour.py": "docs/guides/kafka-readers.md",
    "observe_topic.py": "docs/guides/observers.md",
}
"""Each script, and the page that prints it."""

COMPLETE_HOUR = "{2013-01-01 09:00:00, 2013-01-01 10:00:00}"
"""The hour of the file log."""


@pytest.fixture
def examples(tmp_path: Path) -> Iterator[Scripts]:
    """Return a directory of copies, and a controller."""
    with ServeProcess(tmp_path).ready() as controller:
        yield Scripts(Runner(tmp_path, controller.url))


class Scripts:
    """Copies of the scripts, configured by their environment."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner

    def run(self, *names: str) -> list[str]:
        """Run the scripts one after the other, and return their outputs."""
        return [self.runner.run(Example("sh", self.command(name), None)) for name in names]

    def command(self, name: str) -> str:
        """Copy a script, with the jars that the tests have, and return how it is run."""
        text = (ROOT / "examples" / name).read_text()
        for page_text, local_text in JARS.items():
            text = text.replace(page_text, local_text)
        (self.runner.directory / name).write_text(text)
        return f"{'sh' if name.endswith('.sh') else 'python'} {name}"

    def run_until(self, end: str, stream: str, name: str, *words: str) -> tuple[str, int]:
        """Run a script until the stream is complete to the end of an hour, and press Ctrl-C.

        Returns what a command printed that waits for the hour, and the status of the script.
        """
        self.command(name)
        waiting = Example("sh", f"noted-time wait {stream} {end} --timeout 1m", None)
        command = [sys.executable, name, *words]
        directory = self.runner.directory
        env = self.runner.environment
        with subprocess.Popen(command, cwd=directory, env=env) as running:
            output = self.runner.run(waiting)
            running.send_signal(signal.SIGINT)
        return output, running.returncode

    def uses(self, broker: Broker, topic: str) -> None:
        """Have the scripts use a broker, which gets the topic."""
        broker.create(topic, settings=DEFAULT_RETENTION)
        self.runner.variables["KAFKA_BOOTSTRAP"] = broker.address


@pytest.mark.parametrize(("name", "page"), SCRIPTS.items())
def test_a_page_prints_each_script_and_links_to_it(name: str, page: str) -> None:
    """The page prints the script that these tests run."""
    text = read_page(page)
    script = ROOT / "examples" / name

    assert [block for _, block in BLOCK.findall(text)].count(script.read_text()) == 1
    assert f"[`examples/{name}`](../../examples/{name})" in text


def test_every_script_is_known_here() -> None:
    """Every script is run. Pages read the files of shops and the flights."""
    tracked_text = subprocess.check_output(["git", "ls-files", "examples"], cwd=ROOT, text=True)
    names = {name for name in tracked_text.split() if not name.startswith("examples/shops/")}

    assert names == {f"examples/{name}" for name in (*SCRIPTS, "flights.parquet")}


@pytest.mark.parametrize(
    "name", ["note_time.py", "note_table.py", "produce_to_kafka.py", "observe_topic.py"]
)
def test_script_without_a_controller_fails_in_one_sentence(tmp_path: Path, name: str) -> None:
    """It states the URL and the remedy instead of a traceback."""
    url = "http://127.0.0.1:9"

    run = run_python(ROOT / "examples" / name, cwd=tmp_path, NOTED_TIME_URL=url)

    beginning = f"no answer from {url}: "
    remedy = "run noted-time serve, or set NOTED_TIME_URL"
    assert run.stderr == f"{beginning}[Errno 111] Connection refused; {remedy}\n"
    assert run.returncode == 1


@pytest.mark.spark
def test_time_is_noted_and_counted_over_files(examples: Scripts) -> None:
    """The hour of both shops comes out."""
    noted_output, counted_output = examples.run("note_time.py", "count_files.py")

    assert [line.split()[0] for line in noted_output.splitlines()] == ["berlin", "lima"]
    assert [counted_output.count(f"{COMPLETE_HOUR}|{shop}") for shop in ("berlin", "lima")] == [
        1,
        1,
    ]


@pytest.mark.spark
def test_a_topic_is_noted_counted_and_read_by_the_hour(examples: Scripts, broker: Broker) -> None:
    """The departure before ten is in the one hour, in the stream and in the batch."""
    examples.uses(broker, "flights")
    *_, counted_output, read_output = examples.run(
        "produce_to_kafka.py", "count_topic.py", "read_complete_hour.py"
    )

    hour = [datetime.fromtimestamp(find_yesterday(hour) / 1000, UTC) for hour in (9, 10)]
    assert counted_output.count("{{{:%F %T}, {:%F %T}}}|EWR".format(*hour)) == 1
    assert read_output == "1\n"


@pytest.mark.spark
def test_a_topic_becomes_a_table_whose_hour_is_complete(examples: Scripts, broker: Broker) -> None:
    """The page of tables goes from the topic to the job that waits."""
    examples.uses(broker, "flights")
    for name in ("produce_to_kafka.py", "claim_table.py"):
        examples.command(name)
    *_, floor = examples.runner.run_page("docs/guides/tables.md", "Try it")

    assert floor.splitlines()[-1] == format_time(find_yesterday(10))


def test_an_observer_notes_for_a_topic_until_ctrl_c(examples: Scripts, broker: Broker) -> None:
    """The slower of two partitions counts, five minutes back."""
    examples.uses(broker, "arrivals")
    ten = find_yesterday(10)
    end = format_time(ten)
    broker.send("arrivals", [(0, "EWR", ten + 3_600_000), (1, "JFK", ten + 300_000)])
    output, status = examples.run_until(end, "arrivals", "observe_topic.py", "arrivals")

    assert f"arrivals is complete to {end}" in output
    assert status == 0


def test_table_notes_times_of_committed_rows(examples: Scripts, server: Server) -> None:
    """A transaction that was rolled back notes nothing; an open one bounds a reader's notes."""
    page = read_section("docs/guides/writers.md", "Jobs with a database")
    noting, oldest = (block for language, block in BLOCK.findall(page) if language == "sql")
    url = examples.runner.variables["DATABASE_URL"] = server.make_database()
    server.execute("CREATE TABLE orders (updated_at timestamptz DEFAULT now())", url)
    with psycopg.connect(url) as job, psycopg.connect(url) as other:
        job.execute(noting.encode().replace(b"1357034400000", b"1357038000000"))
        job.rollback()
        job.execute(noting.encode())
        job.execute("INSERT INTO orders DEFAULT VALUES")
        time.sleep(0.01)
        other.execute("INSERT INTO orders DEFAULT VALUES")
        other.commit()
        ((newest_time,),) = server.execute("SELECT max(updated_at) FROM orders", url)
        ((bound,),) = server.execute(oldest, url)
        job.commit()
        ((missed_time,),) = server.execute("SELECT min(updated_at) FROM orders", url)
    output, status = examples.run_until("2013-01-01T10:00:00Z", "orders", "note_table.py")

    assert bound < missed_time < newest_time
    assert ("orders is complete to 2013-01-01T10:00:00Z" in output, status) == (True, 0)
