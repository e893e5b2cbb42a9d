"""The commands `noted-time observe kafka` that read records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noted_time.extending import TimeForm
from noted_time_cli.extending import (
    IDLE_MS,
    Delay,
    Idle,
    LooksFactory,
    Noting,
    NullOption,
    ObservedTopic,
    SkippedRecords,
    UnitOption,
    WrittenTimes,
    command,
    duration,
    option,
)
from noted_time_extensions import observe
from noted_time_extensions.observe.schema_options import SchemaOptions

if TYPE_CHECKING:
    from noted_time_extensions.observe.event_times import TimeOf

StartOption = Annotated[
    Literal["earliest", "latest"], typer.Option("--from", help="Where to start reading.")
]
AHEAD_MS = 300_000
AheadOption = Annotated[
    int | None,
    duration("Skip records whose time is more than this ahead of the clock.", default="5m"),
]


@command
def read_timestamp(  # noqa: PLR0913 - one parameter for each flag
    topic: ObservedTopic,
    *,
    delay: Delay,
    idle: Idle = IDLE_MS,
    start: StartOption = "latest",
    ahead: AheadOption = AHEAD_MS,
    unit: UnitOption = None,
    skipped_records: SkippedRecords,
    noting: Noting,
) -> None:
    """Note the same as `timestamp`, but read all records. Works with transactions.

    Try it:  noted-time observe kafka read-timestamp 127.0.0.1:9092 flights --delay 5m
    """
    from noted_time_extensions.observe.event_times import get_timestamp

    options = {"start": start, "ahead_ms": ahead, "passes": skipped_records.passes}
    make_looks = _make_factory(noting, get_timestamp, TimeForm(unit), **options)
    topic.observe(noting, make_looks, noting.make_times_noter(delay, idle))


@command
def field(  # noqa: PLR0913 - one parameter for each flag
    topic: ObservedTopic,
    *,
    field: Annotated[
        str, option("FIELD", "The JSON field of the event time, or `module:function`.")
    ],
    delay: Delay,
    idle: Idle = IDLE_MS,
    start: StartOption = "latest",
    ahead: AheadOption = AHEAD_MS,
    null: NullOption = "hold",
    skipped_records: SkippedRecords,
    schema: SchemaOptions,
    times: WrittenTimes,
    noting: Noting,
) -> None:
    """Note the newest event time in the records of the slowest partition, minus the delay.

    All records are read. The event time is a number or ISO 8601. It is found by either:

    - a field of a JSON object, or with --schema-registry of Avro, JSON Schema or Protobuf. A dotted
      path finds a nested field, also inside arrays.
    - a function, which is called with the confluent_kafka.Message.

    Try it:  noted-time observe kafka field 127.0.0.1:9092 flights --field departure --delay 5m
    """
    options: dict[str, Any] = {"start": start, "ahead_ms": ahead}
    options |= {"passes": skipped_records.passes, "nulls": null}
    make_looks = _make_factory(noting, schema.resolve_field(field), times.form, **options)
    topic.observe(noting, make_looks, noting.make_times_noter(delay, idle))


@command
def resolved(topic: ObservedTopic, *, ahead: AheadOption = AHEAD_MS, noting: Noting) -> None:
    """Note the resolved timestamps of a CockroachDB changefeed. All records are read.

    Try it:  noted-time observe kafka resolved 127.0.0.1:9092 accounts
    """
    topic.observe(
        noting,
        lambda config, name, client: observe.KafkaResolved(
            config, name, known=lambda: client.position, ahead_ms=ahead
        ),
        noting.make_times_noter(),
    )


def _make_factory(
    noting: Noting,
    field: str | TimeOf,
    form: TimeForm,
    **options: Any,  # noqa: ANN401 - as `KafkaFields` has them
) -> LooksFactory:
    return lambda config, name, client: observe.KafkaFields(
        config,
        name,
        field,
        known=lambda: client.position,
        client=client,
        form=noting.choose_form(client, form),
        **options,
    )
