"""Marks before their cuts are read, in histories of queries on a topic; no Spark runs here."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import to_builtins
from pyspark.sql.streaming.datasource import ReadAllAvailable

from noted_time import Mark, Recreated, Rejected, StreamCut, Unreachable
from noted_time.kafka import TopicLook
from noted_time.reading import WholeFrom
from noted_time.reading.whole import NO_BOUND
from spark_integration.checkpoint.source_positions import KafkaTopic
from spark_integration.marks.arguments import WatermarkPolicy
from spark_integration.marks.feed import FeedMarks
from spark_integration.marks.offset import MarkAhead, NotedOffset, StreamOffset
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Released
from spark_integration.marks_source.ahead import TopicPlan
from spark_integration.marks_source.begins import find_whole_from
from spark_integration.marks_source.query import AheadLimit, KafkaPlanning, MarksQuery
from spark_integration.marks_source.topics import TopicPlanner
from tests.core.test_scenarios import show_value
from tests.support.feeds import LocalFeed
from tests.support.offset_log import plan
from tests.support.paragraphs import read_paragraphs
from tests.support.scenarios import Scenario


@dataclass
class GivenTopic:
    """A topic whose partitions grow, and sometimes lose their leader."""

    ends: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    leaderless: frozenset[int] = frozenset()
    id: str | None = "a"
    looks: int = 0
    name = "flights"
    first: dict[int, int] = field(default_factory=dict)
    cleanup: str = "delete"
    lower: list[dict[int, int]] = field(default_factory=list)
    """The ends that the next polls find, as after a kill of a broker."""
    fault: Exception | None = None

    def look(self, *, committed: bool = False) -> TopicLook:  # noqa: ARG002 - as of a real topic
        """Return the ends of the partitions with a leader."""
        self.looks += 1
        if self.fault:
            raise self.fault
        ends = self.lower.pop(0) if self.lower else self.ends
        known_ends = {p: end for p, end in ends.items() if p not in self.leaderless}
        return TopicLook(self.id, known_ends, self.leaderless)

    def begins(self) -> dict[int, int]:
        """Return where the partitions begin that have a leader."""
        return {p: self.first.get(p, 0) for p in self.ends if p not in self.leaderless}

    def settings(self) -> dict[str, str]:
        """Return the topic's retention settings."""
        return {"cleanup.policy": self.cleanup}


class GivenFeed(LocalFeed):
    """A feed of the marks in a list, from the mark that was let in last."""

    def __init__(self, marks: list[Mark]) -> None:
        self._marks = marks
        self._taken = 0

    def begin(self, released: Released) -> None:
        self._taken = released.seq

    def take(self) -> FeedMarks:
        """Return the marks that were added since."""
        new_marks = self._marks[self._taken :]
        self._taken = len(self._marks)
        return FeedMarks("s", new_marks)


