"""Queries with state whose driver is killed between each two batches, and their true results."""

import json
import signal
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any

from reader_client import KafkaRelay
from tests.support.offset_log import list_batches, read_plan
from tests.trials.judge import judge
from tools.trials.kafka import Broker, connector
from tools.trials.served import Served
from tools.trials.spark_programs import SparkProgram
from tools.trials.starting import UNCONNECTED

MINUTE_MS = 60_000
START_MS = 1_357_002_000_000
PERIOD_MS = 16 * MINUTE_MS
PERIODS = 3
ROWS = 30
"""Departures in each period of time. The writers note its end after its second step."""

STEPS = 2 * PERIODS
END_MS = START_MS + PERIODS * PERIOD_MS + 60 * MINUTE_MS
"""The time that writers note after the last row."""

BEFORE_MS = {"departures": 0, "arrivals": MINUTE_MS}
"""How much earlier the writers of a topic note."""

UNTIL_MS = END_MS - MINUTE_MS - 1
"""The watermark of a finished query."""

WINDOW_MS = 5 * MINUTE_MS
GAP_MS = MINUTE_MS // 2
SOON_MS = 10 * MINUTE_MS
AGAIN_MS = 3 * MINUTE_MS
KEPT_MS = 4 * MINUTE_MS
"""The longest time until a departure is repeated, and the time it is remembered."""

WAYS: dict[str, dict[str, int]] = {
    "ahead": {},
    "committed": {"maxOffsetsPerTrigger": 12},
    "relayed": {},
}
"""The values of `marks`, or `read_relayed_kafka`, and options of the records.

With the limit, rows follow their marks.
"""

DRIVER_S = 1200
"""How long a driver may take until each of its queries is at its place."""

PLACES = ("planned", "written", "committed")
SETTINGS = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",  # RocksDB needs it
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming"
    ".state.RocksDBStateStoreProvider",  # transformWithState needs it
    "spark.ui.showConsoleProgress": "false",
}

Event = tuple[int, str]
Events = Sequence[Event]
Runs = Mapping[int, Sequence[str]]
"""The rows of a batch, as JSON, by the run that wrote them."""


def departures(chance: Random) -> Iterator[Event]:
    """Yield (Unix ms, name) in any order, some of them twice, and one at each noted time.

    Half of the repeated ones have the same time.
    """
    for number in range(PERIODS * ROWS):
        time = START_MS + chance.randrange(PERIODS * PERIOD_MS)
        time = START_MS + number * PERIOD_MS if number < PERIODS else time
        yield time, (name := f"{chance.choice('ABC')}{number}")
        if chance.random() < 0.25:
            yield time + chance.choice([0, chance.randrange(AGAIN_MS)]), name


def arrivals(chance: Random, departures: Iterable[Event]) -> Iterator[Event]:
    """Yield an arrival for most departures, some too late and some at the last moment."""
    for time, name in departures:
        if chance.random() < 0.75:
            yield time + chance.choice([SOON_MS, chance.randrange(2 * SOON_MS)]), name


def divide(chance: Random, events: Iterable[Event]) -> list[list[Event]]:
    """Return the rows of each step, which are of its period or of the next one.

    A row at a time that is noted is written two steps after the note.
    """
    steps: list[list[Event]] = [[] for _ in range(STEPS)]
    for time, name in events:
        period, since = divmod(time - START_MS, PERIOD_MS)
        step = 2 * min(period, PERIODS - 1) + (chance.randrange(-1, 2) if since else 1)
        steps[max(0, step)].append((time, name))
    return steps


