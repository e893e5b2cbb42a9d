"""Commands for the writers of a stream, and its history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, islice
from typing import Annotated

import typer
from msgspec import convert

from noted_time.answers import (
    ChangeAnswer,
    ChangesPage,
    Explanation,
    LedgerPage,
    StreamAnswer,
    WriterRow,
    WritersPage,
)
from noted_time.client import Json, Question, stream_path
from noted_time.values import (
    LONGEST_SUSPENSION_MS,
    EventTimeForm,
    NotedMeanwhile,
    format_duration,
    format_seconds,
    format_time,
    join_names,
)
from noted_time_cli.client.caller import MOST_ROWS, Caller, client_command, writer_path
from noted_time_cli.client.settings import format_setting
from noted_time_cli.terminal.flags import refuse_options
from noted_time_cli.terminal.options import (
    CommentOption,
    DomainOption,
    LimitOption,
    Stream,
    WriterArgument,
    Yes,
    duration,
    option,
)
from noted_time_cli.terminal.output import (
    Columns,
    confirm,
    format_position,
    make_column,
    print_table,
    say,
)

REMOVAL_ATTEMPTS = 3

MOST_PAGES = 100  # of changes, to find the comments of removals

NOT_KNOWN = "(not known)"


def _format_session(writer: Json) -> str | None:
    session: Json = writer["session"] or {}
    return session.get("label") or session.get("session")


def _format_state(writer: Json) -> str:
    """Format the state, with the writer's reason not to note and its silence.

    >>> row = {"state": "live", "no_time_reason": None, "is_silent": True, "silent_ms": 120_000}
    >>> _format_state(row)
    'live, silent 2m'
    """
    state: str = writer["state"]
    if writer["no_time_reason"]:
        state += f": alive, but {writer['no_time_reason']}"
    if writer["is_silent"]:
        state += f", silent {format_seconds(writer['silent_ms'])}"
    return state


def _format_suspension(writer: Json) -> str | None:
    if writer["suspension_ends_at"] is None:
        return None
    end = format_time(writer["suspension_ends_at"])
    origin = [text for text in (writer["suspended_by"], writer["suspension_reason"]) if text]
    if origin:
        end += f" ({': '.join(origin)})"
    return end


def _format_times(writer: Json) -> str:
    return " ".join(f"{domain}={format_time(time)}" for domain, time in writer["times"].items())


def _format_last_note(writer: Json) -> str:
    return "never" if writer["is_expected"] else format_time(writer["noted_at"])


def _format_late_rows(report: Json) -> str:
    rows = str(report["rows"])
    if report["may_have_more"]:
        rows += " and more"
    return rows


WRITER_COLUMNS: Columns = {
    "writer": "writer",
    "state": _format_state,
    "times": _format_times,
    "position": make_column("position", format_position),
    "noted at": _format_last_note,
    "holding back since": make_column("holding_back_began_at", format_time),
    "timeout suspended until": _format_suspension,
    "session": _format_session,
    "contact": "contact",
}
LEDGER_COLUMNS: Columns = {
    "seq": "seq",
    "at": make_column("at", format_time),
    "from": make_column("from_lower", format_time),
    "to": make_column("to_lower", format_time),
    "writer": "writer",
    "reason": "reason",
    "its time": make_column("last_time", format_time),
    "its position": make_column("position", format_position),
    "by": "by",
    "comment": "comment",
}
LATE_COLUMNS: Columns = {
    "writer": "writer",
    "late rows": _format_late_rows,
    "from": make_column("min_time", format_time),
    "to": make_column("max_time", format_time),
    "first seen": make_column("first_seen_at", format_time),
    "last seen": make_column("last_seen_at", format_time),
}


@client_command
def writers(
    call: Caller,
    context: typer.Context,
    stream: Stream,
    writer: Annotated[
        str | None, typer.Argument(metavar="WRITER", show_default=False, help="Show this writer.")
    ] = None,
    *,
    limit: LimitOption = 100,
) -> None:
    """List the writers of a stream, or show one of them.

    Writers that hold back the watermark come first.

    Try it:  noted-time writers flights --limit 10
    """
    if writer is None:
        question = Question("GET", stream_path(stream, "writers"), answer=WritersPage)
        call.print_list(question, "writers", WRITER_COLUMNS, cursor="start", limit=limit)
        return
    refuse_options(context, "with WRITER", "limit")
    member = call.ask_json(Question("GET", writer_path(stream, writer), answer=WriterRow))
    if not call.print_json(member):
        print_table(WRITER_COLUMNS, [member])


@client_command
def remove(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    writer: WriterArgument,
    *,
    domain: Annotated[
        str | None, option("DOMAIN", "Do not miss it in this domain, which it dropped.")
    ] = None,
    comment: CommentOption = None,
    yes: Yes = False,
) -> None:
    """Exclude a writer at its last position, after confirmation.

    The command shows the effect and asks, again if the writer notes meanwhile. When the writer
    notes later, it becomes a member again.

    A writer that drops a domain from its domains is missing there until it notes it again. With
    --domain, it stays a member and is not missing there from the next mark on.

    Try it:  noted-time remove flights UA --comment "its machine is gone"
    """
    path = writer_path(stream, writer)
    if domain is not None:
        confirm(f"Has {writer} no more rows in {domain}?", yes=yes)
        query = {"domain": domain, "comment": comment}
        if not call.print_json(call.ask_json(Question("DELETE", path, query, answer=WriterRow))):
            say(f"{writer} is not missing in {domain} from the next mark on.")
        return
    for turn in count(1):
        row = call.ask_json(Question("GET", path, answer=WriterRow))
        exclusion = row["excluded"]
        if exclusion and exclusion["reason"] == "removed":
            removed_at = format_time(exclusion["excluded_at"])
            if not call.print_json(row):
                say(f"Nothing has changed: {writer} was removed from {stream} at {removed_at}.")
            return
        _confirm_removal(call, stream, row, yes=yes)
        query = {"unless_noted_since": row["noted_at"], "comment": comment}
        try:
            removed_row = call.ask_json(Question("DELETE", path, query, answer=WriterRow))
            break
        except NotedMeanwhile as error:
            if yes and turn == REMOVAL_ATTEMPTS:
                raise
            say(f"{writer} has noted meanwhile, at {format_time(error.noted_at)}.")
    if not call.print_json(removed_row):
        position = removed_row["position"]
        sentence = f"Removed {writer} from {stream}"
        if position:
            sentence += f", at position {format_position(position)}"
        say(f"{sentence}.")


def _confirm_removal(call: Caller, stream: str, row: Json, *, yes: bool) -> None:
    """Say what the removal changes and when the writer noted last, and ask for confirmation."""
    for sentence in _list_effects(call, stream, row):
        say(sentence)
    if row["is_expected"]:
        say(f"{row['writer']} never noted.")
    else:
        say(f"{row['writer']} noted last at {format_time(row['noted_at'])}.")
    confirm(f"Remove {row['writer']}?", yes=yes)


def _list_effects(call: Caller, stream: str, row: Json) -> Iterator[str]:
    """Yield the dry run of each domain, and the change by the removal if no watermark moves."""
    path = stream_path(stream, "explain")
    answer = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer))
    is_moved = False
    for domain in answer.domains:
        query = {"domain": domain, "exclude": [row["writer"]]}
        explanation = call.ask(Question("GET", path, query, answer=Explanation))
        yield f"{explanation.sentences[0]} {explanation.sentences[-1]}"
        is_moved = is_moved or not _is_unmoved(explanation)
    if not is_moved:
        seqs = {domain: mark.seq for domain, mark in answer.marks.items() if mark}
        yield f"The watermark does not move by this; {_describe_last_times(row, seqs)}."


def _is_unmoved(explanation: Explanation) -> bool:
    """Return whether the dry run has the decision of now."""
    dry_run = explanation.dry_run
    if dry_run is None or dry_run.excluded:
        return False
    is_advance = explanation.decision == "advance"
    lower = explanation.next_lower if is_advance else explanation.lower
    return (dry_run.decision, dry_run.lower) == (explanation.decision, lower)


def _describe_last_times(row: Json, seqs: Mapping[str, int]) -> str:
    """Describe up to when a writer vouches once it is removed; `seqs` are of the last marks.

    >>> spell = {"from_seq": 2, "to_time": None}
    >>> row = {"writer": "UA", "times": {"a": 7, "b": 9}, "vouching": {"a": [spell], "b": [spell]}}
    >>> _describe_last_times(row, {"a": 2, "b": 3})
    'UA then vouches to 7 (a) and 9 (b) only'
    >>> _describe_last_times(row, {"a": 2, "b": 1})
    'UA then vouches to 7 (a) only'
    >>> _describe_last_times(row, {"a": 1})
    'no mark counts UA yet, so UA then vouches for nothing'
    """
    writer = row["writer"]
    last_times = []
    for domain, spells in row["vouching"].items():
        is_counted = any(spell["from_seq"] <= seqs.get(domain, 0) for spell in spells)
        if domain in row["times"] and is_counted:
            last_time = format_time(row["times"][domain])
            if len(row["vouching"]) > 1:
                last_time += f" ({domain})"
            last_times.append(last_time)
    if not last_times:
        return f"no mark counts {writer} yet, so {writer} then vouches for nothing"
    return f"{writer} then vouches to {join_names(last_times)} only"


@client_command
def suspend_timeout(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    writer: WriterArgument,
    *,
    comment: CommentOption = None,
    lasting: Annotated[
        int | None,
        duration(
            "How long to suspend it, such as 90m.",
            "--for",
            minimum=1,
            maximum=LONGEST_SUSPENSION_MS,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="End the suspension. The timeout applies again.")
    ] = False,
) -> None:
    """Wait for a writer and ignore its timeout, for example during a repair.

    Until its timeout has passed since its last note, the stream waits for it anyway. A suspension
    that ends before then changes nothing, and is not made.

    Try it:  noted-time suspend-timeout flights UA --for 90m
    """
    if (lasting is None) is not resume:
        raise typer.BadParameter("use either --for DURATION or --resume")
    path = writer_path(stream, writer, "suspension")
    query = {"comment": comment}
    if lasting is None:
        question = Question("DELETE", path, query, answer=WriterRow)
        sentence = f"The timeout of {writer} applies again."
    else:
        row = call.ask(Question("GET", writer_path(stream, writer), answer=WriterRow))
        answer = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer))
        reason = _describe_needless(row, answer.writer_timeout_ms, lasting)
        if reason is not None and not _is_suspended(call, stream, row):
            if not call.print_json(row):
                say(f"This changes nothing: {reason}")
            return
        question = Question("POST", path, query, {"for_ms": lasting}, answer=WriterRow)
        sentence = (
            f"{stream} waits for {writer} for {format_duration(lasting)}, and ignores its timeout."
        )
    if not call.print_json(call.ask(question)):
        say(sentence)


def _is_suspended(call: Caller, stream: str, row: WriterRow) -> bool:
    """Return whether the timeout is suspended now. Another suspension may then be shorter."""
    if row.suspension_ends_at is None:
        return False
    page = call.ask(
        Question("GET", stream_path(stream, "writers"), {"limit": 1}, answer=WritersPage)
    )
    return row.suspension_ends_at > page.now


def _describe_needless(row: WriterRow, stream_timeout_ms: int, for_ms: int) -> str | None:
    """Return why a suspension changes nothing, or `None` if it ends after the writer's timeout."""
    if row.silent_ms is None:
        return None
    timeout_ms = stream_timeout_ms if row.timeout_ms is None else row.timeout_ms
    left_ms = timeout_ms - row.silent_ms
    if for_ms > left_ms:
        return None
    last = "is expected since" if row.is_expected else "noted last at"
    longer_ms = min(2 * timeout_ms, LONGEST_SUSPENSION_MS)
    return (
        f"{row.writer} {last} {format_time(row.noted_at)}, and its timeout of "
        f"{format_duration(timeout_ms)} ends in {format_duration(left_ms)} at the earliest. "
        f"Suspend it for longer, such as {format_duration(longer_ms)}."
    )


