"""A load of HTTP requests at a given pace, however fast the answers come: an open loop.

Each request has a moment at which it is due. One whose connection still waits for an answer is sent
late, and its latency counts from when it was due: a server that stalls is charged for all that
would have come meanwhile.
"""

from __future__ import annotations

import select
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.load import ACCEPTED, Answered, Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST_WAIT_S = 0.01
DRAIN_S = 60.0


@dataclass(slots=True)
class Lane:
    """One connection, and when each request that it has not sent yet was due, in ns."""

    number: int
    connection: Connection
    due: deque[int] = field(default_factory=deque)
    asked_at: int = 0
    """When the request under way was due; 0 where none is."""


class Pace:
    """Requests due evenly, `per_second` of them, over connections in turn."""

    def __init__(self, ports: Sequence[int], per_second: float) -> None:
        """Make a connection to each of the ports, some of which may be the same."""
        self._lanes = [Lane(number, Connection(port)) for number, port in enumerate(ports)]
        self._by_number = {lane.connection.socket.fileno(): lane for lane in self._lanes}
        self._step_ns = 1e9 / per_second
        self._epoll = select.epoll()
        for number in self._by_number:
            self._epoll.register(number, select.EPOLLIN)

    def drive(self, seconds: float, request: Callable[[int], bytes]) -> Answered:
        """Send what is due within so many seconds; `request` makes the next of a connection.

        Raises `TimeoutError` where not all is answered within a minute after that.
        """
        answered, begun = Answered(), time.perf_counter_ns()
        total, made = int(seconds * 1e9 / self._step_ns), 0
        deadline = begun + int((seconds + DRAIN_S) * 1e9)
        while len(answered.latencies) < total:
            now = time.perf_counter_ns()
            if now > deadline:
                raise TimeoutError(f"{total - len(answered.latencies)} requests are not answered")
            while made < total and (due := begun + int(made * self._step_ns)) <= now:
                lane = self._lanes[made % len(self._lanes)]
                lane.due.append(due)
                _send_next(lane, request)
                made += 1
            self._take(answered, request)
        answered.seconds = (time.perf_counter_ns() - begun) / 1e9
        return answered

    def close(self) -> None:
        """Hang up."""
        self._epoll.close()
        for lane in self._lanes:
            lane.connection.close()

    def _take(self, answered: Answered, request: Callable[[int], bytes]) -> None:
        wait_s = min(self._step_ns / 1e9, LONGEST_WAIT_S)
        for descriptor, _ in self._epoll.poll(wait_s):
            lane = self._by_number[descriptor]
            answer = lane.connection.receive()
            if answer is None:
                continue
            answered.latencies.append(time.perf_counter_ns() - lane.asked_at)
            answered.statuses[answer[9:12]] += 1
            answered.accepted += answer.count(ACCEPTED)
            lane.asked_at = 0
            _send_next(lane, request)


def _send_next(lane: Lane, request: Callable[[int], bytes]) -> None:
    if not lane.asked_at and lane.due:
        lane.asked_at = lane.due.popleft()
        lane.connection.socket.sendall(request(lane.number))
