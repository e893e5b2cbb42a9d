"""A corrected position is corrected in all marks, and no window goes back."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Accepted, MarkHistory, Note, Rejected, StreamCut, StreamSealed
from noted_time.rules import Correction, CorrectionRequest, SealRequest, corrected
from tests.support.streams import deliver, marks_after, marks_of, restarted, stream_of

WRONG = 1000
RIGHT = CorrectionRequest({0: 20}, {0: WRONG})


def test_the_position_and_all_cuts_to_come_are_put_right() -> None:
    """Of the last mark too; honest members and other segments stay as they are."""
    stream = stream_of("UA", "DL")
    marks_after(stream, Note("UA", 5, {0: 10, 1: 3}), Note("DL", 5, {0: 12}))
    marks_after(stream, Note("UA", 6, {0: 10**6, 1: 4}), Note("DL", 6, {0: 13}))
    deliver(stream, Note("UA", 7, {0: 10**6 + 1}))

    stream.correct("UA", RIGHT, stream.plan_correction("UA", RIGHT, []), now=9)

    last = stream.domains["default"].last
    assert last is not None
    assert (stream.record("UA").position, last.cut) == ({0: 20, 1: 4}, StreamCut({0: 20, 1: 4}))
    (mark,) = marks_after(stream, Note("DL", 8, {0: 14}), Note("UA", 8, {0: 30}))
    assert mark.cut == StreamCut({0: 30, 1: 4})


def test_the_cut_reaches_what_other_members_and_marks_know() -> None:
    """The caller of a correction need not know how far the others are."""
    stream = stream_of("UA", "DL")
    deliver(stream, Note("UA", 5, {0: 10**6}), Note("DL", 5, {0: 55}))

    plan = stream.plan_correction("UA", RIGHT, [{0: 40}, {0: 2000}])

    assert plan.offsets == {0: 55}


def test_the_session_is_fenced() -> None:
    """A process that is still running does not note it again."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, {0: 10**6}, session="old"))

    stream.correct("UA", RIGHT, stream.plan_correction("UA", RIGHT, []), now=9)
    (answer, later) = deliver(
        stream,
        Note("UA", 6, {0: 10**6 + 1}, session="old", takes_over=True),
        Note("UA", 6, {0: 25}, session="new", takes_over=True),
    )

    assert (answer.status, later.lower) == ("fenced", None)  # type: ignore[union-attr]


def test_a_writer_that_is_named_for_another_continues() -> None:
    """The wrong member may be forgotten by now; its marks are still corrected."""
    stream = stream_of()
    deliver(stream, Note("UA", 5, {0: 30}, session="ours"))
    request = CorrectionRequest({0: 0}, {0: WRONG})

    plan = stream.plan_correction("UA", request, [{0: 25}])
    stream.correct("UA", request, plan, now=9)

    assert (plan.offsets, stream.record("UA").position) == ({0: 30}, {0: 30})
    assert deliver(stream, Note("UA", 6, {0: 50}, session="ours")) == [Accepted(None)]


@pytest.mark.parametrize(
    ("position", "above"),
    [({0: 20}, {1: 1000}), ({}, {}), ({0: 1000}, {0: 1000}), ({0: 1, 1: 5}, {0: 9})],
)
def test_a_correction_that_makes_no_sense_is_refused(
    position: dict[int, int], above: dict[int, int]
) -> None:
    """Both name the same segments, and what is right lies below what is wrong."""
    with pytest.raises(Rejected):
        CorrectionRequest(position, above)


def test_a_sealed_stream_is_not_corrected() -> None:
    """Its final cut is what every reader received."""
    stream = stream_of("UA")
    stream.seal(SealRequest(), now=0, written_at=0)

    with pytest.raises(StreamSealed):
        stream.plan_correction("UA", RIGHT, [])


steps = st.lists(
    st.tuples(
        st.sampled_from(["UA", "DL"]),
        st.dictionaries(st.integers(0, 2), st.integers(0, 9), max_size=3),
        st.booleans(),
    ),
    max_size=14,
)


@given(before=steps, after=steps, places=st.lists(st.integers(0, 60), min_size=3, max_size=3))
def test_no_window_goes_back_and_a_reader_that_read_all_reads_on(
    before: list[tuple[str, dict[int, int], bool]],
    after: list[tuple[str, dict[int, int], bool]],
    places: list[int],
) -> None:
    """For any earlier notes by two writers that may both be wrong, and after a restart too."""
    stream, ends = stream_of("UA", "DL"), dict.fromkeys(range(3), 0)
    clock, marks, positions = 0, [], {"UA": dict(ends), "DL": dict(ends)}
    wrong: set[str] = set()

    def note(writer: str, gains: dict[int, int], *, errs: bool) -> None:
        nonlocal clock
        clock += 1
        for segment, gain in gains.items():
            ends[segment] += gain
            positions[writer][segment] = ends[segment]
        claimed = dict(positions[writer])
        if errs or writer in wrong:
            wrong.add(writer)
            claimed[0] = WRONG + clock
        marks.extend(marks_after(stream, Note(writer, clock, claimed)))

    for writer, gains, errs in before:
        note(writer, gains, errs=errs)
    reader = {segment: min(place, ends[segment]) for segment, place in enumerate(places)}
    window = MarkHistory(marks).window(reader)
    corrections: list[Correction] = []
    for writer in sorted(wrong):
        request = CorrectionRequest({0: positions[writer][0]}, {0: WRONG})
        history = MarkHistory(corrected(corrections, "default", mark) for mark in marks)
        plan = stream.plan_correction(writer, request, [history.below(request.above)])
        in_place = MarkHistory(corrected(corrections, "default", mark) for mark in marks)
        stream.correct(writer, request, plan, now=clock)
        corrections.append(plan)
        in_place.correct(plan.above, plan.offsets)
        read = [corrected(corrections, "default", mark) for mark in marks]
        assert in_place.after(0, 99) == MarkHistory(read).after(0, 99)
    wrong.clear()
    stream = restarted(stream)
    for writer, gains, _ in after:
        note(writer, gains, errs=False)
    marks.extend(
        marks_after(stream, *(Note(writer, clock + 9, dict(ends)) for writer in ("UA", "DL")))
    )

    seen = MarkHistory(corrected(corrections, "default", mark) for mark in marks)
    assert (seen.window(reader).lower or 0) >= (window.lower or 0)
    assert seen.window(ends).lower == clock + 9
    cuts = [mark.cut for mark in seen.after(0, 99)]
    assert all(later.reaches(cut) for cut, later in pairwise(cuts))
    assert marks_of(stream) == []