class Query:
    """A query on the topic: its offset log, and Spark's rule for late rows.

    `late` are the rows that were judged by a mark whose cut covers them, `tasks` the watermarks
    that the batches have.
    """

    def __init__(
        self, topic: GivenTopic, checkpoint: str, whole: WholeFrom | None = None, lag_ms: int = 0
    ) -> None:
        self.topic = topic
        self._checkpoint = checkpoint
        self._whole = whole
        self._lag_ms = lag_ms
        self.marks: list[Mark] = []
        self.batches: list[tuple[NotedOffset, dict[int, int]]] = []
        self.tasks: list[list[int]] = []
        self.late: list[str] = []
        self.patience_s = 0.0
        self.limit: AheadLimit | None = None
        self.is_whole = True
        self.restart()

    def restart(
        self,
        limit: AheadLimit | None = None,
        *,
        ahead: bool = True,
        now: bool = False,
        last: bool = False,
        claims: bool = False,
    ) -> None:
        """Begin a run. The last batch may be run again, under other options.

        A run with `now` reads only the rows that exist at its start. Spark asks the marks first.
        """
        self.limit = limit
        streams = {"flights": KafkaTopic("flights")}
        terms = KafkaPlanning(
            {"flights": "flights"}, ahead=ahead, limit=limit, begun={"flights": self._whole}
        )
        policy = WatermarkPolicy(batch_after_mark=claims)
        query = MarksQuery(
            streams, "", self._checkpoint, policy=policy, kafka=terms, lag_ms=self._lag_ms
        )
        releasers = {"flights": Releaser(GivenFeed(self.marks))}
        topic_plan = TopicPlan("flights", self.topic, terms, patience_s=self.patience_s)
        self._planner = TopicPlanner(query, releasers, {"flights": topic_plan})
        self._frozen: dict[int, int] | None = None
        if now:
            before = dict(self.topic.ends)
            if last:
                self._write({0: 2})
                self.mark()
            self._planner.freeze()
            self._frozen = before

    def rerun(self) -> None:
        """Run the last batch again, as after a crash."""
        self._planner.check_covered(self.batches[-1][0])
        self._judge(len(self.batches) - 1)

    def mark(self) -> None:
        """Note a later time for all rows."""
        seq = len(self.marks) + 1
        cut = StreamCut(self.topic.ends).join(self.marks[-1].cut if self.marks else StreamCut({}))
        self.marks.append(Mark(seq, 10 * seq, 10 * seq, cut))

    def plan(
        self, between: dict[int, int], missing: set[int], *, last: bool = False, crash: bool = False
    ) -> None:
        """Plan a batch and run it.

        Spark asks for the marks first, or `last` if there are many sources. Some rows are written
        between its two calls.
        """
        start, read_ends = self.batches[-1] if self.batches else (self._planner.beginning, {})
        visible_ends = dict(self.topic.ends)
        if last:
            self._write(between)
            self.mark()
        stop = self._planner.plan(start, ReadAllAvailable())
        if not last:
            self._write(between)
            visible_ends = dict(self.topic.ends)
        visible_ends = visible_ends if self._frozen is None else self._frozen
        # a partition that was just added may be missing from Spark's look, and then only
        visible_ends_seen = {
            p: end for p, end in visible_ends.items() if p in read_ends or p not in missing
        }
        if self.topic.leaderless & visible_ends_seen.keys() or crash:
            return  # Spark fails, or is killed; nothing is planned
        if self.limit is AheadLimit.MOST_ROWS:
            visible_ends_seen = {
                p: min(end, read_ends.get(p, 0) + 1) for p, end in visible_ends_seen.items()
            }
        ends = {
            p: max(visible_ends_seen.get(p, 0), read_ends.get(p, 0))
            for p in read_ends.keys() | visible_ends_seen
        }
        if (stop, ends) == (start, read_ends):
            return
        self.batches.append((stop, ends))
        number = len(self.batches) - 1
        plan(Path(self._checkpoint), number, stop.to_json(), {"flights": ends})
        tasks = self._planner.list_tasks(start.to_json(), stop.to_json())
        self.tasks.append([task.value for task in tasks])
        self._judge(len(self.batches) - 1)

    def _write(self, rows: dict[int, int]) -> None:
        """Add rows to partitions. A negative count loses rows, as a lagging leader does."""
        for partition, count in rows.items():
            self.is_whole = self.is_whole and count >= 0
            self.topic.ends[partition] = max(0, self.topic.ends.get(partition, 0) + count)

    def _judge(self, batch: int) -> None:
        """Collect the rows of a batch below the cut of a mark that judges them."""
        judging = batch - (1 if self.limit is AheadLimit.AT_ONCE else 2)
        let_in = self.let_in(judging) if judging >= 0 else 0
        if not let_in:
            return
        start = self.batches[batch - 1][1]
        stop = self.batches[batch][1]
        for partition, end in self.marks[let_in - 1].cut.offsets.items():
            first = start.get(partition, 0)
            if first < min(end, stop.get(partition, 0)):
                self.late.append(f"batch {batch} has {partition}@{first}, and mark {let_in}")

    def let_in(self, batch: int) -> int:
        """Return the seq of the mark let in with a batch or before it, 0 for none."""
        return self.batches[batch][0].streams["flights"].mark.seq if self.batches else 0

    @property
    def in_watermark(self) -> int:
        """The seq of the mark in the watermark of the last batch, 0 for none."""
        return self.let_in(-2) if len(self.batches) > 1 else 0

    @property
    def rests_on_unread(self) -> bool:
        """Whether one of the last two batches let in a mark whose cut it had not read."""
        for batch in (-1, -2)[: len(self.batches)]:
            seq = self.let_in(batch)
            ends = StreamCut(self.batches[batch][1])
            if seq and not ends.reaches(self.marks[seq - 1].cut):
                return True
        return False


