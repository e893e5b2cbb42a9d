"""`noted-time wait`: a sensor for shell scripts and schedulers."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, TypeVar

import typer

from controller.aggregation.views.sentences import NAMES_PER_SENTENCE, REASON_WORDS, join_names
from noted_time import Conflict, NotCompleteYet, OpenStream, Unreachable
from noted_time.client import (
    Json,
    late_from_wire,
    not_vouching_from_wire,
    run,
    stream_path,
    vouching_from_wire,
)
from noted_time.client.waiting import PAUSE_S, NothingKnown, NotYet, Poll, Sleep, until_complete
from noted_time.progress import ReadOffsets
from noted_time.tables import TableClaim
from noted_time.values import format_seconds, format_time, parse_duration, parse_time
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.client.offsets import ReadBy, make_performer
from noted_time_cli.client.tables import (
    Names,
    NothingClaimed,
    TableOption,
    ask_objections,
    describe_lack,
    read_claim,
)
from noted_time_cli.terminal.options import NO_VALUES, DomainOption, StreamOrNone, option
from noted_time_cli.terminal.output import echo, fail, format_position, say
from reader_client.protocol.answers import decode_cut
from reader_client.protocol.completeness import check_reached
from reader_client.protocol.requirements import (
    NOT_SO_FAR,
    Requirement,
    find_first_complete,
    find_objections,
)

MISSING_STATUS = 3
"""The exit status if the stream is complete, but without a writer that was required."""

NOT_YET_STATUS = 124
"""The exit status after the timeout, as of timeout(1)."""

UNANSWERED_STATUS = 69
"""The exit status after the timeout if no controller answered, as of sysexits(3)."""

Require = Annotated[
    list[str], option("WRITER", "End with 3 unless it vouches; several may be given.")
]
RequireAll = Annotated[
    bool,
    typer.Option(
        "--require-all", help="End with 3 unless all writers vouch that the stream expects."
    ),
]
RequireKnown = Annotated[
    bool,
    typer.Option("--require-known", help="End with 3 if any writer is missing that ever joined."),
]

Found = TypeVar("Found")


class NotVouched(NotYet):
    """It is complete, but not by who is required; a later mark may have them."""


def build_requirement(require: list[str], *, every: bool, known: bool) -> Requirement:
    """Return what the options ask for; raises `BadParameter` for two that exclude each other."""
    if every and known:
        raise typer.BadParameter("--require-all includes --require-known: leave one out")
    return Requirement(require, "all" if every else "known" if known else "")


@client_command
def wait(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: StreamOrNone,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="TIME",
            help="ISO 8601 with its zone (2013-01-01T10:00Z) for Unix ms, or an integer.",
        ),
    ] = None,
    *,
    table: TableOption = None,
    name: Names = NO_VALUES,
    read_by: ReadBy,
    timeout: Annotated[
        str, option("DURATION", "For example 1h or 90m; 0s asks once.", default=True)
    ] = "1h",
    require: Require = NO_VALUES,
    require_all: RequireAll = False,
    require_known: RequireKnown = False,
    since: Annotated[
        str | None,
        option("TIME", "Where the window begins: with --require-all, end with 3 for late rows."),
    ] = None,
    domain: DomainOption = None,
) -> None:
    """Wait until a stream is complete to a time: everything before it was written.

    Or until a table is: `noted-time wait --table URL TIME`, by the claims in its commits. Where
    these do not say who vouches, --require and --require-all ask the controller.

    Or until whatever has offsets has read all before it; these are asked for again and again.

    Ends with status 0 when it is, and with 1 if the question is refused (unknown stream, missing
    right). After the timeout the status is 124, or 69 if no controller answered at its end; until
    then it continues trying.

    Complete means by the writers that the controller knows, and the answer names them. --require
    WRITER waits until that writer vouches for the time, --require-all until all do that the stream
    expects: the status is 3 if they cannot. A stream that expects no writers cannot say who should
    be there, so --require-all is refused with 3; --require-known accepts the writers that ever
    joined. Rows that came below the watermark are named, too: with --since, --require-all ends
    with 3 for those.

    Try it:  noted-time wait flights 2013-01-01T10:00Z --timeout 1h && echo complete
    """
    read_by.check(table)
    required = build_requirement(require, every=require_all, known=require_known)
    if table is not None:
        if since is not None or domain is not None:
            raise typer.BadParameter("--since and --domain are for streams: leave them out")
        complete_to, timeout_s = (
            parse_time(_choose_time(stream, time)),
            parse_duration(timeout) / 1000,
        )
        judged = partial(ask_objections, call, required=required)
        _wait_for_table(call, table, name, complete_to, judged, timeout_s)
        return
    if stream is None or time is None:
        raise typer.BadParameter("a stream and a time are needed, or --table and a time")
    complete_to = parse_time(time)
    shown = format_time(complete_to)
    start = None if since is None else parse_time(since)
    query = {"complete_to": complete_to, "since": start, "domain": domain} | required.query
    look = _make_look(call, stream, query, read_by)
    try:
        mark, read = _wait_until_found(look, stream, complete_to, parse_duration(timeout) / 1000)
    except OpenStream as error:
        fail(str(error), status=MISSING_STATUS)
    lacks = find_objections(decode_cut(mark), required)
    if require_all and since is not None:
        lacks += _find_late_objections(mark)
    if not call.print_json(mark):
        sentence = describe_complete(stream, shown, mark, since=start)
        echo(f"{sentence}: mark {mark['seq']}, {_describe_reach(mark, read)}")
    if lacks:
        fail("; ".join(lacks), status=MISSING_STATUS)


def describe_complete(stream: str, time: str, mark: Json, since: int | None = None) -> str:
    """Return to when a stream is complete, by whom, and what it is without."""
    late = format_late(mark)
    if mark["before_first_mark"] and since is None:
        return f"nobody vouches for {time}, which is before the first mark of {stream}{late}"
    by = vouching_from_wire(mark).sentence
    before = ", but nobody vouches for times before its first mark"
    without = format_missing(mark, int(clock.time() * 1000)) + late
    without += before if mark["before_first_mark"] else ""
    return f"{stream} is complete to {time}, {by}{without}"


def _describe_reach(mark: Json, read: ReadOffsets) -> str:
    """Return where a mark is in the log, or what has read as far."""
    if read.by:
        return "; ".join([f"read by {read.by}", *read.remarks])
    if not mark["cut"]:
        return "but without a position: its writers noted only times"
    return f"cut {format_position(mark['cut'])}"


def _choose_time(first: str | None, second: str | None) -> str:
    """Return the time of a question about a table, which is its only argument."""
    if first is None or second is not None:
        raise typer.BadParameter("with --table, give the time alone")
    return first


def _wait_for_table(  # noqa: PLR0913, PLR0917 - one for each flag
    call: Caller,
    table: str,
    names: list[str],
    complete_to: int,
    judged: Callable[[TableClaim, int], list[str]],
    timeout_s: float,
) -> None:
    """Wait until a table is complete to a time, or end with the status that says why it is not."""

    def look(_: Poll) -> tuple[TableClaim, TableClaim, list[str]]:
        found = read_claim(table, names)
        if found.complete_to < complete_to:
            raise NotYet(f"it is complete to {format_time(found.complete_to)}")
        first = find_first_complete(table, found, complete_to, names)
        first.check_since(complete_to)
        return found, first, judged(first, complete_to)

    found, first, lacks = _wait_until_found(look, table, complete_to, timeout_s)
    version = found.version_at(complete_to)
    if not call.print_json({"complete_to": found.complete_to, "version": version}):
        without = describe_lack(first)
        echo(f"{table} is complete to {format_time(complete_to)}{without}: version {version}")
    if lacks:
        fail("; ".join(lacks), status=MISSING_STATUS)


def _make_look(
    call: Caller, stream: str, query: Json, read_by: ReadBy
) -> Callable[[Poll], tuple[Json, ReadOffsets]]:
    """Return what looks for the first mark that is complete, and whether it was read."""
    path = stream_path(stream, "cut")
    if not read_by.is_named:
        return lambda step: (_find_mark(call, path, query, step), ReadOffsets({}))
    perform = make_performer(call, read_by.create_source(stream, again=True))

    def look(step: Poll) -> tuple[Json, ReadOffsets]:
        mark = _find_mark(call, path, query, step)
        reached = check_reached(stream, mark, query["complete_to"], query["domain"])
        return mark, run(reached, perform)

    return look


def _find_mark(call: Caller, path: str, query: Json, step: Poll) -> Json:
    """Return the first mark that is complete to the time, or raise how far the stream is."""
    asked = query | {"wait_ms": step.wait_ms}
    try:
        mark = call.ask("GET", path, query=asked, wait_ms=step.wait_ms)
    except NotCompleteYet as error:
        why = "there is no mark yet"
        if error.lower is not None:
            why = f"its lower is {format_time(error.lower)}"
        raise NotYet(why, PAUSE_S) from error
    unmet = not_vouching_from_wire(mark, "unmet")
    if unmet and all(each.may_come for each in unmet):
        why = ", ".join(each.sentence for each in unmet)
        raise NotVouched(f"no mark has the rows of {why} yet", PAUSE_S)
    return mark


def _wait_until_found(
    look: Callable[[Poll], Found], what: str, complete_to: int, timeout_s: float
) -> Found:
    """Return what a look finds in time, or end with the status that says why it finds nothing."""

    def perform(step: Poll | Sleep) -> Found | None:
        if isinstance(step, Poll):
            return look(step)
        if step.failures == 1 or (isinstance(step.why, NothingKnown) and step.is_news):
            say(f"noted-time: {step.why}; trying again")
        clock.sleep(step.seconds)
        return None

    try:
        found: Found = run(until_complete(timeout_s), perform)
    except (Conflict, Unreachable) as error:
        status = NOT_YET_STATUS if isinstance(error, NotYet) else UNANSWERED_STATUS
        status = 1 if isinstance(error, NothingClaimed | NothingKnown) else status
        status = MISSING_STATUS if isinstance(error, NotVouched) else status
        to = format_time(complete_to)
        fail(f"{what} is not known to be complete to {to}: {error}", status=status)
    return found


def _find_late_objections(mark: Json) -> Iterator[str]:
    """Yield what is objectionable about late rows."""
    if mark["late_count"]:
        yield f"writers with late rows: {mark['late_count']}"
    if not mark["late_is_known"]:
        yield f"{NOT_SO_FAR}: it is not known which rows are late"


def format_missing(found: Json, now: int) -> str:
    """Return which writers a cut is without, as the end of a sentence.

    >>> away = {"writer": "stock", "reason": "timed_out", "since": 0, "time": 5}
    >>> format_missing({"missing": [away], "missing_count": 1}, now=14_400_000)
    ', without stock: timed out 4h ago'
    >>> format_missing({"missing": [], "missing_count": 0}, now=0)
    ''
    """
    named = []
    for each in found["missing"][:NAMES_PER_SENTENCE]:
        has_since = each["since"] is not None and not each["reason"].startswith("not_")
        ago = f" {format_seconds(now - each['since'])} ago" if has_since else ""
        named.append(f"{each['writer']}: {REASON_WORDS.get(each['reason'], each['reason'])}{ago}")
    return f", without {join_names(named, found['missing_count'])}" if named else ""


def format_late(found: Json) -> str:
    """Return which writers have late rows below a cut, as the end of a sentence.

    >>> late = {"writer": "pos", "rows": 112, "least": 5, "most": 6, "last_seen": 7}
    >>> late |= {"at_most": False, "unknown": False}
    >>> format_late({"late": [late], "late_count": 1, "late_is_known": True})
    ', with late rows of pos (112)'
    """
    named = [
        f"{each.writer} ({each.row_count})"
        for each in late_from_wire(found).writers[:NAMES_PER_SENTENCE]
    ]
    return f", with late rows of {join_names(named, found['late_count'])}" if named else ""
