"""What observers of a real topic do while the controller is away, or refuses their token."""

import logging

import pytest

from demo.trials.kafka import Broker
from noted_time import NotAllowed
from tests.support.controllers import GivenTime
from tests.support.gates import Guarded
from tests.support.kafka_judge import judged
from tests.support.served import Served
from writer_client import EventTimeNoter, IngestionNoter, KafkaEnds, KafkaTimes, WriterClient
from writer_client.observer import Observer

pytestmark = pytest.mark.acceptance

MINUTE, HOUR = 60_000, 3_600_000
NOON = GivenTime().wall


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was said to the operator."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_controller_that_is_away_for_an_hour_misses_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is said once to each observer, none is excluded, and all is noted when it is back."""
    topic, time = "controller_away", GivenTime()
    broker.create(topic, 2)
    with Served(clocks=time.clocks()) as served:
        served.create(topic, domains=["default", "ingestion"], writer_timeout_ms=MINUTE)
        with (
            WriterClient(served.url, topic, "times", domains=["default"]) as by_times,
            WriterClient(served.url, topic, "ends", domains=["ingestion"]) as by_ends,
        ):
            observers: list[Observer] = [
                EventTimeNoter(by_times, KafkaTimes(broker.config, topic), delay_ms=5000),
                IngestionNoter(by_ends, KafkaEnds(broker.config, topic), clock=lambda: time.wall),
            ]
            for minute in range(60):
                now = NOON + minute * MINUTE
                broker.send(topic, [(0, "a", now), (1, "b", now - 4000)])
                for each in observers:
                    each._try_to_look()
                if minute == 2:
                    by_times.flush()
                    by_ends.flush()
                    served.stop()
                time.passes(MINUTE)
            served.start()
            lowers = by_times.flush(60).lower, by_ends.flush(60).lower
        verdict = judged(broker, topic, controller=served)
        marks = served.get(f"{topic}/marks", domain="ingestion")["marks"]

    assert lowers == (NOON + 59 * MINUTE - 9000, NOON + 59 * MINUTE)
    assert (verdict.records, verdict.violations) == (120, ())
    assert marks[-1]["cut"] == {"0": 60, "1": 60}
    assert not any(mark["excluded"] for mark in marks)
    said = warnings(caplog)
    for writer in ("times", "ends"):
        about = [each for each in said if f"writer '{writer}'" in each]
        assert ["no response" in each for each in about] == [True, False], about
        assert "responds again" in about[1]


def test_a_token_that_expires_is_said_once_and_the_observer_resumes(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """What it notes meanwhile is kept, and its last note covers it."""
    topic, guarded, now = "token_expires", Guarded(), [1000]
    broker.create(topic, 1)
    admin = guarded.token("admin")
    token = guarded.token("write", streams=[topic], writers=["observer"], lifetime_ms=HOUR)
    with Served(gate=guarded.gate) as served:
        served.token = admin
        served.create(topic)
        with WriterClient(served.url, topic, "observer", token=token) as client:
            ends = KafkaEnds(broker.config, topic)
            noter = IngestionNoter(client, ends, domain="default", clock=lambda: now[0])

            def look() -> None:
                now[0] += 1000
                broker.send(topic, [(0, "a", 500)])
                noter._try_to_look()

            look()
            client.flush()
            guarded.now += 2 * HOUR
            for _ in range(3):
                look()
                with pytest.raises(NotAllowed, match="expired"):
                    client.flush()
            guarded.now -= 2 * HOUR
            look()
            flushed = client.flush()
        cut = served.get(f"{topic}/marks")["marks"][-1]["cut"]

    assert (flushed.lower, cut) == (6000, {"0": 5})
    refused, answered = warnings(caplog)
    assert "401 Unauthenticated: missing, expired or revoked token" in refused
    assert "responds again" in answered
