"""The time strip on a terminal: values in, rich renderables out, fitted to a width."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from rich import box
from rich.console import Group
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from controller.cli.times import UNIX_MS, shown_gap, shown_seconds
from controller.cli.words import states_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import tzinfo

    from rich.console import Console, ConsoleOptions, RenderableType

    from controller.cli.strip_values import Bar, Strip

EIGHTHS = " ▏▎▍▌▋▊▉█"
LEAST_BAR, LEAST_NAME, MOST_NAME = 10, 8, 32
GAP = 2
"""Blanks between two columns."""

STYLES = {"holds": "bold red", "live": "green", "excluded": "magenta"}
RESTING = "dim"


def drawn(strip: Strip, *, zone: tzinfo | None, width: int, rows: int) -> RenderableType:
    """Return the strip in so many columns and with that many writers at most.

    Local times are those of `zone`, `None` for this machine's. Columns that do not fit are left
    out, the least needed first; nothing in it is parsed as markup.
    """
    clock = Clock(zone, strip.now)
    bars = strip.bars[:rows]
    parts: list[RenderableType] = [_heading(strip, clock), Text()]
    if bars:
        parts.append(_table(strip, bars, clock, width))
    if strip.total > len(bars):
        parts.append(Text(f"and {strip.total - len(bars):,} more writers", RESTING))
    return Group(*parts)


def out_of_date(age_ms: int, trouble: str | None) -> Text:
    """Return the line that says how old what is shown is, and why."""
    why = f": {trouble}" if trouble else ""
    said = f"No answer for {shown_seconds(age_ms)}, so what is shown is that old; trying again{why}"
    return Text(said, "bold red")


@dataclass(frozen=True, slots=True)
class Clock:
    """Shows times in a zone, short where they are of the day of `now` (Unix ms)."""

    zone: tzinfo | None
    now: int

    def short(self, time: int) -> str:
        """Return a time of this day without its date, a full minute without its seconds.

        >>> clock = Clock(UTC, 1357034400000)
        >>> clock.short(1357036200000), clock.short(1357036201000), clock.short(1356000000000)
        ('10:30', '10:30:01', '2012-12-20 10:40')
        """
        if time not in UNIX_MS:
            return str(time)
        local = self._local(time)
        if local.date() != self._local(self.now).date():
            return f"{local:%Y-%m-%d %H:%M}"
        return f"{local:%H:%M:%S}" if local.second else f"{local:%H:%M}"

    def full(self, time: int) -> str:
        """Return a time as local time and in UTC, which has its date where it is another.

        >>> Clock(UTC, 0).full(1357034400000)
        '2013-01-01 10:00:00 (10:00:00Z)'
        """
        if time not in UNIX_MS:
            return str(time)
        local, universal = self._local(time), datetime.fromtimestamp(time // 1000, UTC)
        form = "%H:%M:%SZ" if local.date() == universal.date() else "%Y-%m-%dT%H:%M:%SZ"
        return f"{local:%Y-%m-%d %H:%M:%S} ({universal:{form}})"

    def _local(self, time: int) -> datetime:
        return datetime.fromtimestamp(time / 1000, UTC).astimezone(self.zone)


def _heading(strip: Strip, clock: Clock) -> Table:
    table = Table.grid(padding=(0, GAP))
    domain = f", {strip.shown_domain}" if strip.shown_domain else ""
    table.add_row(Text("stream"), Text(f"{strip.stream}{domain}", "bold", overflow="fold"))
    table.add_row(Text("watermark"), Text(_watermark(strip, clock), "bold"))
    table.add_row(Text("decision"), _decision(strip, clock))
    table.add_row(Text("writers"), Text(states_shown(strip.states)))
    return table


def _watermark(strip: Strip, clock: Clock) -> str:
    if strip.lower is None:
        return "none yet: no mark has been made"
    lag = ""
    if strip.lower in UNIX_MS and strip.now > strip.lower:
        lag = f", {shown_gap(strip.lower, strip.now)} behind the clock"
    return f"{clock.full(strip.lower)}{lag}"


def _decision(strip: Strip, clock: Clock) -> Text:
    """Return the decision in words: who holds the watermark, and since when."""
    if strip.decision == "hold":
        return Text(f"held by {_holders(strip, clock)}", STYLES["holds"])
    if strip.next_lower is not None:
        return Text(f"advances to {clock.short(strip.next_lower)}", "green")
    if strip.decision == "sealed":
        return Text("sealed: it takes no more notes, and no mark follows")
    return Text("quiet: it waits for no writer; everything is marked")


def _holders(strip: Strip, clock: Clock) -> str:
    first = next((bar for bar in strip.bars if bar.held_ms is not None), None)
    if first is None or first.held_ms is None:
        return f"{strip.holders:,} writers"
    since = clock.short((strip.now - first.held_ms) // 1000 * 1000)
    held = f"{shown_seconds(first.held_ms)}, since {since}"
    if strip.holders == 1:
        return f"{first.writer} for {held}"
    return f"{strip.holders:,} writers, {first.writer} longest: for {held}"


class Column(NamedTuple):
    """One fact of each writer; of those that do not all fit, the highest `drop` goes first."""

    title: str
    drop: int
    cell: Callable[[Bar, Strip, Clock], str]
    right: bool = False


def _state(bar: Bar, _strip: Strip, _clock: Clock) -> str:
    return bar.state if bar.held_ms is None else "holds"


def _noted(bar: Bar, _strip: Strip, clock: Clock) -> str:
    return "-" if bar.noted is None else clock.short(bar.noted)


def _heard(bar: Bar, _strip: Strip, _clock: Clock) -> str:
    return f"{shown_seconds(bar.heard_ms)} ago"


def _held(bar: Bar, _strip: Strip, _clock: Clock) -> str:
    return "" if bar.held_ms is None else shown_seconds(bar.held_ms)


def _times_out(bar: Bar, _strip: Strip, _clock: Clock) -> str:
    if bar.held_ms is None:
        return ""
    return "never" if bar.times_out_ms is None else shown_seconds(bar.times_out_ms)


def _without(bar: Bar, strip: Strip, clock: Clock) -> str:
    """Return where the watermark would be without a holder, and how much later that is."""
    if bar.held_ms is None:
        return ""
    if bar.without is None:
        return "no mark"
    if bar.without == strip.lower:
        return "the same"
    gap = "" if strip.lower is None else f" (+{shown_gap(strip.lower, bar.without)})"
    return f"{clock.short(bar.without)}{gap}"


WRITER = Column("writer", 0, lambda bar, _strip, _clock: bar.writer)
AFTER_NAME = (Column("state", 5, _state),)
AFTER_BAR = (
    Column("noted", 4, _noted, right=True),
    Column("last heard", 6, _heard, right=True),
    Column("held for", 2, _held, right=True),
    Column("times out in", 3, _times_out, right=True),
    Column("without it", 1, _without),
)


def _table(strip: Strip, bars: Sequence[Bar], clock: Clock, width: int) -> Table:
    """Return the writers as rows, with as many columns as fit."""

    def cells(column: Column) -> list[str]:
        return [column.cell(bar, strip, clock) for bar in bars]

    widths = {c: max(map(len, (c.title, *cells(c)))) for c in (*AFTER_NAME, *AFTER_BAR)}
    names = min(MOST_NAME, max(map(len, (WRITER.title, *cells(WRITER)))))
    kept = _fitting(widths, width - names - LEAST_BAR - GAP)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.expand = True
    spare = width - LEAST_BAR - sum(widths[each] + GAP for each in kept) - GAP
    table.add_column(Text(WRITER.title), no_wrap=True, width=max(LEAST_NAME, min(names, spare)))
    before = [each for each in AFTER_NAME if each in kept]
    after = [each for each in AFTER_BAR if each in kept]
    for column in before:
        _add(table, column, widths[column])
    axis = strip.axis
    table.add_column(Ends(*map(clock.short, axis)) if axis else "", ratio=1, min_width=LEAST_BAR)
    for column in after:
        _add(table, column, widths[column])
    for bar in bars:
        style = _style(bar)
        row: list[RenderableType] = [
            Text(column.cell(bar, strip, clock), style) for column in (WRITER, *before)
        ]
        row.append(_length(bar, axis, style))
        row += [Text(column.cell(bar, strip, clock), style) for column in after]
        table.add_row(*row)
    return table


def _add(table: Table, column: Column, width: int) -> None:
    table.add_column(
        Text(column.title), justify="right" if column.right else "left", no_wrap=True, width=width
    )


def _fitting(widths: dict[Column, int], room: int) -> set[Column]:
    """Return the columns that fit beside the name and a bar, the most needed at least."""
    kept = sorted(widths, key=lambda column: column.drop)
    while len(kept) > 1 and sum(widths[each] + GAP for each in kept) > room:
        kept.pop()
    return set(kept)


def _style(bar: Bar) -> str:
    return STYLES.get("holds" if bar.held_ms is not None else bar.state, RESTING)


def _length(bar: Bar, axis: tuple[int, int] | None, style: str) -> RenderableType:
    """Return the bar from the watermark to what the writer noted."""
    if axis is None or bar.noted is None:
        return Text()
    start, end = axis
    if bar.noted < start:
        return Text("◂", style)
    return Length((bar.noted - start) / max(1, end - start), style)


@dataclass(frozen=True, slots=True)
class Length:
    """A bar over a part of the width there is, in eighths of a column; at least one of them."""

    part: float
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        full, rest = divmod(max(1, round(self.part * options.max_width * 8)), 8)
        yield Segment(f"{'█' * full}{EIGHTHS[rest]}".rstrip(), console.get_style(self.style))

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)


@dataclass(frozen=True, slots=True)
class Ends:
    """Where an axis begins and ends, at either end of the width there is."""

    first: str
    last: str

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[Segment]:
        room = options.max_width - len(self.first) - len(self.last)
        said = f"{self.first}{' ' * room}{self.last}" if room > 0 else self.first
        yield Segment(said[: options.max_width])

    def __rich_measure__(self, _: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, options.max_width)
