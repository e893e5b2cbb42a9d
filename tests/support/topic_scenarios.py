"""Scenarios of a query that counts the records of a topic per second; see `tests/spark/topics`.

A paragraph of these files has a fact, more about it, and acts on a topic of two partitions, its
stream and the query, indented. Behind an arrow is the answer of an act, in which `…` stands for any
text. Seconds count from the start of the clock:

    write 0 1                two records of each of these seconds in each partition
    write 2 in=0,2           or in partitions 0 and 2
    note 3                   all records of earlier seconds are written
    run -> 0:4 1:4           a run of the query reads all; the seconds that it has, and their counts
    run marks=committed kafka.a=b          with an argument, and an option of Spark's source
    planned -> 3 0:6,1:6     the mark and the end of the first micro-batch of the last run
    start                    a run that does not end; `process` lets it read all, `stop` ends it
    soon -> 0:4 1:5          it has these counts sooner or later
    other write 0 1          an act on the second topic of the query
    fails -> …was deleted    a run fails, and returns no count
"""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from spark_integration import Ingestion
from spark_integration.checkpoint.query_progress import QueryProgress
from tests.core.test_scenarios import show_value
from tests.support.clock import START_MS, Clock, MakeClock, Option
from tests.support.paragraphs import read_files
from tests.support.queries import count_per_second
from tests.support.scenarios import Scenario
from tools.trials.waiting import eventually
from writer_client import IngestionNoter, KafkaEnds, WriterClient

Words = Any
TOPICS = Path(__file__).parents[1] / "spark" / "topics"


def split_words(words: dict[str, Words]) -> tuple[list[Option], dict[str, Any]]:
    """Return the options and the arguments of a read. Spark's names have capitals or dots."""
    lag = words.pop("lag", None)
    names = [name for name in words if "." in name or not name.islower()]
    options = {name.removeprefix("option."): words.pop(name) for name in names}
    return [Ingestion(lag)] if lag else [], {**words, **({"options": options} if options else {})}


class TopicScenario(Scenario):
    """One or two topics, and their query."""

    def __init__(
        self, make_clock: MakeClock, kind: type[Clock], caplog: pytest.LogCaptureFixture
    ) -> None:
        super().__init__(caplog)
        self.make = make_clock
        self.topics = [make_clock(kind)]
        self.subject = self.clock = self.topics[0]
        self.broker = self.clock.broker
        self.output = self.clock.output
        self.query: StreamingQuery | None = None
        self.batches = -1

    def other(self, *words: Words, **options: Words) -> None:
        """Perform an act on the second topic."""
        if len(self.topics) == 1:
            self.topics.append(self.make(type(self.clock)))
        self.subject = self.clock = self.topics[1]
        verb, *values = words
        getattr(self if hasattr(self, verb) else self.clock, verb)(*values, **options)
        self.subject = self.clock = self.topics[0]

    def create(self, **settings: Words) -> None:
        """Create the topic again."""
        self.broker.create(self.clock.name, settings=settings)

    def stream(self, *domains: str) -> None:
        """Create the stream again."""
        self.clock.marks.calls.stream(self.clock.name, *domains)
        self.clock.ends.clear()

    def write(self, *seconds: int, **options: tuple[str, ...]) -> None:
        self.clock.write(*seconds, partitions=tuple(map(int, options.get("in", (0, 1)))))

    def send(self, partition: int, second: int | None, key: str | None = None) -> None:
        """Write a record of a second, or without a timestamp."""
        time = -1 if second is None else START_MS + 1000 * second
        self.broker.send(self.clock.name, [(partition, "", time)], key)
        self.clock.ends[partition] = self.clock.ends.get(partition, 0) + 1

    def begin(self, partition: int, second: int) -> None:
        """Write a record in a transaction."""
        self.transaction = self.clock.begin(partition, second)

    def commit(self) -> None:
        self.transaction.commit_transaction(60)

    def abort(self) -> None:
        self.transaction.abort_transaction(60)

    def observe(self, second: int) -> None:
        """Let an observer poll the topic at a second."""
        clock = self.clock
        time = START_MS + 1000 * second
        with WriterClient(clock.name, "eye", controller=clock.url, domains=["ingestion"]) as client:
            ends = KafkaEnds(clock.broker.config, clock.name)
            IngestionNoter(client, ends, clock=lambda: time).look()
            client.flush()

    def grow(self, partitions: int) -> None:
        self.broker.grow(self.clock.name, partitions)

    def truncate(self, begins: dict[int, int]) -> None:
        """Delete the records before these offsets."""
        self.broker.truncate(self.clock.name, begins)

    def forget(self) -> None:
        """Lose Spark's commit of the last micro-batch, as a crash does."""
        self.output.forget_commit()

    def conf(self, **settings: Words) -> None:
        """Read in a new session with these settings of streaming."""
        self.clock.spark = self.clock.spark.newSession()
        for name, value in settings.items():
            self.clock.spark.conf.set(f"spark.sql.streaming.{name}", str(value))

    def read(self, **words: Words) -> None:
        """Make the call without a run; `controller=own` is the address of the controller."""
        arguments, options = split_words(words)
        if options.get("controller") == "own":
            options["controller"] = self.clock.url
        if len(self.topics) > 1:
            options["topic"] = [topic.name for topic in self.topics]
        self.events = self.clock.read(*arguments, **options)

    def start(self, **words: Words) -> None:
        self.read(**words)
        self.batches = max(self.output.batches, default=-1)
        self.query = self.output.start(count_per_second(self.events, "timestamp"))

    def process(self) -> str:
        assert self.query
        self.query.processAllAvailable()
        return self._show_counts()

    def soon(self) -> str:
        assert eventually(self._show_counts, self.expected)
        return self.expected

    def stop(self) -> None:
        if self.query:
            self.query.stop()

    close = stop

    def run(self, **words: Words) -> str:
        self.start(**words)
        try:
            return self.process()
        finally:
            self.stop()

    def catch_up(self, **words: Words) -> str:
        """Read all in a run with the trigger availableNow."""
        self.read(**words)
        self.output.catch_up(count_per_second(self.events, "timestamp"))
        return self._show_counts()

    def fails(self, **words: Words) -> str:
        before = self.clock.counts
        with pytest.raises(PySparkException) as failure:
            self.run(**words)
        assert self.clock.counts == before
        return str(failure.value)

    def planned(self) -> str:
        mark, ends = self.clock.read_batch_plan(self.batches + 1)
        return f"{show_value(mark)} {show_value(ends)}"

    def begins_at_zero(self) -> str:
        """Show of each topic whether the query began at offset 0, by the checkpoint."""
        queries = QueryProgress(str(self.output.checkpoint)).begins_at_zero
        return " ".join(str(queries[name]) for name in sorted(queries))

    def whole(self) -> str:
        """Show from when on the query has all rows."""
        return show_value(self.clock.whole)

    def _show_counts(self) -> str:
        return " ".join(f"{second}:{count}" for second, count in self.clock.counts) or "-"


def read_scenarios(*files: str) -> list[Any]:
    """Return the acts of each scenario of these files, as parameters of a test."""
    return read_files(TOPICS / f"{name}.txt" for name in files)


def play(
    make_clock: MakeClock, kind: type[Clock], caplog: pytest.LogCaptureFixture, acts: list[str]
) -> None:
    """Perform a scenario with a new topic, and stop its query."""
    with closing(TopicScenario(make_clock, kind, caplog)) as scenario:
        scenario.play(acts)
