"""The trigger of a deferred sensor, which waits in Airflow's triggerer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from noted_time.client import run_async
from noted_time_airflow.hook import NotedTimeHook, find_connections
from noted_time_airflow.waiting import Condition, WaitLog, watch


class NotedTimeTrigger(BaseTrigger):
    """Fires once with a verdict: complete, failed or timed out.

    `wanted` has the fields of a `Condition`. `deadline` is in Unix seconds, for a restart in
    another process.
    """

    def __init__(self, *, wanted: dict[str, Any], deadline: float) -> None:
        super().__init__()
        self.wanted = wanted
        self.deadline = deadline

    def serialize(self) -> tuple[str, dict[str, Any]]:
        name = f"{type(self).__module__}.{type(self).__qualname__}"
        return name, {"wanted": self.wanted, "deadline": self.deadline}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        condition = Condition(**self.wanted)
        timeout_s = self.deadline - time.time()
        connections = await run_async(find_connections(condition), NotedTimeHook.aget_connection)
        wait_log = WaitLog(self.log.info, self.log.warning)
        verdict = await watch(condition, *connections, timeout_s=timeout_s, wait_log=wait_log)
        yield TriggerEvent(asdict(verdict))
