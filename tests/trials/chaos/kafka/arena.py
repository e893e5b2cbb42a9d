"""Where a trial of Kafka runs: a broker, a controller, producers and a query, each a process."""

import asyncio
import json
import os
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from noted_time.kafka.noted_topic import name_noted_topic
from tests.support.processes import environment
from tests.trials.actors.calls import wait_until_true
from tests.trials.actors.history import History
from tests.trials.chaos.kafka import counting, writing
from tests.trials.chaos.kafka.tally import Batches, Counted
from tests.trials.chaos.kafka.writing import Kind
from tests.trials.laws import LIVE
from tools.trials import java
from tools.trials.calls import Calls
from tools.trials.daemons import Daemon
from tools.trials.kafka import Broker
from tools.trials.ports import free_port
from tools.trials.secured_kafka import SecuredBroker
from tools.trials.waiting import wait_until

TOPIC = "flights"
PARTITIONS = 3
STRAY = "stray"
LANDING = "landing"
WRITERS: Mapping[str, Kind] = {
    "UA": "transactions",
    "DL": "transactions",
    "AA": "plain",
    "LH": "far",
    **({"HA": "java"} if java.compiler() else {}),
}
FAR = f"{TOPIC}.far"
"""The stream of the topic of that name of another cluster."""

OBSERVED = "landings"
"""A topic whose broker stamps the records, and whose producers do not note."""

OBSERVERS: Mapping[str, Sequence[str]] = {"ingestion": (), "timestamp": ("--delay", "60s")}
"""How it is observed, each in the domain of that name, with these options.

The delay is longer than a transaction lasts.
"""

PATIENCE_S = 300.0
"""A producer notices its end within this time."""

RESTART_S = 0.5
ERROR = re.compile(r"^((?:\w+\.)+[A-Z]\w+): ", re.MULTILINE)
DOCUMENTED = {
    f"noted_time.{name}" for name in ("Conflict", "DeliveryFailed", "Fenced", "Unreachable")
}
"""The errors that may end a producer: its name is taken, or a server does not answer."""

LIBRDKAFKA_FAILED = "failed for good"
"""In the error of a producer whose librdkafka cannot continue, as after some ends of a broker."""


class Program:
    """A module that is run again whenever it ends by itself, as by a supervisor.

    It has a separate process group, so that killing it ends Java, too. Its output and
    its log go to files, one pair a run. A fault that makes it fail holds `busy`.
    """

    def __init__(self, name: str, directory: Path, *words: str) -> None:
        self.name = name
        self.busy = asyncio.Lock()
        self._words = [sys.executable, "-m", *words]
        self._logs = directory / name
        self._logs.mkdir(parents=True)
        self._runs: list[Daemon] = []

    def start(self) -> None:
        """Start it."""
        options = os.environ.get("JAVA_TOOL_OPTIONS", QUICK)
        variables = environment(JAVA_TOOL_OPTIONS=options)
        run = len(self._runs)
        log = self._logs / f"{run:03}.log"
        output = self._logs / f"{run:03}.printed"
        self._runs.append(Daemon(self._words, log, variables, printed=output))

    def status(self) -> int | None:
        """Return its exit status, `None` while it runs."""
        return self._runs[-1].poll()

    def signal(self, signal_sent: signal.Signals) -> None:
        """Send it a signal, with all that it started."""
        self._runs[-1].signal(signal_sent)

    def kill(self) -> None:
        """End it as a power cut would."""
        for run in self._runs[-1:]:
            run.kill()

    def log(self) -> str:
        """Return what its last run logged."""
        return max(self._logs.glob("*.log")).read_text(errors="replace")

    def error(self) -> str:
        """Return the class of the error that ended its last run, with its modules, or nothing."""
        errors: list[str] = ERROR.findall(self.log())
        return errors[-1] if errors else ""

    def is_serving(self) -> bool:
        """Whether its last run, of the controller, listens."""
        return '"serving"' in self.log()

    def read_output(self) -> Iterator[object]:
        """Yield what all its runs printed, a line of JSON each; a line cut short is left out."""
        for file in sorted(self._logs.glob("*.printed")):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield json.loads(line)


QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A driver that is killed soon gains nothing from what Java optimizes."""


class KafkaArena:
    """All processes of a trial; leaving the block ends them.

    If `relayed`, the query reads its marks from a topic, and a relay is among the observers.
    `kills` counts processes that were killed, `counts` what programs printed and how they ended.
    """

    def __init__(self, directory: Path, chance: random.Random, *, relayed: bool = False) -> None:
        self.chance = chance
        self.kills = 0
        self.counts: Counter[str] = Counter()
        self.partitions = PARTITIONS
        self.broker = Broker(directory / "broker")
        self.far = SecuredBroker(directory / "far")
        self.broker_busy = asyncio.Lock()
        self.calls = Calls(f"http://127.0.0.1:{free_port()}")
        self._directory = directory
        self._relayed = relayed
        self._end = directory / "end"
        self._output = directory / "output"
        self._programs: list[Program] = []
        self._read: dict[str, list[Counted]] = {}
        self._strange: list[tuple[str, str]] = []

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._start)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    def _start(self) -> None:
        """Start the servers, then create streams and topics, then start the other programs."""
        self._output.mkdir()
        database = f"sqlite:///{self._directory / 'noted-time.db'}"
        words = ["serve", "--port", self.calls.url.rpartition(":")[2], "--database", database]
        self.controller = self._add_program("controller", "controller", *words)
        self.controller.start()
        for broker in (self.broker, self.far):
            broker.start()
            broker.create(TOPIC, PARTITIONS)
        self.broker.create(OBSERVED, PARTITIONS, {"message.timestamp.type": "LogAppendTime"})
        wait_until(self.controller.is_serving)
        near = [name for name, kind in WRITERS.items() if kind != "far"]
        for stream, names in {TOPIC: near, FAR: WRITERS.keys() - near}.items():
            self.calls.make(stream, mark_interval_ms=50, expected_writers=[*names])
        self.calls.make(OBSERVED, mark_interval_ms=50, domains=["default", *OBSERVERS])
        kinds: Mapping[str, Kind] = {**WRITERS, LANDING: "landing", STRAY: "astray"}
        self.producers = {name: self._add_producer(name, kind) for name, kind in kinds.items()}
        self.query = self._add_query()
        self.observers = [*self._add_observers()]
        for program in (*self.producers.values(), self.query, *self.observers):
            if program is self.producers[STRAY]:
                # the first to note would say which log the stream is of
                wait_until(lambda: self.calls.get(TOPIC)["logs"])
            program.start()

    async def __aexit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
            if program.name.startswith("producer"):
                self.counts.update(str(line) for line in program.read_output())
        self.broker.kill()
        self.far.kill()

    # Programs

    def _add_producer(self, name: str, kind: Kind, beside: str = "") -> Program:
        parameters = writing.Given(
            config=self.far.scram if kind in {"far", "astray"} else self.broker.config,
            controller=self.calls.url,
            topic=OBSERVED if kind == "landing" else TOPIC,
            stream=FAR if kind == "far" else TOPIC,
            writer=name,
            kind=kind,
            end=str(self._end),
        )
        words = (writing.__name__, json.dumps(asdict(parameters)))
        return self._add_program(f"producer-{name}{beside}", *words)

    def _add_query(self) -> Program:
        parameters = counting.Given(
            bootstrap=self.broker.address,
            controller=self.calls.url,
            topic=TOPIC,
            checkpoint=str(self._directory / "checkpoint"),
            output=str(self._output),
            relayed=self._relayed,
        )
        return self._add_program("query", counting.__name__, json.dumps(asdict(parameters)))

    def _add_observers(self) -> Iterator[Program]:
        address = self.broker.address
        url = ("--url", self.calls.url)
        for kind, options in OBSERVERS.items():
            words = (
                "observe",
                "kafka",
                kind,
                address,
                OBSERVED,
                *url,
                "--domain",
                kind,
                "--writer",
                kind,
            )
            timing = ("--poll", "200ms", "--timeout", "1h", *options)
            yield self._add_program(f"observer-{kind}", "noted_time", *words, *timing)
        if self._relayed:  # without the noted topic, the query would be refused
            self.broker.create(name_noted_topic(TOPIC), 1, {"cleanup.policy": "compact"})
            yield self._add_program("relay", "noted_time", "relay", "kafka", address, TOPIC, *url)

    def _add_program(self, name: str, *words: str) -> Program:
        self._programs.append(Program(name, self._directory / "logs", *words))
        return self._programs[-1]

    async def supervise(self, stopping: asyncio.Event) -> None:
        """Start each program again that ended by itself, unless it is done."""
        while not stopping.is_set():
            producers = self.producers.values()
            for program in (self.controller, *producers, self.query, *self.observers):
                if not program.busy.locked() and program.status():
                    self._note_end(program)
                    program.start()
            await asyncio.sleep(RESTART_S)

    async def kill_any(self, *programs: Program) -> None:
        """Kill -9 one of the programs at some moment; start it again at once or a little later."""
        program = self.chance.choice(programs)
        async with program.busy:
            await asyncio.sleep(self.chance.uniform(0.0, 3.0))
            program.kill()
            self.kills += 1
            await asyncio.sleep(self.chance.choice((0.0, 0.5, 2.0)))
            program.start()

    async def start_twin(self, name: str) -> None:
        """Start another process of a producer's name, which has to end the older one.

        Raises `AssertionError` if it does not.
        """
        older = self.producers[name]
        async with older.busy:
            twin = self._add_producer(name, WRITERS[name], f"-{len(self._programs)}")
            async with twin.busy:
                self.producers[name] = twin
                twin.start()
                is_fenced = await wait_until_true(lambda: older.status() is not None, PATIENCE_S)
                assert is_fenced, f"{older.name} continues beside {twin.name}"
            self._note_end(older)

    def _note_end(self, program: Program) -> None:
        """Count why a program ended, and remember it if that is strange.

        A producer may end by an error that the product documents, and one that does not note by any
        of Kafka's. A query may not be refused: all that it relied on is still there. An observer
        or the controller may not end at all.
        """
        error = program.error()
        kind = program.name.partition("-")[0]
        self.counts[f"ended: {kind}, {error.rpartition('.')[2]}"] += 1
        if program is self.query:
            is_strange = "Rejected" in program.log()
        else:
            is_documented = error in DOCUMENTED or LIBRDKAFKA_FAILED in program.log()
            is_strange = program is not self.producers[LANDING] and not is_documented
        if is_strange:
            self._strange.append((program.name, program.log()[-2000:]))

    async def mend(self, history: History) -> None:
        """Have the history remember each program that ended for a reason of none of the faults."""
        for name, words in self._strange:
            history.broke(LIVE, name, words)
        self._strange.clear()

    # Brokers

    async def restart_broker(self, broker: Broker) -> None:
        """Kill -9 a broker; start it again at once or up to 3 s later, on its files."""
        async with self.broker_busy:
            await asyncio.to_thread(broker.kill)
            self.kills += 1
            await asyncio.sleep(self.chance.uniform(0.0, 3.0))
            await asyncio.to_thread(broker.start)

    async def add_a_partition(self) -> None:
        """Add a partition to both topics, once the broker is up."""
        async with self.broker_busy:
            self.partitions += 1
            for topic in (TOPIC, OBSERVED):
                await asyncio.to_thread(self.broker.grow, topic, self.partitions)

    # What there is in the end

    def end_at(self, time: int) -> None:
        """Have the producers end: their last records are below that time."""
        unfinished_file = self._end.with_suffix(".unfinished")
        unfinished_file.write_text(str(time))
        unfinished_file.replace(self._end)

    def list_unfinished(self) -> list[str]:
        """Return the producers that have not ended well."""
        return [producer.name for producer in self.producers.values() if producer.status() != 0]

    def batches(self) -> Batches:
        """Return the output of the query."""
        unread = [file for file in self._output.glob("*.json") if file.name not in self._read]
        for file in sorted(unread, key=lambda file: file.stat().st_mtime_ns):
            self._read[file.name] = [Counted(*row) for row in json.loads(file.read_text())]
        rows_by_batch: dict[int, list[list[Counted]]] = {}
        for name, rows in self._read.items():
            rows_by_batch.setdefault(int(name.partition("-")[0]), []).append(rows)
        return rows_by_batch
