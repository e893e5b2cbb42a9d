"""A database that Debezium reads, observers of its topics, and a judge of their marks."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tools.trials import debezium
from tools.trials.calls import Calls
from tools.trials.changes import (
    TABLES,
    NotedTime,
    create_tables,
    find_places,
    list_changes,
    list_wrong,
)
from tools.trials.daemons import Daemon
from tools.trials.kafka import Broker
from tools.trials.postgres import Server

DELAY = "500ms"
"""Commits are out of the order of their times by less, also on a busy machine."""

COUNT = "SELECT count(*) FROM {table}"


class Verdict(NamedTuple):
    """The findings of a judge: the number of noted times, the wrong ones, and the changes."""

    noted: int
    wrong: list[NotedTime]
    changes: int


class Shop:
    """A database, its connector, its topics and their streams.

    The topics are there from the beginning: an observer ends at once if its topic is not there.
    """

    def __init__(
        self, server: Server, broker: Broker, served: Calls, name: str, directory: Path
    ) -> None:
        self.server = server
        self.broker = broker
        self.served = served
        self.name = name
        self.directory = directory
        self.url = server.make_database()
        create_tables(server, self.url)
        for table in TABLES:
            broker.create(self.name_topic(table), 2)
            served.make(self.name_topic(table))

    @property
    def database(self) -> str:
        return self.url.rpartition("/")[2]

    def name_topic(self, table: str) -> str:
        return f"{self.name}.public.{table}"

    def connect(self, worker: debezium.Worker, **settings: str) -> None:
        """Create the connector."""
        tables = ",".join(f"public.{table}" for table in TABLES)
        connector_settings = {name.replace("_", "."): value for name, value in settings.items()}
        worker.set_connector(self.name, self.server, self.database, tables, connector_settings)

    @contextmanager
    def observe(self, table: str, *options: str) -> Iterator[Daemon]:
        """Observe the topic of a table until the end of the block."""
        topic = self.name_topic(table)
        words = [sys.executable, "-m", "noted_time", "observe", "kafka", "debezium"]
        words += [
            self.broker.address,
            topic,
            "--connector",
            self.name,
            "--delay",
            DELAY,
            "--poll",
            "200ms",
            *options,
        ]
        words += ["--url", self.served.url]
        with Daemon(words, self.directory / f"{table}.log", os.environ) as observer:
            yield observer

    def count_changes(self, table: str) -> int:
        """Return how many changes of a table are committed."""
        ((count,),) = self.server.execute(COUNT.format(table=table), self.url)
        return int(count)

    def list_noted(self, table: str) -> list[NotedTime]:
        noted_times: list[NotedTime] = []
        for mark in self.served.all_marks(self.name_topic(table), "default"):
            ends = {int(partition): end for partition, end in mark["cut"].items()}
            noted_times.append(NotedTime(mark["lower"], ends))
        return noted_times

    def judge(self, table: str, *, by: str = "commit") -> Verdict:
        """Compare all marks of a topic with all rows of its table, by a time of the database."""
        times_us: dict[int, int] = {}
        for change in list_changes(self.server, self.url, table):
            times_us[change.id] = change.commit_us if by == "commit" else change.start_us
        noted_times = self.list_noted(table)
        places = find_places(self.broker.records(self.name_topic(table)))
        wrong = list_wrong(noted_times, times_us, places)
        return Verdict(len(noted_times), wrong, len(times_us))
