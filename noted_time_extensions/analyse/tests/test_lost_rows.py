"""The laws of judging marks: each verdict as a loop over rows and marks would find it."""

from __future__ import annotations

from itertools import product
from operator import itemgetter
from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from noted_time import Mark, StreamCut
from noted_time.analysis import NotedMarks, WriterPromise
from noted_time.values import Spell
from noted_time_extensions.analyse.lost_rows import Judgement, LocatedRows, judge

MANY_STREAMS = 8 * settings().max_examples
"""Some 500 streams, and more with the deep profile."""

WRITERS = ("a", "b")
OWNERS = {0: ("a", 0), 2: ("b", 5)}


class Row(NamedTuple):
    """One row, and whose it is."""

    time: int
    segment: int
    offset: int
    name: str


class Stream(NamedTuple):
    """Marks, rows, and the promises of two writers."""

    marks: list[Mark]
    rows: list[Row]
    words: dict[str, WriterPromise]
    window: int

    @property
    def judgement(self) -> Judgement:
        columns = [np.array(column) for column in zip(*self.rows, strict=True)]
        rows = LocatedRows(*columns)
        return judge(NotedMarks(self.marks), rows, self.words, OWNERS, self.window)

    def writer(self, row: Row) -> str:
        """Return whose a row is: by its name if any is a writer's, else by its place."""
        if any(stream_row.name in self.words for stream_row in self.rows):
            return row.name if row.name in self.words else ""
        owner, first = OWNERS.get(row.segment, ("", 0))
        return owner if row.offset >= first else ""

    def list_passed_marks(self, row: Row) -> list[Mark]:
        """Return the marks with a lower above its time whose cut is not beyond the row."""
        passed_marks = []
        for mark in self.marks:
            end = mark.cut.offsets.get(row.segment, 0)
            if mark.lower > row.time and end <= row.offset:
                passed_marks.append(mark)
        return passed_marks

    def verdict(self, row: Row) -> str:
        """Return the verdict on a lost row, by a look at each mark."""
        word = self.words.get(self.writer(row))
        marks = self.list_passed_marks(row)
        if word is None:
            return "not known"
        for mark, spell in product(marks, word.spells):
            if mark.seq >= spell.from_seq and row.time < spell.end:
                return "broken"
        seq = marks[-1].seq
        has_joined = word.spells and seq >= word.spells[0].from_seq
        verdict = "idle" if has_joined else "not known"
        for first, last, why in word.away:
            if first <= seq <= last and (has_joined or first == 0):
                verdict = why
        return verdict


def make_spells(periods: list[tuple[int, int | None]]) -> list[Spell]:
    return [Spell(*period) for period in sorted(periods, key=itemgetter(0))]


def make_absences(spans: list[list[int]]) -> list[tuple[int, int, str]]:
    return [(first_seq, last_seq, "timed_out") for first_seq, last_seq in spans]


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Draw marks with gaps, segments that begin late, ties, and writers that join late or leave."""
    first = draw(st.sampled_from((1, 4)))
    lower = draw(st.integers(-20, 20))
    written_at = 0
    cut: dict[int, int] = {}
    marks = []
    for seq in range(first, first + draw(st.integers(1, 8))):
        lower += draw(st.integers(1, 9))
        written_at += draw(st.integers(0, 5))
        for segment in draw(st.sets(st.integers(0, 2))):
            cut[segment] = cut.get(segment, 0) + draw(st.integers(0, 4))
        marks.append(Mark(seq, lower, 0, StreamCut(cut), written_at))
    names = (*draw(st.sampled_from((WRITERS, ()))), "x", "y")
    row = st.builds(
        Row,
        st.integers(-30, lower + 3),
        st.integers(0, 3),
        st.integers(0, 30),
        st.sampled_from(names),
    )
    seqs = st.integers(0, first + 9)
    spans = st.lists(st.tuples(seqs, seqs).map(sorted), max_size=2)
    periods = st.lists(st.tuples(seqs, st.integers(-30, lower + 9) | st.none()), max_size=2)
    word = st.builds(WriterPromise, periods.map(make_spells), spans.map(make_absences))
    words = {writer: draw(word) for writer in WRITERS}
    rows = draw(st.lists(row, min_size=1, max_size=20))
    return Stream(marks, rows, words, draw(st.sampled_from((0, 1, 7))))


@settings(max_examples=MANY_STREAMS)
@given(streams())
def test_lost_rows_equal_a_scan_of_rows_and_marks(stream: Stream) -> None:
    """Each has a verdict: a broken promise, a reason for lateness, or not known."""
    judgement = stream.judgement
    lost_rows = [n for n, row in enumerate(stream.rows) if stream.list_passed_marks(row)]

    assert judgement.lost.tolist() == lost_rows
    assert judgement.verdicts.tolist() == [stream.verdict(stream.rows[n]) for n in lost_rows]


@given(streams())
def test_rows_below_the_first_kept_cut_are_only_counted(stream: Stream) -> None:
    """If the first kept mark is the stream's first, no earlier mark can have lost rows."""
    first = stream.marks[0]
    rows_below = [row for row in stream.rows if row.offset < first.cut.offsets.get(row.segment, 0)]

    assert stream.judgement.not_judged == (len(rows_below) if first.seq > 1 else 0)


@given(streams())
def test_window_closes_at_first_mark_at_or_above_its_end(stream: Stream) -> None:
    """The window has a judged row that was not lost. The first kept mark closes no window."""
    first = stream.marks[0]
    ends = set[int]()
    for row in stream.rows:
        is_below = row.offset < first.cut.offsets.get(row.segment, 0) and first.seq > 1
        if not stream.list_passed_marks(row) and not is_below:
            window = stream.window
            ends.add((row.time // window + 1) * window if window else row.time)
    waits = []
    still_open = 0
    for end in ends:
        closing = [m for m in stream.marks if m.lower >= end + (stream.window == 0)]
        if closing and closing[0] is not first:
            waits.append(closing[0].written_at - end)
        still_open += not closing

    waits_found = stream.judgement.waits
    assert (waits_found.ms.tolist(), waits_found.still_open) == (sorted(waits), still_open)


@given(streams())
def test_lost_rows_are_listed_by_writer_and_verdict(stream: Stream) -> None:
    """Broken promises come first; each lost row is counted in one line."""
    judgement = stream.judgement
    listed_rows = judgement.rows(np.array([row.time for row in stream.rows]))

    groups: dict[tuple[str, str], list[int]] = {}
    for n, verdict in zip(judgement.lost, judgement.verdicts, strict=True):
        row = stream.rows[n]
        groups.setdefault((stream.writer(row) or row.name, verdict), []).append(row.time)
    expected = {key: (len(times), min(times), max(times)) for key, times in groups.items()}
    assert {(row.name, row.verdict): row[2:] for row in listed_rows} == expected
    are_kept = [row.verdict != "broken" for row in listed_rows]
    assert are_kept == sorted(are_kept)
