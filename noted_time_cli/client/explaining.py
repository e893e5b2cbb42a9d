"""`noted-time explain`."""

from __future__ import annotations

import json
from typing import Annotated

from noted_time.answers import Explanation
from noted_time.client import Json, Question, stream_path
from noted_time.installation import name_program
from noted_time.values import format_seconds, format_time
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.terminal.options import (
    NO_VALUES,
    DomainOption,
    Stream,
    duration,
    option,
    parse_name,
    parse_offsets,
)
from noted_time_cli.terminal.output import Columns, echo, make_column, print_table
from reader_client.protocol.questions import ask_writer_counts, have_all_finished

WAITING_COLUMNS: Columns = {
    "writer": "writer",
    "time": make_column("time", format_time),
    "waited": make_column("held_back_ms", format_seconds),
    "times out in": make_column("times_out_in_ms", format_seconds),
    "lower without it": make_column("lower_without", format_time),
}

SEGMENT_COLUMNS: Columns = {
    "segment": "segment",
    "read to": "offset",
    "needed to": "needed",
    "noted by": "writer",
}


@client_command
def explain(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    *,
    domain: DomainOption = None,
    exclude: Annotated[
        list[str],
        option("WRITER", "Explain as if this writer were excluded. Repeatable.", parse=parse_name),
    ] = NO_VALUES,
    writer_timeout: Annotated[
        int | None, duration("Explain as if this were the writer timeout.", minimum=1)
    ] = None,
    position: Annotated[
        list[str],
        option("SEGMENT:OFFSET", "Explain for a reader that has read to here. Repeatable."),
    ] = NO_VALUES,
) -> None:
    """Explain why the watermark of one stream does not advance.

    The sentences name the writers that hold it back and the excluded writers, when it advances
    without an action, and where it would be without them.

    If the watermark is held back, a table of these writers follows. With --position, the sentences
    also say which segments the reader waits for.

    Nothing is changed, even with --exclude and --writer-timeout.

    Try it:  noted-time explain flights --exclude UA
    """
    position_text = json.dumps(parse_offsets(position, "--position")) if position else None
    query = {"domain": domain, "exclude": exclude, "writer_timeout_ms": writer_timeout}
    query["position"] = position_text
    path = stream_path(stream, "explain")
    explanation = call.ask_json(Question("GET", path, query, answer=Explanation))
    if call.print_json(explanation):
        return
    _print(explanation)
    if explanation["condition"] == "quiet" and explanation["lower"] is not None:
        _suggest_seal(call, stream)


def _list_waiting(explanation: Json) -> list[Json]:
    """List no writers while the watermark advances as usual."""
    if explanation["condition"] == "advancing":
        return []
    lowers = explanation["lower_without"]
    return [
        row | {"lower_without": lowers.get(row["writer"])} for row in explanation["waiting_for"]
    ]


def _print(explanation: Json) -> None:
    for sentence in explanation["sentences"]:
        echo(sentence)
    if (reader := explanation["reader"]) and reader["waiting_for"]:
        print_table(SEGMENT_COLUMNS, reader["waiting_for"])
    if waiting := _list_waiting(explanation):
        print_table(WAITING_COLUMNS, waiting)


def _suggest_seal(call: Caller, stream: str) -> None:
    """Name the command that completes the last window, if all writers have finished."""
    if have_all_finished(call.ask(ask_writer_counts(stream))):
        echo(
            f"All writers have finished. If none follows, `{name_program()} seal {stream}` "
            "completes the last window."
        )
