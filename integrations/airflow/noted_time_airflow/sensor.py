"""The sensor, which succeeds when a stream or a table is complete to a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, get_args

from airflow import __version__
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSensorTimeout,
    AirflowSkipException,
    Asset,
    BaseSensorOperator,
    Context,
    PokeReturnValue,
    conf,
)

from noted_time.client import run
from noted_time.values import parse_time, unix_ms_of
from noted_time_airflow.hook import NotedTimeHook, find_connections
from noted_time_airflow.trigger import NotedTimeTrigger
from noted_time_airflow.waiting import Everyone, Verdict, Wanted, WhileMissing
from noted_time_airflow.watching import CHECK_FAILURES, judge_error, poll_once

AIRFLOW_VERSION = tuple(map(int, __version__.split(".")[:2]))

AFTER_TIMEOUT_S = 60  # for the trigger to report a timeout before Airflow does


class ConsumerGroup(NamedTuple):
    """A consumer group of a `topic`, by default the stream's name.

    `kafka_conn_id` is an Airflow connection with the settings of librdkafka.
    """

    name: str
    topic: str = ""
    kafka_conn_id: str = "kafka_default"


class NotedTimeSensor(BaseSensorOperator):
    """Waits until all events before `complete_to` are written.

    If the controller refuses, the task fails without a retry; without an answer, the sensor retries
    until its `timeout`. The XCom has the `cut` of the stream, or the `version` of the table, and
    events of assets in the outlets have it as `extra`.

    Attributes:
        stream: The name of the stream. Give either a stream or a table.
        table: ``delta:LOCATION`` or ``iceberg:CATALOG.TABLE``, judged by the claims in its commits.
        complete_to: An aware `datetime`, its text, or Unix ms.
        domain: The time domain, if the stream has several.
        require: The writers that must vouch for the time: ``"all"`` for all writers that the stream
            expects, ``"known"`` for all writers that ever joined, or a list. If the stream expects
            no writers, ``"all"`` fails at once.
        missing: What to do if a required writer does not vouch: ``fail`` without a retry, ``wait``
            until the writer vouches, ``warn`` in the log and succeed, or ``accept``.
        group: A consumer group whose committed offsets must reach the time, too. Give its name, or
            a `ConsumerGroup` if its topic or connection is not the default.
        partition_key: A partition key for the events of assets (Airflow 3.3).
        deferrable: Whether to wait in the triggerer, which takes no worker slot. The default is
            Airflow's option `default_deferrable`.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "stream",
        "table",
        "complete_to",
        "domain",
        "require",
        "group",
        "partition_key",
    )
    ui_color = "#d9ead3"

    def __init__(  # noqa: PLR0913 - one parameter for each setting of a user
        self,
        *,
        stream: str | None = None,
        table: str | None = None,
        complete_to: datetime | str | int = "{{ data_interval_end }}",
        domain: str | None = None,
        require: list[str] | tuple[str, ...] | Everyone = "all",
        missing: WhileMissing = "fail",
        noted_time_conn_id: str = NotedTimeHook.default_conn_name,
        group: ConsumerGroup | str | None = None,
        partition_key: str | None = None,
        deferrable: bool | None = None,
        **kwargs: Any,  # noqa: ANN401 - of `BaseSensorOperator`
    ) -> None:
        super().__init__(**kwargs)
        if (stream is None) == (table is None):
            raise ValueError("name a stream, or a table: delta:LOCATION or iceberg:CATALOG.TABLE")
        if table is not None and (domain is not None or group is not None):
            raise ValueError("a table has no domain and no consumer group: leave them out")
        if missing not in get_args(WhileMissing):
            raise ValueError(f"missing={missing!r} is none of {', '.join(get_args(WhileMissing))}")
        if isinstance(require, str) and require not in get_args(Everyone):
            raise ValueError(f'require is "all", "known" or a list of writers: [{require!r}]')
        if partition_key is not None and AIRFLOW_VERSION < (3, 3):
            raise ValueError(
                "partition_key needs Airflow 3.3 or newer: upgrade Airflow, or leave it out"
            )
        self.stream = stream
        self.table = table
        self.complete_to = complete_to
        self.domain = domain
        self.require = require
        self.missing = missing
        self.noted_time_conn_id = noted_time_conn_id
        self.group = group
        self.partition_key = partition_key
        by_default = conf.getboolean("operators", "default_deferrable", fallback=False)
        self.deferrable = by_default if deferrable is None else deferrable

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - as Airflow's
        if not self.deferrable:
            return super().execute(context)
        deadline = time.time() + self.timeout
        if result := self.poke(context):
            return result.xcom_value
        trigger = NotedTimeTrigger(wanted=asdict(self._build_wanted()), deadline=deadline)
        longest = timedelta(seconds=self.timeout + AFTER_TIMEOUT_S)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=longest)

    def poke(self, context: Context) -> PokeReturnValue:
        try:
            wanted = self._build_wanted()
            connections = run(find_connections(wanted), NotedTimeHook.get_connection)
            verdict = poll_once(wanted, *connections)
        except CHECK_FAILURES as error:
            verdict = judge_error(error)
        return self._conclude(verdict, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:  # noqa: ANN401 - likewise
        return self._conclude(Verdict(**event), context).xcom_value

    def _build_wanted(self) -> Wanted:
        time, require, group = self.complete_to, self.require, self.group
        return Wanted(
            parse_time(time.strip()) if isinstance(time, str) else unix_ms_of(time, up=True),
            self.stream or "",
            self.table or "",
            self.domain,
            require if isinstance(require, str) else list(require),
            self.missing,
            self.noted_time_conn_id,
            self.poke_interval,
            *(group if isinstance(group, ConsumerGroup) else ConsumerGroup(group or "")),
        )

    def _conclude(self, verdict: Verdict, context: Context) -> PokeReturnValue:
        if verdict.status in {"failed", "timed out"}:
            if self.soft_fail or self.never_fail:
                raise AirflowSkipException(verdict.sentence)
            if verdict.status == "failed":
                raise AirflowFailException(verdict.sentence)
            raise AirflowSensorTimeout(verdict.sentence)
        say = self.log.warning if verdict.is_warning else self.log.info
        say("%s", verdict.sentence)
        if verdict.status != "complete":
            return PokeReturnValue(is_done=False)
        for each in self.outlets:
            if isinstance(each, Asset):
                event = context["outlet_events"][each]
                event.extra.update(verdict.found or {})
                if self.partition_key:
                    event.add_partitions(self.partition_key)
        return PokeReturnValue(is_done=True, xcom_value=verdict.found)
