"""The costs of a stream's marks."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from noted_time.extending import (
    BROKEN_VERDICT,
    DAY_MS,
    UNKNOWN_VERDICT,
    AnotherLog,
    Transport,
    format_time,
    pluralize,
    run,
)
from noted_time_cli.extending import Columns, fail, print_table, say
from noted_time_extensions.analyse.costs import Figures, NotedCosts, compute_waits
from noted_time_extensions.analyse.lost_rows import LocatedRows, judge
from reader_client.extending import read_noted

if TYPE_CHECKING:
    from noted_time_extensions.analyse.reading.columns import StreamToJudge
    from noted_time_extensions.analyse.reading.rows import Rows

LOST_COLUMNS: Columns = {
    "rows lost": lambda row: f"{row['rows']:,}",
    "from": lambda row: format_time(row["first_ms"]),
    "to": lambda row: format_time(row["last_ms"]),
    "why": lambda row: format_verdict(row["verdict"]),
}

VERDICT_WORDS = {BROKEN_VERDICT: "its word was broken", UNKNOWN_VERDICT: "not known"}


def compute_noted_costs(
    rows: Rows, window_ms: int, asked: StreamToJudge, stream: str
) -> NotedCosts:
    """Read the marks of a stream and judge rows by them.

    If the last row arrived over a day from the last mark, waits are `None`, as in a replay.
    """
    with closing(Transport(asked.url, token=asked.token)) as transport:
        read = run(read_noted(stream, asked.domain), transport.ask)
    AnotherLog.check(stream, read.logs, rows.log_id)
    placed = LocatedRows(rows.times, rows.partitions, rows.offsets, rows.whose)
    found = judge(read.marks, placed, read.promises, read.owners, window_ms)
    lost, times = len(found.lost), rows.arrivals
    is_replayed = times is None or abs(int(times.max()) - read.marks.written[-1]) > DAY_MS
    waited = () if is_replayed else compute_waits(found.waits)
    costs = Figures(None, lost, 100 * lost / len(rows.times), None, *waited)
    return NotedCosts(stream, len(read.marks), costs, found.not_judged, found.rows(rows.times))


def format_verdict(verdict: str) -> str:
    """Format a verdict.

    >>> format_verdict("broken"), format_verdict("timed_out")
    ('its word was broken', 'late by contract: timed out')
    """
    return VERDICT_WORDS.get(verdict) or f"late by contract: {verdict.replace('_', ' ')}"


def print_lost(costs: NotedCosts, by: str) -> None:
    if costs.not_judged:
        rows = pluralize(costs.not_judged, "row")
        say(
            f"{rows} below the first mark kept of {costs.stream} not judged: it may have lost some."
        )
    if costs.lost:
        say(f"Rows that the marks of {costs.stream} lost, by {by}:")
        print_table({by: "name", **LOST_COLUMNS}, (each._asdict() for each in costs.lost))


def check_words(costs: NotedCosts) -> None:
    broken = [each for each in costs.lost if each.verdict == BROKEN_VERDICT]
    if broken:
        whose = ", ".join(f"{each.name} ({pluralize(each.rows, 'row')})" for each in broken)
        fail(f"rows came below a time that their writer had noted: {whose}", status=1)
