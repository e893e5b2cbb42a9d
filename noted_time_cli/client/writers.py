"""Commands for the writers of a stream, and its history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
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
from noted_time_cli.terminal.output import Columns, confirm, format_position, print_table, say

REMOVAL_ATTEMPTS = 3


def _format_session(writer: Json) -> str | None:
    session: Json = writer["session"] or {}
    return session.get("label") or session.get("session")


def _format_state(writer: Json) -> str:
    """Format the state, with the writer's reason not to note and its silence.

    >>> row = {"state": "live", "no_time_reason": None, "is_silent": True, "silent_ms": 120_000}
    >>> _format_state(row)
    'live, silent 2m'
    """
    silent = f", silent {format_seconds(writer['silent_ms'])}" if writer["is_silent"] else ""
    reason = writer["no_time_reason"]
    alive = f": alive, but {reason}" if reason else ""
    return f"{writer['state']}{alive}{silent}"


def _format_suspension(writer: Json) -> str | None:
    if writer["suspension_ends_at"] is None:
        return None
    why = ": ".join(filter(None, (writer["suspended_by"], writer["suspension_reason"])))
    return f"{format_time(writer['suspension_ends_at'])}{f' ({why})' if why else ''}"


WRITER_COLUMNS: Columns = {
    "writer": "writer",
    "state": _format_state,
    "times": lambda row: " ".join(f"{k}={format_time(v)}" for k, v in row["times"].items()),
    "position": lambda row: format_position(row["position"]),
    "noted at": lambda row: "never" if row["is_expected"] else format_time(row["noted_at"]),
    "holding back since": lambda row: format_time(row["holding_back_began_at"]),
    "timeout suspended until": _format_suspension,
    "session": _format_session,
    "contact": "contact",
}
LEDGER_COLUMNS: Columns = {
    "seq": "seq",
    "at": lambda row: format_time(row["at"]),
    "from": lambda row: format_time(row["from_lower"]),
    "to": lambda row: format_time(row["to_lower"]),
    "writer": "writer",
    "reason": "reason",
    "its time": lambda row: format_time(row.get("last_time")),
    "its position": lambda row: format_position(row.get("position")),
    "by": "by",
    "comment": "comment",
}
LATE_COLUMNS: Columns = {
    "writer": "writer",
    "late rows": lambda row: f"{row['rows']} and more" if row["may_have_more"] else row["rows"],
    "from": lambda row: format_time(row["min_time"]),
    "to": lambda row: format_time(row["max_time"]),
    "first seen": lambda row: format_time(row["first_seen_at"]),
    "last seen": lambda row: format_time(row["last_seen_at"]),
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
        noted_at, excluded = row["noted_at"], row["excluded"]
        if excluded and excluded["reason"] == "removed":
            since = format_time(excluded["excluded_at"])
            if not call.print_json(row):
                say(f"Nothing has changed: {writer} was removed from {stream} at {since}.")
            return
        for line in _list_effects(call, stream, row):
            say(line)
        last = "never noted" if row["is_expected"] else f"noted last at {format_time(noted_at)}"
        say(f"{writer} {last}.")
        confirm(f"Remove {writer}?", yes=yes)
        query = {"unless_noted_since": noted_at, "comment": comment}
        try:
            removed = call.ask_json(Question("DELETE", path, query, answer=WriterRow))
            break
        except NotedMeanwhile as noted:
            if yes and turn == REMOVAL_ATTEMPTS:
                raise
            say(f"{writer} has noted meanwhile, at {format_time(noted.noted_at)}.")
    if not call.print_json(removed):
        position = removed["position"]
        at = f", at position {format_position(position)}" if position else ""
        say(f"Removed {writer} from {stream}{at}.")


def _list_effects(call: Caller, stream: str, row: Json) -> Iterator[str]:
    """Yield the dry run of each domain, and the change by the removal if no watermark moves."""
    path, writer = stream_path(stream, "explain"), row["writer"]
    answer = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer))
    is_moved = False
    for domain in answer.domains:
        query = {"domain": domain, "exclude": [writer]}
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
    writer, times, ends = row["writer"], row["times"], []
    for domain, spells in row["vouching"].items():
        is_counted = any(spell["from_seq"] <= seqs.get(domain, 0) for spell in spells)
        if domain in times and is_counted:
            name = f" ({domain})" if len(row["vouching"]) > 1 else ""
            ends.append(f"{format_time(times[domain])}{name}")
    if not ends:
        return f"no mark counts {writer} yet, so {writer} then vouches for nothing"
    return f"{writer} then vouches to {join_names(ends)} only"


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
            "How long to suspend it, such as 90m.", "--for", least=1, most=LONGEST_SUSPENSION_MS
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
    path, query = writer_path(stream, writer, "suspension"), {"comment": comment}
    if lasting is None:
        question = Question("DELETE", path, query, answer=WriterRow)
        done = f"The timeout of {writer} applies again."
    else:
        row = call.ask(Question("GET", writer_path(stream, writer), answer=WriterRow))
        answer = call.ask(Question("GET", stream_path(stream), answer=StreamAnswer))
        why = _describe_needless(row, answer.writer_timeout_ms, lasting)
        if why is not None and not _is_suspended(call, stream, row):
            if not call.print_json(row):
                say(f"This changes nothing: {why}")
            return
        question = Question("POST", path, query, {"for_ms": lasting}, answer=WriterRow)
        done = (
            f"{stream} waits for {writer} for {format_duration(lasting)}, and ignores its timeout."
        )
    if not call.print_json(call.ask(question)):
        say(done)


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
    removals: Sequence[ChangeAnswer] = ()
    if not call.as_json:
        removals = _list_removals(call, stream)
    call.print_list(
        Question("GET", stream_path(stream, "ledger"), {"domain": domain}, answer=LedgerPage),
        "entries",
        LEDGER_COLUMNS,
        rows=partial(_list_absences, removals),
        cursor="after",
        limit=limit,
        also=("late_reports", LATE_COLUMNS),
    )


def _list_removals(call: Caller, stream: str) -> Sequence[ChangeAnswer]:
    """Return the latest removals of writers by operators, newest first."""
    path = stream_path(stream, "changes")
    page = call.ask(Question("GET", path, {"limit": MOST_ROWS}, answer=ChangesPage))
    return [change for change in page.changes if change.action == "removed"]


def _list_absences(removals: Sequence[ChangeAnswer], entry: Json) -> list[Json]:
    """Return a row for each writer, with the comment of the operator who removed it."""
    rows = []
    for absence in entry["writers"]:
        comment = None
        if absence["reason"] == "removed":
            comment = _find_comment(removals, absence["writer"], entry["at"])
        rows.append(entry | absence | {"comment": comment})
    for writer in entry["returned_writers"]:
        rows.append(entry | {"writer": writer, "reason": "returned", "comment": None})
    return rows


def _find_comment(removals: Sequence[ChangeAnswer], writer: str, at: int) -> str | None:
    for removal in removals:
        if removal.writer == writer and removal.at <= at:
            return removal.comment
    return None


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
    words = CHANGE_DESCRIPTIONS.get(change["action"])
    return words(change["old_values"] or {}, change["new_values"] or {}) if words else ""


def _describe_settings(was: Json, is_now: Json) -> str:
    pairs = ((name, format_setting(name, old), is_now[name]) for name, old in was.items())
    return "; ".join(f"{name}: {old} → {format_setting(name, new)}" for name, old, new in pairs)


def _describe_scaling(_: Json, event: Json) -> str:
    created = " ".join(sorted(event["created"], key=int)) or "-"
    return f"sealed {format_position(event['sealed'])}, created {created}"


def _describe_went_back(was: Json, is_now: Json) -> str:
    first, last, domain = is_now["seq"] + 1, was["seq"], was["domain"]
    return f"the database lost marks {first} to {last} of {domain}"


def _describe_form(_: Json, is_now: Json) -> str:
    return f"{is_now['domain']}: {convert(is_now['form'], EventTimeForm)}"


CHANGE_DESCRIPTIONS: Mapping[str, Callable[[Json, Json], str]] = {
    "settings": _describe_settings,
    "event_time_form": _describe_form,
    "removed": lambda _, is_now: f"from {is_now['domain']}" if is_now else "",
    "taken_over": lambda was, is_now: f"{was['label'] or '-'} → {is_now['label'] or '-'}",
    "went_back": _describe_went_back,
    "timeout_suspended": lambda _, is_now: f"for {format_duration(is_now['for_ms'])}",
    "sealed": lambda _, is_now: f"at {format_position(is_now['cut'])}",
    "truncated": lambda _, is_now: f"up to {format_position(is_now['cut'])}",
    "scaled": _describe_scaling,
}


CHANGE_COLUMNS: Columns = {
    "number": "number",
    "at": lambda change: format_time(change["at"]),
    "action": "action",
    "writer": "writer",
    "what": _describe_change,
    "by": "by",
    "comment": "comment",
}
