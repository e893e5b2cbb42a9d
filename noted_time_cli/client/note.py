"""`noted-time note`: how a shell script notes time."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.aggregation.views.sentences import REASON_WORDS
from noted_time import Accepted, Note, Rejected, UnknownWriter, Unreachable
from noted_time.client import note_to_wire, stream_path
from noted_time.values import (
    UNCHANGED_TIMEOUT,
    LateRows,
    NotesRefused,
    State,
    format_duration,
    format_gap,
    format_time,
    parse_time,
    pluralize,
)
from noted_time_cli.client.caller import Caller, client_command, writer_path
from noted_time_cli.client.waiting import UNANSWERED_STATUS
from noted_time_cli.terminal.options import (
    NO_VALUES,
    DomainOption,
    Stream,
    WriterArgument,
    duration,
    option,
    parse_offsets,
)
from noted_time_cli.terminal.output import fail, say
from writer_client.sending.answers import read_answer


@client_command
def note(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    writer: WriterArgument,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="TIME",
            show_default=False,
            help="All events before it are written: ISO 8601 with its zone, or an integer.",
        ),
    ] = None,
    *,
    position: Annotated[
        list[str],
        option("SEGMENT=OFFSET", "How far it wrote: the next offset; several may be given."),
    ] = NO_VALUES,
    join: Annotated[
        bool, typer.Option("--join", help="Wait for the writer from now on, if it is new.")
    ] = False,
    state: Annotated[
        State, typer.Option(help="`idle`: it may return; `finished`: it is done for good.")
    ] = "live",
    domain: DomainOption = None,
    timeout: Annotated[
        int, duration("How long it may be silent, such as 90m, from now on.")
    ] = UNCHANGED_TIMEOUT,
    late: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS",
            min=1,
            help="Correct what it noted: how many rows it wrote below the watermark.",
        ),
    ] = None,
    least: Annotated[str | None, option("TIME", "The least time of the --late rows.")] = None,
    since: Annotated[
        str | None, option("TIME", "No row of this writer is older: of its first note.")
    ] = None,
) -> None:
    """Note time for a writer, so that a script is one: everything before TIME is written.

    A new writer needs --join, so that a mistyped name holds nothing back. A script that runs every
    hour uses it each time, with a --timeout above an hour. Note the time only when the events are
    written for good.

    A writer that notes a time below the watermark comes late: the command says so, and readers are
    told that its rows may be missing. Name such rows with --late ROWS --least TIME.

    Ends with status 0 once the note is durable, with 1 if it is refused, and with 69 if no
    controller answered: then try again, since a note that comes twice changes nothing.

    Try it:  noted-time note flights UA 2013-01-01T10:00Z --position 0=120 --join
    """
    if time is None and state == "live" and not join and late is None:
        raise typer.BadParameter("give a TIME, or --join, or --late, or --state idle or finished")
    if (late is None) != (least is None):
        raise typer.BadParameter("--late ROWS and --least TIME go together")
    noted = None if time is None else parse_time(time, up=False)
    reached = {int(segment): offset for segment, offset in parse_offsets(position).items()}
    said = Note(
        writer,
        noted,
        reached,
        domain=domain,
        state=state,
        timeout_ms=timeout or UNCHANGED_TIMEOUT,
        late=None if late is None or least is None else LateRows(late, parse_time(least)),
        since=None if since is None else parse_time(since),
    )
    try:
        if not join:
            call.ask("GET", writer_path(stream, writer))
        body = {"notes": [note_to_wire(said)]}
        answer = call.ask("POST", stream_path(stream, "notes"), body=body)
    except UnknownWriter as unknown:
        raise Rejected(f"{unknown}; a new writer needs --join") from None
    except NotesRefused as refused:
        answer = dict(refused.answer)
    except Unreachable as error:
        fail(str(error), status=UNANSWERED_STATUS)
    (result,) = read_answer(answer, 1).results
    if not isinstance(result, Accepted):
        raise result.error(writer)
    if not call.print_json(answer["results"][0]):
        say(_describe_result(stream, said, result))
    if result.exclusion is None and (warning := _describe_late(stream, said, result.lower)):
        say(warning)


def _describe_late(stream: str, said: Note, lower: int | None) -> str:
    """Return that a note comes late, empty if it does not.

    >>> _describe_late("five", Note("lima", 3_600_000), 7_200_000)
    'lima noted 3600000: late by 3600000, five went on without it to 7200000'
    >>> _describe_late("five", Note("lima"), 7_200_000)
    'lima vouches from 7200000 on'
    """
    if lower is None or said.state != "live" or said.late:
        return ""
    at = format_time(lower)
    if said.time is None:
        return f"{said.writer} vouches from {at} on"
    if said.time >= lower:
        return ""
    noted = f"{said.writer} noted {format_time(said.time)}"
    gap = format_gap(said.time, lower)
    return f"{noted}: late by {gap}, {stream} went on without it to {at}"


def _describe_result(stream: str, said: Note, result: Accepted) -> str:
    """Return what was noted, and where the watermark is now.

    >>> _describe_result("orders", Note("berlin", state="idle"), Accepted(None))
    'berlin is idle: orders does not wait for it.'
    """
    who, lower = said.writer, result.lower
    if said.state != "live":
        first = f"{who} is {said.state}: {stream} does not wait for it."
    elif isinstance(said.late, LateRows):
        rows, least = pluralize(said.late.rows, "row"), format_time(said.late.least)
        first = f"{who} reported {rows} from {least} on that came below the watermark."
    elif said.time is None:
        most = format_duration(result.timeout_ms or 0)
        first = f"{who} joined: {stream} waits for it, for {most} of silence at most."
    else:
        first = f"{who} noted {format_time(said.time)}."
    if result.exclusion is None:  # the lower is from before this note, which may be the first
        return first if lower is None else f"{first} {stream} is complete to {format_time(lower)}."
    why, since = REASON_WORDS[result.exclusion.reason], format_time(result.exclusion.since)
    return (
        f"{first} But {stream} went on without it ({why} at {since}): "
        f"what it writes below {format_time(lower)} is late."
    )
