"""What loads of single notes took on a server, and the figures of that against the bare server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Samples, Target
from benchmarks.load import Answered, drive

if TYPE_CHECKING:
    from benchmarks.processes import Server

BARE = "bare uvicorn app, 204"


@dataclass(slots=True)
class Taken:
    """The samples of one server."""

    rates: list[float] = field(default_factory=list)
    p50s: list[float] = field(default_factory=list)
    p99s: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def load(self, server: Server, scripts: list[list[bytes]]) -> Answered:
        """Drive the server through the scripts and keep what that took."""
        before = server.cpu_seconds()
        answered = drive(server.port, scripts)
        self.cpu_us.append((server.cpu_seconds() - before) / len(answered.latencies) * 1e6)
        self.rates.append(answered.per_second)
        self.p50s.append(answered.percentile_ms(50))
        self.p99s.append(answered.percentile_ms(99))
        return answered


@dataclass(frozen=True, slots=True)
class Aim:
    """What a load is, and what it has to reach: a ratio of rates and a p99 in ms."""

    connections: int
    rate: float
    slowest_ms: float | None = None
    where: str = ""

    @property
    def name(self) -> str:
        """How its figures are called."""
        where = f", {self.where}" if self.where else ""
        return f"durable single notes, {self.connections} connections{where}"


def figures(aim: Aim, ours: Taken, bare: Taken, remark: str) -> list[Figure]:
    """Return the rate, the latencies and the CPU time of a load beside the bare server's."""
    rate = Target("ratio", "at least", aim.rate)
    slowest = aim.slowest_ms and Target("value", "at most", aim.slowest_ms)
    return [
        _figure(aim.name, "/s", ours.rates, bare.rates, rate, remark),
        _figure("their latency, p99", "ms", ours.p99s, bare.p99s, slowest or None),
        _figure("their latency, p50", "ms", ours.p50s, bare.p50s),
        _figure("their CPU time on the server, all threads", "µs", ours.cpu_us, bare.cpu_us),
    ]


def _figure(  # noqa: PLR0913, PLR0917 - one parameter for each column
    name: str,
    unit: str,
    ours: list[float],
    bare: list[float],
    target: Target | None = None,
    remark: str = "",
) -> Figure:
    return Figure(name, unit, Samples(tuple(ours)), Samples(tuple(bare)), BARE, target, remark)
