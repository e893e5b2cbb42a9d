"""Observers of open transactions, on a real broker."""

import pytest

from tests.kafka.conftest import Flights
from tests.support.hidden_records import (
    NINE,
    check_hidden_record,
    check_open_transaction,
    observe_hidden_record,
)
from writer_client import KafkaEnds, KafkaTimes

pytestmark = pytest.mark.acceptance

STREAM = {"max_time_ahead_ms": None}


def test_partition_with_an_open_transaction_is_not_idle(flights: Flights) -> None:
    """No lower passes its hidden record, and `explain` names the transaction."""
    record = observe_hidden_record(flights, KafkaTimes(*flights.place, clock=lambda: NINE))

    check_hidden_record(flights, record)


def test_every_observer_names_an_open_transaction(flights: Flights) -> None:
    flights.broker.create(flights.topic, 1, {"message.timestamp.type": "LogAppendTime"})

    check_open_transaction(flights, [KafkaEnds(*flights.place), KafkaTimes(*flights.place)])
