"""How a query goes from one mode to the other; no Spark runs here."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from noted_time import BacklogPolicy, Rejected
from spark_integration import run_adaptively
from spark_integration.adaptive import Lags
from spark_integration.batch_sizes import BatchSizes
from spark_integration.log_query import LogQuery
from spark_integration.offsets import LogOffset, Released

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from spark_integration import Mode

BEHIND = BacklogPolicy(behind_ms=10)
USUAL = ReadMaxRows(5)


def end(lower: int | None, offset: int = 0) -> LogOffset:
    """Return where a batch ended that had let in this lower."""
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


def test_the_live_mode_follows_when_the_backlog_is_read() -> None:
    """A run after which the query is still behind is followed by another one like it."""
    near, far = (100, 105), (50, 100)

    assert modes_of([near], [near, near]) == ["backlog", "live"]
    assert modes_of([far], [near], [near]) == ["backlog", "backlog", "live"]


def test_a_live_query_that_falls_behind_catches_up() -> None:
    """It is stopped for it, and live again afterwards."""
    near, far = (100, 105), (50, 100)

    assert modes_of([near], [near, far], [near], [near]) == ["backlog", "live", "backlog", "live"]


def test_a_live_query_is_let_run_for_the_dwell_time() -> None:
    """However far it is behind."""
    assert modes_of([(100, 105)], [(50, 100)] * 3, dwell_ms=60_000) == ["backlog", "live"]


def test_without_a_threshold_the_query_is_live_from_the_start() -> None:
    """There is never a backlog."""
    assert modes_of([(50, 100)], policy=BacklogPolicy()) == ["live"]


def test_nothing_is_started_once_it_is_to_stop() -> None:
    """The event may be set from anywhere."""
    script, stopping = Scripted([]), threading.Event()
    stopping.set()
    run_adaptively(script.start, policy=BEHIND, stopping=stopping)

    assert script.modes == []


def test_a_negative_dwell_time_is_refused() -> None:
    """It could only be a mistake."""
    with pytest.raises(Rejected, match="dwell_ms must be 0 or more, got -1"):
        run_adaptively(Scripted([]).start, policy=BEHIND, dwell_ms=-1)


def test_one_source_that_is_behind_is_enough() -> None:
    """Sources that are no file logs say nothing; none that is one is refused."""
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


def test_the_limit_is_larger_while_behind_and_the_flag_says_so() -> None:
    """A change of the flag alone makes no batch; without a policy there is no flag."""
    sizes, begun = BatchSizes(BEHIND, 50), end(50)
    found = []
    for lower, last in ((50, 100), (100, 105)):
        limit = sizes.limit(USUAL, end(lower), "default", last, unread=1)
        found.append((limit, sizes.noted(begun, end(lower, 9)).backlog))
    never = BatchSizes(None, 0)

    assert found == [(ReadMaxRows(50), True), (USUAL, False)]
    assert sizes.noted(begun, end(50)) == begun
    assert never.limit(USUAL, end(50), "default", 100, unread=1) == USUAL
    assert never.noted(begun, end(50, 9)).backlog is None


def test_a_query_that_caught_up_for_good_has_after_a_restart() -> None:
    """The offset log says so; of a query that had a backlog it says that."""
    policy = BacklogPolicy(behind_ms=10, rule="sticky")
    offsets = [LogOffset("flights", backlog=flag) for flag in (None, True, False)]
    limits = [
        BatchSizes(policy, 0).limit(USUAL, each, "default", 100, unread=1) for each in offsets
    ]

    assert limits == [ReadAllAvailable(), ReadAllAvailable(), USUAL]


def test_nothing_is_concluded_before_a_mark_is_known() -> None:
    """As while the controller is away: neither that there is a backlog nor that there is none."""
    sizes = BatchSizes(BEHIND, 50)
    limit = sizes.limit(USUAL, end(50), "default", None, unread=1)

    assert (limit, sizes.noted(end(50), end(50, 9)).backlog) == (USUAL, None)


@pytest.mark.parametrize("flag", [None, True, False])
def test_an_offset_with_a_flag_is_read_back_and_one_without_is_as_before(
    *, flag: bool | None
) -> None:
    """Old checkpoints lack it, and queries without a policy go on writing none."""
    offset = LogOffset("flights", segments={0: 3}, backlog=flag)
    json_of = offset.to_json()

    assert (LogOffset.from_json(json_of), "backlog" in json_of) == (offset, flag is not None)


@pytest.mark.parametrize("policy", [None, BacklogPolicy(5, None, "sticky")])
def test_the_policy_travels_in_the_options(policy: BacklogPolicy | None) -> None:
    """Spark's options know only strings."""
    query = LogQuery("log", "flights", "http://a", "time", backlog=policy, backlog_rows=7)

    assert LogQuery.from_option(query.to_option()) == query
