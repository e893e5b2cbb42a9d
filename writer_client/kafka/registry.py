"""Finds times in records of a schema registry, in Confluent's wire format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any
from weakref import finalize

import httpx2
from confluent_kafka import Message
from confluent_kafka.schema_registry import SchemaRegistryClient, dual_schema_id_deserializer
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

from noted_time.extras import load_function
from noted_time.values import Rejected, Unreachable
from writer_client.kafka.event_times import TimeOf, get_values

NOT_FOUND_STATUS = 404  # only this record is unusable

Deserialize = Callable[[bytes, SerializationContext], Any]


def registered_time(
    field: str, registry: str | Mapping[str, Any], *, message: str | None = None
) -> TimeOf:
    """Return a function for `KafkaFields` that finds the time in records with a registered schema.

    * `field` is a name or a path, such as ``"departure"`` or ``"flight.departure"``. Its values are
      numbers, ISO 8601, Avro's timestamps, or Protobuf's `Timestamp`, or arrays of these.
    * `registry` is a URL, or the settings of confluent-kafka's `SchemaRegistryClient`.
    * `message` is the class of Protobuf messages, ``"module:Class"``.

    The returned function raises `Rejected` for a record without such a time, and `Unreachable`
    without the registry's answer; the record is then read again.
    """
    records = _RecordDecoder(registry, message)
    names = field.split(".")

    def get_time(record: Message) -> Any:  # noqa: ANN401 - whatever a schema describes
        return [_convert_value(each) for each in get_values(records.decode(record), names)]

    finalize(get_time, records.close)
    return get_time


class _RecordDecoder:
    def __init__(self, registry: str | Mapping[str, Any], message: str | None) -> None:
        settings = {"url": registry} if isinstance(registry, str) else dict(registry)
        self._url = settings.get("url")
        try:
            client = self._client = SchemaRegistryClient(settings)
        except (TypeError, ValueError) as error:
            raise Rejected(f"the schema registry: {error}") from error
        self._by_type: dict[str, Deserialize] = {
            "AVRO": AvroDeserializer(client),
            "JSON": JSONDeserializer(None, schema_registry_client=client),
        }
        if message is not None:
            kind, plain = load_function(message), {"use.deprecated.format": False}
            self._by_type["PROTOBUF"] = ProtobufDeserializer(kind, plain, client)

    def decode(self, record: Message) -> Any:  # noqa: ANN401 - whatever a schema describes
        value, topic = record.value() or b"", record.topic() or ""
        context = SerializationContext(topic, MessageField.VALUE, record.headers())
        try:
            return self._find_deserializer(value, context)(value, context)
        except (Rejected, SerializationError):
            raise
        except SchemaRegistryError as error:
            if error.http_status_code == NOT_FOUND_STATUS:
                raise Rejected(f"the schema registry does not know the schema: {error}") from error
            raise self._build_unreachable(error) from error
        except (httpx2.TransportError, OSError) as error:
            raise self._build_unreachable(error) from error

    def close(self) -> None:
        self._client.close()

    def _find_deserializer(self, value: bytes, context: SerializationContext) -> Deserialize:
        schema_id = SchemaId("")
        dual_schema_id_deserializer(value, context, schema_id)
        if schema_id.guid is not None:
            schema = self._client.get_schema_by_guid(str(schema_id.guid))
        else:
            schema = self._client.get_schema(schema_id.id or 0)
        kind = schema.schema_type or "AVRO"
        if kind not in self._by_type:
            raise Rejected(f"the value is {kind}, which needs --message module:Class")
        return self._by_type[kind]

    def _build_unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"the schema registry at {self._url} does not answer: {error}")


def _convert_value(value: Any) -> Any:  # noqa: ANN401 - whatever a schema describes
    return value.ToDatetime(tzinfo=UTC) if hasattr(value, "ToDatetime") else value
