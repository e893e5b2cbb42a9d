"""Where a trial of Kafka runs: a broker, a controller, producers and a query, each a process."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Self

from demo.trials import java
from demo.trials.kafka import Broker
from demo.trials.secured_kafka import SecuredBroker
from demo.trials.waiting import wait_until
from noted_time.kafka.noted_topic import name_noted_topic
from tests.chaos.calls import wait_until_true
from tests.chaos.history import History
from tests.chaos.kafka import counting, landing, writing
from tests.chaos.kafka.tally import Batches, Counted
from tests.chaos.kafka.writing import Kind
from tests.support.processes import ServeProcess, environment
from tests.trials.laws import LIVE

TOPIC = "flights"
PARTITIONS = 3
WRITERS: Mapping[str, Kind] = {
    "UA": "transactions",
    "DL": "transactions",
    "AA": "plain",
    "LH": "far",
    **({"HA": "java"} if java.compiler() else {}),
}
FAR = f"{TOPIC}.far"
"""The stream of the topic of that name of another cluster."""

STRAY = "stray"
OBSERVED = "landings"
"""A topic whose broker stamps the records, and whose producers do not note."""

OBSERVERS: Mapping[str, Sequence[str]] = {"ingestion": (), "timestamp": ("--delay", "60s")}
"""How it is observed, each in the domain of that name, with these options.

The delay is longer than a transaction lasts.
"""

PATIENCE_S = 300.0
"""A producer, the broker or a controller starts, or notices its end, within this time."""

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
        self._runs = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self._runs += 1
        with self._file("printed").open("wb") as printed, self._file("log").open("wb") as log:
            self._process = subprocess.Popen(
                self._words,
                env=environment(JAVA_TOOL_OPTIONS=os.environ.get("JAVA_TOOL_OPTIONS", QUICK)),
                stdout=printed,
                stderr=log,
                start_new_session=True,
            )

    def status(self) -> int | None:
        """Return its exit status, `None` while it runs."""
        assert self._process is not None
        return self._process.poll()

    def signal(self, what: signal.Signals) -> None:
        """Send it a signal, with all that it started."""
        if self._process is not None and self.status() is None:
            os.killpg(self._process.pid, what)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def log(self) -> str:
        """Return what its last run logged."""
        return self._file("log").read_text(errors="replace")

    def error(self) -> str:
        """Return the class of the error that ended its last run, with its modules, or nothing."""
        found: list[str] = ERROR.findall(self.log())
        return found[-1] if found else ""

    def read_output(self) -> Iterator[object]:
        """Yield what all its runs printed, a line of JSON each; a line cut short is left out."""
        for file in sorted(self._logs.glob("*.printed")):
            for line in file.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    yield json.loads(line)

    def _file(self, kind: str) -> Path:
        return self._logs / f"{self._runs:03}.{kind}"


QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A driver that is killed soon gains nothing from what Java optimizes."""


