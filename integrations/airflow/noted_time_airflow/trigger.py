"""The trigger of a sensor that is deferred: it waits in Airflow's triggerer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.triggers.base import BaseTrigger, TriggerEvent

from noted_time import Rejected
from noted_time.client import run_async
from noted_time_airflow.hook import address_of
from noted_time_airflow.waiting import Verdict, Wanted, look_at_stream
from noted_time_airflow.watching import connected, judged, looked_at_table, offsets_of, watched
from reader_client.asking.reached import answering


class NotedTimeTrigger(BaseTrigger):
    """Fires once with a verdict: it is complete, has failed, or the `deadline` is over.

    `wanted` has the fields of a `Wanted`, and `deadline` is in seconds of the Unix clock: the
    trigger may start anew in another process. The token stays in Airflow's connection.
    """

    def __init__(
        self,
        *,
        wanted: dict[str, Any],
        conn_id: str,
        deadline: float,
        poke_interval: float,
        kafka_conn_id: str = "",
    ) -> None:
        super().__init__()
        self.wanted = wanted
        self.conn_id = conn_id
        self.deadline = deadline
        self.poke_interval = poke_interval
        self.kafka_conn_id = kafka_conn_id

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments."""
        given = ("wanted", "conn_id", "deadline", "poke_interval", "kafka_conn_id")
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {each: getattr(self, each) for each in given}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for the verdict."""
        yield TriggerEvent(asdict(await self._verdict()))

    async def _verdict(self) -> Verdict:
        wanted = Wanted(**self.wanted)
        watch = partial(
            watched,
            timeout_s=self.deadline - time.time(),
            pause_s=self.poke_interval,
            log=self.log.info,
        )
        if wanted.table:
            where = None
            with suppress(AirflowNotFoundException):
                where = address_of(await BaseHook.aget_connection(self.conn_id))
            return await watch(lambda _: asyncio.to_thread(looked_at_table, wanted, where))
        address = address_of(await BaseHook.aget_connection(self.conn_id))
        try:
            async with connected(*address) as controller:
                perform: Callable[[Any], Awaitable[Any]] = controller.ask
                if wanted.group:
                    kafka = await BaseHook.aget_connection(self.kafka_conn_id)
                    offsets = await asyncio.to_thread(offsets_of, wanted, kafka)
                    perform = answering(controller.ask, lambda cut: asyncio.to_thread(offsets, cut))
                return await watch(lambda ms: run_async(look_at_stream(wanted, ms), perform))
        except (Rejected, ImportError) as error:  # of the URL or the token, or of Kafka's client
            return judged(error)
