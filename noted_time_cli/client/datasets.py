"""The arguments and options of commands about datasets."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from noted_time.lineage import Dataset
from noted_time.progress import ReadOffsets, parse_offsets
from noted_time.values import Rejected
from noted_time.verdict import Requirement
from noted_time_cli.client.caller import Caller
from noted_time_cli.terminal.brokers import Config, build_kafka_config
from noted_time_cli.terminal.options import DEFAULT_URL, NO_VALUES, DomainOption, option, parse_name
from reader_client.protocol.datasets import OpenDataset, StreamDataset, open_dataset

STDIN_NAME = "-"

MISSING_STATUS = 3

DatasetArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATASET",
        help="A stream, delta:LOCATION, iceberg:CATALOG.TABLE, group:NAME@BROKERS/TOPIC, or the "
        "path of a checkpoint, such as ./checkpoint.",
    ),
]

Names = Annotated[list[str], option("NAME", "A claim that the table must have. Repeatable.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOptions:
    """The options of a dataset besides its name."""

    domain: DomainOption = None
    name: Names = NO_VALUES
    stream: Annotated[
        str | None,
        option("STREAM", "The stream of a group or checkpoint, if not the topic.", "--stream"),
    ] = None
    config: Config = None
    offsets: Annotated[
        str | None,
        option("FILE", 'The next offsets to read, such as {"0": 25, "1": 12}. - reads stdin.'),
    ] = None
    inclusive: Annotated[
        bool, typer.Option("--inclusive", help="The offsets in --offsets are read already.")
    ] = False

    def open(self, call: Caller, name: str, *, is_judged_again: bool = False) -> OpenDataset:
        """Open the dataset. If it is judged again, its offsets must not come from stdin."""
        dataset = Dataset(name, self.domain or "")
        self._check(dataset, is_judged_again=is_judged_again)
        if self.offsets is not None:
            return StreamDataset(dataset, {name: lambda _: self._read_file()})
        kafka = build_kafka_config("", self.config) if self.config else {}
        is_default = call.transport.controllers.urls == (DEFAULT_URL,)
        return open_dataset(
            dataset,
            names=self.name,
            stream=self.stream or "",
            kafka=kafka,
            asking="if it answers" if is_default else "always",
        )

    def _check(self, dataset: Dataset, *, is_judged_again: bool) -> None:
        kind = dataset.kind
        kinds_by_option = {
            "--domain": (self.domain, ("stream", "group", "checkpoint")),
            "--name": (self.name, ("table",)),
            "--stream": (self.stream, ("group", "checkpoint")),
            "--config": (self.config, ("group",)),
            "--offsets": (self.offsets, ("stream",)),
            "--inclusive": (self.inclusive, ("stream",)),
        }
        for name, (value, kinds) in kinds_by_option.items():
            if value and kind not in kinds:
                raise typer.BadParameter(f"{name} has no effect on a {kind}: leave it out")
        if self.inclusive and self.offsets is None:
            raise typer.BadParameter("--inclusive is about --offsets: name both")
        if is_judged_again and self.offsets == STDIN_NAME:
            raise typer.BadParameter("--offsets - can be read once: name a file, which may change")

    def _read_file(self) -> ReadOffsets:
        name = str(self.offsets)
        try:
            if name == STDIN_NAME:
                text = sys.stdin.read()
                origin = "the offsets given"
            else:
                text = Path(name).read_text("utf-8")
                origin = f"the offsets in {name}"
        except (OSError, UnicodeDecodeError) as error:
            raise Rejected(f"the offsets in {name} cannot be read: {error}") from error
        return ReadOffsets(parse_offsets(text, inclusive=self.inclusive), origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredWriters:
    """The writers that must vouch."""

    require: Annotated[
        list[str],
        option("WRITER", "End with 3 unless this writer vouches. Repeatable.", parse=parse_name),
    ] = NO_VALUES
    require_all: Annotated[
        bool,
        typer.Option(
            "--require-all", help="End with 3 unless all expected writers of the stream vouch."
        ),
    ] = False
    require_known: Annotated[
        bool,
        typer.Option(
            "--require-known", help="End with 3 unless all writers that ever joined vouch."
        ),
    ] = False

    def build(self) -> Requirement:
        if self.require_all and self.require_known:
            raise typer.BadParameter("--require-all includes --require-known: leave one out")
        return Requirement(
            require=tuple(self.require),
            require_all=self.require_all,
            require_known=self.require_known,
        )
