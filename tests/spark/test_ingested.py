"""How rows get the time at which they came in: by marks alone first, then in queries."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noted_time import Mark, Rejected, StreamCut, Unreachable
from spark_integration import Ingestion
from spark_integration.log.ingested import IngestionMarks
from spark_integration.log.offset import LogOffset
from spark_integration.marks.feed import FeedMarks
from spark_integration.marks.released import Released
from spark_integration.scan.admission import Unread, compute_shares
from spark_integration.scan.files import LogFile
from tests.spark.conftest import Reads
from tests.support.feeds import LocalFeed
from tests.support.log_reading import batches, log_query, reader_of
from tests.support.noted_stream import NotedStream
from tests.support.queries import per_second
from tests.support.query_output import QueryOutput


@dataclass
class KeptMarks(LocalFeed):
    """Makes feeds of one chain of marks; a feed has what is kept when it begins."""

    marks: list[Mark] = field(default_factory=list)
    stream_id: str = "a"
    is_away: bool = False

    def __call__(self) -> Self:
        """Make a feed."""
        return type(self)(self.marks, self.stream_id, self.is_away)

    def begin(self, released: Released) -> None:
        """See `MarksFeed`."""
        self.marks = [mark for mark in self.marks if mark.seq > released.seq]

    def take(self) -> FeedMarks:
        """See `MarksFeed`."""
        new, self.marks = self.marks, []
        return FeedMarks() if self.is_away else FeedMarks(self.stream_id, new)


def chain(*cuts: dict[int, int]) -> list[Mark]:
    """Return marks with these cuts, 1000 ms apart."""
    return [
        Mark(n, lower=n * 1000, upper=n * 1000, cut=StreamCut(c)) for n, c in enumerate(cuts, 1)
    ]


def followed(kept: KeptMarks, after: int = 0) -> IngestionMarks:
    """Return what has followed the feed from a mark on."""
    marks = IngestionMarks(kept)
    marks.begin(Released(kept.stream_id, after))
    marks.take()
    return marks


def stamps(
    marks: IngestionMarks, files: dict[int, list[LogFile]], begun: LogOffset, ended: LogOffset
) -> dict[tuple[int, int], int | None]:
    """Return the stamp of each row between two offsets, by segment and offset."""
    found = {}
    for segment, run in files.items():
        start, end = begun.segments.get(segment, 0), ended.segments.get(segment, 0)
        for each in marks.split_by_stamp(ended, [(segment, run, start, end)]):
            for row in range(each.first, each.last):
                found[segment, int(each.path) + row] = each.stamp_ms
    return found


def batch(
    marks: IngestionMarks, files: dict[int, list[LogFile]], begun: LogOffset, limit: int
) -> LogOffset:
    """Return the end of the next micro-batch, as the source plans it."""
    unread = Unread(files, begun.segments).limit_to_cut(marks.cut)
    ends = unread.find_ends(compute_shares(unread.count_rows(), limit))
    ended = LogOffset(begun.stream, segments={**begun.segments, **ends}, marks=begun.marks)
    return marks.stamp(begun, ended, files)


growths = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(1, 6), st.booleans()), max_size=14
)
"""A file of a segment, after a gap, with that many rows; and whether a reader looks then."""


@settings(deadline=None)
@given(growths, st.integers(1, 9))
def test_each_row_has_the_stamp_of_the_first_mark_above_it_also_when_it_is_read_again(
    course: list[tuple[int, int, int, bool]], limit: int
) -> None:
    """By brute force, over micro-batches of any size; each once, and none beyond the last cut."""
    files: dict[int, list[LogFile]] = {}
    cuts: list[dict[int, int]] = []
    for segment, gap, rows, looks in course:
        run = files.setdefault(segment, [])
        start = (run[-1].end if run else 0) + gap
        run.append(LogFile(Path(str(start)), start, start + rows))
        if looks:
            cuts.append({s: each[-1].end for s, each in files.items()})
    kept = KeptMarks(chain(*cuts))
    marks, begun = followed(kept()), LogOffset("flights")
    found: dict[tuple[int, int], int | None] = {}
    while (ended := batch(marks, files, begun, limit)) != begun:
        planned = stamps(marks, files, begun, ended)
        assert stamps(IngestionMarks(kept), files, begun, ended) == planned
        assert not found.keys() & planned.keys()
        found |= planned
        begun = ended

    every = [
        (s, o) for s, run in files.items() for file in run for o in range(file.start, file.end)
    ]
    above = {
        (s, o): [n * 1000 - 1 for n, cut in enumerate(cuts, 1) if cut.get(s, 0) > o]
        for s, o in every
    }
    assert found == {row: first[0] for row, first in above.items() if first}


def test_lost_marks_are_asked_for_and_named_if_no_controller_has_them() -> None:
    """The batch is not stamped otherwise instead."""
    files = {0: [LogFile(Path("0"), 0, 9)]}
    kept = KeptMarks(chain({0: 3}, {0: 6}, {0: 9}))
    begun = LogOffset("flights")
    ended = batch(followed(kept()), files, begun, 99)
    later = followed(kept(), after=2)

    again = IngestionMarks(kept)
    assert stamps(again, files, begun, ended)[0, 0] == 999
    later._feed_of = KeptMarks(kept.marks[1:])
    with pytest.raises(Rejected, match=r"marks 1 to 3, which stamp rows .* are no longer kept"):
        stamps(later, files, begun, ended)
    later._feed_of = KeptMarks(kept.marks, stream_id="b")
    with pytest.raises(Rejected, match="are no longer kept"):
        stamps(later, files, begun, ended)
    later._feed_of = KeptMarks(is_away=True)
    with pytest.raises(Unreachable, match="cannot be fetched now"):
        stamps(later, files, begun, ended)


def test_rows_below_the_first_mark_that_is_kept_have_no_stamp_that_is_known() -> None:
    """A new query is refused, unless it asks for nulls; a batch that is run again has them, too."""
    files = {0: [LogFile(Path("0"), 0, 6), LogFile(Path("6"), 6, 9)], 1: [LogFile(Path("3"), 3, 4)]}
    kept = KeptMarks(chain({0: 3}, {0: 6, 1: 3}, {0: 9, 1: 4})[1:])
    begun = LogOffset("flights")
    with pytest.raises(Rejected, match="rows 0 to 6 of segment 0 came in before mark 2 "):
        batch(followed(kept()), files, begun, 99)
    marks = IngestionMarks(kept, "null")
    marks.begin(Released())
    marks.take()
    first = batch(marks, files, begun, 5)
    second = batch(marks, files, first, 99)

    again = IngestionMarks(kept)
    for each in (marks, again):
        found = stamps(each, files, begun, first) | stamps(each, files, first, second)
        assert [found[0, row] for row in range(9)] == [None] * 6 + [2999] * 3
        assert found[1, 3] == 2999


def test_rows_that_are_gone_with_their_marks_need_no_stamp() -> None:
    """Nor do those that a query read before: admitted marks have stamped them."""
    kept = KeptMarks(chain({0: 3}, {0: 6}, {0: 9})[1:])
    files = {0: [LogFile(Path("6"), 6, 9)]}
    begun = LogOffset("flights")
    ended = batch(followed(kept()), files, begun, 99)
    went_on = followed(kept(), after=1)
    whole = {0: [LogFile(Path("0"), 0, 9)]}
    read = LogOffset("flights", segments={0: 3})

    assert stamps(IngestionMarks(kept), files, begun, ended) == dict.fromkeys(
        [(0, 6), (0, 7), (0, 8)], 2999
    )
    assert stamps(went_on, whole, read, batch(went_on, whole, read, 1)) == {(0, 3): 1999}


def test_a_new_query_after_marks_were_dropped_is_refused_or_has_nulls(flights: NotedStream) -> None:
    """The first mark that is kept does not stamp what came in long before it."""
    flights.marks = flights.server.stream(flights.name, "ingestion")
    for number, name in enumerate("abc", 1):
        flights.append(0, (number, name))
        flights.note(number * 10_000)
    flights.marks.truncate({0: 2})
    query = log_query(flights, domain="ingestion", event_time="_ingested")
    refused = reader_of(query)
    with pytest.raises(Rejected, match=r'is not known: .* Ingestion\(unstamped="null"\)'):
        refused.latestOffset(refused.initialOffset(), refused.getDefaultReadLimit())
    refused.stop()
    reader = reader_of(replace(query, ingestion=Ingestion(unstamped="null")))
    begun = reader.initialOffset()
    ended = reader.latestOffset(begun, reader.getDefaultReadLimit())
    rows = [
        (row["name"], row["_ingested"] and round(row["_ingested"].timestamp() * 1000))
        for task in reader.partitions(begun, ended)
        for read in reader.read(task)
        for row in read.to_pylist()
        if row["name"] is not None
    ]
    reader.stop()

    assert rows == [("a", None), ("b", None), ("c", 29_999)]


@pytest.mark.spark
def test_windows_of_ingestion_time_close_and_lose_nothing(
    read: Reads, flights: NotedStream, output: QueryOutput
) -> None:
    """Whatever the event times are."""
    flights.marks = flights.server.stream(flights.name, "ingestion")
    flights.append(0, (90_000, "a"), (1_000, "b"))
    flights.note(1500)
    flights.append(1, (50, "c"))
    flights.note(3000)
    output.catch_up(per_second(read(flights, domain="ingestion", event_time=None), "_ingested"))

    assert output.rows == [(1, 2), (2, 1)]


def test_the_watermark_of_the_event_time_follows_ingestion_by_the_lag(flights: NotedStream) -> None:
    """A row that was older than the lag when it came in is late."""
    flights.marks = flights.server.stream(flights.name, "ingestion")
    flights.append(0, (2500, "a"), (4500, "b"))
    flights.note(5000)
    query = log_query(flights, Ingestion(2000), domain="ingestion", event_time="time")

    assert [batch.watermark for batch in batches(query)] == [2999]
