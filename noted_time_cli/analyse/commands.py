"""`noted-time analyse`: its commands and their flags."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time.extras import build_import_error
from noted_time_cli.analyse.columns import FileColumns, StreamToJudge
from noted_time_cli.terminal.brokers import (
    Bootstrap,
    Config,
    SchemaOptions,
    TopicArgument,
    build_kafka_config,
)
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.options import AsJson, Stream, WrittenTimes, duration, option
from noted_time_cli.terminal.output import echo, say

if TYPE_CHECKING:
    from noted_time_cli.analyse.rows import Rows

app = typer.Typer(
    name="analyse",
    no_args_is_help=True,
    help="""Find what a delay costs on a log that is there: which rows Spark or Flink would lose.

    For all delays at once, with the least that loses none, and who makes it late. It only reads:
    no consumer group, no query, and no controller but for the marks of a --stream.

    Try it:  noted-time analyse files 'events/*.parquet' --time departure --arrival landing""",
    short_help="Find what a delay costs, before anybody changes anything.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How rows are judged, and what is shown."""

    window: Annotated[
        int, duration("The windows of the query; 0s for single rows, as in joins.", default="1h")
    ] = 3_600_000
    delay: Annotated[
        list[int] | None,
        duration("A delay to show beside the least ones; may be given several times."),
    ] = None
    ahead: Annotated[
        int, duration("Leave out rows that are further ahead of their arrival.", default="5m")
    ] = 300_000
    records: Annotated[int, typer.Option(min=1, help="Judge the last rows, so many at most.")] = (
        10_000_000
    )
    as_replay: Annotated[
        bool, typer.Option("--as-replay", help="Take partitions as a backfill reads them.")
    ] = False
    picture: Annotated[
        Path | None, option("FILE", "Draw it too, for example as loss.png or loss.svg.")
    ] = None
    as_json: AsJson = False

    def print_judged(self, rows: Rows, observe: str, by: StreamToJudge | None = None) -> None:
        """Judge rows and print the costs; `observe` is an observer's command, without a delay."""
        from noted_time_cli.analyse.costs import compute_costs, print_costs

        costs, found = compute_costs(
            rows, self.window, self.delay or [], ahead_ms=self.ahead, as_replay=self.as_replay
        )
        if by is not None and by.noted is not None:
            from noted_time_cli.analyse.noted_costs import compute_noted_costs

            costs = replace(costs, noted=compute_noted_costs(rows, self.window, by, by.noted))
        if self.picture is not None:
            from noted_time_cli.analyse.drawing import draw

            draw(costs, found).savefig(self.picture)
            say(f"Drawn: {self.picture}")
        if self.as_json:
            echo(json.dumps(asdict(costs)))
        else:
            print_costs(costs, observe)
        if costs.noted is not None and by is not None:
            from noted_time_cli.analyse.noted_costs import check_words, print_lost

            if not self.as_json:
                print_lost(costs.noted, costs.who or "writer")
            if by.fail_if_broken:
                check_words(costs.noted)


@group_command(app)
def files(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="The files, quoted.")],
    columns: FileColumns,
    written: WrittenTimes,
    how: Judging,
    *,
    partition: Annotated[
        str | None, option("COLUMN", "The column of the partition; without it there is one.")
    ] = None,
) -> None:
    """Judge files of Parquet, CSV or lines of JSON, in the order of their names.

    Try it:  noted-time analyse files 'events/*.parquet' --time departure --arrival landing
    """
    with _extra("files", "analyse"):
        from noted_time_cli.analyse.file_rows import read_files
    rows = read_files(pattern, columns, written.form, partition, how.records)
    how.print_judged(rows, "noted-time observe kafka …")


@group_command(app)
def log(  # noqa: PLR0913 - one parameter for each kind of flag
    root: Annotated[Path, typer.Argument(metavar="ROOT", help="The directory of the file log.")],
    stream: Stream,
    columns: FileColumns,
    written: WrittenTimes,
    how: Judging,
    *,
    by: StreamToJudge,
) -> None:
    """Judge a file log, each segment in the order of its offsets.

    Try it:  noted-time analyse log /data/log flights --time departure
    """
    with _extra("log", "analyse"):
        from noted_time_cli.analyse.file_rows import read_log
    rows = read_log(root, stream, columns, written.form, how.records)
    observe = f"noted-time observe log event-time {root} {stream} --field {columns.time}"
    how.print_judged(rows, observe, by)


@group_command(app)
def kafka(  # noqa: PLR0913 - one parameter for each flag
    bootstrap: Bootstrap,
    topic: TopicArgument,
    how: Judging,
    described: SchemaOptions,
    written: WrittenTimes,
    *,
    by: StreamToJudge,
    field: Annotated[
        str | None,
        option(
            "FIELD",
            "The JSON field of the event time, or `module:function`; by default the timestamp.",
            "--field",
            "--parse",
        ),
    ] = None,
    who: Annotated[
        str | None,
        option("WHO", "Show whose rows are late: by `key`, `header:NAME` or `field:a.b`."),
    ] = None,
    since: Annotated[
        int | None, duration("Judge what is younger, for example 7d.", default="all of the log")
    ] = None,
    live: Annotated[
        int | None,
        duration("Judge what comes in from now on, for so long, by this machine's clock."),
    ] = None,
    config: Config = None,
) -> None:
    """Judge the last records of a Kafka topic, as read_committed consumers see them.

    Try it:  noted-time analyse kafka 127.0.0.1:9092 flights --field departure --who key
    """
    with _extra("kafka", "analyse,kafka"):
        from noted_time_cli.analyse.topic_rows import read_topic
    settings, form = build_kafka_config(bootstrap, config), written.form
    time = None if field is None else described.resolve_field(field)
    rows = read_topic(
        settings, topic, field, time, form, who=who, since_ms=since, most=how.records, live_ms=live
    )
    how_seen = "read-timestamp" if field is None else f"field --field {field}"
    how.print_judged(rows, f"noted-time observe kafka {how_seen} {bootstrap} {topic}", by)


@contextmanager
def _extra(source: str, extra: str) -> Iterator[None]:
    """Say what to install, where what is imported is not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise build_import_error(f"noted-time analyse {source}", extra, error) from None
