"""The costs of delays: figures for JSON, sentences and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from noted_time.extending import UNITS_MS, WEEK_MS, format_duration, format_time, pluralize
from noted_time_cli.extending import Columns, print_table, say
from noted_time_extensions.analyse.curves import (
    MAX_OPEN,
    Analysis,
    RowsBehind,
    analyse,
    find_rows_ahead,
    summarize_by_name,
)
from noted_time_extensions.analyse.leads import check_leads
from noted_time_extensions.analyse.reading.file_orders import ORDER_WORDS
from noted_time_extensions.analyse.reading.rows import ASSUMED_ARRIVALS, REPLAY_NOTICE, Rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from noted_time_extensions.analyse.curves import WindowWaits
    from noted_time_extensions.analyse.lost_rows import LostRows


LOST_SHARES = (0.01, 0.001, 0.0001, 0.0)  # with the least delay for each

SECOND_MS = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """The costs of one watermark.

    `delay_ms` is `None` for the perfect watermark and for marks, `lost_by_flink` only for marks.
    `wait_p99_ms` is `None` if more than 5 % of the windows are `still_open`.
    """

    delay_ms: int | None
    lost: int
    lost_percent: float
    lost_by_flink: int | None
    wait_median_ms: float | None = None
    wait_p99_ms: int | None = None
    wait_longest_ms: int | None = None
    still_open: int | None = None


@dataclass(frozen=True, slots=True)
class NotedCosts:
    """The costs of a stream's marks; `not_judged` rows are below the first stored cut."""

    stream: str
    marks: int
    figures: Figures
    not_judged: int
    lost: list[LostRows]


@dataclass(frozen=True, slots=True)
class Costs:
    """All results of an analysis.

    `owed_to` has the rows that cause the least delay, and other figures exclude them. If arrivals
    are assumed, it is one row, which other figures include, because the rows after it may be late.
    """

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
    least_delay_with_them_ms: int
    least_delay_without_them_ms: int
    owed_to: list[RowsBehind]
    delays: list[Figures]
    perfect: Figures | None
    behind_by_partition: list[RowsBehind]
    who: str | None
    behind_by_who: list[RowsBehind]
    noted: NotedCosts | None = None


def compute_waits(waits: WindowWaits) -> tuple[float | None, int | None, int | None, int]:
    return waits.median_ms, waits.p99_ms, waits.longest_ms, waits.still_open


def compute_costs(
    rows: Rows, window_ms: int, delays: Sequence[int], *, ahead_ms: int, as_replay: bool
) -> tuple[Costs, Analysis]:
    """Judge one or more rows. Rows more than `ahead_ms` ahead of their arrival are skipped.

    Raises `Rejected` if most rows are. The least delays are rounded up to a full second, because
    such delays are printed and recommended.
    """
    every, left_out = rows, np.empty(0, np.int64)
    if as_replay:
        arrivals, assumption = rows.order_as_replay(), REPLAY_NOTICE
    elif rows.arrivals is None:
        arrivals, assumption = rows.assume_arrivals(), ASSUMED_ARRIVALS
    else:
        check_leads(rows, ahead_ms)
        left_out = find_rows_ahead(rows.arrivals, rows.times, ahead_ms)
        arrivals, assumption = np.delete(rows.arrivals, left_out), None
        rows = rows.remove_rows(left_out)
    analysis = analyse(arrivals, rows.times, rows.partitions, window_ms)
    spark, total = analysis.spark, len(rows.times)

    def build_figures(
        delay: int | None, lost_count: int, by_flink: int, waits: WindowWaits
    ) -> Figures:
        wait_figures = () if assumption else compute_waits(waits)
        return Figures(delay, lost_count, 100 * lost_count / total, by_flink, *wait_figures)

    least_delays = {round_up_to_second(spark.least_delay_ms(share)) for share in LOST_SHARES}
    shown_delays = sorted({*delays, *least_delays})
    notices = [*rows.said, *_describe_second(rows, spark.least_delay_ms(), window_ms)]
    if assumption == ASSUMED_ARRIVALS:
        notices += _describe_order(rows, spark.least_delay_ms(), window_ms)
    costs = Costs(
        rows.event_time,
        total,
        rows.without_time,
        len(np.unique(rows.partitions)),
        int(rows.times.min()),
        int(rows.times.max()),
        window_ms,
        assumption,
        notices,
        spark.least_delay_ms(),
        analysis.flink.least_delay_ms(),
        *_find_owed_delay(every, left_out, analysis, window_ms, ahead_ms),
        [
            build_figures(
                delay,
                spark.count_lost(delay),
                analysis.flink.count_lost(delay),
                spark.measure_waits(delay),
            )
            for delay in shown_delays
        ],
        None if assumption else build_figures(None, 0, 0, analysis.perfect),
        analysis.find_behind(rows.partitions),
        rows.who,
        [] if rows.whose is None else analysis.find_behind(rows.whose),
    )
    return costs, analysis


