"""The commands of `noted-time analyse`."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time.extending import Unreadable, name_program, require_extra
from noted_time_cli.extending import (
    AsJson,
    Bootstrap,
    Config,
    Stream,
    TopicArgument,
    WrittenTimes,
    build_kafka_config,
    duration,
    echo_json,
    group_command,
    option,
    refuse_options,
    say,
)
from noted_time_extensions.analyse.reading.columns import FileColumns, FileOrder, StreamToJudge
from noted_time_extensions.files.extending import Ignore, LogRoot
from noted_time_extensions.observe.extending import SchemaOptions

if TYPE_CHECKING:
    from noted_time_extensions.analyse.reading.rows import Rows

PICTURE_FORMATS = (".png", ".svg", ".pdf")

NOTE_FILES = 'writers that note time after each file, see "Is yesterday complete?"'
NOTE_LOG = 'writers that note time, see "Writers in Python"'
NOTE_TOPIC = 'producers that note time, see "Kafka: note time for a topic"'

app = typer.Typer(
    name="analyse",
    no_args_is_help=True,
    short_help="Compute the rows that a watermark delay would lose.",
)


@app.callback()
def describe_analysis() -> None:
    """Compute how many rows Spark and Flink would lose on an existing log, for each delay.

    The output shows the least delay without loss, and who causes it. The log is only read. A
    controller is called only for --stream.

    Try it:  noted-time analyse files 'events/*.parquet' --time departure --arrival landing
    """


def parse_picture(text: str) -> Path:
    file = Path(text)
    if file.suffix.lower() not in PICTURE_FORMATS:
        raise Unreadable(f"must end in {', '.join(PICTURE_FORMATS)}, not {text!r}")
    if not file.parent.is_dir():
        raise Unreadable(f"there is no directory {str(file.parent)!r}: create it")
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How rows are judged and results are shown."""

    window: Annotated[
        int, duration("The query's window size. 0s judges single rows, as in joins.", default="1h")
    ] = 3_600_000
    delay: Annotated[list[int] | None, duration("An additional delay to show. Repeatable.")] = None
    ahead: Annotated[
        int,
        duration("Skip rows whose time is more than this ahead of their arrival.", default="5m"),
    ] = 300_000
    records: Annotated[
        int, typer.Option(min=1, help="Maximum number of rows, counted from the end.")
    ] = 10_000_000
    as_replay: Annotated[
        bool, typer.Option("--as-replay", help="Judge rows in the order of a backfill.")
    ] = False
    picture: Annotated[
        Path | None,
        option(
            "FILE", "Draw a chart to a file, such as loss.png or loss.svg.", parse=parse_picture
        ),
    ] = None
    as_json: AsJson = False

    def check_options(
        self, context: typer.Context, stream_to_judge: StreamToJudge | None = None
    ) -> None:
        if self.as_replay:
            refuse_options(context, "with --as-replay", "arrival", "ahead")
        if stream_to_judge is not None and stream_to_judge.noted is None:
            refuse_options(context, "without --stream", "domain", "url", "token", "fail_if_broken")

    def print_judged(
        self,
        rows: Rows,
        written_times: WrittenTimes,
        note: str,
        observe: str | None = None,
        stream_to_judge: StreamToJudge | None = None,
    ) -> None:
        from noted_time_extensions.analyse.costs import compute_costs, print_costs

        rows = (
            rows.remove_impossible(written_times.form)
            .resolve_twice(written_times.form)
            .name_silent()
        )
        costs, analysis = compute_costs(
            rows, self.window, self.delay or [], ahead_ms=self.ahead, as_replay=self.as_replay
        )
        if stream_to_judge is not None and stream_to_judge.noted is not None:
            from noted_time_extensions.analyse.noted_costs import compute_noted_costs

            costs = replace(
                costs,
                noted=compute_noted_costs(
                    rows, self.window, stream_to_judge, stream_to_judge.noted
                ),
            )
        if self.picture is not None:
            from noted_time_extensions.analyse.drawing import draw

            draw(costs, analysis).savefig(self.picture)
            say(f"Drawn: {self.picture}")
        if self.as_json:
            echo_json(json.dumps(asdict(costs)))
        else:
            print_costs(costs, note, observe)
        if costs.noted is not None and stream_to_judge is not None:
            from noted_time_extensions.analyse.noted_costs import check_words, print_lost

            if not self.as_json:
                print_lost(costs.noted, costs.group_column or "writer")
            if stream_to_judge.fail_if_broken:
                check_words(costs.noted)


