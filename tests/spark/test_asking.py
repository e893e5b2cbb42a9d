"""Errors in the call of a reader, which need neither a query nor Java."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest.mock import ANY, MagicMock, call

import pytest
from pyspark.sql import SparkSession

from noted_time import AnotherLog, BacklogPolicy, Rejected, kafka
from noted_time.kafka import TopicLook
from spark_integration import (
    BatchRead,
    CatchUp,
    Ingestion,
    KafkaRecords,
    Noted,
    WatermarkPolicy,
    read_complete_kafka,
    read_noted_kafka,
    read_relayed_kafka,
    with_noted_watermark,
)
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks.feed import ControllerFeed
from spark_integration.marks.released import Released
from spark_integration.marks_source.query import MarksQuery
from spark_integration.marks_source.read import read_marks
from spark_integration.session.settings import build_source_name
from spark_integration.session.sources import build_options
from tools.trials.served import Served

NOON = datetime(2013, 1, 1, 12, tzinfo=UTC)

WITHOUT_JAVA = SparkSession.__new__(SparkSession)
"""A session that can do nothing."""


@pytest.mark.parametrize(
    ("option", "values", "sentence"),
    [
        (WatermarkPolicy, {"on_seal": "stop"}, "on_seal must be 'close' or 'hold'"),
        (BatchRead, {"missing": "wran"}, "missing must be 'warn' or 'fail' or 'accept'"),
        (BatchRead, {"deleted": "warn"}, "deleted must be 'fail' or 'accept'"),
        (CatchUp, {"policy": BacklogPolicy(), "max_rows_per_trigger": 0}, "must be 1 or more"),
        (Ingestion, {"max_event_time_lag_ms": -1}, "must be 0 or more, not -1"),
    ],
)
def test_option_refuses_unknown_values(
    option: Any,  # noqa: ANN401 - any class
    values: dict[str, Any],
    sentence: str,
) -> None:
    """The error comes when the option is created, and names the value."""
    with pytest.raises(Rejected, match=sentence):
        option(**values)


NO_EVENTS: Any = None
SEEN = KafkaRecords("seen", "127.0.0.1:9")


def start_noted(url: str, **options: Any) -> object:  # noqa: ANN401 - any option
    return read_noted_kafka(WITHOUT_JAVA, SEEN, Noted(controller=url), **options)


def start_relayed(url: str, **options: Any) -> object:  # noqa: ANN401 - any option
    return read_relayed_kafka(WITHOUT_JAVA, SEEN, Noted(controller=url), **options)


def start_any_source(url: str, **options: Any) -> object:  # noqa: ANN401 - any option
    noted = Noted("seen", controller=url)
    return with_noted_watermark(NO_EVENTS, noted=noted, checkpoint_location="c", **options)


def read_window(url: str, **options: Any) -> object:  # noqa: ANN401 - any option
    return read_complete_kafka(WITHOUT_JAVA, SEEN, Noted(controller=url), 0, 1, **options)


ALL: dict[str, Callable[..., object]] = {
    "read_noted_kafka": start_noted,
    "read_relayed_kafka": start_relayed,
    "with_noted_watermark": start_any_source,
    "read_complete_kafka": read_window,
}
"""All that promises something of a column by the marks of a domain."""


@pytest.mark.parametrize("call", ALL)
def test_marks_of_ingestion_are_refused_for_event_times(call: str) -> None:
    """Rows with older event times may come after the mark's cut."""
    with pytest.raises(Rejected, match=r"ingestion say .* promise nothing of event times"):
        ALL[call]("http://127.0.0.1:9", domain="ingestion", event_time="departure")


def test_marks_of_another_topic_are_refused_for_any_source(
    controller: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call polls the topic with its own client, before it uses the events."""
    controller.stream("seen")
    note = {"writer": "w", "time": 1, "position": {"0": 1}, "log": "theirs"}
    controller.post("seen", note)
    calls = []

    def topic(*arguments: object) -> SimpleNamespace:
        calls.append(arguments)
        return SimpleNamespace(look=lambda: TopicLook("ours", {0: 1}))

    monkeypatch.setattr(kafka, "Topic", topic)
    client = {"bootstrap.servers": "127.0.0.1:9"}
    with pytest.raises(AnotherLog, match=r"^stream 'seen' belongs to .*: .*theirs.*is log ours"):
        ALL["with_noted_watermark"](
            controller.url, event_time="time", position=KafkaTopic("flights", client=client)
        )

    assert calls == [(client, "flights")]


def test_marks_source_is_named_where_sources_need_names() -> None:
    """Its options contain the secrets separately."""
    spark = MagicMock(spec=SparkSession, version="4.3.0")
    spark.conf.get.return_value = "true"
    query = MarksQuery({"b": KafkaTopic("b"), "a": KafkaTopic("a")}, "", "place", domain="ship")
    read_marks(spark, query, "t", {"sasl.password": "s"})

    reader_calls = call.name(build_source_name("marks", ["a", "b"], "ship")).format("noted_marks")
    reader_calls = reader_calls.options(**build_options(query), token="t", client_secret=ANY)  # noqa: S106
    assert spark.readStream.mock_calls == reader_calls.load().call_list()


def begin_feed(url: str) -> None:
    """Ask for marks as a Connect server does once the query starts."""
    ControllerFeed(url, "seen", None).begin(Released())


def test_unnamed_marks_of_ingestion_are_refused(served: Served) -> None:
    """Without a name, the call means the only domain of a stream."""
    served.create("seen", domains=["ingestion"])
    served.note("seen", 10, {"0": 1}, domain="ingestion")
    with pytest.raises(Rejected, match="promise nothing of event times"):
        begin_feed(served.url)