def _describe_second(rows: Rows, least_delay_ms: int, window_ms: int) -> Iterator[str]:
    """Compare the least delays of both readings of an hour that came twice."""
    if rows.second is None:
        return
    other_rows = replace(rows, times=rows.second)
    arrivals = other_rows.assume_arrivals() if rows.arrivals is None else rows.arrivals
    other = analyse(arrivals, other_rows.times, window_ms=window_ms).spark.least_delay_ms()
    if other != least_delay_ms:
        yield (
            f"So the least delay is {format_least_delay(least_delay_ms)}. If the rows that step back are "
            f"of the second hour, it is {format_least_delay(other)}: only an offset in the times "
            "tells."
        )


def _describe_order(rows: Rows, least_delay_ms: int, window_ms: int) -> Iterator[str]:
    """Compare the least delays of two orders of the files, if their order is in doubt."""
    other_rows = rows.order_otherwise()
    if other_rows is None or rows.order_doubt is None:
        return
    other = analyse(other_rows.assume_arrivals(), other_rows.times, window_ms=window_ms)
    other_least = other.spark.least_delay_ms()
    if round_up_to_second(other_least) == round_up_to_second(least_delay_ms):
        return
    doubt = rows.order_doubt
    delay = f"{format_least_delay(least_delay_ms)} {ORDER_WORDS[doubt.order]}"
    other_delay = f"{format_least_delay(other_least)} {doubt.other_words}"
    yield (
        f"The order of the files cannot be told, because {doubt.reason}. The least delay is "
        f"{delay}, and {other_delay}: a column with the arrival time decides (--arrival COLUMN)."
    )


def _find_owed_delay(
    rows: Rows, left_out: NDArray[np.int64], analysis: Analysis, window_ms: int, ahead_ms: int
) -> tuple[int, int, list[RowsBehind]]:
    """Return the least delay with and without the rows that cause it, and these rows."""
    least_delay_ms = analysis.spark.least_delay_ms()
    if rows.arrivals is not None and len(left_out):
        every = analyse(rows.arrivals, rows.times, window_ms=window_ms).spark.least_delay_ms()
        by_ms = (rows.times - rows.arrivals)[left_out]
        return every, least_delay_ms, summarize_by_name(rows.names[left_out], by_ms)
    if rows.arrivals is None and analysis.owed_to is not None:
        row = np.array([analysis.owed_to])
        other_rows = rows.remove_rows(row)
        analysis = analyse(other_rows.assume_arrivals(), other_rows.times, window_ms=window_ms)
        owed = least_delay_ms - analysis.spark.least_delay_ms()
        if owed > ahead_ms:
            return (
                least_delay_ms,
                least_delay_ms - owed,
                summarize_by_name(rows.names[row], np.array([owed])),
            )
    return least_delay_ms, least_delay_ms, []


def print_costs(costs: Costs, note: str, observe: str | None) -> None:
    """Print the costs, and what to do instead of a guess: `note` time, or run a command.

    `observe` is an observer's command without `--delay`, `None` if no observer reads such a log.
    """
    for sentence in filter(None, (costs.assumed, *costs.said)):
        say(sentence)
    say(
        f"{pluralize(costs.rows, 'row')} of {pluralize(costs.partitions, 'partition')}, "
        f"{costs.event_time} from {format_time(costs.first_ms)} to {format_time(costs.last_ms)}; "
        f"{format_window(costs.window_ms)}."
    )
    if costs.without_time:
        say(f"{pluralize(costs.without_time, 'row')} without {costs.event_time} skipped.")
    print_table(_build_columns(costs), _list_figures(costs))
    for sentence in _explain_waits(costs):
        say(sentence)
    by_partition = costs.behind_by_partition if costs.partitions > 1 else []
    ahead = [] if costs.assumed else costs.owed_to
    late, name_title = "behind the largest time so far", costs.who or "partition"
    for where_they_lie, title, rows_behind in (
        (late, "partition", by_partition),
        (late, name_title, costs.behind_by_who),
        ("ahead of their arrival", name_title, ahead),
    ):
        if rows_behind:
            say(f"Rows {where_they_lie}, by {title}:")
            print_table(
                _build_name_columns(title), (name_rows._asdict() for name_rows in rows_behind)
            )
    for sentence in _suggest_next(costs, note, observe):
        say(sentence)


def format_window(ms: int) -> str:
    """Format a window size.

    >>> format_window(3_600_000), format_window(0)
    ('windows of 1h', 'each row by itself')
    >>> format_window(7 * 86_400_000)
    'windows of 7d, which begin on Thursdays'
    """
    begin = "" if ms % WEEK_MS else ", which begin on Thursdays"
    return f"windows of {format_duration(ms)}{begin}" if ms else "each row by itself"


def round_up_to_second(ms: int) -> int:
    """Round a delay up to a full second, in ms.

    >>> round_up_to_second(9001), round_up_to_second(9000)
    (10000, 9000)
    """
    return (ms + SECOND_MS - 1) // SECOND_MS * SECOND_MS