class KafkaArena:
    """All processes of a trial; leaving the block ends them.

    If `relayed`, the query reads its marks from a topic, and a relay is among the observers.
    `kills` counts processes that were killed, `counts` what programs printed and how they ended.
    """

    def __init__(
        self,
        directory: Path,
        chance: random.Random,
        writers: Mapping[str, Kind] = WRITERS,
        *,
        relayed: bool = False,
    ) -> None:
        self.chance = chance
        self.kills = 0
        self.counts: Counter[str] = Counter()
        self.partitions = PARTITIONS
        self.broker = Broker(directory / "broker")
        self.far = SecuredBroker(directory / "far")
        self.broker_busy, self.controller_busy = asyncio.Lock(), asyncio.Lock()
        self._directory = directory
        self._end, self._output = directory / "end", directory / "output"
        self.writers, self._relayed = writers, relayed
        self._programs: list[Program] = []
        self.observers: list[Program] = []
        self._read: dict[str, list[Counted]] = {}
        self._strange: list[tuple[str, str]] = []

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self.broker.start)
            await asyncio.to_thread(self.broker.create, TOPIC, PARTITIONS)
            if self._are_far:
                await asyncio.to_thread(self.far.start)
                await asyncio.to_thread(self.far.create, TOPIC, PARTITIONS)
            self._controller_directory = self._directory / "controller"
            self._controller_directory.mkdir()
            self._output.mkdir()
            self.controller = ServeProcess(self._controller_directory)
            await asyncio.to_thread(self.controller.ready)
            self.url, self._port = self.controller.url, self.controller.port
            far = self._are_far
            near = [name for name in self.writers if name not in far]
            for stream, names in {TOPIC: near, **({FAR: far} if far else {})}.items():
                self.controller.make(stream, mark_interval_ms=50, expected_writers=names)
            self.producers = {
                name: self._producer(name, kind) for name, kind in self.writers.items()
            }
            if far:
                self.producers[STRAY] = self._producer(STRAY, "astray")
            self.query = self._query()
            await asyncio.to_thread(self._observe)
            if self._relayed:
                await asyncio.to_thread(self._relay)
            stray = self.producers.get(STRAY)
            for program in self._programs:
                if program is not stray:
                    program.start()
            if stray:  # the first to note would say which log the stream is of
                await asyncio.to_thread(wait_until, lambda: self.controller.get(TOPIC)["logs"])
                stray.start()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for program in self._programs:
            program.kill()
            if program not in self.observers:
                self.counts.update(str(each) for each in program.read_output())
        if hasattr(self, "controller"):
            self.controller.kill()
        self.broker.kill()
        if self._are_far:
            self.far.kill()

    @property
    def _are_far(self) -> list[str]:
        """The writers of the other cluster."""
        return [name for name, kind in self.writers.items() if kind == "far"]

    # Programs

    def _producer(self, name: str, kind: Kind, beside: str = "") -> Program:
        given = writing.Given(
            config=self.far.scram if kind in {"far", "astray"} else self.broker.config,
            controller=self.url,
            topic=TOPIC,
            stream=FAR if kind == "far" else TOPIC,
            writer=name,
            kind=kind,
            end=str(self._end),
        )
        return self._add_module(f"producer-{name}{beside}", writing.__name__, asdict(given))

    def _query(self) -> Program:
        given = counting.Given(
            bootstrap=self.broker.address,
            controller=self.url,
            topic=TOPIC,
            checkpoint=str(self._directory / "checkpoint"),
            output=str(self._output),
            relayed=self._relayed,
        )
        return self._add_module("query", counting.__name__, asdict(given))

    def _observe(self) -> None:
        """Create the topic that is observed, and its producers and observers."""
        stamped = {"message.timestamp.type": "LogAppendTime"}
        self.broker.create(OBSERVED, PARTITIONS, stamped)
        self.controller.make(OBSERVED, mark_interval_ms=50, domains=["default", *OBSERVERS])
        given = {"bootstrap": self.broker.address, "topic": OBSERVED, "end": str(self._end)}
        self.landing = self._add_module("landing", landing.__name__, given)
        words = [self.broker.address, OBSERVED, "--url", self.url, "--poll", "200ms"]
        self.observers = [
            self._add_program(
                f"observer-{by}",
                "noted_time",
                *("observe", "kafka", by, *words, "--domain", by, "--writer", by),
                *("--timeout", "1h", *options),
            )
            for by, options in OBSERVERS.items()
        ]

    def _relay(self) -> None:
        """Create the noted topic, without which the query would be refused, and the relay."""
        self.broker.create(name_noted_topic(TOPIC), 1, {"cleanup.policy": "compact"})
        words = ["relay", "kafka", self.broker.address, TOPIC, "--url", self.url]
        self.observers.append(self._add_program("relay", "noted_time", *words))

    def _add_module(self, name: str, module: str, given: object) -> Program:
        return self._add_program(name, module, json.dumps(given))

    def _add_program(self, name: str, *words: str) -> Program:
        self._programs.append(Program(name, self._directory / "logs", *words))
        return self._programs[-1]

    async def supervise(self, stopping: asyncio.Event) -> None:
        """Start each program again that ended by itself, unless it is done."""
        while not stopping.is_set():
            producers = (*self.producers.values(), self.landing)
            for program in (*producers, self.query, *self.observers):
                if not program.busy.locked() and program.status():
                    self._note_end(program)
                    program.start()
            await asyncio.sleep(RESTART_S)

    async def kill_and_start(self, program: Program) -> None:
        """Kill -9 a program at some moment; start it again at once or a little later."""
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
            twin = self._producer(name, self.writers[name], f"-{len(self._programs)}")
            async with twin.busy:
                self.producers[name] = twin
                twin.start()
                fenced = await wait_until_true(lambda: older.status() is not None, PATIENCE_S)
                assert fenced, f"{older.name} continues beside {twin.name}"
            self._note_end(older)

    def _note_end(self, program: Program) -> None:
        """Count why a program ended, and remember it if that is strange.

        A producer may end by an error that the product documents, and one that does not note by any
        of Kafka's. A query may not be refused: all that it relied on is still there. An observer
        may not end at all.
        """
        error, kind = program.error(), program.name.partition("-")[0]
        self.counts[f"ended: {kind}, {error.rpartition('.')[2]}"] += 1
        if program is self.query:
            is_strange = "Rejected" in program.log()
        else:
            is_documented = error in DOCUMENTED or LIBRDKAFKA_FAILED in program.log()
            is_strange = kind != "landing" and not is_documented
        if is_strange:
            self._strange.append((program.name, program.log()[-2000:]))

    # Servers

    async def restart_broker(self, broker: Broker) -> None:
        """Kill -9 a broker; start it again at once or up to 3 s later, on its files."""
        async with self.broker_busy:
            await asyncio.to_thread(broker.kill)
            self.kills += 1
            await asyncio.sleep(self.chance.uniform(0.0, 3.0))
            await asyncio.to_thread(broker.start)

    async def restart_controller(self) -> None:
        """Kill -9 the controller; start it again at once or up to 3 s later."""
        async with self.controller_busy:
            self.controller.kill()
            self.kills += 1
            await asyncio.sleep(self.chance.uniform(0.0, 3.0))
            self.controller = ServeProcess(self._controller_directory, port=self._port)
            await asyncio.to_thread(self.controller.ready)

    async def add_a_partition(self) -> None:
        """Add a partition to both topics, once the broker is up."""
        async with self.broker_busy:
            self.partitions += 1
            for topic in (TOPIC, OBSERVED):
                await asyncio.to_thread(self.broker.grow, topic, self.partitions)

    async def mend(self, history: History) -> None:
        """Start the controller again if it ended by itself, which it may not.

        Nor may a program for a reason that none of these faults gives.
        """
        for name, words in self._strange:
            history.broke(LIVE, name, words)
        self._strange.clear()
        if self.controller.process.poll() is not None:
            history.broke(LIVE, "the controller", self.controller.text()[-2000:])
            await self.restart_controller()

    # What there is in the end

    def end_at(self, time: int) -> None:
        """Have the producers end: their last records are below that time."""
        unfinished = self._end.with_suffix(".unfinished")
        unfinished.write_text(str(time))
        unfinished.replace(self._end)

    def list_unfinished(self) -> list[str]:
        """Return the producers that have not ended well."""
        programs = (*self.producers.values(), self.landing)
        return [each.name for each in programs if each.status() != 0]

    def batches(self) -> Batches:
        """Return the output of the query."""
        unread = [file for file in self._output.glob("*.json") if file.name not in self._read]
        for file in sorted(unread, key=lambda file: file.stat().st_mtime_ns):
            self._read[file.name] = [Counted(*row) for row in json.loads(file.read_text())]
        found: dict[int, list[list[Counted]]] = {}
        for name, rows in self._read.items():
            found.setdefault(int(name.partition("-")[0]), []).append(rows)
        return found
