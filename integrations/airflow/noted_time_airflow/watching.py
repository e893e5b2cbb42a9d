"""Looking again until there is a verdict, each sensor over connections of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing

from noted_time import Conflict, NotedTimeError, Unreachable
from noted_time.client import Backoff, delay_s, own_chance, run
from noted_time.client.transport import AsyncTransport, Transport
from noted_time_airflow.waiting import Verdict, Wanted, look_at_table

LONG_POLL_MS = 30_000
"""How long a controller waits with its answer at most."""

NOWHERE = "http://127.0.0.1:7464"
"""What is never asked, where Airflow has no connection."""

PAUSE_S = 0.2
"""Pause between two questions: a controller that stops answers the first at once."""

LookOnce = Callable[[int], Awaitable[Verdict]]
"""One look, for which a controller may wait that many ms; it raises the error of its answers."""

FAILURES = (NotedTimeError, ImportError)


def judged(error: Exception) -> Verdict:
    """Return what an error means: a refusal is final, any other may pass."""
    is_passing = isinstance(error, Unreachable | Conflict)
    return Verdict("waiting" if is_passing else "failed", str(error))


def looked_at_table(wanted: Wanted, address: tuple[str, str | None] | None) -> Verdict:
    """Look once at a table; who is missing is asked of the controller at `address`, if any.

    Raises as `look_at_table`, and the errors of the controller's answers.
    """
    url, token = address or (NOWHERE, None)
    with closing(Transport(url, token=token)) as transport:
        return run(look_at_table(wanted, asks=address is not None), transport.ask)


async def watched(
    look: LookOnce, *, timeout_s: float, pause_s: float, log: Callable[[str], None]
) -> Verdict:
    """Look until it is complete or has failed, for at most `timeout_s`; `log` each reason to wait.

    The controller waits with its answer until a stream is complete. There is a pause of `pause_s`
    between two looks at a table, or at writers that are missing; a controller that is away is asked
    again with backoff.
    """
    failures, wait_ms, reason = 0, 0, "there was no answer"
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                try:
                    found = await look(wait_ms)
                    failures, after_s = 0, PAUSE_S if found.is_early else pause_s
                except FAILURES as error:
                    failures, found, after_s = failures + 1, judged(error), pause_s
                    if isinstance(error, NotedTimeError):
                        after_s = delay_s(Backoff(), failures, error, own_chance())
                if found.status != "waiting":
                    return found
                if found.sentence != reason:
                    reason = found.sentence
                    log(reason)
                wait_ms = LONG_POLL_MS
                await asyncio.sleep(after_s)
    except TimeoutError:
        return Verdict("timed out", f"time is up: {reason}")


@asynccontextmanager
async def connected(url: str, token: str | None) -> AsyncIterator[AsyncTransport]:
    """Give connections to a controller, for one sensor; raises `Rejected` if the URL is not one."""
    transport = AsyncTransport(url, token=token)
    try:
        yield transport
    finally:
        await transport.close()
