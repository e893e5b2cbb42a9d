"""Polls a stream or a table, once or until there is a verdict, over separate connections."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from typing import Any

from noted_time import Conflict, NotedTimeError, Rejected, Unreachable
from noted_time.client import run, run_async
from noted_time.client.transport import AsyncTransport, Transport
from noted_time.client.waiting import Poll, Sleep, until_complete
from noted_time.extras import require_extra
from noted_time.progress import ReadOffsets
from noted_time_airflow.waiting import Verdict, Wanted, look_at_stream, look_at_table
from reader_client.protocol.completeness import make_performer

Address = tuple[str, str | None]

UNUSED_URL: Address = ("http://127.0.0.1:7464", None)  # for a transport that is never called

CHECK_FAILURES = (NotedTimeError, ImportError)


def judge_error(error: Exception, *, is_late: bool = False) -> Verdict:
    """Return the verdict for an error: a refusal is final, others only if it `is_late`."""
    if not isinstance(error, Unreachable | Conflict):
        return Verdict("failed", str(error))
    if is_late:
        return Verdict("timed out", f"time is up: {error}")
    return Verdict("waiting", str(error))


def make_offsets_reader(
    wanted: Wanted,
    connection: Any,  # noqa: ANN401 - Airflow has two connection classes
) -> Callable[[Mapping[int, int]], ReadOffsets]:
    """Return a function that reads the group's offsets, exact only below a cut."""
    try:
        settings = json.loads(connection.extra or "")
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise Rejected(
            f"Airflow's connection {connection.conn_id!r} has no settings of Kafka's client: write "
            'its extra as {"bootstrap.servers": "kafka:9092"}'
        )
    with require_extra("a consumer group", "kafka"):
        from noted_time.kafka.groups import GroupOffsets  # noqa: PLC0415 - an extra
    return GroupOffsets(settings, wanted.group, wanted.topic or wanted.stream)


def poll_once(wanted: Wanted, address: Address | None, kafka: object = None) -> Verdict:
    """Poll once; a table needs no address."""
    url, token = address or UNUSED_URL
    with closing(Transport(url, token=token)) as transport:
        if wanted.table:
            return run(look_at_table(wanted, asks=address is not None), transport.ask)
        offsets = make_offsets_reader(wanted, kafka) if wanted.group else None
        return run(look_at_stream(wanted), make_performer(transport.ask, offsets))


async def watch(
    wanted: Wanted,
    address: Address | None,
    kafka: object = None,
    *,
    timeout_s: float,
    log: Callable[[str], None],
) -> Verdict:
    """Poll until a verdict or the timeout, and call `log` with each reason to wait."""

    async def perform(step: Poll | Sleep) -> Verdict | None:
        if isinstance(step, Poll):
            return await poll(step.wait_ms)
        if step.is_news:
            log(str(step.why))
        await asyncio.sleep(step.seconds)
        return None

    try:
        async with _polling(wanted, address, kafka) as poll:
            verdict: Verdict = await run_async(until_complete(timeout_s), perform)
            return verdict
    except CHECK_FAILURES as error:
        return judge_error(error, is_late=True)


@asynccontextmanager
async def _polling(
    wanted: Wanted, address: Address | None, kafka: object
) -> AsyncIterator[Callable[[int], Awaitable[Verdict]]]:
    """Yield a function that polls once with a wait in ms; a thread reads tables."""
    url, token = address or UNUSED_URL
    transport = AsyncTransport(url, token=token)
    try:
        if wanted.table:
            yield lambda _: asyncio.to_thread(poll_once, wanted, address)
            return
        perform: Callable[[Any], Awaitable[Any]] = transport.ask
        if wanted.group:
            offsets = await asyncio.to_thread(make_offsets_reader, wanted, kafka)
            perform = make_performer(transport.ask, lambda cut: asyncio.to_thread(offsets, cut))
        yield lambda wait_ms: run_async(look_at_stream(wanted, wait_ms), perform)
    finally:
        await transport.close()
