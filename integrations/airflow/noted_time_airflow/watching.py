"""Looking again until there is a verdict, each sensor over connections of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any

from noted_time import Conflict, NotedTimeError, Rejected, Unreachable
from noted_time.client import run, run_async
from noted_time.client.transport import AsyncTransport, Transport
from noted_time.client.waiting import PAUSE_S, NotYet, Poll, Sleep, until_complete
from noted_time.extras import needs_extra
from noted_time.progress import ReadOffsets
from noted_time_airflow.waiting import Verdict, Wanted, look_at_table

NOWHERE = "http://127.0.0.1:7464"
"""What is never asked, where Airflow has no connection."""

LookOnce = Callable[[int], Awaitable[Verdict]]
"""One look, for which a controller may wait that many ms; it raises the error of its answers."""

FAILURES = (NotedTimeError, ImportError)


def judged(error: Exception) -> Verdict:
    """Return what an error means: a refusal is final, any other may pass."""
    is_passing = isinstance(error, Unreachable | Conflict)
    return Verdict("waiting" if is_passing else "failed", str(error))


def offsets_of(
    wanted: Wanted,
    connection: Any,  # noqa: ANN401 - Airflow has two of them
) -> Callable[[Mapping[int, int]], ReadOffsets]:
    """Return what asks how far the group has read, exact only below a cut.

    The connection is one of Airflow's type `kafka`, with settings of librdkafka as its extra.
    Raises `Rejected` if it has none, as `GroupOffsets`, and `ImportError` without Kafka's client.
    """
    try:
        settings = json.loads(connection.extra or "")
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise Rejected(
            f"Airflow's connection {connection.conn_id!r} has no settings of Kafka's client: write "
            'its extra as {"bootstrap.servers": "kafka:9092"}'
        )
    try:
        from noted_time.kafka.groups import GroupOffsets  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise needs_extra("a consumer group", "kafka", error) from None
    return GroupOffsets(settings, wanted.group, wanted.topic or wanted.stream)


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

    There is a pause of `pause_s` between two looks at a table, or at writers that are missing.
    """

    async def perform(step: Poll | Sleep) -> Verdict | None:
        if isinstance(step, Sleep):
            if step.is_news:
                log(str(step.why))
            await asyncio.sleep(step.seconds)
            return None
        found = await look(step.wait_ms)
        if found.status == "waiting":
            raise NotYet(found.sentence, PAUSE_S if found.is_early else pause_s)
        return found

    try:
        found: Verdict = await run_async(until_complete(timeout_s), perform)
    except FAILURES as error:
        verdict = judged(error)
        is_late = verdict.status == "waiting"
        return Verdict("timed out", f"time is up: {error}") if is_late else verdict
    return found


@asynccontextmanager
async def connected(url: str, token: str | None) -> AsyncIterator[AsyncTransport]:
    """Give connections to a controller, for one sensor; raises `Rejected` if the URL is not one."""
    transport = AsyncTransport(url, token=token)
    try:
        yield transport
    finally:
        await transport.close()
