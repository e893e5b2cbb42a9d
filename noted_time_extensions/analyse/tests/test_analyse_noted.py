"""`noted-time analyse … --stream`: the marks of a stream are judged by the rows of its log."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.service import maintenance
from noted_time.client import Json
from noted_time.kafka import Topic
from tests.cli.conftest import Commands, write
from tools.trials.calls import TEN, wire
from tools.trials.kafka import Broker
from tools.trials.served import Served
from tools.trials.waiting import wait_until

MINUTE_MS = 60_000
WRITERS = [f"w{n}" for n in range(10)]
LIAR = "w3"
LATECOMER = "latecomer"


class Producers:
    """Ten producers that share three partitions, one that comes later, and their stream."""

    def __init__(self, broker: Broker, served: Served) -> None:
        self._broker = broker
        self._served = served
        self.name = served.new()
        broker.create(self.name, 3)
        self._log = Topic(broker.config, self.name).look().id
        self._ends = Counter[int]()
        self._post(*({"writer": writer} for writer in WRITERS))

    def _post(self, *notes: Json) -> None:
        self._served.post(self.name, *({**note, "log": self._log} for note in notes))

    def write(self, writer: str, *minutes: int) -> None:
        """Write a row of each of these minutes after TEN, all into one partition."""
        partition = [*WRITERS, LATECOMER].index(writer) % 3
        self._post({"writer": writer})
        rows = [(partition, None, TEN + minute * MINUTE_MS) for minute in minutes]
        self._broker.send(self.name, rows, key=writer)
        self._ends[partition] += len(rows)

    def note(self, minute: int, *writers: str) -> None:
        """Have writers note a time, with the ends of all partitions."""
        time_and_position = {"time": TEN + minute * MINUTE_MS, "position": wire(self._ends)}
        self._post(*({"writer": writer, **time_and_position} for writer in writers))


@pytest.fixture
def producers(broker: Broker, served: Served) -> Producers:
    """Return ten members that have written nothing."""
    return Producers(broker, served)


@pytest.mark.acceptance
def test_broken_promises_are_found(producers: Producers, broker: Broker, run: Commands) -> None:
    """An honest latecomer's rows are late by contract, and rows above a promise are not lost."""
    for hour in (1, 2):
        for writer in WRITERS:
            producers.write(writer, 60 * hour - 50, 60 * hour - 10)
        producers.note(60 * hour, *WRITERS)
    producers.write(LIAR, 30, 119, 121)
    producers.write(LATECOMER, 100, 130)
    producers.note(180, LATECOMER, *WRITERS)
    producers.write(LIAR, 179)
    words = ["analyse", "kafka", broker.address, producers.name, "--stream", producers.name]
    words += ["--who", "key"]
    by_key = run(*words, "--json")
    result = run(*words, "--fail-if-broken")

    times = [TEN + minute * MINUTE_MS for minute in (30, 179, 100)]
    lost_rows = [[LIAR, "broken", 3, *times[:2]], [LATECOMER, "not_joined", 1, times[2], times[2]]]
    noted_analysis = by_key.json["noted"]
    assert (by_key.status, noted_analysis["lost"], noted_analysis["not_judged"]) == (
        0,
        lost_rows,
        0,
    )
    assert noted_analysis["figures"]["lost"] == 4
    assert result.status == 1
    assert result.err.endswith(f"their writer had noted: {LIAR} (3 rows)\n")
    assert result.table[-1][:2] == [LATECOMER, "1"]
    assert result.table[-1][2:] == ["2013-01-01T11:40:00Z"] * 2 + ["late by contract: not joined"]


@pytest.mark.acceptance
def test_deleted_records_are_reported(producers: Producers, broker: Broker, run: Commands) -> None:
    """Records deleted by retention may have been late."""
    producers.write(LIAR, 5, 6)
    broker.truncate(producers.name, {0: 1})
    result = run("analyse", "kafka", broker.address, producers.name)

    assert "Records that were deleted from 1 partition are not judged.\n" in result.err


@pytest.mark.acceptance
def test_foreign_stream_is_refused(producers: Producers, broker: Broker, run: Commands) -> None:
    """Topics have ids, because offsets of one topic have no meaning in another."""
    producers.write(LIAR, 5)
    producers.note(10, *WRITERS)
    other = f"{producers.name}-2"
    broker.create(other)
    broker.send(other, [(0, "{}", TEN)])
    result = run("analyse", "kafka", broker.address, other, "--stream", producers.name)

    assert (result.status, "its positions are of log" in result.err) == (1, True)


def test_rows_of_a_forgotten_writer_stay_its_own(
    tmp_path: Path, served: Served, run: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It notes the partition, too, but not its earlier rows; its own later ones are its own."""
    name = served.new(writer_retention_ms=1)

    def note(writer: str, minute: int, **fields: object) -> None:
        served.post(name, {"writer": writer, "time": TEN + minute * MINUTE_MS, **fields})

    served.post(name, {"writer": "former"}, {"writer": "next"})
    note("former", 20, position={"0": 1})
    note("next", 20, position={"1": 1})
    note("former", 30, position={"0": 2}, state="finished")
    note("next", 30)
    monkeypatch.setattr(maintenance, "FORGET_EVERY_MS", 0)
    wait_until(lambda: served.get(f"{name}/writers")["total"] == 1)
    note("next", 40, position={"0": 3})
    write(tmp_path, "flights", 0, *(TEN + minute * MINUTE_MS for minute in (5, 10, 35, 36)))
    words = ("analyse", "log", str(tmp_path), "flights", "--time", "at", "--stream", name)
    result = run(*words, "--fail-if-broken", "--json")
    lost_rows = [[row[0], row[1], row[2]] for row in result.json["noted"]["lost"]]

    assert (result.status, lost_rows) == (1, [["next", "broken", 1], ["segment 0", "not known", 1]])


def test_waits_end_with_the_closing_mark(tmp_path: Path, served: Served, run: Commands) -> None:
    """A wait lasts from the end of a window to the mark that closes it."""
    name = served.new()
    write(tmp_path, "flights", 0, TEN + 5 * MINUTE_MS, TEN + 65 * MINUTE_MS)
    for end, minute in ((1, 10), (2, 70)):
        time = TEN + minute * MINUTE_MS
        served.post(name, {"writer": "a", "time": time, "position": {"0": end}})
    now = int(datetime.now(UTC).timestamp() * 1000)
    written_at = served.all_marks(name)[1]["written_at"]
    write(tmp_path, "flights", 1, now)
    words = ("analyse", "log", str(tmp_path), "flights", "--time", "at", "--stream", name)
    figures = run(*words, "--arrival", "at", "--json").json["noted"]["figures"]

    assert figures["wait_longest_ms"] == written_at - (TEN + 60 * MINUTE_MS)
    assert (figures["still_open"], figures["lost"]) == (2, 0)
