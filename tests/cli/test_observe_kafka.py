"""`noted-time observe kafka`, against a real controller and a real broker."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.trials.kafka import Broker
from demo.trials.ports import free_port
from demo.trials.served import Served
from demo.trials.waiting import PATIENCE_S, wait_until
from tests.cli.conftest import Commands, Result, start_command

pytestmark = pytest.mark.acceptance

Observe = Callable[[str], Result]
LATE = 1_357_041_600_000


@pytest.fixture
def topic(broker: Broker, served: Served, request: pytest.FixtureRequest) -> str:
    """Return a topic of two partitions with records, and its stream; the second is behind."""
    name = str(request.node.originalname)
    broker.create(name)
    times = ((0, LATE + 1000), (0, LATE + 900), (1, LATE + 400))
    broker.send(name, [(partition, f'{{"at": {time}}}', time) for partition, time in times])
    served.stream(name, "default", "ingestion")
    return name


@pytest.fixture
def observe(broker: Broker, served: Served, topic: str) -> Observe:
    """Return a function that observes the topic once, with some options."""

    def look(words: str) -> Result:
        way, *options = words.split()
        return Commands(served.url)(
            "observe", "kafka", way, broker.address, topic, *options, "--for", "0s"
        )

    return look


@pytest.mark.parametrize(
    ("options", "mark"),
    [
        ("ingestion", ("ingestion", None)),
        ("timestamp --delay 50ms", ("default", LATE + 350)),
        ("read-timestamp --delay 50ms --from earliest", ("default", LATE + 350)),
        ("field --field at --delay 50ms --from earliest", ("default", LATE + 350)),
    ],
)
def test_observing_once_makes_a_mark(
    observe: Observe, served: Served, topic: str, options: str, mark: tuple[str, int | None]
) -> None:
    """The mark is at the clock, or at the newest time of the slowest partition."""
    done = observe(options)

    domain, lower = mark
    assert done == Result(0, f"observer observes {topic}\n", "")
    assert [
        (found["cut"], found["lower"] == (lower or found["lower"]))
        for found in served.all_marks(topic, domain)
    ] == [({"0": 2, "1": 1}, True)]


def test_tombstones_are_counted_and_do_not_fail(
    observe: Observe, served: Served, broker: Broker, topic: str
) -> None:
    """A tombstone has no event, but its offset counts as read."""
    broker.send(topic, [(1, None, LATE), (1, None, LATE)], key="k")
    done = observe("field --field at --delay 50ms --from earliest")

    assert (done.status, done.err) == (0, "2 records without a value skipped.\n")
    assert [mark["cut"] for mark in served.all_marks(topic)] == [{"0": 2, "1": 3}]


@pytest.fixture
def topic_in_seconds(broker: Broker, served: Served, topic: str) -> str:
    """Write more times to the topic, most of them in seconds; its stream is in Unix ms."""
    served.call("PUT", f"/{topic}", {"max_time_ahead_ms": 3_600_000})
    values = [f'{{"at": {LATE // 1000 + n}}}' for n in range(10)]
    broker.send(topic, [(n % 2, value, LATE) for n, value in enumerate(values)])
    return topic


FIELD = "field --field at --delay 5s --from earliest"


def test_seconds_are_not_noted(observe: Observe, served: Served, topic_in_seconds: str) -> None:
    """The sentence says what to add; nothing is reported as late."""
    done = observe(FIELD)

    assert done == Result(
        1,
        f"observer observes {topic_in_seconds}\n",
        "noted-time: the times of `at` look like Unix seconds (2013-01-01 as seconds, 1970-01-16 "
        "as ms): pass --unit s\n",
    )
    writer = served.get(f"{topic_in_seconds}/writers/observer")
    assert (served.all_marks(topic_in_seconds), writer["times"], writer["late"]) == ([], {}, {})


@pytest.mark.parametrize(("ahead_ms", "more"), [(None, ""), (3_600_000, " --unit ms")])
def test_stream_clock_or_unit_ends_the_doubt(
    observe: Observe, served: Served, topic_in_seconds: str, ahead_ms: int | None, more: str
) -> None:
    """Seconds are read as ms then."""
    served.call("PUT", f"/{topic_in_seconds}", {"max_time_ahead_ms": ahead_ms})
    done = observe(FIELD + more)

    assert (done.status, done.err) == (0, "")
    assert served.get(f"{topic_in_seconds}/writers/observer")["position"] == {"0": 7, "1": 6}


def test_known_unit_skips_no_record(
    observe: Observe, served: Served, broker: Broker, topic: str
) -> None:
    """The thousand records that decide the unit are read again."""
    served.call("PUT", f"/{topic}", {"max_time_ahead_ms": 3_600_000})
    values = [f'{{"at": {LATE + n}}}' for n in range(1500)]
    broker.send(topic, [(n % 2, value, LATE) for n, value in enumerate(values)])
    observe(FIELD)

    marks = [(mark["cut"], mark["lower"]) for mark in served.all_marks(topic)]
    assert marks == [({"0": 752, "1": 751}, LATE + 1498 - 5000)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("field --field no:where --delay 5m", "the function 'no:where' cannot be imported"),
        ("ingestion --stream nowhere", "nowhere"),
        ("ingestion --config /nowhere", "/nowhere cannot be read"),
        ("ingestion --config no:where", "the function 'no:where' cannot be imported"),
    ],
)
def test_invalid_observations_are_refused(observe: Observe, options: str, sentence: str) -> None:
    done = observe(options)

    assert done.status == 1
    assert sentence in done.err


@pytest.mark.usefixtures("impatient")
def test_unreachable_broker_is_reported_first(served: Served, topic: str) -> None:
    """Problems of the stream come after it."""
    served.stream(topic, "default")
    address = f"127.0.0.1:{free_port()}"
    done = Commands(served.url)("observe", "kafka", "ingestion", address, topic, "--for", "0s")
    broker, stream, _ = done.err.splitlines()

    assert (done.status, address in broker, "unknown_domain" in stream) == (1, True, True)


def test_skipped_records_are_counted(broker: Broker, observe: Observe, topic: str) -> None:
    """The status is 1, although the other records were noted."""
    broker.send(topic, [(0, "no JSON", LATE), (1, '{"at": "noon"}', LATE)])
    done = observe("field --field at --delay 50ms --from earliest")

    assert done.status == 1
    assert done.err.endswith(
        "noted-time: 2 records were skipped: the time could not be read or was too far ahead; "
        "see the warnings above\n"
    )


def test_command_of_analyse_makes_a_mark(served: Served, broker: Broker, topic: str) -> None:
    """The topic is quiet, so its partitions become idle."""
    run = Commands(served.url)
    advice = run("analyse", "kafka", broker.address, topic, "--field", "at", "--unit", "ms").err
    printed = re.findall(r"Observers +(?:.*?) (observe kafka .*)", advice)

    assert run(*shlex.split(printed[0]), "--for", "0s").status == 0
    assert served.get(f"{topic}/explain")["lower"] == LATE + 400


@pytest.mark.parametrize(("unreadable", "option"), [(1, "--pass 1:1"), (2, "--pass 1")])
def test_the_printed_option_ends_the_wait_for_readable_records(
    broker: Broker, served: Served, topic: str, unreadable: int, option: str
) -> None:
    """A partition with a skipped record is not idle, also after a restart, but with the option."""
    run = Commands(served.url)
    words = ["observe", "kafka", *FIELD.split(), broker.address, topic, "--idle", "1ms"]
    broker.send(topic, [(1, b"\x00Avro", LATE)] * unreadable)
    held = []
    for time in (LATE + 20_000, LATE + 30_000):
        broker.send(topic, [(0, f'{{"at": {time}}}', LATE)])
        run(*words, "--poll", "20ms", "--for", "1s")
        held.append(served.get(f"{topic}/explain")["lower"])
    explained = run("explain", topic).out
    doctor = run("doctor", topic).out
    printed = re.findall(r"restart the observer with (.*?) to wait", " ".join(explained.split()))
    broker.send(topic, [(0, f'{{"at": {LATE + 40_000}}}', LATE)])
    with start_command(served, *words, "--poll", "20ms", *printed[0].split()) as observer:
        wait_until(lambda: served.get(f"{topic}/explain")["lower"] == LATE + 35_000)
        observer.terminate()

    assert held == [LATE - 4600] * 2
    assert (printed, f"with {option} to wait" in doctor) == ([option], True)


def test_times_of_a_changefeed_are_noted(broker: Broker, served: Served, topic: str) -> None:
    broker.create(topic, 1)
    words = [broker.address, topic, "--for", "0s"]
    served.stream(topic, "default", "ingestion")
    broker.send(topic, [(0, f'{{"resolved":"{LATE}000000.0000000000"}}', 0)])
    broker.send(topic, [(0, f'{{"resolved":"{LATE + 1}000000.0000000000"}}', 0)])
    feed = Commands(served.url)("observe", "kafka", "resolved", *words, "--domain", "ingestion")

    assert feed == Result(0, f"observer observes {topic}\n", "")
    assert [(mark["lower"], mark["cut"]) for mark in served.all_marks(topic, "ingestion")] == [
        (LATE + 1, {"0": 1})
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# a secret\n\nsasl.username", "line 3: write it as name=value"),
        ("secutiry.protocol=SSL", 'No such configuration property: "secutiry.protocol"'),
        ("security.protocol = PLAINTEXT", ""),
    ],
)
def test_config_file_is_read(observe: Observe, tmp_path: Path, text: str, sentence: str) -> None:
    """An error names the file."""
    file = tmp_path / "client.properties"
    file.write_text(text)
    done = observe(f"ingestion --config {file}")

    assert done.status == bool(sentence)
    assert sentence in done.err
    assert (str(file) in done.err) == bool(sentence)


def test_second_observer_of_a_name_fences_the_first(
    broker: Broker, served: Served, topic: str, observe: Observe
) -> None:
    words = ["observe", "kafka", "ingestion", broker.address, topic, "--poll", "50ms"]
    with start_command(served, *words, "--max-lag", "50ms") as older:
        wait_until(lambda: served.all_marks(topic, "ingestion"))
        younger = observe("ingestion --max-lag 50ms --poll 50ms")
        _, errors = older.communicate(timeout=PATIENCE_S)

    assert (younger.status, older.returncode) == (0, 1)
    assert "noted-time: writer 'observer' is fenced" in errors
