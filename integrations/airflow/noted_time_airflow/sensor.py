"""The sensor: it succeeds when a stream or a table is complete to a time."""

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

AFTER_TIMEOUT_S = 60
"""How much longer Airflow waits for the trigger, which says itself why time is up."""


class ConsumerGroup(NamedTuple):
    """A consumer group that reads a `topic`: by default of the stream's name.

    `kafka_conn_id` is a connection of Airflow with the settings of librdkafka.
    """

    name: str
    topic: str = ""
    kafka_conn_id: str = "kafka_default"


class NotedTimeSensor(BaseSensorOperator):
    """Waits until everything with a time before `complete_to` is written.

    Name a `stream`, with a `domain` if it has several, or a `table`: ``delta:LOCATION`` or
    ``iceberg:CATALOG.TABLE``, judged by the claims in its commits. `complete_to` is an aware
    `datetime`, its text, or Unix ms.

    With a `group`, the offsets that this consumer group committed have to reach the time, too. Give
    its name, or a `ConsumerGroup` if its topic or its connection is not the default.

    A stream can be complete although the watermark went on without some writers. `require` names
    the writers that have to vouch for the time: ``"all"`` that the stream expects (the default; it
    fails at once for a stream that expects none), ``"known"`` for all that ever joined, or a list.
    `missing` says what to do if one does not: ``fail`` the task without a retry, ``wait`` until it
    does, ``warn`` in the log and succeed, or ``accept`` it. Where the claims of a table do not say
    who vouches, the controller of the connection is asked; without one, ``fail`` fails. A refusal
    of the controller fails without a retry, too; a controller that is away is asked again until the
    `timeout`.

    Where it says how far to read is its XCom: the `cut` of a stream, or the `version` of a table.
    The events of assets among its outlets have the same as `extra`, and the `partition_key` if one
    is given (Airflow 3.3): these start DAGs only that are scheduled by partitions.

    `deferrable` (default: the option `default_deferrable` of Airflow's section `operators`) waits
    in the triggerer, and takes no slot of a worker.
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

    def __init__(  # noqa: PLR0913 - what a user may say of it
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
        **kwargs: Any,  # noqa: ANN401 - those of any sensor
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
                "partition_key takes Airflow 3.3 or newer: upgrade it, or leave it out"
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
        """Wait in the triggerer if it is deferrable, unless it is complete already."""
        if not self.deferrable:
            return super().execute(context)
        deadline = time.time() + self.timeout
        if found := self.poke(context):
            return found.xcom_value
        trigger = NotedTimeTrigger(wanted=asdict(self._build_wanted()), deadline=deadline)
        longest = timedelta(seconds=self.timeout + AFTER_TIMEOUT_S)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=longest)

    def poke(self, context: Context) -> PokeReturnValue:
        """Poll once."""
        try:
            wanted = self._build_wanted()
            found = run(find_connections(wanted), NotedTimeHook.get_connection)
            verdict = poll_once(wanted, *found)
        except CHECK_FAILURES as error:
            verdict = judge_error(error)
        return self._conclude(verdict, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:  # noqa: ANN401 - likewise
        """Go on after the trigger, with its verdict."""
        return self._conclude(Verdict(**event), context).xcom_value

    def _build_wanted(self) -> Wanted:
        """Return the condition, once templates are rendered; raises `Rejected` for its time."""
        given, require, group = self.complete_to, self.require, self.group
        return Wanted(
            parse_time(given.strip()) if isinstance(given, str) else unix_ms_of(given, up=True),
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
        """Log it, and return whether it is complete; raises if it never will be."""
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