PARTITIONS = st.integers(0, 3)
PLANS = st.tuples(
    st.just("plan"),
    st.dictionaries(PARTITIONS, st.integers(1, 3), min_size=1, max_size=3),
    st.sets(PARTITIONS, max_size=2),
    st.booleans(),
    st.sampled_from([False, False, False, False, True]),
)
RESTARTS = st.tuples(
    st.just("restart"),
    st.sampled_from([None, None, AheadLimit.MOST_ROWS, AheadLimit.AT_ONCE]),
    st.booleans(),
    st.sampled_from([False, False, True]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
LOSSES = st.tuples(st.just("lose"), st.booleans())
NO_LEADER = st.tuples(st.just("leaderless"), st.frozensets(PARTITIONS, min_size=1, max_size=1))
STEPS = st.one_of(PLANS, PLANS, PLANS, st.tuples(st.just("mark")), RESTARTS, NO_LEADER)


def take(query: Query, step: tuple[Any, ...]) -> None:
    """Take one step of a history."""
    match step:
        case ("mark",):
            query.mark()
        case ("plan", between, missing, last, crash):
            query.plan(between, missing, last=last, crash=crash)
        case ("restart", limit, ahead, now, last, is_repeated, claims):
            query.restart(limit, ahead=ahead, now=now, last=last, claims=claims)
            if is_repeated and query.batches:
                query.rerun()
        case ("leaderless", partitions):
            query.topic.leaderless = partitions
            try:
                query.plan({}, set())
            finally:
                query.topic.leaderless = frozenset()
        case ("lose", last):
            query.plan({0: -3, 1: 2}, set(), last=last)


@given(steps=st.lists(STEPS, min_size=30, max_size=60), claims=st.booleans())
def test_marks_keep_coming_and_make_no_covered_row_late(
    *, steps: list[tuple[Any, ...]], claims: bool
) -> None:
    """A refused query continues without the limit. Under `AT_ONCE` a run may be refused in vain.

    If the query feeds claims, the last mark is in the watermark of a batch. Batches end either way.
    """
    with TemporaryDirectory() as checkpoint:
        query = Query(GivenTopic(), checkpoint, WholeFrom())
        for step in steps:
            try:
                take(query, step)
            except Unreachable:
                query.restart()
            except Rejected:
                assert query.limit is AheadLimit.AT_ONCE or (query.limit and query.rests_on_unread)
                query.restart()
        query.restart(claims=claims)
        for _ in range(5):
            query.plan({}, set())
        batches = len(query.batches)
        query.plan({}, set())

        assert query.late == []
        assert query.let_in(-1) == len(query.marks)
        assert not claims or query.in_watermark == len(query.marks)
        assert len(query.batches) == batches


@given(st.lists(STEPS, max_size=20), st.lists(st.one_of(LOSSES, PLANS), min_size=5, max_size=20))
def test_lost_rows_make_no_covered_row_late(
    before: list[tuple[Any, ...]], after: list[tuple[Any, ...]]
) -> None:
    """The query fails instead, until the topic has as many rows again."""
    with TemporaryDirectory() as checkpoint:
        query = Query(GivenTopic(id=None), checkpoint)
        for step in [*before, *after]:
            try:
                take(query, step)
            except (Rejected, Unreachable):
                query.restart()

        assert query.late == []


def begin_query(checkpoint: Path) -> Query:
    """Return a query that has read three rows of each partition, of a topic without an id."""
    query = Query(GivenTopic({0: 3, 1: 3}, id=None), str(checkpoint))
    query.plan({}, set())
    return query


class AheadScenario(Scenario):
    """Acts on a query and its topic.

    `plan 0:1` plans a batch, and Spark reads a new row of partition 0; with `last=1`, its mark is
    noted before Spark asks for the marks. The answer is the end of the batch.
    """

    def __init__(self, query: Query, caplog: pytest.LogCaptureFixture) -> None:
        super().__init__(caplog)
        self.subject = self.query = query
        self.topic = query.topic

    def plan(self, rows: dict[int, int] | None = None, last: int = 0) -> str:
        self.query.plan(rows or {}, set(), last=bool(last))
        return show_value(self.query.batches[-1][1])

    def restart(self, limit: str = "") -> None:
        self.query.restart(AheadLimit[limit] if limit else None)

    def unwatch(self) -> None:
        self.query._planner._plans = {"flights": TopicPlan("flights")}

    def ends(self, ends: dict[int, int]) -> None:
        self.topic.ends = ends

    def leaderless(self, *partitions: int) -> None:
        self.topic.leaderless = frozenset(partitions)

    def broker(self, state: str) -> None:
        self.topic.fault = Unreachable("the broker is away") if state == "away" else None

    def looks(self) -> int:
        """Show how often the broker was asked."""
        return self.topic.looks

    def tasks(self) -> str:
        """Show the watermarks of each batch."""
        return "; ".join(show_value(task) for task in self.query.tasks)


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("ahead.txt")))
def test_scenario(tmp_path: Path, caplog: pytest.LogCaptureFixture, acts: list[str]) -> None:
    AheadScenario(begin_query(tmp_path), caplog).play(acts)


