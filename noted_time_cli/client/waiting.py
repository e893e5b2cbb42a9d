"""`noted-time wait`."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from typing import Annotated, TypeVar

import typer

from noted_time import Conflict, NotCompleteYet, OpenStream, Unreachable
from noted_time.answers import CutAnswer, Explanation
from noted_time.client import Json, Question, position_to_wire, run, stream_path
from noted_time.client.waiting import PAUSE_S, NothingKnown, NotYet, Poll, Sleep, until_complete
from noted_time.progress import ReadOffsets
from noted_time.reading import CompleteWindow
from noted_time.tables import TableClaim
from noted_time.values import (
    HOUR_MS,
    NAMES_PER_SENTENCE,
    REASON_WORDS,
    format_seconds,
    format_time,
    join_names,
    parse_time,
)
from noted_time_cli.client.caller import Caller, client_command
from noted_time_cli.client.offsets import ReadBy
from noted_time_cli.client.tables import (
    Names,
    NothingClaimed,
    TableOption,
    ask_objections,
    read_claim,
)
from noted_time_cli.terminal.options import (
    NO_VALUES,
    DomainOption,
    StreamOrNone,
    TimeOrNone,
    duration,
    option,
    parse_name,
)
from noted_time_cli.terminal.output import UNANSWERED_STATUS, echo, fail, format_position, say
from reader_client.protocol.completeness import check_reached, make_performer
from reader_client.protocol.requirements import (
    NOT_SO_FAR,
    Requirement,
    TableAnswer,
    find_first_complete,
    find_objections,
)

MISSING_STATUS = 3

NOT_YET_STATUS = 124  # as of timeout(1)

Require = Annotated[
    list[str],
    option("WRITER", "End with 3 unless this writer vouches. Repeatable.", parse=parse_name),
]
RequireAll = Annotated[
    bool,
    typer.Option(
        "--require-all", help="End with 3 unless all expected writers of the stream vouch."
    ),
]
RequireKnown = Annotated[
    bool,
    typer.Option("--require-known", help="End with 3 unless all writers that ever joined vouch."),
]

Found = TypeVar("Found")


def build_requirement(require: list[str], *, every: bool, known: bool) -> Requirement:
    if every and known:
        raise typer.BadParameter("--require-all includes --require-known: leave one out")
    return Requirement(require, "all" if every else "known" if known else "")


@client_command
def wait(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: StreamOrNone,
    time: TimeOrNone = None,
    *,
    table: TableOption = None,
    name: Names = NO_VALUES,
    read_by: ReadBy,
    timeout: Annotated[
        int, duration("Maximum time to wait, such as 90m. 0s asks once.", default="1h")
    ] = HOUR_MS,
    require: Require = NO_VALUES,
    require_all: RequireAll = False,
    require_known: RequireKnown = False,
    since: Annotated[
        str | None,
        option("TIME", "The start of the window. With --require-all, end with 3 for late rows."),
    ] = None,
    domain: DomainOption = None,
) -> None:
    """Wait until a stream is complete to TIME: all events before TIME are written.

    To wait for a table, use `noted-time wait --table URL TIME`. It is judged by the claims in its
    commits. If these do not name the writers that vouch, the controller is asked.

    With --offsets, --kafka or --checkpoint, the command also waits until all these events are read.

    Exit statuses:

    - 0: the stream or table is complete.
    - 1: the controller refused, for example because the stream does not exist.
    - 3: complete, but a required writer does not vouch and cannot vouch later, or TIME is before
      the first mark.
    - 69: the timeout passed, and no controller answered at its end.
    - 124: the timeout passed, and the stream or table is not complete, or a required writer does
      not vouch yet.

    By default, only the writers that the controller knows count. The output names them, and the
    writers with late rows. To require writers, use:

    - --require WRITER: wait for this writer.
    - --require-all: wait for all expected writers. If the stream expects none, or with --since if
      the window has late rows, the status is 3.
    - --require-known: wait for all writers that ever joined, also later if they noted old times.

    Try it:  noted-time wait flights 2013-01-01T10:00Z --timeout 1h && echo complete
    """
    read_by.check(table, name)
    required = build_requirement(require, every=require_all, known=require_known)
    if table is not None:
        if since is not None or domain is not None:
            raise typer.BadParameter("--since and --domain are for streams: leave them out")
        if stream is None or time is not None:
            raise typer.BadParameter("with --table, give the time alone")
        complete_to = parse_time(stream)
        _wait_for_table(call, table, name, complete_to, required, timeout / 1000)
        return
    if stream is None or time is None:
        raise typer.BadParameter("a stream and a time are needed, or --table and a time")
    complete_to = parse_time(time)
    shown = format_time(complete_to)
    start = None if since is None else parse_time(since)
    if start is not None and start >= complete_to:
        raise typer.BadParameter("--since is not before TIME: exchange them")
    query = {"complete_to": complete_to, "since": start, "domain": domain} | required.query
    look = _make_look(call, stream, query, read_by)
    try:
        mark, read = _wait_until_found(look, stream, complete_to, timeout / 1000)
    except OpenStream as error:
        fail(str(error), status=MISSING_STATUS)
    lacks = run(find_objections(stream, domain, mark, required), call.ask)
    if require_all and since is not None:
        lacks += _find_late_objections(mark)
    if not call.print_json(mark):
        sentence = describe_complete(stream, shown, mark)
        echo(f"{sentence}: mark {mark.seq}, {_describe_reach(mark, read)}")
    if lacks:
        fail("; ".join(lacks), status=MISSING_STATUS)


def describe_complete(stream: str, time: str, mark: CutAnswer) -> str:
    late = format_late(mark)
    if mark.before_first_mark:
        return f"nobody vouches for {time}, which is before the first mark of {stream}{late}"
    by = mark.vouched.sentence
    without = format_missing(mark, int(clock.time() * 1000)) + late
    return f"{stream} is complete to {time}, {by}{without}"


def _describe_reach(mark: CutAnswer, read: ReadOffsets) -> str:
    if read.by:
        return "; ".join([f"read by {read.by}", *read.remarks])
    if not mark.cut.offsets:
        return "without a cut, because its writers note times and no positions"
    return f"cut {format_position(position_to_wire(mark.cut.offsets))}"


def _wait_for_table(  # noqa: PLR0913, PLR0917 - one for each flag
    call: Caller,
    table: str,
    names: list[str],
    complete_to: int,
    required: Requirement,
    timeout_s: float,
) -> None:
    def look(_: Poll) -> tuple[TableClaim, TableClaim, TableAnswer]:
        found = read_claim(table, names)
        if found.complete_to < complete_to:
            raise NotYet(f"it is complete to {format_time(found.complete_to)}")
        if lack := found.describe_first_mark(complete_to):
            fail(f"{table}: {lack}", status=MISSING_STATUS)
        first = find_first_complete(table, found, complete_to, names)
        first.check_since(complete_to)
        answer = ask_objections(call, first, complete_to, required)
        if not answer.objections:
            return found, first, answer
        later = ask_objections(call, found, complete_to, required)
        if later.objections and later.may_come:
            raise NotYet("; ".join(later.objections))
        return (found, first, answer) if later.objections else (found, found, later)

    found, judged, (lacks, asked, _) = _wait_until_found(look, table, complete_to, timeout_s)
    version = found.version if judged is found else found.version_at(complete_to)
    if not call.print_json({"complete_to": found.complete_to, "version": version}):
        without = judged.describe_lack(asked)
        echo(f"{table} is complete to {format_time(complete_to)}{without}: version {version}")
    if lacks:
        fail("; ".join(lacks), status=MISSING_STATUS)


def _make_look(
    call: Caller, stream: str, query: Json, read_by: ReadBy
) -> Callable[[Poll], tuple[CutAnswer, ReadOffsets]]:
    if not read_by.is_named:
        return lambda step: (_find_mark(call, stream, query, step), ReadOffsets({}))
    source = read_by.create_source(stream, again=True)
    perform = make_performer(call.ask, source)

    def look(step: Poll) -> tuple[CutAnswer, ReadOffsets]:
        mark = _find_mark(call, stream, query, step)
        reached = check_reached(stream, mark, query["complete_to"], query["domain"])
        return mark, run(reached, perform)

    return look


def _find_mark(call: Caller, stream: str, query: Json, step: Poll) -> CutAnswer:
    path, asked = stream_path(stream, "cut"), query | {"wait_ms": step.wait_ms}
    try:
        mark = call.ask(Question("GET", path, asked, wait_ms=step.wait_ms, answer=CutAnswer))
    except NotCompleteYet as error:
        why = "there is no mark yet"
        if error.lower is not None:
            why = f"its lower is {format_time(error.lower)}"
        if holders := ask_holders(call, stream, query["domain"]):
            why += f", and it waits for {holders}"
        raise NotYet(why, PAUSE_S) from error
    if mark.unmet and not mark.before_first_mark and all(each.may_come for each in mark.unmet):
        why = ", ".join(each.sentence for each in mark.unmet)
        raise NotYet(f"no mark has the rows of {why} yet", PAUSE_S)
    return mark


def ask_holders(call: Caller, stream: str, domain: str | None) -> str:
    query = {"domain": domain, "limit": NAMES_PER_SENTENCE}
    explanation = call.ask(
        Question("GET", stream_path(stream, "explain"), query, answer=Explanation)
    )
    named = [each.writer for each in explanation.waiting_for]
    return join_names(named, explanation.holders) if named else ""


def _wait_until_found(
    look: Callable[[Poll], Found], what: str, complete_to: int, timeout_s: float
) -> Found:
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
        is_waiting = isinstance(error, NotYet | NotCompleteYet)
        status = NOT_YET_STATUS if is_waiting else UNANSWERED_STATUS
        status = 1 if isinstance(error, NothingClaimed | NothingKnown) else status
        to = format_time(complete_to)
        fail(f"{what} is not known to be complete to {to}: {error}", status=status)
    return found


def _find_late_objections(mark: CutAnswer) -> Iterator[str]:
    if mark.late_count:
        yield f"writers with late rows: {mark.late_count}"
    if not mark.late_is_known:
        yield f"{NOT_SO_FAR}: it is not known which rows are late"


def format_missing(found: CutAnswer | CompleteWindow, now: int) -> str:
    """Return the writers that are missing in a mark or window, as the end of a sentence.

    >>> from noted_time import StreamCut
    >>> from noted_time.values import MissingWriter
    >>> away = MissingWriter("stock", "timed_out", 0, 5)
    >>> new = MissingWriter("paris", "not_expected", 0, None)
    >>> counts = {"missing_count": 2, "missing_joined_later": 1}
    >>> window = CompleteWindow(
    ...     0, 1, StreamCut({}), StreamCut({}), 1, 0, missing_writers=(away, new), **counts
    ... )
    >>> format_missing(window, now=14_400_000)
    ', without stock: timed out 4h ago; paris was not expected yet'
    """
    absent, newer = [], []
    for each in found.missing_writers[:NAMES_PER_SENTENCE]:
        words = REASON_WORDS.get(each.reason, each.reason)
        if each.reason.startswith("not_"):
            newer.append(f"{each.writer} {words}")
            continue
        ago = "" if each.since is None else f" {format_seconds(now - each.since)} ago"
        absent.append(f"{each.writer}: {words}{ago}")
    later = found.missing_joined_later
    without = f", without {join_names(absent, found.missing_count - later)}" if absent else ""
    return f"{without}; {join_names(newer, later)}" if newer else without


def format_late(found: CutAnswer | CompleteWindow) -> str:
    """Return the writers with late rows, as the end of a sentence; those without a number last."""
    named = [f"{each.writer} ({each.row_count})" for each in found.late_writers if each.rows]
    others = [each.writer for each in found.late_writers if not each.rows]
    count = len(named) if others else found.late_count
    late = f", with late rows of {join_names(named[:NAMES_PER_SENTENCE], count)}" if named else ""
    if not others:
        return late
    others_named = join_names(others[:NAMES_PER_SENTENCE], found.late_count - count)
    return f"{late}; {others_named} may have late rows"
