"""`noted-time stream` and `seal`."""

from __future__ import annotations

import shlex
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import convert

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
from noted_time.installation import name_program
from noted_time.values import EventTimeForm, Rejected, UnknownStream, format_time, log_id, pluralize
from noted_time.verdict.words import EXPECTS_NO_WRITERS, suggest_expecting
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.client.settings import GivenSettings, format_setting, spell_option
from noted_time_cli.terminal.options import (
    NO_VALUES,
    CommentOption,
    LimitOption,
    Stream,
    Yes,
    option,
    parse_name,
)
from noted_time_cli.terminal.output import (
    Columns,
    confirm,
    format_position,
    make_column,
    print_table,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

FORM_FIELDS = (*EventTimeForm.__struct_fields__, "domain")

FEWER_WRITERS = (
    "{} no longer expects {}, because --expected-writer replaces the list. To expect them "
    "again, use --add-expected-writer"
)


def _get_seq(mark: Json) -> int | None:
    """Return the seq of a mark in a list, `None` if the domain has no mark."""
    seq: int | None = mark.get("seq")
    return seq


MARK_COLUMNS: Columns = {
    "stream": "stream",
    "domain": "domain",
    "mark": _get_seq,
    "lower": make_column("lower", format_time),
    "upper": make_column("upper", format_time),
    "cut": make_column("cut", format_position),
}

app = typer.Typer(name="stream", help="Create, change and remove streams.", no_args_is_help=True)


@app.command(name="list")
@client_command
def list_streams(call: Caller, *, limit: LimitOption = 100) -> None:
    """List the streams that you may read, and the last mark of each domain.

    Try it:  noted-time stream list --json
    """
    question = Question("GET", "/v1/streams", answer=StreamsPage)
    call.print_list(
        question, "streams", MARK_COLUMNS, list_rows=_list_marks, cursor="after", limit=limit
    )


@app.command()
@client_command
def create(
    call: Caller, stream: Stream, *, given_settings: GivenSettings, comment: CommentOption = None
) -> None:
    """Create a stream, or find that it exists with these settings.

    Write durations as 90m, 1h or 500ms. Declare each writer with --expected-writer. Otherwise the
    stream counts as complete as soon as its first writer notes.

    Try it:  noted-time stream create flights --expected-writer UA --expected-writer DL
    """
    path = stream_path(stream)
    settings = given_settings.sent
    try:
        stream_json = call.ask_json(Question("GET", path, answer=StreamAnswer))
    except UnknownStream:
        question = Question("PUT", path, {"comment": comment}, settings, answer=StreamAnswer)
        stream_json = call.ask_json(question)
        outcome = f"Created stream {stream}."
    else:
        _check_settings(stream_json, settings)
        outcome = f"Stream {stream} already exists. Its settings:"
    _report_settings(call, stream_json, outcome)


@app.command(name="set")
@client_command
def change_settings(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    *,
    given_settings: GivenSettings,
    add: Annotated[
        list[str],
        option(
            "NAME",
            "Also expect this writer. Repeatable.",
            "--add-expected-writer",
            parse=parse_name,
        ),
    ] = NO_VALUES,
    event_time_form: Annotated[
        str | None,
        option(
            "FORM",
            "How event times are read from now on, for example 'column=t zone=Europe/Berlin'. "
            "Fields: column, kind, zone, unit, format, domain.",
        ),
    ] = None,
    comment: CommentOption = None,
    yes: Yes = False,
) -> None:
    """Change settings of a stream. Settings that are not given stay.

    A list replaces the former list. To add a writer, use --add-expected-writer.

    An event-time form replaces the one that an observer has stated, for rows after the present
    positions. Then start the observer with the same zone, unit and format.

    Try it:  noted-time stream set flights --writer-timeout 90m
    """
    settings = given_settings.sent
    if not (settings or add or event_time_form):
        raise typer.BadParameter("no setting is given: name one, or use `stream show`")
    if event_time_form is not None:
        _replace_form(call, stream, event_time_form, comment)
        if not (settings or add):
            return
    path = stream_path(stream)
    changes = _list_changes(call, stream) if add else []
    last_change = max((change.number for change in changes), default=0)
    before = call.ask_json(Question("GET", path, answer=StreamAnswer))
    if "mark_retention_ms" in settings:
        _confirm_dropping(call, stream, settings, yes=yes)
    is_addition = bool(add) and "expected_writers" not in settings
    if add:
        expected: Json = dict.fromkeys((before | settings)["expected_writers"])
        settings["expected_writers"] = list(expected | dict.fromkeys(add))
    question = Question("PUT", path, {"comment": comment}, settings, answer=StreamAnswer)
    after = call.ask_json(question)
    while is_addition and (lost_writers := _find_overwritten(call, stream, settings, last_change)):
        settings["expected_writers"] += lost_writers
        after = call.ask_json(question)
    former_settings = {name: before[name] for name in settings}
    changed_settings = _list_differing(after, former_settings)
    differences = _compare_settings("{} is {}, and was {}", after, changed_settings)
    outcome = f"Stream {stream}: {differences or 'nothing has changed'}. Settings:"
    _report_settings(call, after, outcome)
    left_writers = sorted({*before["expected_writers"]} - {*after["expected_writers"]})
    if left_writers and after["expected_writers"]:
        say(f"noted-time: {FEWER_WRITERS.format(stream, ', '.join(left_writers))}")


def _replace_form(call: Caller, stream: str, text: str, comment: str | None) -> None:
    body = parse_event_time_form(text)
    path = stream_path(stream, "event-time-form")
    question = Question("PUT", path, {"comment": comment}, body, answer=StreamAnswer)
    stream_json = call.ask_json(question)
    if call.print_json(stream_json):
        return
    for domain, forms in stream_json["event_time_forms"].items():
        last_form = forms[-1]
        start = "the beginning"
        if last_form["position"]:
            start = format_position(last_form["position"])
        form = convert(last_form["form"], EventTimeForm)
        say(f"{stream} reads the event times of {domain} from {start} on: {form}.")


def parse_event_time_form(text: str) -> Json:
    """Return the form that pairs such as `column=t zone=UTC` describe, or raise `BadParameter`.

    Without a kind, a zone without a format is of local times, and a unit is of numbers.

    >>> parse_event_time_form("column=t unit=s")
    {'column': 't', 'unit': 's', 'kind': 'number'}
    >>> parse_event_time_form("column=t zone=Europe/Berlin format='%d.%m.%Y %H:%M'")["kind"]
    'text'
    """
    try:
        pairs = [word.split("=", 1) for word in shlex.split(text)]
    except ValueError as error:
        raise typer.BadParameter(f"{text[:80]!r}: {error}") from error
    unknown_fields = [pair[0] for pair in pairs if len(pair) == 1 or pair[0] not in FORM_FIELDS]
    if unknown_fields:
        field_names = ", ".join(FORM_FIELDS)
        raise typer.BadParameter(
            f"{unknown_fields[0][:40]!r} is not a field with a value: use {field_names}"
        )
    form: Json = dict(pairs)
    if "column" not in form:
        raise typer.BadParameter("name the column: column=…")
    if "kind" not in form:
        form["kind"] = _choose_kind(form)
    return form


def _choose_kind(form: Json) -> str:
    if "zone" in form and "format" not in form:
        return "local"
    if "unit" in form:
        return "number"
    return "text"


def _report_settings(call: Caller, stream: Json, outcome: str) -> None:
    if not call.print_json(stream):
        say(outcome)
        _print_settings(stream)
    if not stream["expected_writers"]:
        name = stream["name"]
        say(f"noted-time: {name} {EXPECTS_NO_WRITERS}: {suggest_expecting(name)}")


def _list_differing(stream: Json, settings: Json) -> Json:
    """Return the settings whose value in the stream is different, in any order of its list.

    >>> stream = {"domains": ["a", "b"], "max_segments": 9}
    >>> _list_differing(stream, {"domains": ["b", "a"], "max_segments": 10})
    {'max_segments': 10}
    """
    differing_settings: Json = {}
    for name, value in settings.items():
        is_equal = stream[name] == value
        if isinstance(value, list):
            is_equal = sorted(stream[name]) == sorted(value)
        if not is_equal:
            differing_settings[name] = value
    return differing_settings


def _compare_settings(form: str, stream: Json, values: Json) -> str:
    return "; ".join(
        form.format(name, format_setting(name, stream[name]), format_setting(name, value))
        for name, value in values.items()
    )


def _check_settings(stream: Json, settings: Json) -> None:
    """Raise `Rejected` if a stream has other settings, with the command that changes them."""
    differing_settings = _list_differing(stream, settings)
    if not differing_settings:
        return
    differences = _compare_settings("{} is {}, not {}", stream, differing_settings)
    options = " ".join(spell_option(name, value) for name, value in differing_settings.items())
    change = f"`{name_program()} stream set {stream['name']} {options}`"
    raise Rejected(f"stream {stream['name']} exists, but {differences}: {change} changes that")


def _list_changes(call: Caller, stream: str) -> Sequence[ChangeAnswer]:
    path = stream_path(stream, "changes")
    return call.ask(Question("GET", path, answer=ChangesPage)).changes


def _find_overwritten(call: Caller, stream: str, settings: Json, last_change: int) -> list[str]:
    """Return the writers that another command added after this one had read the list.

    So of commands that run at once, the last one finds all writers of the others.
    """
    sent_names = settings["expected_writers"]
    for change in _list_changes(call, stream):
        new_names = (change.new_values or {}).get("expected_writers")
        if change.number > last_change and new_names == sent_names:
            replaced_names = (change.old_values or {}).get("expected_writers", ())
            return [name for name in replaced_names if name not in sent_names]
    return []


def _confirm_dropping(call: Caller, stream: str, settings: Json, *, yes: bool) -> None:
    """Ask for confirmation if the controller would drop marks under the new settings."""
    question = Question(
        "PUT", stream_path(stream), {"dry_run": True}, settings, answer=DroppedAnswer
    )
    counts = call.ask(question).dropped.items()
    dropped_marks = [f"{pluralize(count, 'mark')} of {domain}" for domain, count in counts if count]
    if dropped_marks:
        say(f"{', '.join(dropped_marks)} would be dropped, for good.")
        confirm(f"Change the settings of {stream}?", yes=yes)


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
    for domain, forms in answer["event_time_forms"].items():
        form = convert(forms[-1]["form"], EventTimeForm)
        say(f"The event times of {domain} are read as {form}.")
    if answer["seal"] is not None:
        sealed_at = format_time(answer["seal"]["at"])
        cut = format_position(answer["seal"]["cut"])
        say(f"{stream} was sealed at {sealed_at}: it ends at {cut}.")


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
    logs = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer)).logs
    last_log = logs[-1] if logs else "the log so far"
    confirm(f"Has log {log} the same records at the same offsets as {last_log}?", yes=yes)
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
    writer_count = call.ask(Question("GET", path, {"limit": 1}, answer=WritersPage)).total
    mark_count = sum(mark.seq for mark in marks if mark)
    counts = f"{pluralize(writer_count, 'writer')} and {pluralize(mark_count, 'mark')}"
    confirm(f"Remove {stream} with {counts}, for good?", yes=yes)
    call.ask(Question("DELETE", stream_path(stream)))
    say(f"Removed stream {stream}.")