LACK = (
    "mark 7 came with micro-batch 1, as partition 0 of Kafka topic 'flights' went up to 4; {} the "
    "query has read to 3 before micro-batch {}. {}"
)


def test_mark_with_rows_unread_a_batch_later_fails_the_query() -> None:
    """The query fails a batch earlier if the topic does not have the rows."""
    ahead = MarkAhead(1, 7, {0: 4})
    offset_ahead = StreamOffset(ahead=(ahead,))
    look = GivenTopic({0: 3}).look()
    second = TopicPlan("flights")
    third = TopicPlan("flights")
    second.begin_batch(2, {0: 3})
    third.begin_batch(3, {0: 3})
    with pytest.raises(Rejected) as late:
        third.find_due(offset_ahead)
    with pytest.raises(Rejected) as loss_error:
        second.find_unclear(ahead, look)

    restart = "start a query with a new checkpoint"
    wait = "Start the query again once the topic has these rows; if they were deleted,"
    assert second.find_due(offset_ahead) == ahead
    assert [str(error.value) for error in (late, loss_error)] == [
        LACK.format("but", 3, f"Rows below it would be dropped as late: {restart}"),
        LACK.format("it ends at 3, and", 2, f"{wait} {restart}"),
    ]


@pytest.mark.parametrize("now", [False, True])
def test_ends_that_briefly_go_back_are_polled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, now: bool
) -> None:
    """A killed broker reports lower ends once it is back. Its topic keeps its id."""
    query = begin_query(tmp_path)
    monkeypatch.setattr("spark_integration.marks_source.ahead.PAUSE_S", 0.0)
    query.topic.id = "a"
    query.patience_s = 60.0
    query.mark()
    query.topic.lower = [{0: 3, 1: 2}] * 3
    query.restart(now=now)
    query.plan({}, set())

    assert query.topic.lower == []
    query.topic.id = "b"
    query.restart()
    with pytest.raises(Recreated, match="its id is b, and the query has read a"):
        query.plan({}, set())


