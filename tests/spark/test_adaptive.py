"""How a query goes from one mode to the other; no Spark runs here."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.streaming.query import StreamingQuery

from examples.adaptive import Lags, Mode, run_adaptively
from noted_time import BacklogPolicy, Rejected
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


def source(lower: int | None, last_lower: int | None, unread: int = 1) -> tuple[str, str]:
    """Return the offsets that a file log shows in the progress of a query."""
    latest = {"segments": {"0": 7 + unread}, "domain": "default", "last_lower": last_lower}
    return json.dumps(end(lower, 7).to_json()), json.dumps({"noted_log": "flights", **latest})


@dataclass
class Scripted:
    """Runs whose progress is given, one (own lower, last lower) a look; the last one stays.

    A run in the mode `backlog` ends at once, a live one when its script is over.
    """

    runs: list[list[tuple[int, int]]]
    modes: list[Mode] = field(default_factory=list)
    stopped: int = 0

    def start(self, mode: Mode) -> StreamingQuery:
        """Start the next run."""
        looks = self.runs[len(self.modes)]
        self.modes.append(mode)
        return cast("StreamingQuery", ScriptedQuery(self, mode, looks))


class ScriptedQuery:
    """One run of a `Scripted` query."""

    def __init__(self, script: Scripted, mode: Mode, looks: list[tuple[int, int]]) -> None:
        self._script, self._mode, self._looks = script, mode, list(looks)

    def awaitTermination(self, timeout: int) -> bool:  # noqa: N802, ARG002 - Spark's name
        """Return whether it ended."""
        return self._mode == "backlog" or not self._looks

    @property
    def lastProgress(self) -> Any:  # noqa: ANN401, N802 - Spark's name
        """Return the next progress."""
        found = source(*(self._looks.pop(0)))
        return SimpleNamespace(sources=[SimpleNamespace(endOffset=found[0], latestOffset=found[1])])

    def stop(self) -> None:
        """Count."""
        self._script.stopped += 1


def modes_of(
    *runs: list[tuple[int, int]], policy: BacklogPolicy = BEHIND, dwell_ms: int = 0
) -> Any:  # noqa: ANN401 - modes
    """Return the modes that these runs come to."""
    script = Scripted(list(runs))
    run_adaptively(script.start, policy=policy, dwell_ms=dwell_ms)
    assert script.stopped == len(script.modes)
    return script.modes


def test_the_live_mode_follows_whenever_the_backlog_is_read() -> None:
    """A run that leaves the query behind is followed by its like; a live one is stopped for it."""
    near, far = (100, 105), (50, 100)

    assert modes_of([near], [near, near]) == ["backlog", "live"]
    assert modes_of([far], [near], [near]) == ["backlog", "backlog", "live"]
    assert modes_of([near], [near, far], [near], [near]) == ["backlog", "live", "backlog", "live"]


def test_a_live_query_is_let_run_for_the_dwell_time() -> None:
    """However far it is behind."""
    assert modes_of([(100, 105)], [(50, 100)] * 3, dwell_ms=60_000) == ["backlog", "live"]


def test_without_a_threshold_the_query_is_live_from_the_start() -> None:
    """There is never a backlog."""
    assert modes_of([(50, 100)], policy=BacklogPolicy()) == ["live"]


def test_nothing_is_started_once_it_is_to_stop() -> None:
    """The event may be set from any thread."""
    script, stopping = Scripted([]), threading.Event()
    stopping.set()
    run_adaptively(script.start, policy=BEHIND, stopping=stopping)

    assert script.modes == []


def test_a_negative_dwell_time_is_refused() -> None:
    """It could only be a mistake."""
    with pytest.raises(Rejected, match="dwell_ms must be 0 or more, got -1"):
        run_adaptively(Scripted([]).start, policy=BEHIND, dwell_ms=-1)


def test_one_source_that_is_behind_is_enough() -> None:
    """Sources that are not file logs report nothing; one that does not exist is refused."""
    kafka = ('{"flights": {"0": 1}}', "null")
    near, far = source(100, 105), source(50, 100)

    assert [Lags(BEHIND).look(sources, 0) for sources in ([kafka, near], [near, far, kafka])] == [
        False,
        True,
    ]
    with pytest.raises(Rejected, match="no source of the query"):
        Lags(BEHIND).look([kafka], 0)


def test_a_source_that_has_read_all_has_no_backlog_by_the_clock() -> None:
    """It waits for the writers, and no mode helps with that."""
    policy, now = BacklogPolicy(watermark_lag_ms=1000), 10**12
    late = [source(now - 5000, now - 5000, unread) for unread in (1, 0)]

    assert [Lags(policy).look([each], now) for each in late] == [True, False]


def plan(begun: LogOffset, last_lower: int | None, first_lower: int | None = None) -> Plan:
    """Return a plan for a log with one unread row, before the mark of `first_lower`."""
    files = {0: [LogFile(Path("0"), 0, begun.segments.get(0, 0) + 1)]}
    marks = cast("Releaser", SimpleNamespace(last_lower=last_lower, lower_at=lambda _: first_lower))
    unread = Unread(files, begun.segments)
    return Plan(begun, begun.released("default"), marks, unread, USUAL)


def limited(
    limit: Limit, begun: LogOffset, last_lower: int | None, first_lower: int | None = None
) -> ReadLimit:
    """Return the limit of a batch; a limit that does not divide segments counts as none."""
    limits: list[ReadLimit] = []

    def divide(unread: Unread, most: int) -> dict[int, int]:
        limits.append(ReadMaxRows(most))
        return unread.rows()

    limit(replace(plan(begun, last_lower, first_lower), divide=divide))
    return limits[0] if limits else ReadAllAvailable()


def test_the_limit_is_larger_while_behind_and_the_flag_shows_it() -> None:
    """A change of the flag alone makes no batch; without a policy there is no flag."""
    limit, begun = Limit(CatchUp(BEHIND, 50)), end(50)
    found = []
    for lower, last in ((50, 100), (100, 105)):
        most = limited(limit, end(lower), last)
        found.append((most, limit.flagged(begun, end(lower, 9)).backlog))
    never = Limit(None)

    assert found == [(ReadMaxRows(50), True), (USUAL, False)]
    assert limit.flagged(begun, end(50)) == begun
    assert limited(never, end(50), 100) == USUAL
    assert never.flagged(begun, end(50, 9)).backlog is None


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

    assert (most, limit.flagged(end(50), end(50, 9)).backlog) == (USUAL, None)


@pytest.mark.parametrize("flag", [None, True, False])
def test_an_offset_with_a_flag_is_read_back_and_one_without_is_as_before(
    *, flag: bool | None
) -> None:
    """Old checkpoints lack it, and queries without a policy still write none."""
    offset = LogOffset("flights", segments={0: 3}, backlog=flag)
    json_of = offset.to_json()

    assert (LogOffset.from_json(json_of), "backlog" in json_of) == (offset, flag is not None)