@client_command
def ledger(
    call: Caller, stream: Stream, *, domain: DomainOption = None, limit: LimitOption = 100
) -> None:
    """List each advance of the watermark that excluded a writer, and the late rows.

    Try it:  noted-time ledger flights
    """
    call.print_list(
        Question("GET", stream_path(stream, "ledger"), {"domain": domain}, answer=LedgerPage),
        "entries",
        LEDGER_COLUMNS,
        list_rows=partial(_list_absences, Removals(call, stream)),
        cursor="after",
        limit=limit,
        also=("late_reports", LATE_COLUMNS),
    )


class Removals:
    """The removals of writers by operators. Pages of changes are read when they are needed."""

    def __init__(self, call: Caller, stream: str) -> None:
        self._removals: list[ChangeAnswer] = []
        self._pages = islice(_read_changes(call, stream), MOST_PAGES)

    def find_comment(self, writer: str, at: int) -> str | None:
        """Return the comment of the last removal up to `at`, or `NOT_KNOWN` if it is not kept."""
        for removal in self._read():
            if removal.writer == writer and removal.at <= at:
                return removal.comment
        return NOT_KNOWN

    def _read(self) -> Iterator[ChangeAnswer]:
        """Yield the removals, newest first."""
        yield from self._removals
        for page in self._pages:
            removals = [change for change in page.changes if _is_exclusion(change)]
            self._removals += removals
            yield from removals