@pytest.mark.parametrize(
    ("ahead", "limit", "now", "position"),
    [
        (True, None, False, {0: 5, 1: 4}),
        (False, None, False, {0: 3, 1: 4}),
        (True, AheadLimit.AT_ONCE, False, {0: 3, 1: 4}),
        (True, None, True, {0: 3, 1: 4}),
    ],
)
def test_only_a_query_without_limits_reads_ahead(
    *, ahead: bool, limit: AheadLimit | None, now: bool, position: dict[int, int]
) -> None:
    """It reads ahead in the partitions that it has read before."""
    topic = GivenTopic({0: 5, 2: 1})
    topic_plan = TopicPlan("flights", topic, KafkaPlanning({}, ahead=ahead, limit=limit))
    topic_plan.begin_batch(1, {0: 3, 1: 4})
    if now:
        topic_plan.freeze()

    assert topic_plan.find_position(topic.look()) == position


def test_rows_deleted_before_the_query_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The offset log keeps it for later runs. It alone makes no batch."""
    query = Query(GivenTopic({0: 3, 1: 3}, first={0: 3, 1: 1}), str(tmp_path), WholeFrom())
    query.marks.append(Mark(1, 20, 29, StreamCut({0: 3, 1: 3}), upper_is_bound=True))
    progress = query._planner.wait_for_whole()
    query.restart()
    caplog.clear()
    for _ in range(3):
        query.plan({}, set())
    query.topic.first = {0: 3, 1: 3}
    query.restart()
    query.plan({1: 1}, set())

    assert progress == ({"flights": WholeFrom(time=30)}, {"flights": {"0": 3, "1": 1}})
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == (
        "Kafka topic 'flights': rows before offsets {0: 3, 1: 1} were deleted before the query "
        "began; no row is left in partitions [0]; windows that begin before 30 may lack rows"
    )
    assert [end_offset.streams["flights"].facts.whole for end_offset, _ in query.batches] == [
        WholeFrom(),
        *[WholeFrom(time=30)] * (len(query.batches) - 1),
    ]


def test_upper_of_a_mark_does_not_bound_times_with_a_lag(tmp_path: Path) -> None:
    """The mark is of ingestion times, and so is the watermark."""
    first = {0: 3, 1: 1}
    query = Query(GivenTopic({0: 3, 1: 3}, first=first), str(tmp_path), WholeFrom(), lag_ms=4)
    query.marks.append(Mark(1, 20, 29, StreamCut({0: 3, 1: 3}), upper_is_bound=True))
    for _ in range(2):
        query.plan({}, set())

    assert query.batches[-1][0].streams["flights"].facts.whole == WholeFrom(
        unknown=NO_BOUND.format(1)
    )
    assert query.tasks == [[], [15]]


def test_missing_rows_of_a_compacted_topic_are_unknown() -> None:
    """They are unknown while a partition has no leader, too."""
    topic = GivenTopic({0: 3, 1: 3}, first={1: 2}, cleanup="compact,delete")
    compacted_from = find_whole_from(topic, topic.look())
    topic.cleanup = "delete"
    whole_from = find_whole_from(topic, topic.look())
    topic.leaderless = frozenset({1})

    missing = "it is compacted, so rows are missing wherever their key came again"
    assert (compacted_from, whole_from) == (WholeFrom(unknown=missing), WholeFrom({0: 0, 1: 2}))
    stored_forms = [to_builtins(each, str_keys=True) for each in (compacted_from, whole_from)]
    assert stored_forms == [{"unknown": missing}, {"begins": {"0": 0, "1": 2}}]
    with pytest.raises(Unreachable, match=r"^partitions \[1\] have no leader$"):
        find_whole_from(topic, topic.look())
