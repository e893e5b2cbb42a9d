"""`noted-time note`: how a shell script notes time."""

from __future__ import annotations

from typing import Annotated

import typer

from controller.aggregation.shown.sentences import REASON_WORDS
from noted_time import Accepted, Note, Rejected, UnknownWriter, Unreachable
from noted_time.client import note_to_wire, stream_path
from noted_time.values import UNCHANGED, NotesRefused, State, shown_duration, shown_time, time_of
from noted_time_cli.calls.calling import Caller, calls, writer_path
from noted_time_cli.calls.waiting import UNANSWERED
from noted_time_cli.terminal.options import (
    NONE,
    DomainOption,
    Stream,
    WriterArgument,
    duration,
    offsets,
    option,
)
from noted_time_cli.terminal.output import fail, say
from writer_client.sending.answers import read_answer


@calls
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
    ] = NONE,
    join: Annotated[
        bool, typer.Option("--join", help="Wait for the writer from now on, if it is new.")
    ] = False,
    state: Annotated[
        State, typer.Option(help="`idle`: it may return; `finished`: it is done for good.")
    ] = "live",
    domain: DomainOption = None,
    timeout: Annotated[
        int, duration("How long it may be silent, such as 90m, from now on.")
    ] = UNCHANGED,
) -> None:
    """Note time for a writer, so that a script is one: everything before TIME is written.

    A new writer needs --join, so that a mistyped name holds nothing back. A script that runs every
    hour uses it each time, with a --timeout above an hour. Note the time only when the events are
    written for good.

    Ends with status 0 once the note is durable, with 1 if it is refused, and with 69 if no
    controller answered: then try again, since a note that comes twice changes nothing.

    Try it:  noted-time note flights UA 2013-01-01T10:00Z --position 0=120 --join
    """
    if time is None and state == "live" and not join:
        raise typer.BadParameter("give a TIME, or --join, or --state idle or finished")
    noted = None if time is None else time_of(time, up=False)
    reached = {int(segment): offset for segment, offset in offsets(position).items()}
    said = Note(writer, noted, reached, domain=domain, state=state, timeout_ms=timeout or UNCHANGED)
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
        fail(str(error), status=UNANSWERED)
    (result,) = read_answer(answer, 1).results
    if not isinstance(result, Accepted):
        raise result.error(writer)
    if not call.prints(answer["results"][0]):
        say(_sentence(stream, said, result))


def _sentence(stream: str, said: Note, result: Accepted) -> str:
    """Return what was noted, and where the watermark is now.

    >>> _sentence("orders", Note("berlin", state="idle"), Accepted(None))
    'berlin is idle: orders does not wait for it.'
    """
    who, lower = said.writer, result.lower
    if said.state != "live":
        first = f"{who} is {said.state}: {stream} does not wait for it."
    elif said.time is None:
        most = shown_duration(result.timeout_ms or 0)
        first = f"{who} joined: {stream} waits for it, for {most} of silence at most."
    else:
        first = f"{who} noted {shown_time(said.time)}."
    if result.exclusion is None:  # the lower is from before this note, which may be the first
        return first if lower is None else f"{first} {stream} is complete to {shown_time(lower)}."
    why, since = REASON_WORDS[result.exclusion.reason], shown_time(result.exclusion.since)
    return (
        f"{first} But {stream} went on without it ({why} at {since}): "
        f"what it writes below {shown_time(lower)} is late."
    )
