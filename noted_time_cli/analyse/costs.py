"""What a delay costs: figures for JSON, and the sentences and table of `noted-time analyse`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noted_time.analysis import Analysis, Behind, analyse
from noted_time.values import UNITS_MS, counted, shown_duration, shown_time
from noted_time_cli.analyse.rows import AS_REPLAY, ASSUMED, Rows
from noted_time_cli.terminal.output import print_table, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from noted_time.analysis import WindowWaits
    from noted_time_cli.terminal.output import Columns

SHARES = (0.01, 0.001, 0.0001, 0.0)
"""The shares of rows that the delays of the table lose at most."""

SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """What one watermark costs; waits, in ms, are `None` where nothing tells them.

    `delay_ms` is `None` for the perfect watermark. `wait_p99_ms` is `None` if more than 5 % of the
    windows are `still_open` at the end.
    """

    delay_ms: int | None
    lost: int
    lost_percent: float
    lost_by_flink: int
    wait_median_ms: float | None = None
    wait_p99_ms: int | None = None
    wait_longest_ms: int | None = None
    still_open: int | None = None


@dataclass(frozen=True, slots=True)
class Costs:
    """What was found; `assumed` says what was taken for granted about arrivals, if anything."""

    event_time: str
    rows: int
    without_time: int
    partitions: int
    first_ms: int
    last_ms: int
    window_ms: int
    assumed: str | None
    said: list[str]
    least_delay_without_loss_ms: int
    least_delay_without_loss_by_flink_ms: int
    delays: list[Figures]
    perfect: Figures | None
    behind_by_partition: list[Behind]
    who: str | None
    behind_by_who: list[Behind]


def costs_of(
    rows: Rows, window_ms: int, delays: Sequence[int], *, as_replay: bool
) -> tuple[Costs, Analysis]:
    """Judge rows, at least one; `delays` are in the table beside the least ones."""
    if as_replay:
        arrivals, assumed = rows.replayed(), AS_REPLAY
    elif rows.arrivals is None:
        arrivals, assumed = rows.assumed_arrivals(), ASSUMED
    else:
        arrivals, assumed = rows.arrivals, None
    found = analyse(arrivals, rows.times, rows.partitions, window_ms)
    spark, total = found.spark, len(rows.times)

    def figures(delay: int | None, lost: int, by_flink: int, waits: WindowWaits) -> Figures:
        rows_lost = (delay, lost, 100 * lost / total, by_flink)
        if assumed:
            return Figures(*rows_lost)
        waited = (waits.median_ms, waits.p99_ms, waits.longest_ms, waits.still_open)
        return Figures(*rows_lost, *waited)

    shown = sorted({*delays, *(spark.least_delay_ms(share) for share in SHARES)})
    costs = Costs(
        rows.event_time,
        total,
        rows.without_time,
        len(np.unique(rows.partitions)),
        int(rows.times.min()),
        int(rows.times.max()),
        window_ms,
        assumed,
        rows.said,
        spark.least_delay_ms(),
        found.flink.least_delay_ms(),
        [figures(d, spark.lost(d), found.flink.lost(d), spark.waits(d)) for d in shown],
        None if assumed else figures(None, 0, 0, found.perfect),
        found.behind(rows.partitions),
        rows.who,
        [] if rows.whose is None else found.behind(rows.whose),
    )
    return costs, found


def print_costs(costs: Costs, observe: str) -> None:
    """Print it for people: what was assumed first, and what to do next last."""
    for sentence in filter(None, (costs.assumed, *costs.said)):
        say(sentence)
    say(
        f"{counted(costs.rows, 'row')} of {counted(costs.partitions, 'partition')}, "
        f"{costs.event_time} from {shown_time(costs.first_ms)} to {shown_time(costs.last_ms)}; "
        f"{shown_window(costs.window_ms)}."
    )
    if costs.without_time:
        say(f"{counted(costs.without_time, 'row')} without {costs.event_time} passed over.")
    print_table(_columns(costs), (_row(each) for each in _figures(costs)))
    by_partition = costs.behind_by_partition if costs.partitions > 1 else []
    for title, found in (("partition", by_partition), (costs.who or "", costs.behind_by_who)):
        if found:
            say(f"Rows behind the largest time so far, by {title}:")
            print_table(_behind(title), (each._asdict() for each in found))
    for sentence in _next(costs, observe):
        say(sentence)


def shown_window(ms: int) -> str:
    """Return by what rows are judged.

    >>> shown_window(3_600_000), shown_window(0)
    ('windows of 1h', 'each row by itself')
    """
    return f"windows of {shown_duration(ms)}" if ms else "each row by itself"


def shown_delay(ms: int) -> str:
    """Return a delay in the next full second: never shorter than it has to be.

    >>> shown_delay(39_360_001), shown_delay(0), shown_delay(5000)
    ('10h 56m 1s', '0s', '5s')
    """
    rest, parts = -(-ms // SECOND_MS) * SECOND_MS, []
    for unit, size in UNITS_MS.items():
        number, rest = divmod(rest, size)
        parts.append(f"{number}{unit}" if number else "")
    return " ".join(filter(None, parts)) or "0s"


def _figures(costs: Costs) -> Iterator[Figures]:
    yield from costs.delays
    if costs.perfect is not None:
        yield costs.perfect


def _row(each: Figures) -> dict[str, object]:
    waits = (each.wait_median_ms, each.wait_p99_ms, each.wait_longest_ms)
    median, p99, longest = (None if ms is None else shown_duration(int(ms)) for ms in waits)
    return {
        "delay": "perfect" if each.delay_ms is None else shown_delay(each.delay_ms),
        "lost": f"{each.lost:,}",
        "percent": f"{each.lost_percent:.2f} %" if each.lost else "0 %",
        "by_flink": f"{each.lost_by_flink:,}",
        "median": median,
        "p99": p99,
        "longest": longest,
        "open": None if each.still_open is None else f"{each.still_open:,}",
    }


def _columns(costs: Costs) -> Columns:
    lost: Columns = {"delay": "delay", "rows lost": "lost", "of all": "percent"}
    by_flink: Columns = {"lost by Flink": "by_flink"} if costs.partitions > 1 else {}
    waits: Columns = {
        "median wait": "median",
        "p99": "p99",
        "longest": "longest",
        "still open": "open",
    }
    return {**lost, **by_flink, **({} if costs.assumed else waits)}


def _behind(title: str) -> Columns:
    return {
        title: "name",
        "rows": lambda row: f"{row['rows']:,}",
        "median": lambda row: shown_duration(int(row["median_ms"])),
        "worst": lambda row: shown_duration(row["worst_ms"]),
    }


def _next(costs: Costs, observe: str) -> Iterator[str]:
    least = costs.least_delay_without_loss_ms
    if costs.assumed == AS_REPLAY:
        return
    delay, name = shown_delay(least), costs.event_time
    seconds = -(-least // SECOND_MS)
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    yield f"The least delay that would have lost no row is {delay}. What to do with it:"
    yield f"  Spark           .withWatermark({name!r}, '{seconds} seconds')"
    yield (
        f"  Flink SQL       WATERMARK FOR {name} AS {name} - INTERVAL '{days} {clock}' "
        "DAY TO SECOND"
    )
    yield f"  Observers       {observe} --delay {seconds}s"
    yield '  Neither guess nor loss: producers that note time, see "Kafka: note time for a topic"'