def _read_changes(call: Caller, stream: str) -> Iterator[ChangesPage]:
    path = stream_path(stream, "changes")
    before = None
    while True:
        query = {"limit": MOST_ROWS, "before": before}
        page = call.ask(Question("GET", path, query, answer=ChangesPage))
        yield page
        if page.next is None:
            return
        before = page.next


def _is_exclusion(change: ChangeAnswer) -> bool:
    """Return whether an operator removed the writer, and not only from one domain."""
    return change.action == "removed" and not change.new_values


def _list_absences(removals: Removals, entry: Json) -> list[Json]:
    """Return a row for each writer, with the comment of the operator who removed it."""
    rows = []
    for absence in entry["writers"]:
        comment = None
        if absence["reason"] == "removed":
            comment = removals.find_comment(absence["writer"], entry["at"])
        rows.append(entry | absence | {"comment": comment})
    for writer in entry["returned_writers"]:
        rows.append(entry | {"writer": writer, "reason": "returned", "comment": None})
    return rows


@client_command
def changes(call: Caller, stream: Stream, *, limit: LimitOption = 100) -> None:
    """List the changes that operators made, newest first.

    Try it:  noted-time changes flights --limit 10
    """
    question = Question("GET", stream_path(stream, "changes"), answer=ChangesPage)
    call.print_list(question, "changes", CHANGE_COLUMNS, cursor="before", limit=limit)


