"""The condition of a sensor, and the polls of its dataset, without Airflow."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any, Literal

from noted_time import Conflict, NotedTimeError, Rejected, Unreachable
from noted_time.client import Json, position_to_wire, run, run_async
from noted_time.client.problems import AUTHENTICATION_REMEDY
from noted_time.client.transport import AsyncTransport, Transport
from noted_time.client.waiting import (
    PAUSE_S,
    NothingKnown,
    NotYet,
    Sleep,
    build_performer,
    until_complete,
)
from noted_time.lineage import Dataset
from noted_time.values.times import EPOCH, UNIX_MS
from noted_time.verdict import Completeness, Requirement, apply_policy, describe_objections
from reader_client.protocol.datasets import OpenDataset, open_dataset

Address = tuple[str, str | None]
WhileMissing = Literal["fail", "wait", "warn", "accept"]
Everyone = Literal["all", "known"]
Status = Literal["complete", "failed", "waiting", "timed out"]

UNUSED_URL: Address = ("http://127.0.0.1:7464", None)  # for a transport that is never called

WITHOUT_EFFECT = {
    "stream": ("stream", "kafka_conn_id"),
    "table": ("domain", "stream", "kafka_conn_id"),
    "checkpoint": ("kafka_conn_id",),
}

CHECK_FAILURES = (NotedTimeError, ImportError)

CONNECTION_REMEDY = (
    "; set the password of Airflow's connection (noted_time_conn_id) to a token with the scope read"
)

WARNING_INTERVAL_S = 60.0
"""How often an outage is logged again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """The condition of a sensor, which can be passed to another process."""

    dataset: str
    complete_to: int
    stream: str = ""
    domain: str | None = None
    require: list[str] | Everyone = "all"
    missing: WhileMissing = "fail"
    noted_time_conn_id: str = ""
    kafka_conn_id: str | None = None
    poke_interval: float = 1.0

    @property
    def kind(self) -> str:
        return Dataset(self.dataset).kind

    def build_requirement(self, wait_ms: int) -> Requirement:
        """Return the question, without writers if missing ones are accepted."""
        writers: dict[str, Any] = {}
        if self.missing != "accept":
            if isinstance(self.require, list):
                writers["require"] = self.require
            else:
                writers[f"require_{self.require}"] = True
        return Requirement(to=self.complete_to, domain=self.domain, wait_ms=wait_ms, **writers)

    def open(self, address: Address | None, kafka: Any) -> OpenDataset:  # noqa: ANN401 - Airflow has two connection classes
        """Open the dataset. Without an `address`, a table is judged by its claims alone."""
        for name in WITHOUT_EFFECT.get(self.kind, ()):
            if getattr(self, name):
                raise Rejected(f"{name} has no effect on a {self.kind}: leave it out")
        try:
            settings = {} if kafka is None else dict(json.loads(kafka.extra or "{}"))
        except (TypeError, ValueError) as error:
            raise Rejected(
                f"the extra of Airflow's connection {kafka.conn_id!r} is not a JSON object of "
                'settings of librdkafka, such as {"security.protocol": "SSL"}'
            ) from error
        return open_dataset(
            self.dataset,
            stream=self.stream,
            kafka=settings,
            asking="always" if address else "never",
        )


@dataclass(frozen=True, slots=True)
class PollResult:
    """The outcome of a wait; `found` is the XCom."""

    status: Status
    sentence: str
    is_warning: bool = False
    found: Json | None = None


def judge(
    dataset: OpenDataset, condition: Condition, wait_ms: int = 0
) -> Generator[Any, Any, PollResult]:
    """Judge a dataset by the sensor's policy. Raises `NotYet` while it may become complete."""
    full_answer = yield from dataset.judge(condition.build_requirement(wait_ms))
    answer = apply_policy(full_answer, condition.missing, late="warn")
    if condition.missing == "warn" and not full_answer.is_complete:
        # the rows must be there in any case
        accepting = replace(condition, missing="accept")
        answer = yield from dataset.judge(accepting.build_requirement(wait_ms=0))
    if answer.status == "waiting":
        # a controller waits for the marks of a stream, but for nothing else
        is_awaited = condition.kind == "stream" and full_answer.status == "waiting"
        raise NotYet(answer.sentence, PAUSE_S if is_awaited else condition.poke_interval)
    if not answer.is_complete:
        return PollResult("failed", answer.sentence)
    objections = describe_objections(full_answer.lacks)
    sentence = full_answer.sentence  # it names the objections, but for a wait
    if full_answer.status == "waiting":
        sentence = "; ".join([answer.sentence, *objections])
    is_warning = bool(objections) or _has_warning(answer, condition)
    xcom: Json = {"complete_to": condition.complete_to}
    if answer.mark is not None:
        xcom["seq"] = answer.mark.seq
        xcom["cut"] = position_to_wire(answer.mark.cut.offsets)
    if answer.version is not None:
        xcom["version"] = answer.version
    return PollResult("complete", sentence, is_warning, xcom)


