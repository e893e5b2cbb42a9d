"""What was said of the table and what was true: as a table, in words and as a picture."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, log2
from typing import TYPE_CHECKING, Any

from demo import stage
from demo.data import DAY_MS, HOUR_MS
from demo.picture import GREY, INK, NOTED, OWN, RULE, headed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table

    from demo.judge import Seen, Verdict
    from demo.others import Others

GUESS_HOURS = 6
TRUTH, CLAIM, NEWEST = "the rows (in hindsight)", "the claim", "max(event_time)"
GUESS = f"max(event_time) - {GUESS_HOURS} h"

TITLE = "Which hours of departures are complete in the table, and who says so"
HEADINGS = ("called complete by", "hours", "wrongly", "flights missed", "late", "by at most")

EVENTS = {
    "append": ("right", 35, "somebody appends a row,\ndated a day ahead"),
    "overwrite": ("right", 5, "somebody overwrites the\ntable with an old copy"),
    "accept": ("left", 5, "the owner repairs the\ntable, and accepts it"),
}
"""On which side of the moment the words are, how far above the lines (points), and the words."""

LEGEND = (
    (OWN, "max(event_time); shaded where flights below it are missing"),
    (GREY, "dotted: the truth, in hindsight"),
    (NOTED, "the claim: at the truth, or absent"),
)

HEIGHT = 233
"""The height of the lines in points."""

AHEAD, ROOM, MOST_TIMES = 4, 5, 9
"""The hours of the picture above the clock, and below the lowest line; and its times."""


def table(verdicts: Sequence[Verdict]) -> Table:
    """Return a row for each method."""
    return stage.table(TITLE, HEADINGS, map(_row, verdicts), ours=CLAIM)


def _row(verdict: Verdict) -> tuple[str, ...]:
    late = late_of(verdict)
    counts = verdict.wrong, verdict.missed, len(late)
    longest = f"{late[-1] / HOUR_MS:.0f} h" if late else ""
    called = f"{verdict.called:,} of {verdict.hours:,}"
    return verdict.name, called, *(f"{each:,}" for each in counts), longest


def late_of(verdict: Verdict) -> list[int]:
    """Return how long after the truth the hours were called complete that were not at once."""
    return [each for each in verdict.late_ms if each]


def meaning(
    verdicts: Sequence[Verdict], others: Others, warnings: Sequence[str]
) -> tuple[str, ...]:
    """Return sentences on what the table shows, and on what others did."""
    return (
        *_compared(verdicts),
        (
            f"Compactions on the way: {others.compactions:,}. Somebody else "
            "appended a row that was dated a day ahead by mistake. Neither changed the claim."
        ),
        (
            f"On {_moment(others.when['overwrite'])} somebody overwrote the table with a copy of "
            f"{_moment(others.when['copy'])}. That ended the claim, and a reader is told why: "
            f"{others.reason}."
        ),
        *[f"The query went on, and warned with each commit: {each}" for each in warnings[:1]],
        (
            f"On {_moment(others.when['accept'])} the owner of the table appended the flights "
            f"that were lost, and vouched for it:\n  {others.command}\n  {others.accepted}"
        ),
    )


def _compared(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    _, claim, newest, guess = verdicts
    late = late_of(claim)
    wrong = (
        f"The claim was wrong about {claim.wrong:,} of {claim.hours:,} hours. max(event_time) "
        f"called {newest.wrong:,} hours complete while flights were still in the air, or had been "
        f"removed by an overwrite: jobs that start then miss {newest.missed:,} flights. Less "
        f"{GUESS_HOURS} hours, it is still wrong about {guess.wrong:,} hours, and late for "
        f"{len(late_of(guess)):,}."
    )
    repaired = (
        f"The claim was late for {len(late):,} hours, by {max(late, default=0) / HOUR_MS:.0f} h at "
        "most: after the repair it rises with the next commit of the query."
    )
    return (wrong, repaired) if late else (wrong,)


def figures(verdicts: Sequence[Verdict], others: Others) -> dict[str, Any]:
    """Return the findings as JSON can hold them."""
    methods = [
        {
            "method": each.name,
            "hours": each.hours,
            "called": each.called,
            "wrong": each.wrong,
            "missed": each.missed,
            "late": len(late_of(each)),
            "longest_hours": max(each.late_ms, default=0) / HOUR_MS,
        }
        for each in verdicts
    ]
    ended = {"why": others.reason, "accepted": others.accepted}
    return {"methods": methods, "when": others.when, "compactions": others.compactions, **ended}


def draw(seen: Sequence[Seen], verdicts: Sequence[Verdict], others: Others) -> Figure:
    """Return a picture of how far each was behind the clock, over the replay."""
    _, claim, newest, *_ = verdicts
    figure = headed(
        f"{claim.wrong:,} of {claim.hours:,} hours wrongly called complete, not {newest.wrong:,}",
        "Real flights in a Delta table, to which others write, too: up to when it is complete, by "
        "its claim and by max(event_time)",
    )
    axes = figure.add_axes((0.07, 0.1, 0.9, HEIGHT / 72 / figure.get_figheight()))
    _draw_lines(axes, seen)
    _draw_events(axes, others.when)
    _style(axes, seen)
    return figure


def _draw_lines(axes: Axes, seen: Sequence[Seen]) -> None:
    clocks = [each.clock / DAY_MS for each in seen]
    truth = [_behind(each.clock, each.truth) for each in seen]
    claim = [_behind(each.clock, each.claim) for each in seen]
    newest = [_behind(each.clock, each.newest) for each in seen]
    step: dict[str, Any] = {"drawstyle": "steps-post"}
    least = [min(pair) for pair in zip(truth, newest, strict=True)]
    axes.fill_between(clocks, truth, least, step="post", color=OWN, alpha=0.13, linewidth=0)
    axes.plot(clocks, newest, color=OWN, linewidth=2, **step)
    axes.plot(clocks, claim, color=NOTED, linewidth=3.2, alpha=0.9, **step)
    axes.plot(clocks, truth, color=GREY, linewidth=1.2, linestyle=(0, (2, 2)), **step)
    axes.set_ylim(max(truth) + ROOM, -AHEAD)


def _draw_events(axes: Axes, when: Mapping[str, int]) -> None:
    gap = (when["overwrite"] + when["accept"]) / 2 / DAY_MS
    words: dict[str, Any] = {"color": NOTED, "weight": "bold", "ha": "center", "linespacing": 1.1}
    axes.text(gap, 4.5, "no\nclaim", fontsize=10, **words)
    for name, (side, above, event) in EVENTS.items():
        at = when[name] / DAY_MS
        top = 1 + (above - 3) / HEIGHT
        line: dict[str, Any] = {"ymax": top, "linestyle": (0, (1, 2)), "clip_on": False}
        axes.axvline(at, color=INK, linewidth=0.9, **line)
        axes.annotate(
            event,
            (at, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, above),
            textcoords="offset points",
            ha=side,
            fontsize=9.5,
            color=INK,
            linespacing=1.25,
        )


def _style(axes: Axes, seen: Sequence[Seen]) -> None:
    first, last = (seen[each].clock / DAY_MS for each in (0, -1))
    axes.set_xlim(first, last)
    step = 2 ** ceil(log2((last - first) / MOST_TIMES))
    times = [each * step for each in range(ceil(first / step), int(last / step) + 1)]
    axes.set_xticks(times, [f"{_instant(day * DAY_MS):%-d %b, %H:%M}" for day in times])
    axes.yaxis.set_major_formatter(lambda hours, _: f"{hours:g} h")
    axes.set_ylabel("complete to: hours behind the clock", color=GREY)
    axes.grid(visible=True, color=RULE, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=8, colors=GREY, labelsize=10)
    axes.spines[:].set_visible(False)
    axes.axhline(0, color=GREY, linewidth=1)
    for line, (colour, words) in enumerate(LEGEND):
        place: dict[str, Any] = {"transform": axes.transAxes, "color": colour}
        ground = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(0.012, 0.15 - 0.06 * line, words, fontsize=10.5, bbox=ground, **place)


def _behind(clock: int, time: int | None) -> float:
    return float("nan") if time is None else (clock - time) / HOUR_MS


def _instant(time: float) -> datetime:
    return datetime.fromtimestamp(time / 1000, UTC)


def _moment(time: int) -> str:
    return f"{_instant(time):%-d %B, %H:%M}"