@client_command
def seal(call: Caller, stream: Stream, *, comment: CommentOption = None, yes: Yes = False) -> None:
    """Seal a stream for good, after confirmation.

    A sealed stream accepts no more notes, and all windows close. Live writers are finished at their
    last noted positions. Repeating the command changes nothing.

    Try it:  noted-time seal flights --comment "the season is over"
    """
    if not yes:
        # an unknown stream is reported, not asked about
        call.ask(Question("GET", stream_path(stream), answer=StreamAnswer))
    confirm(f"Seal {stream}? It will take no more notes; this cannot be undone.", yes=yes)
    path = stream_path(stream, "seal")
    question = Question("POST", path, {"comment": comment}, {}, answer=SealedAnswer)
    answer = call.ask_json(question)
    if call.print_json(answer):
        return
    for sentence in _describe_seal(stream, answer):
        say(sentence)


def _describe_seal(stream: str, answer: Json) -> list[str]:
    sentences = [f"{stream} is sealed at {format_position(answer['seal']['cut'])}."]
    for domain, mark in answer["marks"].items():
        fact = f"is at {format_time(mark['lower'])}" if mark else "never came"
        sentences.append(f"The last mark of {domain} {fact}.")
    if answer["never_noted"]:
        names = ", ".join(answer["never_noted"])
        sentences.append(f"Never noted a time, so it is unknown how far they wrote: {names}.")
    return sentences


def _print_settings(stream: Json) -> None:
    rows = [
        {"setting": name, "value": format_setting(name, value)}
        for name, value in stream.items()
        if name not in NO_SETTINGS
    ]
    print_table({"setting": "setting", "value": "value"}, rows)


NO_SETTINGS = frozenset(("marks", "scale_events", "seal", "event_time_forms"))


def _list_marks(stream: Json) -> list[Json]:
    marks = stream["marks"].items()
    return [{"stream": stream["name"], "domain": domain, **(mark or {})} for domain, mark in marks]