def _describe_change(change: Json) -> str:
    """Describe the details of a change, if any.

    >>> change = {"old_values": None, "new_values": {"for_ms": 60_000}}
    >>> _describe_change({"action": "timeout_suspended", **change})
    'for 1m'
    >>> settings = {"old_values": {"domains": ["a"]}, "new_values": {"domains": ["a", "b"]}}
    >>> _describe_change({"action": "settings", **settings})
    'domains: a → a, b'
    """
    describe = CHANGE_DESCRIPTIONS.get(change["action"])
    if describe is None:
        return ""
    return describe(change["old_values"] or {}, change["new_values"] or {})


def _describe_settings(was: Json, is_now: Json) -> str:
    changes = []
    for name, old_value in was.items():
        new_value = is_now[name]
        changes.append(
            f"{name}: {format_setting(name, old_value)} → {format_setting(name, new_value)}"
        )
    return "; ".join(changes)


def _describe_removal(_: Json, event: Json) -> str:
    """Name the domain of the removal, if it is of one domain."""
    return f"from {event['domain']}" if event else ""


def _describe_takeover(was: Json, is_now: Json) -> str:
    return f"{was['label'] or '-'} → {is_now['label'] or '-'}"


def _describe_suspension(_: Json, event: Json) -> str:
    return f"for {format_duration(event['for_ms'])}"


def _describe_seal(_: Json, event: Json) -> str:
    return f"at {format_position(event['cut'])}"


def _describe_truncation(_: Json, event: Json) -> str:
    return f"up to {format_position(event['cut'])}"


def _describe_scaling(_: Json, event: Json) -> str:
    created_segments = " ".join(sorted(event["created"], key=int)) or "-"
    return f"sealed {format_position(event['sealed'])}, created {created_segments}"


def _describe_went_back(was: Json, is_now: Json) -> str:
    first_seq = is_now["seq"] + 1
    return f"the database lost marks {first_seq} to {was['seq']} of {was['domain']}"


def _describe_form(_: Json, is_now: Json) -> str:
    return f"{is_now['domain']}: {convert(is_now['form'], EventTimeForm)}"


CHANGE_DESCRIPTIONS: Mapping[str, Callable[[Json, Json], str]] = {
    "settings": _describe_settings,
    "event_time_form": _describe_form,
    "removed": _describe_removal,
    "taken_over": _describe_takeover,
    "went_back": _describe_went_back,
    "timeout_suspended": _describe_suspension,
    "sealed": _describe_seal,
    "truncated": _describe_truncation,
    "scaled": _describe_scaling,
}


CHANGE_COLUMNS: Columns = {
    "number": "number",
    "at": make_column("at", format_time),
    "action": "action",
    "writer": "writer",
    "what": _describe_change,
    "by": "by",
    "comment": "comment",
}
