"""The flags of `complete-to` and `wait` for the offsets of a reader."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from noted_time.extras import require_extra
from noted_time.progress import ReadOffsets, parse_offsets
from noted_time.values import Rejected
from noted_time_cli.terminal.brokers import TopicOption, build_kafka_config
from noted_time_cli.terminal.options import option

STDIN_NAME = "-"

Source = Callable[[Mapping[int, int]], ReadOffsets]  # exact only below the given cut


@dataclass(frozen=True, slots=True)
class ReadBy:
    """A reader: a file of offsets, a consumer group, a Spark query, or none."""

    offsets: Annotated[
        str | None,
        option("FILE", 'The next offsets to read, such as {"0": 25, "1": 12}. - reads stdin.'),
    ] = None
    inclusive: Annotated[
        bool, typer.Option("--inclusive", help="The offsets in --offsets are read already.")
    ] = False

    kafka: Annotated[
        str | None, option("BOOTSTRAP", "The brokers of the consumer group of --group.")
    ] = None
    group: Annotated[
        str | None, option("NAME", "A consumer group that has to read the events, too.")
    ] = None
    topic: TopicOption = None
    kafka_settings: Annotated[
        str | None, option("FILE", "Properties of librdkafka, as --config of `noted-time observe`.")
    ] = None

    checkpoint: Annotated[
        str | None,
        option("DIR", "The checkpoint of a Spark query that has to read the events; may be a URI."),
    ] = None

    def check(self, table: str | None, names: list[str]) -> None:
        if names and table is None:
            raise typer.BadParameter("--name is for tables: leave it out")
        if self.inclusive and self.offsets is None:
            raise typer.BadParameter("--inclusive is about --offsets: name both")
        if (self.kafka is None) != (self.group is None):
            raise typer.BadParameter("--kafka and --group belong together: name both")
        if self.kafka is None and self.kafka_settings:
            raise typer.BadParameter("--kafka-settings is about --kafka: name it")
        if self.topic and self.kafka is None and self.checkpoint is None:
            raise typer.BadParameter("--topic is about --kafka or --checkpoint: name one")
        if len(self._list_named) > 1:
            both = " and ".join(self._list_named)
            raise typer.BadParameter(f"{both} are different readers: ask for one at a time")
        if table is not None and self.is_named:
            raise typer.BadParameter("offsets are of a stream's log: leave --table out")

    @property
    def is_named(self) -> bool:
        return bool(self._list_named)

    @property
    def _list_named(self) -> list[str]:
        ways = {"--offsets": self.offsets, "--kafka": self.kafka, "--checkpoint": self.checkpoint}
        return [name for name, given in ways.items() if given is not None]

    def create_source(self, stream: str, *, again: bool = False) -> Source:
        if again and self.offsets == STDIN_NAME:
            raise typer.BadParameter("--offsets - can be read once: name a file, which may change")
        topic = self.topic or stream
        if self.checkpoint is not None:
            from spark_integration.checkpoint.committed import read_committed_offsets

            place = self.checkpoint
            return lambda _: read_committed_offsets(place, topic)
        if self.kafka is None:
            return self._read_file
        with require_extra("--kafka", "kafka"):
            from noted_time.kafka.groups import GroupOffsets
        config = build_kafka_config(self.kafka, self.kafka_settings)
        return GroupOffsets(config, self.group or "", topic)

    def _read_file(self, _: Mapping[int, int]) -> ReadOffsets:
        name = str(self.offsets)
        try:
            text = sys.stdin.read() if name == STDIN_NAME else Path(name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Rejected(f"the offsets in {name} cannot be read: {error}") from error
        by = "the offsets given" if name == STDIN_NAME else f"the offsets in {name}"
        return ReadOffsets(parse_offsets(text, inclusive=self.inclusive), by)
