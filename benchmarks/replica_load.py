"""What two controllers on one database take together, and what it costs writers to change about.

Each of several streams is had by one of the two; a note that comes to the other goes on from there.
Writers begin at both without regard to that, as clients spread themselves, and our client then goes
where the answer says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Run, Samples, Target
from benchmarks.load import Answered, alternating, drive_all, hinted, split
from benchmarks.postgres_notes import PATIENT
from benchmarks.replica_servers import replicas
from benchmarks.single_notes import create_stream
from benchmarks.writers import Crowd

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.load import Connection
    from benchmarks.processes import Server
    from tests.support.postgres import Server as Postgres

    Connect = Callable[[Sequence[int], Sequence[Sequence[bytes]]], list[list[Connection]]]

STREAMS = 16
WRITERS = 10_000
REQUESTS = 40_960
FEW, MANY = 64, 256
NO_LESS = Target("ratio", "at least", 1)
REMARK = f"PostgreSQL, {WRITERS:,} writers on {STREAMS} streams, {{}} connections"
HINTED = "durable single notes, two replicas, each writer at the owner of its stream"
TWO = "durable single notes, two replicas, each writer at one"
CHANGING = "durable single notes, two replicas, each writer at both in turn"


@dataclass(slots=True)
class Shared:
    """Controllers on one database, and the writers of its streams."""

    servers: list[Server]
    database: str
    crowd: Crowd

    def begin(self) -> None:
        """Make the streams; all writers note."""
        for stream in self.crowd.streams:
            create_stream(self.servers[0], stream, PATIENT)
        self.rate(split, len(self.crowd.streams), len(self.crowd))

    def rate(self, connect: Connect, connections: int, requests: int) -> float:
        """Post about so many single notes; returns notes/s when all are seen to be stored."""
        ports = [server.port for server in self.servers]
        scripts = self.crowd.scripts(connections, -(-requests // connections))
        answered: Answered = drive_all(connect(ports, scripts))
        self.crowd.check(answered, self.database)
        return answered.per_second


def measure(
    run: Run,
    postgres: Postgres,
    writers: int = WRITERS,
    requests: int = REQUESTS,
    *,
    streams: int = STREAMS,
) -> list[Figure]:
    """Post to two replicas and to a single one in turn."""
    together, single = postgres.make_database(), postgres.make_database()
    with replicas(together, 2) as pair, replicas(single, 1) as alone:
        two = Shared(pair, together, Crowd("two", streams, writers))
        one = Shared(alone, single, Crowd("one", streams, writers))
        two.begin()
        one.begin()
        many, many_alone, many_at_one, _ = _rates(run, two, one, MANY, requests)
        few, few_alone, few_at_one, changing = _rates(run, two, one, FEW, requests)
    of_many, of_few = REMARK.format(MANY), REMARK.format(FEW)
    return [
        Figure(HINTED, "/s", many, many_alone, "one replica", NO_LESS, of_many),
        Figure(TWO, "/s", many_at_one, many_alone, "one replica", None, of_many),
        Figure(HINTED, "/s", few, few_alone, "one replica", None, of_few),
        Figure(TWO, "/s", few_at_one, few_alone, "one replica", None, of_few),
        Figure(CHANGING, "/s", changing, few_at_one, "each at one", None, of_few),
    ]


def _rates(run: Run, two: Shared, one: Shared, connections: int, requests: int) -> list[Samples]:
    """Return the rates of writers at owners, of one replica, of writers at any one, and at both."""
    taken: list[list[float]] = [[], [], [], []]
    for repeat in range(run.repeats(full=5, quick=2)):
        run.say(f"two replicas, {connections} connections, repeat {repeat + 1}")
        taken[0].append(two.rate(hinted, connections, requests))
        taken[1].append(one.rate(split, connections, requests))
        taken[2].append(two.rate(split, connections, requests))
        taken[3].append(two.rate(alternating, connections, requests))
    return [Samples(tuple(each)) for each in taken]
