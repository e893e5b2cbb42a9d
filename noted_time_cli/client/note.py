"""`noted-time note`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from msgspec.structs import replace

from noted_time import Rejected, UnexpectedAnswer, UnknownStream, UnknownWriter
from noted_time.answers import WriterRow
from noted_time.client import Json, Question, names_contact, note_to_wire, stream_path
from noted_time.coding import DECODE_ERRORS, encode
from noted_time.installation import name_program
from noted_time.values import (
    STATUS_WORDS,
    UNCHANGED_TIMEOUT,
    Accepted,
    LateRows,
    Note,
    NotesRefused,
    Refused,
    format_duration,
    format_gap,
    format_time,
    is_reversed,
    parse_time,
    pluralize,
)
from noted_time_cli.client.caller import Caller, client_command, writer_path
from noted_time_cli.terminal.options import (
    NO_VALUES,
    ContactOption,
    DomainOption,
    Stream,
    WriterArgument,
    duration,
    option,
    parse_offsets,
)
from noted_time_cli.terminal.output import say
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
            help="The time before which all events are written: ISO 8601 with a zone, or an "
            "integer.",
        ),
    ] = None,
    *,
    position: Annotated[
        list[str], option("SEGMENT:OFFSET", "The writer's next offset in a segment. Repeatable.")
    ] = NO_VALUES,
    join: Annotated[
        bool, typer.Option("--join", help="Add the writer to the stream if it is new.")
    ] = False,
    state: Annotated[
        Literal["live", "idle", "finished"],
        typer.Option(help="`idle`: it may note again. `finished`: it notes no more."),
    ] = "live",
    domain: DomainOption = None,
    timeout: Annotated[
        int | None, duration("The writer's timeout from now on, such as 90m.", least=1)
    ] = None,
    late: Annotated[
        int | None,
        typer.Option(
            metavar="ROWS",
            min=1,
            help="Report this many rows that the writer wrote below the watermark.",
        ),
    ] = None,
    least: Annotated[str | None, option("TIME", "The lowest time of the --late rows.")] = None,
    most: Annotated[
        str | None, option("TIME", "The highest time of the --late rows. Default: the watermark.")
    ] = None,
    since: Annotated[
        str | None, option("TIME", "The lowest time of the writer's rows, with its first note.")
    ] = None,
    contact: ContactOption = None,
) -> None:
    """Note time for a writer: all its events before TIME are written durably.

    A new writer needs --join, so that a mistyped name does not hold back the watermark. A script
    that runs every hour uses --join each time, and a --timeout of more than one hour.

    If a writer notes a time below the watermark, the command warns, and readers learn that rows may
    be missing. To report late rows, use --late ROWS --least TIME.

    Exit statuses:

    - 0: the note is durable.
    - 1: the note is refused.
    - 69: no controller answered. Try again: a repeated note changes nothing.

    Try it:  noted-time note flights UA 2013-01-01T10:00Z --position 0:120 --join
    """
    if time is None and state == "live" and not join and late is None:
        raise typer.BadParameter("give a TIME, or --join, or --late, or --state idle or finished")
    if since is not None and (late is not None or not (time or position)):
        raise typer.BadParameter("--since has no effect with --late, or without TIME or --position")
    noted = None if time is None else parse_time(time, up=False)
    sent = Note(
        writer,
        noted,
        parse_offsets(position, "--position"),
        domain=domain,
        state=state,
        timeout_ms=timeout or UNCHANGED_TIMEOUT,
        late_rows=_build_late_rows(late, least, most),
        from_time=None if since is None else parse_time(since),
        contact=contact,
    )
    path = writer_path(stream, writer)
    try:
        if not join:
            call.ask(Question("GET", path, answer=WriterRow))
        answer, result = _post(call, stream, sent)
        is_unknown = isinstance(result, Refused) and result.status == "unknown_writer"
        if join and is_unknown:  # only a member may leave
            answer, result = _post(call, stream, Note(writer), sent)
    except UnknownWriter as unknown:
        raise _add_remedy(unknown, ".", "A new writer needs --join") from None
    except UnknownStream as unknown:
        create = f"`{name_program()} stream create {stream}` creates it"
        raise _add_remedy(unknown, ";", create) from None
    if not isinstance(result, Accepted):
        raise result.error(sent.writer)
    if not call.print_json(answer):
        say(_describe_result(stream, sent, result))
    if result.exclusion is None and (warning := _describe_late(stream, sent, result.lower)):
        say(warning)


def _post(call: Caller, stream: str, *notes: Note) -> tuple[Json, Accepted | Refused]:
    """Post the notes, without their contact if the controller refuses that."""
    try:
        answer = _post_once(call, stream, notes)
    except Rejected as refusal:
        if not names_contact(refusal, notes):
            raise
        answer = _post_once(call, stream, [replace(each, contact=None) for each in notes])
        say(f"the controller refuses the contact, so it is not stored: {refusal}")
    try:
        result = read_answer(encode(answer), len(notes)).results[-1]
    except DECODE_ERRORS as odd:
        message = f"the controller sent an unexpected answer: {odd}"
        raise UnexpectedAnswer(message, str(odd)) from odd
    return answer["results"][-1], result


def _post_once(call: Caller, stream: str, notes: Sequence[Note]) -> Json:
    body = {"notes": [note_to_wire(each) for each in notes]}
    try:
        answer: Json = call.ask(Question("POST", stream_path(stream, "notes"), body=body))
    except NotesRefused as refused:
        return dict(refused.answer)
    return answer


def _build_late_rows(rows: int | None, least: str | None, most: str | None) -> LateRows | None:
    if (rows is None) != (least is None):
        raise typer.BadParameter("--late ROWS and --least TIME go together")
    if rows is None or least is None:
        if most is not None:
            raise typer.BadParameter("--most TIME needs --late ROWS")
        return None
    late = LateRows(rows, parse_time(least), None if most is None else parse_time(most))
    if is_reversed(late):
        raise typer.BadParameter("--most is before --least: exchange them")
    return late


def _add_remedy(error: Rejected, stop: str, remedy: str) -> Rejected:
    said = str(error)
    return Rejected(f"{said}{'' if said.endswith('?') else stop} {remedy}")


def _describe_late(stream: str, sent: Note, lower: int | None) -> str:
    """Warn about a late note, if it is one.

    >>> _describe_late("five", Note("lima", 3_600_000), 7_200_000)
    'lima noted 3600000: late by 3600000, five advanced without it to 7200000'
    """
    if lower is None or sent.state != "live" or sent.late_rows:
        return ""
    at = format_time(lower)
    if sent.time is None:
        return f"{sent.writer} vouches from {at} on"
    if sent.time >= lower:
        return ""
    noted = f"{sent.writer} noted {format_time(sent.time)}"
    gap = format_gap(sent.time, lower)
    return f"{noted}: late by {gap}, {stream} advanced without it to {at}"


def _describe_result(stream: str, sent: Note, result: Accepted) -> str:
    who, lower = sent.writer, result.lower
    if sent.state != "live":
        first = f"{who} is {sent.state}: {stream} does not wait for it."
    elif isinstance(sent.late_rows, LateRows):
        rows, least = pluralize(sent.late_rows.rows, "row"), format_time(sent.late_rows.min_time)
        first = f"{who} reported {rows} from {least} on that came below the watermark."
    elif sent.time is None:
        most = format_duration(result.timeout_ms or 0)
        first = f"{who} joined: {stream} waits for it, for {most} of silence at most."
    else:
        first = f"{who} noted {format_time(sent.time)}."
    if result.exclusion is None:  # before the first note there is no lower
        return first if lower is None else f"{first} {stream} is complete to {format_time(lower)}."
    why, since = STATUS_WORDS[result.exclusion.reason], format_time(result.exclusion.excluded_at)
    return (
        f"{first} But {stream} advanced without it ({why} at {since}): "
        f"its rows below {format_time(lower)} are late."
    )
