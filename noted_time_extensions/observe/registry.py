"""Finds times in records of a schema registry, in Confluent's wire format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from functools import lru_cache, partial
from math import inf
from typing import Any
from weakref import finalize

import httpx2
from confluent_kafka import Message
from confluent_kafka.schema_registry import (
    Schema,
    SchemaRegistryClient,
    dual_schema_id_deserializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext

from noted_time.extending import (
    NotedTimeError,
    NotObservable,
    Rejected,
    Unreachable,
    call_in_thread,
    load_function,
)
from noted_time_extensions.observe.event_times import TimeOf, get_values

NOT_FOUND_CODES = (40401, 40403)
"""Of the registry itself. Only this record is unusable then."""

REFUSED_STATUSES = (401, 403)
ANSWER_TIMEOUT_S = 10
ANSWER_CHARACTERS = 32 << 20
NESTED_LEVELS = 64

Deserialize = Callable[[bytes, SerializationContext], Any]


def registered_time(
    field: str, registry: str | Mapping[str, Any], *, message: str | None = None
) -> TimeOf:
    """Return a function for `KafkaFields` that finds the time in records with a registered schema.

    * `field` is a name or a path, such as ``"departure"`` or ``"flight.departure"``. Its values are
      numbers, ISO 8601, Avro's timestamps, or Protobuf's `Timestamp`, or arrays of these.
    * `registry` is a URL, or the settings of confluent-kafka's `SchemaRegistryClient`.
    * `message` is the class of Protobuf messages, ``"module:Class"``.

    The returned function raises `Rejected` for a record without such a time, or if the registry
    does not know its schema. Any other answer that is not a schema raises `Unreachable`, and the
    record is read again. `NotObservable` is raised if the registry refuses access.

    An Avro schema that refers to itself or nests deeper than 64 levels is `Rejected`, because its
    decoder could end the process.
    """
    decoder = _RecordDecoder(registry, message)
    names = field.split(".")

    def get_time(record: Message) -> Any:  # noqa: ANN401 - whatever a schema describes
        return [_convert_value(value) for value in get_values(decoder.decode(record), names)]

    finalize(get_time, decoder.close)
    return get_time


@lru_cache(maxsize=1000)
def is_deep(text: str) -> bool:
    """Return whether fastavro could overflow the stack at values of an Avro schema."""
    try:
        return _count_levels(json.loads(text), "", {}) > NESTED_LEVELS
    except RecursionError:
        return True


def _count_levels(schema: Any, namespace: str, levels: dict[str, float]) -> float:  # noqa: ANN401 - JSON
    """Return how deep values nest. `levels` has the named types, infinite inside their own."""
    if isinstance(schema, str):
        return max(levels.get(f"{namespace}.{schema}", 0), levels.get(schema, 0))
    if isinstance(schema, list):
        return max(
            (_count_levels(inner_type, namespace, levels) for inner_type in schema), default=0
        )
    name = schema.get("name", "")
    if "." not in name:
        name = f"{schema.get('namespace', namespace)}.{name}"
    inner_namespace = name.rpartition(".")[0]
    inner_types = [field["type"] for field in schema.get("fields", ())]
    inner_types.append(schema.get("items", schema.get("values", schema["type"])))
    levels[name] = inf
    levels[name] = 1 + max(
        _count_levels(inner_type, inner_namespace, levels) for inner_type in inner_types
    )
    return levels[name]


class _RecordDecoder:
    def __init__(self, registry: str | Mapping[str, Any], message: str | None) -> None:
        settings = {"url": registry} if isinstance(registry, str) else dict(registry)
        self._settings = {"timeout": ANSWER_TIMEOUT_S, **settings}
        self._url = settings.get("url")
        self._message = message
        self._deserializers: dict[object, Deserialize] = {}
        self._connect()

    def _connect(self) -> None:
        try:
            client = SchemaRegistryClient(self._settings)
        except (TypeError, ValueError) as error:
            raise Rejected(f"the schema registry: {error}") from error
        self._client = client
        # without a subject, a deserializer asks for nothing that was not checked
        plain: dict[str, Any] = {"subject.name.strategy": lambda *_: None}
        self._by_type: dict[str, Deserialize] = {
            "AVRO": AvroDeserializer(client, conf=plain),
            "JSON": JSONDeserializer(None, schema_registry_client=client, conf=plain),
        }
        if self._message is not None:
            plain = {**plain, "use.deprecated.format": False}
            kind = load_function(self._message)
            self._by_type["PROTOBUF"] = ProtobufDeserializer(kind, plain, client)

    def decode(self, record: Message) -> Any:  # noqa: ANN401 - whatever a schema describes
        value = record.value() or b""
        context = SerializationContext(record.topic() or "", MessageField.VALUE, record.headers())
        schema_id = SchemaId("")
        dual_schema_id_deserializer(value, context, schema_id)
        name = schema_id.guid or schema_id.id
        if name not in self._deserializers:
            self._deserializers[name] = self._look_up(schema_id)
        deserialize = self._deserializers[name]
        try:
            return deserialize(value, context)
        except (SchemaRegistryError, httpx2.TransportError, OSError) as error:
            raise self._explain(error) from error

    def _look_up(self, schema_id: SchemaId) -> Deserialize:
        """Leave all answers about a schema after the timeout, which httpx takes for each read."""
        find = partial(self._find_deserializer, schema_id)
        try:
            deserialize: Deserialize = call_in_thread("the lookup", self._settings["timeout"], find)
        except Rejected:
            raise
        except Exception as error:  # also for the page of a proxy, or other JSON, which is cached
            self._client.close()  # so the thread ends
            self._connect()
            raise self._explain(error) from error
        return deserialize

    def close(self) -> None:
        self._client.close()

    def _find_deserializer(self, schema_id: SchemaId) -> Deserialize:
        if schema_id.guid is not None:
            schema = self._client.get_schema_by_guid(str(schema_id.guid))
        else:
            schema = self._client.get_schema(schema_id.id or 0)
        self._check_schema(schema, schema_id.id or schema_id.guid)
        kind = schema.schema_type or "AVRO"
        if kind not in self._by_type:
            raise Rejected(f"the value is {kind}, which needs --message module:Class")
        return self._by_type[kind]

    def _check_schema(self, schema: Schema, name: object) -> None:
        """Check a schema, and the schemas that it refers to."""
        text = schema.schema_str
        if not isinstance(text, str) or len(text) > ANSWER_CHARACTERS:
            raise TypeError("not a schema of at most 32 MiB")
        if schema.schema_type in (None, "AVRO") and is_deep(text):
            fault = f"refers to itself or nests deeper than {NESTED_LEVELS} levels"
            remedy = "find the time by a function, --field module:function"
            raise Rejected(f"Avro schema {name} {fault}, which can end the process: {remedy}")
        for reference in schema.references or ():
            registered = self._client.get_version(
                reference.subject or "", reference.version or 0, deleted=True
            )
            self._check_schema(registered.schema, reference.name)

    def _explain(self, error: Exception) -> NotedTimeError:
        if getattr(error, "error_code", None) in NOT_FOUND_CODES:
            return Rejected(f"the schema registry does not know the schema: {error}")
        fault = f"the schema registry at {self._url} gives no schema: {error!r:.300}"
        if getattr(error, "http_status_code", None) in REFUSED_STATUSES:
            remedy = "a file with its login (basic.auth.user.info=USER:PASSWORD)"
            return NotObservable(f"{fault}: pass {remedy} as --schema-registry")
        return Unreachable(fault)


def _convert_value(value: Any) -> Any:  # noqa: ANN401 - whatever a schema describes
    return value.ToDatetime(tzinfo=UTC) if hasattr(value, "ToDatetime") else value
