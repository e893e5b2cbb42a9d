"""The costs of delays: figures for JSON, sentences and tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

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

    `outliers` has the rows that cause the least delay, and other figures exclude them. If arrivals
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
    notices: list[str]
    least_delay_without_loss_ms: int
    least_delay_without_loss_by_flink_ms: int
    least_delay_all_rows_ms: int
    least_delay_without_outliers_ms: int
    outliers: list[RowsBehind]
    delays: list[Figures]
    perfect: Figures | None
    behind_by_partition: list[RowsBehind]
    group_column: str | None
    behind_by_group: list[RowsBehind]
    noted: NotedCosts | None = None


def build_figures(
    delay_ms: int | None,
    lost_count: int,
    row_count: int,
    lost_by_flink: int | None,
    waits: WindowWaits | None,
) -> Figures:
    """Return the costs of one watermark. `waits` is `None` if they are not known."""
    figures = Figures(delay_ms, lost_count, 100 * lost_count / row_count, lost_by_flink)
    if waits is None:
        return figures
    return replace(
        figures,
        wait_median_ms=waits.median_ms,
        wait_p99_ms=waits.p99_ms,
        wait_longest_ms=waits.longest_ms,
        still_open=waits.still_open,
    )


def compute_costs(
    rows: Rows, window_ms: int, delays: Sequence[int], *, ahead_ms: int, as_replay: bool
) -> tuple[Costs, Analysis]:
    """Judge one or more rows. Rows more than `ahead_ms` ahead of their arrival are skipped.

    Raises `Rejected` if most rows are. The least delays are rounded up to a full second, because
    such delays are printed and recommended.
    """
    all_rows = rows
    rows_ahead = np.empty(0, np.int64)
    assumption = None
    if as_replay:
        arrivals = rows.order_as_replay()
        assumption = REPLAY_NOTICE
    elif rows.arrivals is None:
        arrivals = rows.assume_arrivals()
        assumption = ASSUMED_ARRIVALS
    else:
        check_leads(rows, ahead_ms)
        rows_ahead = find_rows_ahead(rows.arrivals, rows.times, ahead_ms)
        arrivals = np.delete(rows.arrivals, rows_ahead)
        rows = rows.remove_rows(rows_ahead)
    analysis = analyse(arrivals, rows.times, rows.partitions, window_ms)
    least_delay_ms = analysis.spark.least_delay_ms()
    notices = [*rows.notices, *_describe_second(rows, least_delay_ms, window_ms)]
    if assumption == ASSUMED_ARRIVALS:
        notices += _describe_order(rows, least_delay_ms, window_ms)
    owed_delay = _find_owed_delay(all_rows, rows_ahead, analysis, window_ms, ahead_ms)
    costs = Costs(
        event_time=rows.event_time,
        rows=len(rows.times),
        without_time=rows.without_time,
        partitions=len(np.unique(rows.partitions)),
        first_ms=int(rows.times.min()),
        last_ms=int(rows.times.max()),
        window_ms=window_ms,
        assumed=assumption,
        notices=notices,
        least_delay_without_loss_ms=least_delay_ms,
        least_delay_without_loss_by_flink_ms=analysis.flink.least_delay_ms(),
        least_delay_all_rows_ms=owed_delay.with_them_ms,
        least_delay_without_outliers_ms=owed_delay.without_them_ms,
        outliers=owed_delay.rows,
        delays=_list_delay_figures(analysis, delays, has_waits=assumption is None),
        perfect=None,
        behind_by_partition=analysis.find_behind(rows.partitions),
        group_column=rows.group_column,
        behind_by_group=[],
    )
    if assumption is None:
        costs = replace(costs, perfect=build_figures(None, 0, costs.rows, 0, analysis.perfect))
    if rows.group_of_row is not None:
        costs = replace(costs, behind_by_group=analysis.find_behind(rows.group_of_row))
    return costs, analysis


def _list_delay_figures(
    analysis: Analysis, delays: Sequence[int], *, has_waits: bool
) -> list[Figures]:
    """Return the costs of `delays` and of the least delays that lose some shares of the rows."""
    spark = analysis.spark
    least_delays = {round_up_to_second(spark.least_delay_ms(share)) for share in LOST_SHARES}
    all_figures = []
    for delay_ms in sorted({*delays, *least_delays}):
        lost_count = spark.count_lost(delay_ms)
        lost_by_flink = analysis.flink.count_lost(delay_ms)
        waits = spark.measure_waits(delay_ms) if has_waits else None
        figures = build_figures(delay_ms, lost_count, spark.rows, lost_by_flink, waits)
        all_figures.append(figures)
    return all_figures


def _describe_second(rows: Rows, least_delay_ms: int, window_ms: int) -> Iterator[str]:
    """Compare the least delays of both readings of an hour that came twice."""
    if rows.second is None:
        return
    other_rows = replace(rows, times=rows.second)
    arrivals = rows.arrivals
    if arrivals is None:
        arrivals = other_rows.assume_arrivals()
    other_analysis = analyse(arrivals, other_rows.times, window_ms=window_ms)
    other_delay_ms = other_analysis.spark.least_delay_ms()
    if other_delay_ms != least_delay_ms:
        yield (
            f"So the least delay is {format_least_delay(least_delay_ms)}. If the rows that step "
            f"back are of the second hour, it is {format_least_delay(other_delay_ms)}: only an "
            "offset in the times tells."
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


class OwedDelay(NamedTuple):
    """The least delay with and without the rows that cause it, and these rows, if any."""

    with_them_ms: int
    without_them_ms: int
    rows: list[RowsBehind]


def _find_owed_delay(
    all_rows: Rows, rows_ahead: NDArray[np.int64], analysis: Analysis, window_ms: int, ahead_ms: int
) -> OwedDelay:
    """Return the delay that is owed to the rows ahead, or without arrivals to the row ahead."""
    least_delay_ms = analysis.spark.least_delay_ms()
    if all_rows.arrivals is not None and len(rows_ahead):
        analysis_with_them = analyse(all_rows.arrivals, all_rows.times, window_ms=window_ms)
        leads_ms = (all_rows.times - all_rows.arrivals)[rows_ahead]
        names = summarize_by_name(all_rows.names[rows_ahead], leads_ms)
        return OwedDelay(analysis_with_them.spark.least_delay_ms(), least_delay_ms, names)
    if all_rows.arrivals is None and analysis.worst_row is not None:
        row = np.array([analysis.worst_row])
        other_rows = all_rows.remove_rows(row)
        other_analysis = analyse(
            other_rows.assume_arrivals(), other_rows.times, window_ms=window_ms
        )
        without_it_ms = other_analysis.spark.least_delay_ms()
        owed_ms = least_delay_ms - without_it_ms
        if owed_ms > ahead_ms:
            names = summarize_by_name(all_rows.names[row], np.array([owed_ms]))
            return OwedDelay(least_delay_ms, without_it_ms, names)
    return OwedDelay(least_delay_ms, least_delay_ms, [])


def print_costs(costs: Costs, note: str, observe: str | None) -> None:
    """Print the costs, and what to do instead of a guess: `note` time, or run a command.

    `observe` is an observer's command without `--delay`, `None` if no observer reads such a log.
    """
    if costs.assumed:
        say(costs.assumed)
    for sentence in costs.notices:
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
    name_title = costs.group_column or "partition"
    if costs.partitions > 1:
        _print_names("behind the largest time so far", "partition", costs.behind_by_partition)
    _print_names("behind the largest time so far", name_title, costs.behind_by_group)
    if not costs.assumed:
        _print_names("ahead of their arrival", name_title, costs.outliers)
    for sentence in _suggest_next(costs, note, observe):
        say(sentence)


def _print_names(where_they_lie: str, title: str, names: Sequence[RowsBehind]) -> None:
    if names:
        say(f"Rows {where_they_lie}, by {title}:")
        print_table(_build_name_columns(title), (name._asdict() for name in names))


def format_window(ms: int) -> str:
    """Format a window size.

    >>> format_window(3_600_000), format_window(0)
    ('windows of 1h', 'each row by itself')
    >>> format_window(7 * 86_400_000)
    'windows of 7d, which begin on Thursdays'
    """
    if ms == 0:
        return "each row by itself"
    windows = f"windows of {format_duration(ms)}"
    if ms % WEEK_MS == 0:
        windows += ", which begin on Thursdays"
    return windows


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
    rest_ms = ms
    parts = []
    for unit, size in UNITS_MS.items():
        number, rest_ms = divmod(rest_ms, size)
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
    return {
        "delay": name,
        "lost": f"{figures.lost:,}",
        "percent": f"{figures.lost_percent:.2f} %" if figures.lost else "0 %",
        "by_flink": _format_count(figures.lost_by_flink),
        "median": _format_wait(figures.wait_median_ms),
        "p99": _format_wait(figures.wait_p99_ms),
        "longest": _format_wait(figures.wait_longest_ms),
        "open": _format_count(figures.still_open),
    }


def _format_count(count: int | None) -> str | None:
    return None if count is None else f"{count:,}"


def _format_wait(ms: float | None) -> str | None:
    return None if ms is None else format_duration(int(ms))


def _explain_waits(costs: Costs) -> Iterator[str]:
    shown_figures = list(costs.delays)
    if costs.perfect is not None:
        shown_figures.append(costs.perfect)
    if costs.noted is not None:
        shown_figures.append(costs.noted.figures)
    if any(figures.still_open for figures in shown_figures):
        yield "Still open: windows without a result at the last row. The waits do not include them."
    if any(figures.still_open and figures.wait_p99_ms is None for figures in shown_figures):
        yield (
            f'p99 is "-" if more than {100 * MAX_OPEN:g} % of the windows are still open. '
            "Judge more rows to see it."
        )


def _build_columns(costs: Costs) -> Columns:
    columns = {"delay": "delay", "rows lost": "lost", "of all": "percent"}
    if costs.partitions > 1:
        columns["lost by Flink"] = "by_flink"
    if not costs.assumed:
        columns["median wait"] = "median"
        columns["p99"] = "p99"
        columns["longest"] = "longest"
        columns["still open"] = "open"
    return columns


def _build_name_columns(title: str) -> Columns:
    return {
        title: "name",
        "rows": lambda row: f"{row['rows']:,}",
        "median": lambda row: format_duration(int(row["median_ms"])),
        "worst": lambda row: format_duration(row["worst_ms"]),
    }


def _describe_least(costs: Costs) -> str:
    """Return the least delay, the rows that cause it, and the delay without them."""
    with_them_ms = costs.least_delay_all_rows_ms
    without_them_ms = costs.least_delay_without_outliers_ms
    if with_them_ms == without_them_ms:
        return format_least_delay(with_them_ms)
    worst_rows = costs.outliers[0]
    row_count = sum(name_rows.rows for name_rows in costs.outliers)
    name = worst_rows.name if costs.group_column else f"partition {worst_rows.name}"
    if len(costs.outliers) > 1:
        name += f" and {len(costs.outliers) - 1} more"
    rows_ahead = f"{pluralize(row_count, 'row')} of {name}"
    if costs.assumed:
        owed_delay = format_duration(with_them_ms - without_them_ms)
        return (
            f"{format_least_delay(with_them_ms)}. {owed_delay} of this delay are owed to "
            f"{rows_ahead}, or to the rows behind it: only arrivals tell which are wrong; without "
            f"it {format_least_delay(without_them_ms)}"
        )
    ahead = f"which is {format_duration(worst_rows.worst_ms)} ahead of its arrival"
    them = "it"
    if row_count > 1:
        ahead = f"at most {format_duration(worst_rows.worst_ms)} ahead of their arrival"
        them = "them"
    return (
        f"{format_least_delay(without_them_ms)} without {rows_ahead}, {ahead}, and "
        f"{format_least_delay(with_them_ms)} with {them}"
    )


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
    if costs.outliers and not costs.assumed:
        yield "  Rows ahead      skip them in the query, too, as observers do (--ahead)"
    yield f"  Neither guess nor loss: {note}"
