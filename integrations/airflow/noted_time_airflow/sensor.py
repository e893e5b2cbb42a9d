"""The sensor, which succeeds when a dataset is complete to a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, get_args

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
from noted_time_airflow.waiting import (
    CHECK_FAILURES,
    Condition,
    Everyone,
    PollResult,
    WhileMissing,
    judge_error,
    poll_once,
    to_datetime,
)

AIRFLOW_VERSION = tuple(map(int, __version__.split(".")[:2]))

DEFERRABLE_BY_DEFAULT = conf.getboolean("operators", "default_deferrable", fallback=False)

END_OF_RUN = "{{ data_interval_end | default(dag_run.run_after) }}"
"""Runs by hand and of partitions have no data interval, but every run has a `run_after`."""

AFTER_TIMEOUT_S = 60  # for the trigger to report a timeout before Airflow does


class NotedTimeSensor(BaseSensorOperator):
    """Waits until all events before `complete_to` are in a dataset.

    The XCom has `complete_to` in Unix ms and, as a `datetime`, `complete_to_time`, and the `cut` of
    a stream or the `version` of a table. Events of assets in the outlets have them as `extra`,
    without the `datetime`.

    Attributes:
        dataset: A stream, ``delta:LOCATION``, ``iceberg:CATALOG.TABLE``, a consumer group as
            ``group:NAME@BROKERS/TOPIC``, or the path of a checkpoint.
        complete_to: An aware `datetime`, its text, or Unix ms. By default the end of the run's data
            interval or, for a run without one, the time after which it may start.
        stream: The stream that a group or checkpoint reads, if it is not the topic's name.
        domain: The time domain, if the stream has several.
        require: The writers that must vouch: ``"all"`` for all expected writers, ``"known"`` for
            all writers that ever joined, or a list.
        missing: What to do if one does not vouch: ``fail`` without a retry, ``wait`` until it does,
            ``warn`` in the log and succeed, or ``accept``.
        kafka_conn_id: A connection whose extra has settings of librdkafka, for a group.
        partition_key: A partition key for the events of assets (Airflow 3.3).
        deferrable: Whether to wait in the triggerer, by default Airflow's `default_deferrable`.
    """

    template_fields: ClassVar[Sequence[str]] = (
        "dataset",
        "complete_to",
        "stream",
        "domain",
        "require",
        "partition_key",
    )
    ui_color = "#d9ead3"

    def __init__(  # noqa: PLR0913 - one parameter for each setting of a user
        self,
        *,
        dataset: str,
        complete_to: datetime | str | int = END_OF_RUN,
        stream: str = "",
        domain: str | None = None,
        require: list[str] | tuple[str, ...] | Everyone = "all",
        missing: WhileMissing = "fail",
        noted_time_conn_id: str = NotedTimeHook.default_conn_name,
        kafka_conn_id: str | None = None,
        partition_key: str | None = None,
        deferrable: bool = DEFERRABLE_BY_DEFAULT,
        **kwargs: Any,  # noqa: ANN401 - of `BaseSensorOperator`
    ) -> None:
        super().__init__(**kwargs)
        if missing not in get_args(WhileMissing):
            raise ValueError(f"missing={missing!r} is none of {', '.join(get_args(WhileMissing))}")
        if isinstance(require, str) and require not in get_args(Everyone):
            raise ValueError(f'require is "all", "known" or a list of writers: [{require!r}]')
        if partition_key is not None and AIRFLOW_VERSION < (3, 3):
            raise ValueError(
                "partition_key needs Airflow 3.3 or newer: upgrade Airflow, or leave it out"
            )
        self.dataset = dataset
        self.complete_to = complete_to
        self.stream = stream
        self.domain = domain
        self.require = require
        self.missing = missing
        self.noted_time_conn_id = noted_time_conn_id
        self.kafka_conn_id = kafka_conn_id
        self.partition_key = partition_key
        self.deferrable = deferrable

    def execute(self, context: Context) -> Any:  # noqa: ANN401 - as Airflow's
        if not self.deferrable:
            return super().execute(context)
        deadline = time.time() + self.timeout
        if result := self.poke(context):
            return result.xcom_value
        trigger = NotedTimeTrigger(wanted=asdict(self._build_condition()), deadline=deadline)
        longest = timedelta(seconds=self.timeout + AFTER_TIMEOUT_S)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=longest)

    def poke(self, context: Context) -> PokeReturnValue:
        try:
            condition = self._build_condition()
            connections = run(find_connections(condition), NotedTimeHook.get_connection)
            verdict = poll_once(condition, *connections)
        except CHECK_FAILURES as error:
            verdict = judge_error(error)
        return self._conclude(verdict, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:  # noqa: ANN401 - likewise
        return self._conclude(PollResult(**event), context).xcom_value

    def _build_condition(self) -> Condition:
        settings = {field.name: getattr(self, field.name) for field in fields(Condition)}
        if isinstance(self.complete_to, str):
            settings["complete_to"] = parse_time(self.complete_to.strip())
        else:
            settings["complete_to"] = unix_ms_of(self.complete_to, up=True)
        if not isinstance(self.require, str):
            settings["require"] = list(self.require)
        return Condition(**settings)

    def _conclude(self, verdict: PollResult, context: Context) -> PokeReturnValue:
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
        xcom = dict(verdict.found or {})
        for outlet in self.outlets:
            if isinstance(outlet, Asset):
                event = context["outlet_events"][outlet]
                event.extra.update(xcom)
                if self.partition_key:
                    event.add_partitions(self.partition_key)
        xcom["complete_to_time"] = to_datetime(xcom["complete_to"])  # JSON, as `extra`, has none
        return PokeReturnValue(is_done=True, xcom_value=xcom)