def _has_warning(answer: Completeness, condition: Condition) -> bool:
    """Return whether an accepted answer has a lack that the log warns of."""
    warnings = set()
    if condition.kind != "table":  # the sentence names the late rows
        warnings.add("late")
    if condition.missing != "accept":
        warnings |= {"missing", "ledger_too_short"}
    return any(lack.kind in warnings for lack in answer.lacks)


def judge_error(error: Exception, otherwise: Status = "waiting") -> PollResult:
    """Return the verdict for an error: a refusal is final, and an outage is a warning."""
    status = otherwise if isinstance(error, Unreachable | Conflict) else "failed"
    return PollResult(status, describe_error(error), is_warning=isinstance(error, Unreachable))


def to_datetime(time: int) -> datetime | None:
    """Return a time in Unix ms as a `datetime` in UTC, `None` if it cannot be Unix ms.

    >>> str(to_datetime(1357034400000)), to_datetime(42)
    ('2013-01-01 10:00:00+00:00', None)
    """
    if time not in UNIX_MS:
        return None
    return EPOCH + timedelta(milliseconds=time)


def describe_error(error: Exception) -> str:
    """Return the sentence of an error, whose remedy for a rejected token is Airflow's.

    >>> from noted_time import NotAllowed
    >>> describe_error(NotAllowed("401 Unauthorized" + AUTHENTICATION_REMEDY))[:52]
    "401 Unauthorized; set the password of Airflow's conn"
    """
    sentence = str(error)
    without_remedy = sentence.removesuffix(AUTHENTICATION_REMEDY)
    if without_remedy == sentence:
        return sentence
    return without_remedy + CONNECTION_REMEDY


def poll_once(condition: Condition, address: Address | None, kafka: object = None) -> PollResult:
    """Poll once; a table needs no address."""
    url, token = address or UNUSED_URL
    dataset = condition.open(address, kafka)
    with closing(Transport(url, token=token)) as transport:
        return run(judge(dataset, condition), build_performer(transport.ask))


class WaitLog:
    """Logs why a sensor waits: each new reason, and an outage once a minute while it lasts.

    >>> wait_log = WaitLog(log=print, warn=lambda reason: print("warning:", reason))
    >>> outage = Sleep(5.0, Unreachable("no answer"), failures=1, is_news=False)
    >>> for now in (0.0, 5.0, 55.0, 60.0):
    ...     wait_log.record(outage, now)
    warning: no answer
    warning: no answer
    """

    def __init__(self, log: Callable[[str], None], warn: Callable[[str], None]) -> None:
        self._log = log
        self._warn = warn
        self._next_warning_at = float("-inf")

    def record(self, pause: Sleep, now: float) -> None:
        reason = str(pause.why)
        if not isinstance(pause.why, Unreachable):
            if pause.is_news:
                self._log(reason)
            return
        if now >= self._next_warning_at:
            self._next_warning_at = now + WARNING_INTERVAL_S
            self._warn(reason)


async def watch(
    condition: Condition,
    address: Address | None,
    kafka: object = None,
    *,
    timeout_s: float,
    wait_log: WaitLog,
) -> PollResult:
    """Poll until a verdict or the timeout."""
    url, token = address or UNUSED_URL
    transport = AsyncTransport(url, token=token)

    def poll(wait_ms: int) -> Generator[Any, Any, PollResult]:
        """Yield questions, and functions for a thread, as reading a table takes long."""
        try:
            if condition.kind == "table":
                result: PollResult = yield partial(poll_once, condition, address)
                return result
            dataset: OpenDataset = yield partial(condition.open, address, kafka)
            return (yield from judge(dataset, condition, wait_ms))
        except NothingKnown as error:
            raise NotYet(str(error), condition.poke_interval) from error

    async def perform(step: Any) -> Any:  # noqa: ANN401 - of each step
        if isinstance(step, Sleep):
            wait_log.record(step, monotonic())
            return await asyncio.sleep(step.seconds)
        if isinstance(step, partial):
            return await asyncio.to_thread(step)
        return await transport.ask(step)

    verdict: PollResult
    try:
        verdict = await run_async(until_complete(poll, timeout_s), perform)
    except CHECK_FAILURES as error:
        verdict = judge_error(error, "timed out")
    finally:
        await transport.close()
    return verdict
