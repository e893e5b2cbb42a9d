"""`noted-time complete-to`, `windows` and `changed-since`."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from noted_time.client import Json, run
from noted_time.client.waiting import NotYet, build_performer
from noted_time.installation import name_program
from noted_time.reading import CompleteWindow, Tiling
from noted_time.values import (
    DAY_MS,
    EPOCH,
    HOUR_MS,
    MAX_INT64,
    NAMES_PER_SENTENCE,
    WEEK_MS,
    Rejected,
    format_duration,
    format_time,
    join_names,
    parse_time,
)
from noted_time.verdict.words import NOT_SO_FAR, describe_waiting
from noted_time_cli.client.caller import MOST_ROWS, Caller, client_command
from noted_time_cli.client.datasets import (
    MISSING_STATUS,
    DatasetArgument,
    DatasetOptions,
    RequiredWriters,
)
from noted_time_cli.terminal.flags import refuse_options
from noted_time_cli.terminal.options import (
    DomainOption,
    LimitOption,
    Stream,
    option,
    parse_optional_time,
    window_option,
    zone_option,
)
from noted_time_cli.terminal.output import Columns, echo, fail, say
from reader_client.protocol.questions import ask_windows

CUT_SHORT = 3

EVERY_MS = Tiling(1)
FULL_HOURS = Tiling(HOUR_MS)
FULL_DAYS = Tiling(DAY_MS)
IN_UTC = (
    "noted-time: the controller is of an older version, and shows no times in {0}: they are in UTC"
)

SIZE_HELP = "The size of a window, for example 1d; weeks of 1w begin on Monday."

ZoneOfWindows = Annotated[
    tzinfo,
    zone_option("The zone of days and of the output, for example Europe/Berlin.", default="UTC"),
]


@client_command
def complete_to(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    dataset: DatasetArgument,
    *,
    options: DatasetOptions,
    writers: RequiredWriters,
    floor: Annotated[
        Tiling,
        window_option(
            "Round the time down, for example to 1h, 1d, or a Monday: 1w.", default="1ms"
        ),
    ] = EVERY_MS,
    zone: Annotated[
        tzinfo,
        zone_option(
            "The zone for --floor and for the output, for example Europe/Berlin.", default="UTC"
        ),
    ] = UTC,
) -> None:
    """Print how far a dataset is complete, at once: all events before this time are there.

    The time is the only line on standard output. A sentence on standard error names the writers
    that vouch and the writers that are missing.

    Exit statuses:

    - 0: the time is printed.
    - 1: the controller refused, for example because the stream does not exist.
    - 3: no time is complete under these options.
    - 69: no controller answered.

    A table is judged by the claims in its commits. If writers are required, the controller is asked
    who vouches.

    Try it:  noted-time complete-to flights --floor 1h
    """
    floor = _place_windows(floor, zone)
    requirement = replace(
        writers.build(), floor_ms=floor.size_ms, origin=floor.origin, zone=str(zone)
    )
    try:
        answer = run(options.open(call, dataset).judge(requirement), build_performer(call.ask))
    except NotYet as error:
        fail(str(error), status=MISSING_STATUS)
    if call.print_json(answer) and not answer.is_complete:
        raise typer.Exit(MISSING_STATUS)
    if answer.complete_to is None or not answer.is_complete:
        fail(answer.sentence, status=MISSING_STATUS)
    say(f"noted-time: {answer.sentence}")
    if not call.as_json:
        echo(ShownTimes(zone).format(answer.complete_to, answer.complete_to_shown))


@client_command
def windows(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    stream: Stream,
    *,
    window: Annotated[Tiling, window_option(SIZE_HELP, default="1d")] = FULL_DAYS,
    since: Annotated[
        str | None, option("TIME", "Begin with the window that contains this time.")
    ] = None,
    zone: ZoneOfWindows = UTC,
    domain: DomainOption = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_ROWS, help="Maximum number of rows.")] = 100,
) -> None:
    """List the complete windows: since when, who was the last, who is missing, and late rows.

    The last line is the first window that is not complete, with the writers that the watermark
    waits for. A sealed stream has no such window.

    Try it:  noted-time windows flights --window 1d
    """
    from_time = parse_optional_time(since)
    window = _place_windows(window, zone)
    page = call.ask(ask_windows(stream, window, from_time, domain, limit=limit))
    if call.print_json(page):
        return
    times = ShownTimes(zone)
    for complete_window in page.windows:
        start = _format_border(
            times.format(complete_window.start, complete_window.start_shown), window
        )
        echo(f"{start} {_describe_window(complete_window)}")
    if page.has_more:
        say(f"There are more than these {limit}: use --since {format_time(page.next)}.")
        return
    if page.sealed:
        echo(f"{stream} is sealed, so it is complete to any time: no window follows")
        return
    fact = "no window is complete yet"
    if page.windows:
        last = page.windows[-1]
        fact = f"{_format_border(times.format(last.end, last.end_shown), window)} is not complete"
    waiting = describe_waiting(page.waiting_for, page.holding_back_count)
    if waiting:
        fact += f": {waiting}"
    echo(fact)


def _place_windows(windows: Tiling, zone: tzinfo) -> Tiling:
    """Put windows on the clock of a zone, and say on which day weeks begin."""
    if windows.size_ms % WEEK_MS == 0:
        first = EPOCH + timedelta(milliseconds=windows.origin)
        mondays = "" if windows.origin else ", as in Spark and Flink; with 1w on Mondays"
        size = format_duration(windows.size_ms)
        say(f"noted-time: windows of {size} begin on {first:%A}s{mondays}")
    return replace(windows, zone=zone)


@dataclass
class ShownTimes:
    """Times on the clock of a zone, as who rounded them shows them."""

    zone: tzinfo
    is_utc_said: bool = False

    def format(self, time: int, text: str | None) -> str:
        """Return `text`, or the time in UTC if an older controller does not show it."""
        if text is not None:
            return text
        if self.zone is not UTC and not self.is_utc_said:
            self.is_utc_said = True
            say(IN_UTC.format(self.zone))
        return format_time(time)


def _format_border(text: str, windows: Tiling) -> str:
    """Leave out midnight where windows are of days."""
    if windows.size_ms % DAY_MS:
        return text
    return text.partition("T00:00:00")[0]


def _describe_window(window: CompleteWindow) -> str:
    now = int(clock.time() * 1000)
    sentence = f"is complete since {format_time(window.written_at // 1000 * 1000)}"
    if window.last_writer:
        sentence += f", {window.last_writer} was the last"
    sentence += window.missing.describe(now) + window.late.describe()
    if window.before_first_mark:
        sentence += ", but nobody vouches for times before the first mark"
    return sentence


def _count_late_rows(window: Json) -> str:
    late_writers = window["late_writers"]
    rows = sum(late_writer["rows"] for late_writer in late_writers)
    if any(late_writer["may_have_more"] for late_writer in late_writers):
        return f"{rows} and more"
    return str(rows)


def _join_late_writers(window: Json) -> str:
    return ", ".join(late_writer["writer"] for late_writer in window["late_writers"])


CHANGED_COLUMNS: Columns = {"late rows": _count_late_rows, "writers": _join_late_writers}


@client_command
def changed_since(  # noqa: PLR0913 - one parameter for each flag
    call: Caller,
    context: typer.Context,
    stream: Stream,
    time: Annotated[str, typer.Argument(metavar="TIME", help="ISO 8601 with a zone, or Unix ms.")],
    *,
    size: Annotated[Tiling, window_option(SIZE_HELP, default="1h")] = FULL_HOURS,
    zone: ZoneOfWindows = UTC,
    domain: DomainOption = None,
    limit: LimitOption = 1000,
    everything: Annotated[bool, typer.Option("--all", help="List all windows.")] = False,
    looked_at: Annotated[
        str | None, option("FILE", "Write the TIME of the next look to FILE, unless more follow.")
    ] = None,
) -> None:
    """List the complete windows that got late rows since TIME and need a repair.

    TIME is of the controller's clock. Rows that a writer reported within one hour count together.
    A loop takes its TIME from --looked-at, or from looked_at in JSON: so it misses no report, even
    if the controller's clock is set.

    The exit status is 3 if there are more windows than --limit, or if other windows may have
    changed, too. Then the stored reports do not reach back to TIME, or a late writer gave no least
    time. Or the controller's clock is more than an hour before TIME, or was set within an hour of
    it. A sentence on standard error says which, and what to do.

    Try it:  noted-time changed-since flights 2013-01-01T10:00Z --size 1h
    """
    if everything:
        refuse_options(context, "with --all", "limit")
    size = _place_windows(size, zone)
    times = ShownTimes(zone)
    borders: Columns = {
        "start": lambda window: times.format(window["start"], window["start_shown"]),
        "end": lambda window: times.format(window["end"], window["end_shown"]),
    }
    max_windows = MAX_INT64 if everything else limit
    first_page, page = call.print_list(
        ask_windows(stream, size, None, domain, changed_since=parse_time(time)),
        "windows",
        {**borders, **CHANGED_COLUMNS},
        cursor="after",
        limit=max_windows,
        facts=("looked_at",),
    )
    if looked_at is not None and not page.has_more:
        _write_look(Path(looked_at), first_page.looked_at, time)
    if not page.changes_are_known:
        why = _describe_unknown_changes(stream, page.writers_without_least, domain)
        say(f"noted-time: {why} all windows again, and ask from now on")
    if page.has_more or not page.changes_are_known:
        raise typer.Exit(CUT_SHORT)


def _write_look(file: Path, looked_at: int | None, time: str) -> None:
    """Write the TIME of the next look, which is the same one if the controller names none."""
    if looked_at is None:
        say(f"noted-time: it is not known when the controller looked, so {file} has the same TIME")
        next_time = time
    else:
        next_time = format_time(looked_at)
    try:
        file.write_text(f"{next_time}\n", "utf-8")
    except OSError as error:
        raise Rejected(f"the TIME of the next look cannot be written: {error}") from error


def _describe_unknown_changes(stream: str, writers: Sequence[str], domain: str | None) -> str:
    if not writers:
        clock = "the controller's clock was set near TIME, or the controller's clock is before TIME"
        return f"{NOT_SO_FAR}, {clock}: other windows may have changed, too. Load"
    domain_option = f" --domain {domain}" if domain else ""
    commands = "; ".join(
        f"{name_program()} note {stream} {writer}{domain_option} --late ROWS --least TIME"
        for writer in writers[:NAMES_PER_SENTENCE]
    )
    names = join_names(writers)
    return (
        f"it is not known how old the late rows of {names} are, so any window may have changed. "
        f"Report them with their least time: {commands}. Or load"
    )