@group_command(app)
def files(  # noqa: PLR0913 - one parameter for each flag
    context: typer.Context,
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="The files, quoted.")],
    *,
    columns: FileColumns,
    partition: Annotated[
        str | None, option("COLUMN", "The column of the partition. Default: one partition.")
    ] = None,
    order: Annotated[
        FileOrder | None,
        typer.Option(help="The order of arrival of several files, without --arrival."),
    ] = None,
    written: WrittenTimes,
    how: Judging,
) -> None:
    """Judge files of Parquet, CSV or JSON lines.

    For several files, name the column with the arrival time (`--arrival`) or the partition
    (`--partition`), or give the `--order` in which they came in.

    Try it:  noted-time analyse files 'events/*.parquet' --time departure --arrival landing
    """
    how.check_options(context)
    if columns.arrival is not None:
        refuse_options(context, "with --arrival", "order")
    with require_extra("noted-time analyse files", "analyse"):
        from noted_time_extensions.analyse.reading.file_rows import read_files
    rows = read_files(pattern, columns, written.form, partition, how.records, order)
    how.print_judged(rows, written, NOTE_FILES)


@group_command(app)
def log(  # noqa: PLR0913 - one parameter for each kind of flag
    context: typer.Context,
    root: LogRoot,
    stream: Stream,
    *,
    columns: FileColumns,
    written: WrittenTimes,
    how: Judging,
    ignore: Ignore = None,
    by: StreamToJudge,
) -> None:
    """Judge a file log, each segment in the order of its offsets.

    Try it:  noted-time analyse log /data/log flights --time departure
    """
    how.check_options(context, by)
    with require_extra("noted-time analyse log", "analyse"):
        from noted_time_extensions.analyse.reading.file_rows import open_log, read_log
    log_directories = open_log(root, stream, ignore or ())
    rows = read_log(log_directories, columns, written.form, how.records)
    observe = f"{name_program()} observe log event-time {root} {stream} --field {columns.time}"
    observe += written.flags
    how.print_judged(rows, written, NOTE_LOG, observe, by)


@group_command(app)
def kafka(  # noqa: PLR0913 - one parameter for each flag
    context: typer.Context,
    bootstrap: Bootstrap,
    topic: TopicArgument,
    *,
    field: Annotated[
        str | None,
        option(
            "FIELD",
            "The JSON field of the event time, or `module:function`. Default: the timestamp.",
        ),
    ] = None,
    who: Annotated[
        str | None, option("WHO", "Group late rows by `key`, `header:NAME` or `field:a.b`.")
    ] = None,
    since: Annotated[
        int | None, duration("Maximum age of the records, such as 7d.", default="unlimited")
    ] = None,
    live: Annotated[
        int | None,
        duration("Judge new records for this long. They arrive by this machine's clock."),
    ] = None,
    described: SchemaOptions,
    written: WrittenTimes,
    how: Judging,
    by: StreamToJudge,
    config: Config = None,
) -> None:
    """Judge the last records of a Kafka topic, as a read_committed consumer sees them.

    Try it:  noted-time analyse kafka 127.0.0.1:9092 flights --field departure --who key
    """
    how.check_options(context, by)
    if live is not None:
        refuse_options(context, "with --live", "since", "records", "as_replay")
    if field is None:
        refuse_options(
            context, "without --field", "schema_registry", "message", "zone", "time_format"
        )
    with require_extra("noted-time analyse kafka", "analyse,kafka"):
        from noted_time_extensions.analyse.reading.topic_rows import read_topic
    settings = build_kafka_config(bootstrap, config)
    time = None if field is None else described.resolve_field(field)
    rows = read_topic(
        settings,
        topic,
        field,
        time,
        written.form,
        who=who,
        since_ms=since,
        max_records=how.records,
        live_ms=live,
    )
    how_seen = "read-timestamp" if field is None else f"field --field {field}"
    observe = f"{name_program()} observe kafka {how_seen} {bootstrap} {topic}"
    observe += f"{written.flags} --from earliest"
    how.print_judged(rows, written, NOTE_TOPIC, observe, by)
