"""Observers of a real topic while the controller is away."""

import logging

import pytest

from tests.support.controllers import GivenTime
from tests.support.kafka_judge import judge_marks
from tools.trials.kafka import Broker
from tools.trials.served import Served
from writer_client import EventTimeNoter, IngestionNoter, KafkaEnds, KafkaTimes, WriterClient
from writer_client.observer import Observer

pytestmark = pytest.mark.acceptance

MINUTE = 60_000
NOON = GivenTime().wall


def test_hour_without_controller_loses_no_time(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Each observer logs the outage once; none is excluded, and all is noted afterwards."""
    topic = "controller_away"
    time = GivenTime()
    broker.create(topic, 2)
    with Served(clocks=time.clocks()) as server:
        server.create(topic, domains=["default", "ingestion"], writer_timeout_ms=MINUTE)
        with (
            WriterClient(topic, "times", controller=server.url, domains=["default"]) as by_times,
            WriterClient(topic, "ends", controller=server.url, domains=["ingestion"]) as by_ends,
        ):
            observers: list[Observer] = [
                EventTimeNoter(by_times, KafkaTimes(broker.config, topic), delay_ms=5000),
                IngestionNoter(by_ends, KafkaEnds(broker.config, topic), clock=lambda: time.wall),
            ]
            for minute in range(60):
                now = NOON + minute * MINUTE
                broker.send(topic, [(0, "a", now), (1, "b", now - 4000)])
                for observer in observers:
                    observer._try_to_look()
                if minute == 2:
                    by_times.flush()
                    by_ends.flush()
                    server.stop()
                time.passes(MINUTE)
            server.start()
            lowers = by_times.flush(60).lower, by_ends.flush(60).lower
        verdict = judge_marks(broker, topic, controller=server)
        marks = server.get(f"{topic}/marks", domain="ingestion")["marks"]

    assert lowers == (NOON + 59 * MINUTE - 9000, NOON + 59 * MINUTE)
    assert (verdict.records, verdict.violations) == (120, ())
    assert marks[-1]["cut"] == {"0": 60, "1": 60}
    assert not any(mark["excluded"] for mark in marks)
    warnings = [
        record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING
    ]
    for writer in ("times", "ends"):
        about = [message for message in warnings if f"writer '{writer}'" in message]
        assert ["no response" in message for message in about] == [True, False], about
        assert "responds again" in about[1]
