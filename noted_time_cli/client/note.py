"""`noted-time note`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import typer
from msgspec.structs import replace

from noted_time import Rejected, UnexpectedAnswer, UnknownStream
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
    UnknownWriter,
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
    parse_optional_time,
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
        int | None, duration("The writer's timeout from now on, such as 90m.", minimum=1)
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
    writer_note = Note(
        writer,
        None if time is None else parse_time(time, up=False),
        parse_offsets(position, "--position"),
        domain=domain,
        state=state,
        timeout_ms=timeout or UNCHANGED_TIMEOUT,
        late_rows=_build_late_rows(late, least, most),
        from_time=parse_optional_time(since),
        contact=contact,
    )
    answer, result = _note_or_join(call, stream, writer_note, is_joining=join)
    if not call.print_json(answer):
        say(_describe_result(stream, writer_note, result))
    if result.exclusion is None and (warning := _describe_late(stream, writer_note, result.lower)):
        say(warning)


def _note_or_join(
    call: Caller, stream: str, writer_note: Note, *, is_joining: bool
) -> tuple[Json, Accepted]:
    """Return the answer to a note as JSON and as a value, or raise the error of a refusal.

    A new writer is refused unless `is_joining`. If its first note leaves the stream, it joins by a
    note before, because only a member may leave.
    """
    writer = writer_note.writer
    path = writer_path(stream, writer)
    try:
        if not is_joining:
            call.ask(Question("GET", path, answer=WriterRow))
        answer, result = _post(call, stream, writer_note)
        is_unknown = isinstance(result, Refused) and result.status == "unknown_writer"
        if is_joining and is_unknown:
            answer, result = _post(call, stream, Note(writer), writer_note)
    except UnknownWriter as error:
        raise _add_remedy(error, ".", "A new writer needs --join") from None
    except UnknownStream as error:
        create = f"`{name_program()} stream create {stream}` creates it"
        raise _add_remedy(error, ";", create) from None
    if not isinstance(result, Accepted):
        raise result.error(writer)
    return answer, result


def _post(call: Caller, stream: str, *notes: Note) -> tuple[Json, Accepted | Refused]:
    """Post the notes, without their contact if the controller refuses that."""
    try:
        answer = _post_once(call, stream, notes)
    except Rejected as refusal:
        if not names_contact(refusal, notes):
            raise
        answer = _post_once(call, stream, [replace(note, contact=None) for note in notes])
        say(f"the controller refuses the contact, so it is not stored: {refusal}")
    try:
        result = read_answer(encode(answer), len(notes)).results[-1]
    except DECODE_ERRORS as error:
        message = f"the controller sent an unexpected answer: {error}"
        raise UnexpectedAnswer(message, str(error)) from error
    return answer["results"][-1], result


def _post_once(call: Caller, stream: str, notes: Sequence[Note]) -> Json:
    body = {"notes": [note_to_wire(note) for note in notes]}
    try:
        answer: Json = call.ask(Question("POST", stream_path(stream, "notes"), body=body))
    except NotesRefused as error:
        return dict(error.answer)
    return answer


def _build_late_rows(
    rows: int | None, min_time: str | None, max_time: str | None
) -> LateRows | None:
    if (rows is None) != (min_time is None):
        raise typer.BadParameter("--late ROWS and --least TIME go together")
    if rows is None or min_time is None:
        if max_time is not None:
            raise typer.BadParameter("--most TIME needs --late ROWS")
        return None
    late_rows = LateRows(rows, parse_time(min_time), parse_optional_time(max_time))
    if is_reversed(late_rows):
        raise typer.BadParameter("--most is before --least: exchange them")
    return late_rows


def _add_remedy(error: Rejected, separator: str, remedy: str) -> Rejected:
    sentence = str(error)
    if not sentence.endswith("?"):
        sentence += separator
    return Rejected(f"{sentence} {remedy}")


def _describe_late(stream: str, writer_note: Note, lower: int | None) -> str:
    """Warn about a late note, if it is one.

    >>> _describe_late("five", Note("lima", 3_600_000), 7_200_000)
    'lima noted 3600000: late by 3600000, five advanced without it to 7200000'
    """
    if lower is None or writer_note.state != "live" or writer_note.late_rows:
        return ""
    lower_text = format_time(lower)
    if writer_note.time is None:
        return f"marks count {writer_note.writer} for times from {lower_text} on"
    if writer_note.time >= lower:
        return ""
    fact = f"{writer_note.writer} noted {format_time(writer_note.time)}"
    gap = format_gap(writer_note.time, lower)
    return f"{fact}: late by {gap}, {stream} advanced without it to {lower_text}"


def _describe_result(stream: str, writer_note: Note, result: Accepted) -> str:
    """Describe the note, and how far the stream is complete or which rows are late."""
    fact = _describe_note(stream, writer_note, result.timeout_ms or 0)
    if result.exclusion is not None:
        reason = STATUS_WORDS[result.exclusion.reason]
        excluded_at = format_time(result.exclusion.excluded_at)
        return (
            f"{fact} But {stream} advanced without it ({reason} at {excluded_at}): "
            f"its rows below {format_time(result.lower)} are late."
        )
    if result.lower is None:  # before the first note
        return fact
    return f"{fact} {stream} is complete to {format_time(result.lower)}."


def _describe_note(stream: str, writer_note: Note, timeout_ms: int) -> str:
    writer = writer_note.writer
    if writer_note.state != "live":
        return f"{writer} is {writer_note.state}: {stream} does not wait for it."
    if isinstance(writer_note.late_rows, LateRows):
        rows = pluralize(writer_note.late_rows.rows, "row")
        min_time = format_time(writer_note.late_rows.min_time)
        return f"{writer} reported {rows} from {min_time} on that came below the watermark."
    if writer_note.time is None:
        timeout = format_duration(timeout_ms)
        return f"{writer} joined: {stream} waits for it, for {timeout} of silence at most."
    return f"{writer} noted {format_time(writer_note.time)}."
