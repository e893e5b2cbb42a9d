"""`noted-time stream` and `seal`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time.answers import (
    ChangeAnswer,
    ChangesPage,
    DroppedAnswer,
    SealedAnswer,
    StreamAnswer,
    StreamsPage,
    WritersPage,
)
from noted_time.client import Json, Question, stream_path
from noted_time.coding import convert_to_json
from noted_time.installation import name_program
from noted_time.values import Rejected, UnknownStream, format_time, log_id, pluralize
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.client.settings import GivenSettings, format_setting
from noted_time_cli.terminal.options import (
    NO_VALUES,
    CommentOption,
    LimitOption,
    Stream,
    Yes,
    option,
    parse_name,
)
from noted_time_cli.terminal.output import Columns, confirm, format_position, print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OPEN_STREAM = (
    "{0} expects no writers, so its first writer alone makes it complete, and missing writers are "
    "not detected: {1} stream create {0} --expected-writer NAME …"
)
FEWER_WRITERS = (
    "{} no longer expects {}, because --expected-writer replaces the list. To expect them "
    "again, use --add-expected-writer"
)

MARK_COLUMNS: Columns = {
    "stream": "stream",
    "domain": "domain",
    "mark": lambda mark: mark.get("seq"),
    "lower": lambda mark: format_time(mark.get("lower")),
    "upper": lambda mark: format_time(mark.get("upper")),
    "cut": lambda mark: format_position(mark.get("cut")),
}

app = typer.Typer(name="stream", help="Create, show and remove streams.", no_args_is_help=True)


@app.command(name="list")
@client_command
def list_streams(call: Caller, *, limit: LimitOption = 100) -> None:
    """List the streams that you may read, and the last mark of each domain.

    Try it:  noted-time stream list --json
    """
    question = Question("GET", "/v1/streams", answer=StreamsPage)
    call.print_list(
        question, "streams", MARK_COLUMNS, rows=_list_marks, cursor="after", limit=limit
    )


@app.command()
@client_command
def create(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    *,
    given: GivenSettings,
    add: Annotated[
        list[str],
        option(
            "NAME",
            "Also expect this writer. Repeatable.",
            "--add-expected-writer",
            parse=parse_name,
        ),
    ] = NO_VALUES,
    comment: CommentOption = None,
    yes: Yes = False,
) -> None:
    """Create a stream, or change settings of an existing stream.

    Write durations as 90m, 1h or 500ms. Declare each writer with --expected-writer. Otherwise the
    stream counts as complete as soon as its first writer notes.

    Try it:  noted-time stream create flights --expected-writer UA --expected-writer DL
    """
    settings = given.sent
    path, query = stream_path(stream), {"comment": comment}
    if "mark_retention_ms" in settings and (dropped := _describe_dropped(call, stream, settings)):
        say(f"{dropped} would be dropped, for good.")
        confirm(f"Change the settings of {stream}?", yes=yes)
    before: Json = {}
    last_change = 0
    with suppress(UnknownStream if add else Rejected):  # it may not be readable
        changes = _list_changes(call, stream) if add else []
        last_change = max((each.number for each in changes), default=0)
        before = call.ask_json(Question("GET", path, answer=StreamAnswer))
    is_addition = bool(add) and "expected_writers" not in settings
    if add:
        expected: Json = dict.fromkeys((before | settings).get("expected_writers", ()))
        settings["expected_writers"] = list(expected | dict.fromkeys(add))
    question = Question("PUT", path, query, settings, answer=StreamAnswer)
    status, answer = call.answer(question)
    while is_addition and (lost := _find_overwritten(call, stream, settings, last_change)):
        settings["expected_writers"] += lost
        answer = call.ask(question)
    created: Json = convert_to_json(answer)
    if not call.print_json(created):
        changed = _describe_changes(before, created, settings)
        is_new = status == HTTPStatus.CREATED
        exists = f"Stream {stream} already exists: {changed}. Settings:"
        say(f"Created stream {stream}." if is_new else exists)
        _print_settings(created)
    if not created["expected_writers"]:
        say(f"noted-time: {OPEN_STREAM.format(stream, name_program())}")
    elif left := sorted({*before.get("expected_writers", ())} - {*created["expected_writers"]}):
        say(f"noted-time: {FEWER_WRITERS.format(stream, ', '.join(left))}")


def _list_changes(call: Caller, stream: str) -> Sequence[ChangeAnswer]:
    path = stream_path(stream, "changes")
    return call.ask(Question("GET", path, answer=ChangesPage)).changes


def _find_overwritten(call: Caller, stream: str, settings: Json, last_change: int) -> list[str]:
    """Return the writers that another command added after this one had read the list.

    So of commands that run at once, the last one finds all writers of the others.
    """
    sent = settings["expected_writers"]
    for change in _list_changes(call, stream):
        if change.number > last_change and (change.became or {}).get("expected_writers") == sent:
            replaced = (change.was or {}).get("expected_writers", ())
            return [each for each in replaced if each not in sent]
    return []


def _describe_changes(before: Json, now: Json, given: Iterable[str]) -> str:
    """Describe the given settings that changed.

    >>> _describe_changes({"writer_timeout_ms": 60_000}, {"writer_timeout_ms": 5000},
    ...     {"writer_timeout_ms"})
    'writer_timeout_ms is 5s, and was 1m'
    """
    changed = [
        f"{name} is {format_setting(name, now[name])}, and was {format_setting(name, before[name])}"
        for name in given
        if name in before and before[name] != now[name]
    ]
    return "; ".join(changed) or "nothing has changed"


def _describe_dropped(call: Caller, stream: str, settings: Json) -> str:
    try:
        query = {"dry_run": True}
        would = call.ask(
            Question("PUT", stream_path(stream), query, settings, answer=DroppedAnswer)
        )
    except UnknownStream:
        return ""
    counts = would.dropped.items()
    return ", ".join(f"{pluralize(count, 'mark')} of {domain}" for domain, count in counts if count)


@app.command()
@client_command
def show(call: Caller, stream: Stream) -> None:
    """Show a stream's settings and the last mark of each domain.

    Try it:  noted-time stream show flights
    """
    answer = call.ask_json(Question("GET", stream_path(stream), answer=StreamAnswer))
    if call.print_json(answer):
        return
    _print_settings(answer)
    print_table(MARK_COLUMNS, _list_marks(answer))
    if answer["seal"] is not None:
        at, cut = format_time(answer["seal"]["at"]), format_position(answer["seal"]["cut"])
        say(f"{stream} was sealed at {at}: it ends at {cut}.")


@app.command()
@partial(client_command, prints=False)
def log(
    call: Caller,
    stream: Stream,
    log: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a Kafka topic, as Kafka prints it.")
    ],
    *,
    comment: CommentOption = None,
    yes: Yes = False,
) -> None:
    """Accept positions of another log with the same offsets, after confirmation.

    Only a linked or a restored log has the same offsets. For a topic that was recreated, or
    mirrored with different offsets, create a separate stream.

    Try it:  noted-time stream log flights l-Nn1Hl_QmqdyIVaRTaVpA
    """
    log = log_id(log)
    known = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer)).logs
    present = known[-1] if known else "the log so far"
    confirm(f"Has log {log} the same records at the same offsets as {present}?", yes=yes)
    body = {"log": log, "same_offsets": True}
    call.ask(Question("PUT", stream_path(stream), {"comment": comment}, body, answer=StreamAnswer))
    say(f"{stream} takes positions of log {log}.")


@app.command()
@partial(client_command, prints=False)
def delete(call: Caller, stream: Stream, *, yes: Yes = False) -> None:
    """Delete a stream with all its notes, marks and readers, after confirmation.

    Try it:  noted-time stream delete flights
    """
    marks = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer)).marks.values()
    path = stream_path(stream, "writers")
    writers = call.ask(Question("GET", path, {"limit": 1}, answer=WritersPage)).total
    counts = (
        pluralize(writers, "writer"),
        pluralize(sum(each.seq for each in marks if each), "mark"),
    )
    confirm(f"Remove {stream} with {' and '.join(counts)}, for good?", yes=yes)
    call.ask(Question("DELETE", stream_path(stream)))
    say(f"Removed stream {stream}.")


@client_command
def seal(call: Caller, stream: Stream, *, comment: CommentOption = None, yes: Yes = False) -> None:
    """Seal a stream for good, after confirmation.

    A sealed stream accepts no more notes, and all windows close. Live writers are finished at their
    last noted positions. Repeating the command changes nothing.

    Try it:  noted-time seal flights --comment "the season is over"
    """
    confirm(f"Seal {stream}? It will take no more notes; this cannot be undone.", yes=yes)
    path, query = stream_path(stream, "seal"), {"comment": comment}
    sealed = call.ask_json(Question("POST", path, query, {}, answer=SealedAnswer))
    if call.print_json(sealed):
        return
    for sentence in _describe_seal(stream, sealed):
        say(sentence)


def _describe_seal(stream: str, sealed: Json) -> list[str]:
    sentences = [f"{stream} is sealed at {format_position(sealed['seal']['cut'])}."]
    for domain, mark in sealed["marks"].items():
        at = f"is at {format_time(mark['lower'])}" if mark else "never came"
        sentences.append(f"The last mark of {domain} {at}.")
    if sealed["never_noted"]:
        names = ", ".join(sealed["never_noted"])
        sentences.append(f"Never noted a time, so it is unknown how far they wrote: {names}.")
    return sentences


def _print_settings(stream: Json) -> None:
    rows = [
        {"setting": name, "value": format_setting(name, value)}
        for name, value in stream.items()
        if name not in NO_SETTINGS
    ]
    print_table({"setting": "setting", "value": "value"}, rows)


NO_SETTINGS = frozenset(("marks", "scale_events", "seal"))


def _list_marks(stream: Json) -> list[Json]:
    marks = stream["marks"].items()
    return [{"stream": stream["name"], "domain": domain, **(mark or {})} for domain, mark in marks]
