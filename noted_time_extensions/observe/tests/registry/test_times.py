"""Times in records of Avro, JSON Schema and Protobuf, from a broker and a real registry."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from typer.testing import CliRunner

from noted_time import Rejected, Unreachable
from noted_time_cli.app import app
from noted_time_extensions.observe import KafkaFields, registered_time
from noted_time_extensions.observe.tests.registry.flight import Flight
from tools.trials.cluster import free_ports
from tools.trials.kafka import Broker
from tools.trials.ports import LOOPBACK
from tools.trials.served import Served

pytestmark = pytest.mark.acceptance

FLIGHT_CLASS = "noted_time_extensions.observe.tests.registry.flight:Flight"

TEN = datetime(2013, 1, 1, 10, tzinfo=UTC)
TEN_MS = 1_357_034_400_000

AVRO = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}],
}
OBJECT = {"title": "Flight", "type": "object", "properties": {"at": {"type": "string"}}}

Serialize = Callable[[Any, SerializationContext], bytes]


def write_avro(client: SchemaRegistryClient) -> tuple[Serialize, Any]:
    """Return a serializer of Avro, and a flight at ten."""
    return AvroSerializer(client, Schema(json.dumps(AVRO), "AVRO")), {"at": TEN}


def write_json(client: SchemaRegistryClient) -> tuple[Serialize, Any]:
    """Return a serializer of JSON with a schema, and a flight at ten."""
    schema = Schema(json.dumps(OBJECT), "JSON")
    return JSONSerializer(schema, client), {"at": "2013-01-01T11:00:00+01:00"}


def write_protobuf(client: SchemaRegistryClient) -> tuple[Serialize, Any]:
    """Return a serializer of Protobuf, and a flight at ten."""
    flight = Flight()
    flight.at.FromDatetime(TEN)
    return ProtobufSerializer(Flight, client, {"use.deprecated.format": False}), flight


Writing = Callable[[SchemaRegistryClient], tuple[Serialize, Any]]


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    """Return a topic with one partition."""
    name = re.sub(r"\W+", "-", request.node.name)
    broker.create(name, 1)
    return name


def send(broker: Broker, registry: str, topic: str, writing: Writing) -> None:
    """Send a flight at ten."""
    with SchemaRegistryClient({"url": registry}) as client:
        serialize, flight = writing(client)
        value = serialize(flight, SerializationContext(topic, MessageField.VALUE))
    broker.send(topic, [(0, value, 0)])


@pytest.mark.parametrize("writing", [write_avro, write_json, write_protobuf])
def test_time_is_found_by_schema(
    broker: Broker, registry: str, topic: str, writing: Writing
) -> None:
    """A record without a schema is skipped."""
    send(broker, registry, topic, writing)
    broker.send(topic, [(0, b"no", 0), (0, bytes([0, 0, 0, 255, 255]), 0)])
    time = registered_time("at", registry, message=FLIGHT_CLASS)
    look = KafkaFields(broker.config, topic, time, start="earliest")

    assert look().newest == {0: TEN_MS}
    assert look.unusable == 2


def test_absent_registry_skips_no_record(broker: Broker, registry: str, topic: str) -> None:
    send(broker, registry, topic, write_avro)
    away = {"url": f"http://{LOOPBACK}:{free_ports(1)}", "max.retries": 0}
    look = KafkaFields(broker.config, topic, registered_time("at", away), start="earliest")

    with pytest.raises(Unreachable, match=r"the schema registry at http://.* gives no schema"):
        look()
    assert look.unusable == 0


@pytest.mark.parametrize(
    ("field", "writing", "says"),
    [
        ("nope", write_avro, "there is no 'nope' among at"),
        ("at", write_protobuf, "needs --message module:Class"),
    ],
)
def test_record_without_a_time_is_explained(  # noqa: PLR0913 - fixtures and cases
    broker: Broker,
    registry: str,
    topic: str,
    *,
    field: str,
    writing: Writing,
    says: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The warning about the skipped record has the reason."""
    send(broker, registry, topic, writing)
    KafkaFields(broker.config, topic, registered_time(field, registry), start="earliest")()

    assert says in caplog.text


def test_unknown_registry_settings_are_refused() -> None:
    with pytest.raises(Rejected, match="the schema registry: Unrecognized properties: user"):
        registered_time("at", {"url": "http://a", "user": "b"})


def test_a_topic_is_analysed_and_observed_by_its_registry(
    broker: Broker, registry: str, topic: str, served: Served, tmp_path: Path
) -> None:
    """The registry is a URL, or a file with the client's properties."""
    send(broker, registry, topic, write_avro)
    file = tmp_path / "registry.properties"
    file.write_text(f"# Apicurio\nurl = {registry}\n")
    served.make(topic)
    flags = ["--field", "at", "--schema-registry"]
    analyse = ["analyse", "kafka", broker.address, topic, *flags, registry, "--json"]
    observe = ["observe", "kafka", "field", broker.address, topic, *flags, str(file)]
    observe += ["--delay", "1s", "--from", "earliest", "--for", "0s", "--url", served.url]

    analysis = CliRunner().invoke(app, analyse)
    result = CliRunner().invoke(app, observe)

    assert json.loads(analysis.stdout)["first_ms"] == TEN_MS, analysis.stderr
    assert result.exit_code == 0, result.stderr
    assert served.get(f"{topic}/explain")["lower"] == TEN_MS - 1000
