"""The pages whose examples need nothing but a controller, run as they are printed."""

from pathlib import Path
from urllib.error import HTTPError

import pytest

from noted_time.kafka.noted_topic import noted_topic_of
from tests.support.kafka import HOME, Broker
from tests.support.page import BINDING, Example, Runner, Session, agrees, examples
from tests.support.processes import ServeProcess, command

NINE = "{2013-01-01 09:00:00, 2013-01-01 10:00:00}"


def outputs(page: str, directory: Path) -> list[str]:
    """Run the page against a controller of its own; returns what its examples printed."""
    with ServeProcess(directory).ready() as controller:
        return Runner(directory, controller.url).run_page(page)


@pytest.mark.parametrize(
    "page",
    [
        "api.md",
        "command-line.md",
        "producers.md",
        "seal.md",
        "what-can-go-wrong.md",
    ],
)
def test_every_example_of_the_page_runs(page: str, tmp_path: Path) -> None:
    """In the order of the page, on a fresh database, with the outcome that it shows."""
    assert outputs(f"docs/{page}", tmp_path)


@pytest.mark.spark
def test_the_page_on_order_runs_as_printed(tmp_path: Path) -> None:
    """Its last example reads the log with Spark, an hour in each batch."""
    assert outputs("docs/order.md", tmp_path)


@pytest.mark.spark
def test_the_page_on_alignment_runs_as_printed(tmp_path: Path) -> None:
    """A reader that waits for another, and a join in Spark."""
    assert outputs("docs/alignment.md", tmp_path)


@pytest.mark.spark
def test_the_readme_runs_as_printed(tmp_path: Path) -> None:
    """The reader has all before 10:01, and Spark closes the hour that ends before."""
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url)
        *_, reader, spark = runner.run_page("README.md", "Use it with files, or anything else")

    assert "lower=1357034460000," in reader
    assert hours(spark) == [[NINE, "EWR", "1"], [NINE, "JFK", "1"]]


@pytest.mark.spark
def test_the_readme_runs_as_printed_with_kafka(broker: Broker, tmp_path: Path) -> None:
    """A producer, and a query that closes the hour of its event."""
    broker.create("departures")
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url, on_kafka(broker))
        *_, spark = runner.run_page("README.md", "Use it with Kafka")

    assert hours(spark) == [[NINE, "1"]]


@pytest.mark.spark
def test_the_page_on_kafka_runs_as_printed(broker: Broker, tmp_path: Path) -> None:
    """Producers with and without transactions, and both ways to read in Spark."""
    broker.create("flights")
    broker.create("sales")
    if (noted := noted_topic_of("flights")) in broker.topics():  # that of another test
        broker.delete(noted)
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url, on_kafka(broker))

        assert runner.run_page("docs/kafka.md")


@pytest.mark.spark
def test_the_page_on_observers_runs_as_printed(broker: Broker, tmp_path: Path) -> None:
    """Of a file log, with Spark, and of a topic."""
    broker.create("arrivals")
    with ServeProcess(tmp_path).ready() as controller:
        assert Runner(tmp_path, controller.url, on_kafka(broker)).run_page("docs/observers.md")


def on_kafka(broker: Broker) -> dict[str, str]:
    """Return what stands for the pages' own broker and jars in a test."""
    jars = f"spark_jars({str(HOME / 'connector')!r})"
    return {"127.0.0.1:9092": broker.address, "spark_jars()": jars}


def hours(printed: str) -> list[list[str]]:
    """Return the rows of a table of Spark's that count something in 2013."""
    rows = [line.strip("|").split("|") for line in printed.splitlines() if "2013-01-01" in line]
    return sorted([cell.strip() for cell in row] for row in rows)


@pytest.mark.spark
def test_the_page_of_complete_windows_runs_as_printed(tmp_path: Path) -> None:
    """Waiting, listing, the sensor and the batch read of each hour."""
    with ServeProcess(tmp_path).ready() as controller:
        runner = Runner(tmp_path, controller.url)
        runner.run(Example("sh", "noted-time stream create hourly --mark-interval 0s", None))

        assert runner.run_page("docs/complete-windows.md")


def test_the_sensor_shows_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """To a controller that asks for tokens, from the environment; without one it is refused."""
    token = command("token", "create", "--scope", "admin", cwd=tmp_path).stdout.strip()
    with ServeProcess(tmp_path).ready() as controller:
        controller.token = token
        controller.create("hourly")
        controller.note("hourly", 1_357_034_400_000, {})
        sensor = Session("docs/complete-windows.md", {BINDING: controller.url})
        monkeypatch.delenv("NOTED_TIME_TOKEN", raising=False)
        with pytest.raises(HTTPError, match="401"):
            sensor.run("def is_complete")
        monkeypatch.setenv("NOTED_TIME_TOKEN", token)
        sensor.run("def is_complete")

    assert capsys.readouterr().out == "True False\n"


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ('{"a": 1, "b": …}', '{"a": 1, "b": [2]}', True),
        ('{"a": 1, "b": …}', '{"a": 1}', False),
        ('{"a": 1, …}', '{"a": 1, "b": 2}', True),
        ('{"a": 1}', '{"a": 1, "b": 2}', False),
        ('{"a": [1, …]}', '{"a": [1, 2, 3]}', True),
        ('{"a": [1]}', '{"a": [1, 2]}', False),
        ('{"a": "b … c", …}', '{"a": "b … c", "d": 2}', True),
        ('{"noted_at": 5}', '{"noted_at": 7}', True),
        ('{"noted_at": 5}', '{"noted_at": null}', False),
        ("a … c", "a b\nb c", True),
        ("a … c", "a b d", False),
        ("held  4s 61ms", "held 2m", True),
        ("held 4s", "held long", False),
    ],
)
def test_an_ellipsis_stands_for_anything(shown: str, printed: str, *, expected: bool) -> None:
    """A value, other fields or elements, or text; what is shown beside it has to be there.

    Moments need only be of the same type, and durations some duration.
    """
    assert agrees(shown, printed) == expected


def test_examples_come_in_the_order_of_the_page() -> None:
    """Commands of one block one by one, and a program with the output that follows it."""
    page = r"""
```sh
pip install .
```
```sh
true
```
```console
$ curl a
{"b": 1}
$ curl c \
    d --json '{
    "e": 1}'
{"f": 2}
$ noted-time stream list
stream   domain
```
```python
print(1)
```
```text
1
```
```ini
[no]
```
"""

    assert list(examples(page)) == [
        Example("sh", "true\n", None),
        Example("console", "curl a", '{"b": 1}\n'),
        Example("console", "curl c \\\n    d --json '{\n    \"e\": 1}'", '{"f": 2}\n'),
        Example("console", "noted-time stream list", "stream   domain\n"),
        Example("python", "print(1)\n", "1\n"),
    ]
