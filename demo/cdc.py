"""Changes of a database in Kafka: which of them a claim of completeness misses.

Transactions commit to a PostgreSQL, Debezium writes their changes to two topics, and an observer of
each topic notes the commit times. Connect is killed once. The database then judges all claims.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from demo.change_claims import (
    METHODS,
    Finding,
    Moment,
    NewestTimes,
    Truth,
    describe,
    judge,
    list_figures,
    make_table,
    read_heartbeat_time,
    read_source_time,
    summarize,
)
from demo.stage import Result
from demo.surroundings import kafka_broker, require_java
from noted_time import Rejected
from noted_time.kafka import Topic
from noted_time.values import format_time
from tools.trials import debezium, kafka
from tools.trials.calls import Calls
from tools.trials.changes import TABLES, NotedTime, Transactions, find_places, list_changes
from tools.trials.daemons import Daemon
from tools.trials.postgres import UNSYNCED, Server, find_binaries
from tools.trials.shop import Shop
from tools.trials.waiting import PATIENCE_S
from writer_client.extending import unix_ms

NAME = "changes"
"""The name of the story's files."""

SHOP = "shop"
"""The connector, and the prefix of its topics."""

LOAD_S = 40.0
OUTAGE_S = 6.0
LOOK_S = 0.5
PROGRESS_S = 5.0
OLDEST_POSTGRESQL = 140_000

NO_POSTGRESQL = (
    "--cdc starts a separate PostgreSQL, and its programs are not installed: install PostgreSQL 14 "
    "or newer, for example by `apt install postgresql`"
)
OLD_POSTGRESQL = "PostgreSQL {version} is too old for the heartbeats of --cdc: install 14 or newer"
NOT_COMPLETE = (
    "the noted time did not advance for {patience:.0f} s, perhaps because the machine is busy "
    "({progress}): try again"
)

Say = Callable[[str], None]


def require_programs() -> None:
    """Raise `Rejected` without PostgreSQL or Java, and fetch the jars that are missing."""
    if find_binaries() is None:
        raise Rejected(NO_POSTGRESQL)
    require_java("Kafka")
    kafka.install()
    debezium.install()


def opening() -> list[str]:
    return [
        (
            "A PostgreSQL has two tables, and four sessions commit short and long transactions: "
            "out of the order of their starts, and some are rolled back. Debezium writes the "
            "changes to a Kafka topic of each table, and an observer (`observe kafka debezium`) "
            "notes the commit times."
        ),
        (
            f"On the way, Kafka Connect is killed (-9), and starts again after {OUTAGE_S:.0f} s. "
            "At the end, the database says when each change was committed "
            "(pg_xact_commit_timestamp), and so which claims were wrong."
        ),
    ]


@contextmanager
def open_shop(url: str, directory: Path) -> Iterator[tuple[Shop, debezium.Worker]]:
    """Yield a database with its topics, and the worker of its connector, for a controller."""
    binaries = find_binaries()
    assert binaries is not None  # noqa: S101 - `require_programs` has looked
    with ExitStack() as stack:
        server = stack.enter_context(Server(binaries, *UNSYNCED, *debezium.LOGICAL))
        _require_version(server)
        try:
            broker = stack.enter_context(kafka_broker(directory / "kafka"))
            worker = stack.enter_context(debezium.Worker(broker, directory / "connect"))
            stack.callback(worker.kill)  # an orderly end waits for a broker that Ctrl-C has ended
            worker.wait()
        except AssertionError as error:
            raise Rejected(f"Kafka or Kafka Connect did not start:\n{error}") from error
        yield Shop(server, broker, Calls(url), SHOP, directory), worker


