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
from noted_time_extensions.analyse.costs import NotedCosts, build_figures
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
    rows: Rows, window_ms: int, stream_to_judge: StreamToJudge, stream: str
) -> NotedCosts:
    """Read the marks of a stream and judge rows by them.

    If the last row arrived over a day from the last mark, waits are `None`, as in a replay.
    """
    with closing(Transport(stream_to_judge.url, token=stream_to_judge.token)) as transport:
        noted_stream = run(read_noted(stream, stream_to_judge.domain), transport.ask)
    AnotherLog.check(stream, noted_stream.logs, rows.log_id)
    marks = noted_stream.marks
    located_rows = LocatedRows(rows.times, rows.partitions, rows.offsets, rows.group_of_row)
    judgement = judge(marks, located_rows, noted_stream.promises, noted_stream.owners, window_ms)
    waits = None
    if rows.arrivals is not None and abs(int(rows.arrivals.max()) - marks.written[-1]) <= DAY_MS:
        waits = judgement.waits
    figures = build_figures(None, len(judgement.lost), len(rows.times), None, waits)
    lost_rows = judgement.rows(rows.times)
    return NotedCosts(stream, len(marks), figures, judgement.not_judged, lost_rows)


def format_verdict(verdict: str) -> str:
    """Format a verdict.

    >>> format_verdict("broken"), format_verdict("timed_out")
    ('its word was broken', 'late by contract: timed out')
    """
    return VERDICT_WORDS.get(verdict) or f"late by contract: {verdict.replace('_', ' ')}"


def print_lost(costs: NotedCosts, name_title: str) -> None:
    if costs.not_judged:
        rows = pluralize(costs.not_judged, "row")
        say(
            f"{rows} below the first mark kept of {costs.stream} not judged: it may have lost some."
        )
    if costs.lost:
        say(f"Rows that the marks of {costs.stream} lost, by {name_title}:")
        print_table(
            {name_title: "name", **LOST_COLUMNS}, (name_rows._asdict() for name_rows in costs.lost)
        )


def check_words(costs: NotedCosts) -> None:
    writers = []
    for lost_rows in costs.lost:
        if lost_rows.verdict == BROKEN_VERDICT:
            writers.append(f"{lost_rows.name} ({pluralize(lost_rows.rows, 'row')})")
    if writers:
        names = ", ".join(writers)
        fail(f"rows came below a time that their writer had noted: {names}", status=1)