def windows(left: Events, _: Events) -> Iterator[Any]:
    """Yield (start, count) of each window."""
    yield from Counter(time // WINDOW_MS * WINDOW_MS for time, _ in left).items()


def sessions(left: Events, _: Events) -> Iterator[Any]:
    """Yield (carrier, start, end, count) of each session."""
    times = defaultdict(list)
    for time, name in sorted(left):
        times[name[0]].append(time)
    for carrier, session_times in times.items():
        start = end = session_times[0]
        count = 0
        for time in session_times:
            if time - end >= GAP_MS:
                yield carrier, start, end + GAP_MS, count
                start = time
                count = 0
            end = time
            count += 1
        yield carrier, start, end + GAP_MS, count


def names(left: Events, _: Events) -> Iterator[Any]:
    """Yield (name) of each departure once."""
    departed_names = {name for _, name in left}
    for name in departed_names:
        yield (name,)


def distinct(left: Events, _: Events) -> Iterator[Any]:
    """Yield (name, departure) of each time of a departure once."""
    yield from ((name, time) for time, name in set(left))


def inner(left: Events, right: Events) -> Iterator[Any]:
    """Yield (name, departure, arrival) of each pair."""
    for time, name in left:
        for landing_time, landed_name in right:
            if name == landed_name and time <= landing_time <= time + SOON_MS:
                yield name, time, landing_time


def outer(left: Events, right: Events) -> Iterator[Any]:
    """Yield the pairs, and (name, departure, none) of each departure without a pair."""
    for time, name in left:
        yield from list(inner([(time, name)], right)) or [(name, time, None)]


def timers(left: Events, _: Events) -> Iterator[Any]:
    """Yield (carrier, end, count) of each window."""
    counts = Counter[tuple[str, int]]()
    for time, name in left:
        end = time // WINDOW_MS * WINDOW_MS + WINDOW_MS
        counts[name[0], end] += 1
    for (carrier, end), count in counts.items():
        yield carrier, end, count


NOT_STRICT = "-not-strict"
"""The end of the name of an operator under `strict=False`."""

TRUTHS = {
    "windows": windows,
    "sessions": sessions,
    "names": names,
    "distinct": distinct,
    "inner": inner,
    "outer": outer,
    "timers": timers,
    "timeouts": timers,
    f"windows{NOT_STRICT}": windows,
    f"sessions{NOT_STRICT}": sessions,
}
"""The true result of each operator, computed from all rows."""


def find_not_killed(batches: Sequence[Runs]) -> list[str]:
    """Return the neighbours that one driver wrote.

    >>> find_not_killed([{1: ["a"], 2: ["a"]}, {2: ["b"]}, {2: ["c"]}])
    ['no kill between batches 0 and 1', 'no kill between batches 1 and 2']
    """
    laws = []
    for number, (runs, next_runs) in enumerate(pairwise(batches)):
        if max(runs) == max(next_runs):
            laws.append(f"no kill between batches {number} and {number + 1}")
    return laws


def find_last_batch(checkpoint: Path, log: str) -> int:
    """Return the last batch in a log of a checkpoint, -1 without any."""
    return max(list_batches(checkpoint / log), default=-1)


def is_finished(checkpoint: Path) -> bool:
    """Return whether a query has committed a batch under the last watermark."""
    last = find_last_batch(checkpoint, "commits")
    if last < 0:
        return False
    return bool(read_plan(checkpoint, last)[0]["batchWatermarkMs"] >= UNTIL_MS)


class Output:
    """The output of a query, and its checkpoint."""

    def __init__(self, root: Path, marks: str, operator: str) -> None:
        self.directory = root / "o" / marks / operator
        self.checkpoint = root / "c" / marks / operator
        self.asked: dict[str, object] = {
            "marks": marks,
            "operator": operator.removesuffix(NOT_STRICT),
            "strict": not operator.endswith(NOT_STRICT),
            "options": WAYS[marks],
            "output": str(self.directory),
            "checkpoint": str(self.checkpoint),
        }

    def batches(self) -> list[Runs]:
        """Return all that was written, in order of the batches."""
        batches: dict[int, dict[int, list[str]]] = defaultdict(dict)
        for path in self.directory.glob("*-*"):
            batch, _, run = path.name.partition("-")
            batches[int(batch)][int(run)] = path.read_text().splitlines()
        return [batches[batch] for batch in sorted(batches)]


class Trial(ExitStack):
    """Consecutive drivers of all queries; all but the last are killed."""

    def __init__(self, broker: Broker, served: Served, directory: Path, python: str) -> None:
        super().__init__()
        self._broker = broker
        self._directory = directory
        self._chance = Random(57)
        left = list(departures(self._chance))
        events = {"departures": left, "arrivals": list(arrivals(self._chance, left))}
        self._steps = {
            name: divide(self._chance, events_of_topic) for name, events_of_topic in events.items()
        }
        self._ends = {name: Counter[int]() for name in events}
        self._streams = {}
        self._relays = {}
        for name in events:
            broker.create(name)
            self._streams[name] = stream = served.stream(name)
            for partition in range(2):
                stream.note(f"w{partition}", None, {})
            relay = KafkaRelay(broker.config, name, controller=served.url)
            self._relays[name] = self.enter_context(closing(relay))
        self._given = {
            "bootstrap": broker.address,
            "url": served.url,
            "python": python,
            "settings": {"spark.jars": ",".join(connector()), **SETTINGS},
        }
        self._outputs = {}
        for way in product(WAYS, TRUTHS):
            self._outputs[way] = Output(directory, *way)
        self._runs = 0
        self.killed: Counter[tuple[str, str]] = Counter()

    def run(self) -> None:
        """Write the steps with a driver after each; then start drivers until all rows are read."""
        self._note(START_MS)
        for step in range(STEPS):
            for topic, steps in self._steps.items():
                self._write(topic, steps[step])
            if step % 2:
                self._note(START_MS + (step + 1) // 2 * PERIOD_MS)
            assert self._is_killed()
        self._note(END_MS)
        while self._is_killed():  # a new mark makes a batch, but a restart does not
            self._note(END_MS + self._runs)

    def find_broken(self, marks: str, operator: str) -> list[object]:
        """Return the laws that a query's output breaks, by all records of the topics."""
        left = self._read_events("departures")
        right = self._read_events("arrivals")
        truth = [json.dumps(row) for row in TRUTHS[operator](left, right)]
        batches = self._outputs[marks, operator].batches()
        output: list[str] = []
        runs_of_batches = {}
        for number, runs in enumerate(batches):
            output += runs[max(runs)]
            runs_of_batches[number] = [runs[run] for run in sorted(runs)]
        broken_laws = judge(expected=truth, output=output, batches=runs_of_batches)
        return [*broken_laws, *find_not_killed(batches)]

    def _read_events(self, topic: str) -> list[Event]:
        records = self._broker.records(topic)
        return [(record.time, (record.value or b"").decode()) for record in records]

    def _is_killed(self) -> bool:
        """Run a driver of unfinished queries, again if its Python took too long to start."""
        queries: list[dict[str, object]] = []
        for output in self._outputs.values():
            if not is_finished(output.checkpoint):
                queries.append({**output.asked, "dies": self._chance.choice(PLACES)})
        while True:
            self._runs += 1
            log = self._directory / f"driver-{self._runs}.log"
            run_input = {**self._given, "queries": queries, "run": self._runs}
            status = SparkProgram("run_operators", run_input, log).status(DRIVER_S)
            if status <= 0:
                break
            assert UNCONNECTED in log.read_text(), log.read_text()[-9000:]
        assert status in {0, -signal.SIGKILL}
        if status:
            self.killed.update((str(query["marks"]), str(query["dies"])) for query in queries)
        return status != 0

    def _write(self, topic: str, events: Events) -> None:
        rows = [(self._chance.randrange(2), name, time) for time, name in events]
        self._broker.send(topic, rows)
        self._ends[topic].update(partition for partition, _, _ in rows)

    def _note(self, time: int) -> None:
        """Note for the writer of each partition, and return once the marks are relayed."""
        for topic, relay in self._relays.items():
            lower = time - BEFORE_MS[topic]
            for partition in range(2):
                ends = {partition: self._ends[topic][partition]}
                self._streams[topic].note(f"w{partition}", lower, ends)
            while self._read_lower(relay) < lower:
                relay.look()

    def _read_lower(self, relay: KafkaRelay) -> int:
        if relay.noted.name not in self._broker.topics():
            return 0
        records = self._broker.records(relay.noted.name)
        return max((int(json.loads(record.value or "")["lower"]) for record in records), default=0)
