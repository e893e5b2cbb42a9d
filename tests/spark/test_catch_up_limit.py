"""The limit of a micro-batch and its flag, by how far a query is behind; no Spark runs here."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from noted_time import BacklogPolicy
from spark_integration import CatchUp
from spark_integration.log.offset import LogOffset
from spark_integration.log.plan import Limit, Plan
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Released
from spark_integration.scan.admission import Unread
from spark_integration.scan.files import LogFile

BEHIND = BacklogPolicy(behind_ms=10)
USUAL = ReadMaxRows(5)


def end(lower: int | None, offset: int = 0) -> LogOffset:
    """Return where the batch ended that admitted this lower."""
    marks = {} if lower is None else {"default": Released("a", 1, lower)}
    return LogOffset("flights", segments={0: offset}, marks=marks)


def plan(begun: LogOffset, last_lower: int | None, first_lower: int | None = None) -> Plan:
    """Return a plan for a log with one unread row, before the mark of `first_lower`."""
    files = {0: [LogFile(Path("0"), 0, begun.segments.get(0, 0) + 1)]}
    marks = cast(
        "Releaser", SimpleNamespace(last_lower=last_lower, find_lower=lambda _: first_lower)
    )
    unread = Unread(files, begun.segments)
    return Plan(begun, begun.get_released("default"), marks, unread, USUAL)


def limited(
    limit: Limit, begun: LogOffset, last_lower: int | None, first_lower: int | None = None
) -> ReadLimit:
    """Return the limit of a batch."""
    return limit._find_limit(plan(begun, last_lower, first_lower), unread=1)


def test_the_limit_is_larger_while_behind_and_the_flag_shows_it() -> None:
    """A change of the flag alone makes no batch; without a policy there is no flag."""
    limit, begun = Limit(CatchUp(BEHIND, 50)), end(50)
    found = []
    for lower, last in ((50, 100), (100, 105)):
        most = limited(limit, end(lower), last)
        found.append((most, limit.flag_backlog(begun, end(lower, 9)).backlog))
    never = Limit(None)

    assert found == [(ReadMaxRows(50), True), (USUAL, False)]
    assert limit.flag_backlog(begun, end(50)) == begun
    assert limited(never, end(50), 100) == USUAL
    assert never.flag_backlog(begun, end(50, 9)).backlog is None


def test_a_query_that_caught_up_for_good_has_after_a_restart() -> None:
    """The offset log has the flag; for a query that had a backlog it has that."""
    catch_up = CatchUp(BacklogPolicy(behind_ms=10, rule="sticky"))
    offsets = [LogOffset("flights", backlog=flag) for flag in (None, True, False)]
    limits = [limited(Limit(catch_up), each, 100) for each in offsets]

    assert limits == [ReadAllAvailable(), ReadAllAvailable(), USUAL]


def test_a_new_query_is_as_far_behind_as_the_first_mark_beyond_its_start() -> None:
    """By the wall clock it begins an hour behind, though it has no lower yet."""
    now = time.time_ns() // 1_000_000
    policy = BacklogPolicy(watermark_lag_ms=60_000)
    begins = [
        limited(Limit(CatchUp(policy, 50)), LogOffset("flights"), now, first)
        for first in (now - 3_600_000, now, None)
    ]

    assert begins == [ReadMaxRows(50), USUAL, USUAL]


def test_nothing_is_concluded_before_a_mark_is_known() -> None:
    """As while the controller is away: neither a backlog nor its absence."""
    limit = Limit(CatchUp(BEHIND, 50))
    most = limited(limit, end(50), None)

    assert (most, limit.flag_backlog(end(50), end(50, 9)).backlog) == (USUAL, None)