def _require_version(server: Server) -> None:
    ((number,),) = server.execute("SHOW server_version_num")
    if int(number) < OLDEST_POSTGRESQL:
        raise Rejected(OLD_POSTGRESQL.format(version=int(number) // 10_000))


def play(shop: Shop, worker: debezium.Worker, say: Say, *, load_s: float = LOAD_S) -> Result:
    """Commit, observe and kill, and judge all claims."""
    with ExitStack() as stack:
        observers = [stack.enter_context(shop.observe(table, "--delay", "1s")) for table in TABLES]
        watch = Watch(shop, observers, say)
        with Transactions(shop.url):
            watch.prepare(worker)
            watch.run(load_s / 2)
            worker.kill()
            say(f"Connect was killed (-9), and starts again in {OUTAGE_S:.0f} s.")
            watch.run(OUTAGE_S)
            worker.start()
            watch.run(load_s / 2)
        say("No transaction commits any more: the noted time passes the last one.")
        watch.wait_for(unix_ms())
    return _judge(shop, watch)


class Watch:
    """Looks at the topics twice a second, and says every five seconds how far they are."""

    def __init__(self, shop: Shop, observers: list[Daemon], say: Say) -> None:
        self._shop = shop
        self._observers = observers
        self._say = say
        self._began = time.monotonic()
        self._said = self._began
        self.moments: dict[str, list[Moment]] = {table: [] for table in TABLES}
        self._heartbeat_topic = f"__debezium-heartbeat.{shop.name}"
        names = [self._heartbeat_topic, *(shop.name_topic(table) for table in TABLES)]
        self._topics = {name: Topic(shop.broker.config, name) for name in names}

    def prepare(self, worker: debezium.Worker) -> None:
        """Create the connector, and wait for the first noted times."""
        self._shop.broker.create(self._heartbeat_topic, 1)
        self._shop.connect(worker)
        self.wait_for(0)

    def list_heartbeat_times(self) -> NewestTimes:
        """Return the times of all heartbeats."""
        return NewestTimes(self._shop.broker.records(self._heartbeat_topic), read_heartbeat_time)

    def run(self, seconds: float) -> None:
        """Record claims for this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()

    def wait_for(self, moment: int) -> None:
        """Record claims until the noted time of each topic is above a moment, in Unix ms."""
        end = time.monotonic() + PATIENCE_S
        while self._get_noted_time() <= moment:
            if time.monotonic() > end:
                raise Rejected(NOT_COMPLETE.format(patience=PATIENCE_S, progress=self._describe()))
            self._look()

    def _get_noted_time(self) -> int:
        """Return the least noted time of the topics, 0 if one has none."""
        noted_times: list[int] = []
        for moments in self.moments.values():
            mark = moments[-1].mark if moments else None
            noted_times.append(0 if mark is None else mark.time)
        return min(noted_times)

    def _look(self) -> None:
        began = time.monotonic()
        self._require_observers()
        for table, moments in self.moments.items():
            moments.append(self._read_moment(self._shop.name_topic(table)))
        if began >= self._said + PROGRESS_S:
            self._said = began
            self._say(self._describe())
        time.sleep(max(0.0, began + LOOK_S - time.monotonic()))

    def _require_observers(self) -> None:
        for observer in self._observers:
            try:
                observer.running()
            except AssertionError as error:
                raise Rejected(f"an observer ended:\n{error}") from error

    def _read_moment(self, topic: str) -> Moment:
        mark = self._shop.served.get(topic)["marks"]["default"]
        noted_time = None
        if mark is not None:
            ends = {int(partition): end for partition, end in mark["cut"].items()}
            noted_time = NotedTime(mark["lower"], ends)
        heartbeats = self._topics[self._heartbeat_topic].look().ends[0]
        clock = unix_ms()
        return Moment(noted_time, heartbeats, clock, self._topics[topic].look().ends)

    def _describe(self) -> str:
        changes = sum(self._shop.count_changes(table) for table in TABLES)
        records = sum(sum(moments[-1].ends.values()) for moments in self.moments.values())
        noted_time = self._get_noted_time()
        progress = "no noted time yet"
        if noted_time:
            age_s = (unix_ms() - noted_time) / 1000
            progress = f"noted time {format_time(noted_time)}, {age_s:.1f} s old"
        return (
            f"{time.monotonic() - self._began:3.0f} s: {changes:,} changes committed, "
            f"{records:,} records in the topics, {progress}"
        )


def _judge(shop: Shop, watch: Watch) -> Result:
    findings: list[Finding] = []
    broken: list[str] = []
    marks = 0
    changes = 0
    for table, moments in watch.moments.items():
        truth = _read_truth(shop, table, watch.list_heartbeat_times())
        findings += judge(moments, truth)
        changes += len(truth.commits_us)
        verdict = shop.judge(table)
        marks += verdict.noted
        if verdict.wrong:
            broken.append(f"Changes are missing below {len(verdict.wrong):,} marks of {table}.")
        lost_changes = truth.commits_us.keys() - truth.places.keys()
        if lost_changes:
            broken.append(f"{len(lost_changes):,} changes of {table} never came to the topic.")
    verdicts = [summarize(method, findings) for method in METHODS]
    comparison = (
        f"{changes:,} changes were committed, and all {marks:,} marks of the two topics were "
        "compared with them."
    )
    return Result(
        table=make_table(verdicts),
        meaning=(comparison, *describe(verdicts)),
        figures={"changes": changes, "marks": marks, "methods": list_figures(verdicts)},
        broken=tuple(broken),
    )


def _read_truth(shop: Shop, table: str, heartbeat_times: NewestTimes) -> Truth:
    commits_us: dict[int, int] = {}
    for change in list_changes(shop.server, shop.url, table):
        commits_us[change.id] = change.commit_us
    records = shop.broker.records(shop.name_topic(table))
    source_times = NewestTimes(records, read_source_time)
    return Truth(commits_us, find_places(records), source_times, heartbeat_times)
