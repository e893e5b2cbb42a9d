"""How far a source reads ahead of the other members of an alignment: planned without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable

from noted_time import Mark, MarkHistory, StreamCut
from noted_time.client import Question
from noted_time.client.transport import Transport
from noted_time.progress import Alignment, AlignmentSettings
from spark_integration.log.aligning import Aligner, clip
from spark_integration.log.offset import LogOffset
from spark_integration.log.plan import Plan
from spark_integration.marks.release import Releaser
from spark_integration.marks.released import Released
from spark_integration.scan.admission import Unread
from spark_integration.scan.files import LogFile
from tests.support.waiting import eventually


def history(*steps: tuple[int, int]) -> MarkHistory:
    """Return marks on one segment, each that much later and that many rows further."""
    marks, lower, offset = [], 0, 0
    for seq, (later, rows) in enumerate(steps, 1):
        lower, offset = lower + later, offset + rows
        marks.append(Mark(seq, lower, lower, StreamCut({0: offset})))
    return MarkHistory(marks)


STEPS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=15)


class Side:
    """A source that reads one log, at most that many rows at a time."""

    def __init__(self, steps: list[tuple[int, int]], most: int) -> None:
        self.marks = history(*steps)
        self.end = sum(rows for _, rows in steps)
        self.most = most
        self.offset = 0
        self.lower: int | None = None

    @property
    def is_read(self) -> bool:
        """Whether all of the log was read."""
        return self.offset == self.end and self.lower == self.marks.mark(self.marks.last_seq).lower

    def says(self) -> int:
        """Return the time that is reported."""
        return self.marks.mark(self.marks.first_seq).lower if self.lower is None else self.lower

    def upto(self, bound: int | None) -> int:
        """Return how many rows come before the bound's own mark, before a time those of one."""
        marks = self.marks.after(0, len(self.marks))
        if self.lower is None:
            return marks[0].cut.offsets.get(0, 0)
        beyond = (each for each in marks if bound is not None and each.lower >= bound)
        return next((each.cut.offsets.get(0, 0) for each in beyond), self.end)

    def read(self, bound: int | None) -> None:
        """Plan and read one batch."""
        cut = clip(self.marks, self.lower, bound)
        end = self.end if cut is None else max(self.offset, cut.get(0, 0))
        self.offset = min(end, self.offset + self.most)
        self.lower = self.marks.window({0: self.offset}).lower


@given(
    sides=st.tuples(STEPS, STEPS), limits=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    drift=st.integers(1, 20),
)  # fmt: skip
def test_all_is_read_and_no_source_is_ahead_by_more_than_the_drift_and_one_mark(
    sides: tuple[list[tuple[int, int]], list[tuple[int, int]]],
    limits: tuple[int, int],
    drift: int,
) -> None:
    """Whatever the logs and limits: the slowest always comes on, so neither waits for ever."""
    alignment = Alignment(AlignmentSettings(drift))
    members = {str(n): Side(sides[n], limits[n]) for n in (0, 1)}
    batches, too_far = 0, []
    while not all(each.is_read for each in members.values()) and batches < 500:
        batches += 1
        for name, side in members.items():
            alignment.report(name, side.says(), "finished" if side.is_read else "live", now=0)
            bound = alignment.at(0).bound
            may_be = max(side.offset, side.upto(bound))
            side.read(bound)
            too_far += [(name, side.offset)] if side.offset > may_be else []

    assert (batches < 500, too_far) == (True, [])


class Asked:
    """A controller that counts reports, and silences a member after a fifth of a second."""

    def __init__(self) -> None:
        self.times: list[object] = []
        self.states: list[object] = []

    def ask(self, question: Question) -> dict[str, object]:
        """Answer a report."""
        assert isinstance(question.body, dict)
        self.times.append(question.body["time"])
        self.states.append(question.body["state"])
        return {"bound": 7, "member_timeout_ms": 200}

    def hang_up(self) -> None:
        """Stop asking."""

    def close(self) -> None:
        """Stop asking."""


def test_a_source_reports_while_a_batch_takes_longer_than_the_timeout() -> None:
    """Spark does not ask for an end, and the others still have to wait for the source."""
    asked = Asked()
    aligner = Aligner(cast("Transport", asked), "shop", "orders")
    aligner.bound(5)
    came = eventually(lambda: len(asked.times) >= 4, expected=True)
    aligner.close()

    assert (came, set(asked.times)) == (True, {5})


def test_at_a_quiet_end_a_source_holds_no_other() -> None:
    """It has read everything, and no writer writes; so has one at the end of a sealed stream."""
    asked = Asked()
    aligner = Aligner(cast("Transport", asked), "shop", "orders")
    said: list[object] = []
    files = {0: [LogFile(Path("0"), 0, 5)]}
    for at_end in ("live", "idle", "finished"):
        known = cast("Releaser", SimpleNamespace(history=history((10, 5)), at_end=at_end))
        for offset in (4, 5):
            begun = LogOffset("orders", segments={0: offset})
            asked.states.clear()
            unread = Unread(files, begun.segments)
            aligner(Plan(begun, Released("a", 1, 10), known, unread, ReadAllAvailable()))
            said += asked.states[:1] or said[-1:]
    aligner.close()

    assert said == ["live", "live", "live", "idle", "live", "finished"]