def format_delay(ms: int) -> str:
    """Format a delay, to the millisecond.

    >>> format_delay(39_361_000), format_delay(1500), format_delay(0)
    ('10h 56m 1s', '1s 500ms', '0s')
    """
    rest, parts = ms, list[str]()
    for unit, size in UNITS_MS.items():
        number, rest = divmod(rest, size)
        if number:
            parts.append(f"{number}{unit}")
    return " ".join(parts) or "0s"


def format_least_delay(ms: int) -> str:
    return format_delay(round_up_to_second(ms))


def _list_figures(costs: Costs) -> Iterator[dict[str, object]]:
    for figures in costs.delays:
        yield _build_row(format_delay(figures.delay_ms or 0), figures)
    if costs.perfect is not None:
        yield _build_row("perfect", costs.perfect)
    if costs.noted is not None:
        yield _build_row("noted", costs.noted.figures)


def _build_row(name: str, figures: Figures) -> dict[str, object]:
    waits = (figures.wait_median_ms, figures.wait_p99_ms, figures.wait_longest_ms)
    median, p99, longest = (None if ms is None else format_duration(int(ms)) for ms in waits)
    return {
        "delay": name,
        "lost": f"{figures.lost:,}",
        "percent": f"{figures.lost_percent:.2f} %" if figures.lost else "0 %",
        "by_flink": None if figures.lost_by_flink is None else f"{figures.lost_by_flink:,}",
        "median": median,
        "p99": p99,
        "longest": longest,
        "open": None if figures.still_open is None else f"{figures.still_open:,}",
    }


def _explain_waits(costs: Costs) -> Iterator[str]:
    noted_figures = [] if costs.noted is None else [costs.noted.figures]
    shown_figures = [*costs.delays, *filter(None, [costs.perfect]), *noted_figures]
    if any(figures.still_open for figures in shown_figures):
        yield "Still open: windows without a result at the last row. The waits do not include them."
    if any(figures.still_open and figures.wait_p99_ms is None for figures in shown_figures):
        yield (
            f'p99 is "-" if more than {100 * MAX_OPEN:g} % of the windows are still open. '
            "Judge more rows to see it."
        )


def _build_columns(costs: Costs) -> Columns:
    lost_columns: Columns = {"delay": "delay", "rows lost": "lost", "of all": "percent"}
    by_flink: Columns = {"lost by Flink": "by_flink"} if costs.partitions > 1 else {}
    waits: Columns = {
        "median wait": "median",
        "p99": "p99",
        "longest": "longest",
        "still open": "open",
    }
    return {**lost_columns, **by_flink, **({} if costs.assumed else waits)}


def _build_name_columns(title: str) -> Columns:
    return {
        title: "name",
        "rows": lambda row: f"{row['rows']:,}",
        "median": lambda row: format_duration(int(row["median_ms"])),
        "worst": lambda row: format_duration(row["worst_ms"]),
    }


def _describe_least(costs: Costs) -> str:
    with_ms, without_ms = costs.least_delay_with_them_ms, costs.least_delay_without_them_ms
    if with_ms == without_ms:
        return format_least_delay(with_ms)
    worst_rows, rows = costs.owed_to[0], sum(name_rows.rows for name_rows in costs.owed_to)
    name = worst_rows.name if costs.who else f"partition {worst_rows.name}"
    more = f" and {len(costs.owed_to) - 1} more" if len(costs.owed_to) > 1 else ""
    rows_ahead = f"{pluralize(rows, 'row')} of {name}{more}"
    if costs.assumed:
        return (
            f"{format_least_delay(with_ms)}. {format_duration(with_ms - without_ms)} of this delay "
            f"are owed to {rows_ahead}, or to the rows behind it: only arrivals tell which are "
            f"wrong; without it {format_least_delay(without_ms)}"
        )
    ahead = f"which is {format_duration(worst_rows.worst_ms)} ahead of its arrival"
    if rows > 1:
        ahead = f"at most {format_duration(worst_rows.worst_ms)} ahead of their arrival"
    without, them = format_least_delay(without_ms), "it" if rows == 1 else "them"
    return f"{without} without {rows_ahead}, {ahead}, and {format_least_delay(with_ms)} with {them}"


def _suggest_next(costs: Costs, note: str, observe: str | None) -> Iterator[str]:
    least_delay_ms = costs.least_delay_without_loss_ms
    if costs.assumed == REPLAY_NOTICE:
        return
    name = costs.event_time
    seconds = round_up_to_second(least_delay_ms) // SECOND_MS
    days, rest = divmod(seconds, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    described_delay = _describe_least(costs)
    yield f"The least delay that would have lost no row is {described_delay}. What to do with it:"
    yield f"  Spark           .withWatermark({name!r}, '{seconds} seconds')"
    yield (
        f"  Flink SQL       WATERMARK FOR {name} AS {name} - INTERVAL '{days} {clock}' "
        "DAY TO SECOND"
    )
    if observe is not None:
        yield f"  Observers       {observe} --delay {seconds}s"
    if costs.owed_to and not costs.assumed:
        yield "  Rows ahead      skip them in the query, too, as observers do (--ahead)"
    yield f"  Neither guess nor loss: {note}"
