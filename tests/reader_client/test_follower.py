"""The follower of a stream's marks, by the controller's answers."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.reading import MarkHistory
from noted_time.values import Mark, ScaleEvent, StreamCut, TimeWindow
from reader_client.marks.follower import Follower, StartMark
from tests.reader_client.answers import chains, marks_answer, positions, stream_answer
from tests.support.http import as_json
from tests.trials.facts import Answer
from tests.trials.judge import judge

laws = settings(deadline=None)
NO_WINDOW = TimeWindow(None, None)


def follower(*marks: Mark, keep_last: int = 1000) -> Follower:
    """Return a follower of stream `a` with these marks."""
    new_follower = Follower("default", keep_last=keep_last)
    new_follower.take_stream(stream_answer())
    new_follower.take_marks(marks_answer(marks))
    return new_follower


def mark(seq: int, lower: int, **cut: int) -> Mark:
    """Return a mark with a cut given as `s0=…`."""
    offsets = {int(name[1:]): offset for name, offset in cut.items()}
    return Mark(seq, lower, upper=lower + 5, cut=StreamCut(offsets))


@laws
@given(chains(), st.lists(st.integers(1, 5)), positions)
def test_windows_do_not_depend_on_page_boundaries(
    chain: list[Mark], sizes: list[int], position: dict[int, int]
) -> None:
    """Pages of marks, with repeats, give the same windows as the whole history.

    Answers in between are correct, from any mark on.
    """
    limited_follower = follower()
    given_out = list[Answer]()
    for size in [*sizes, len(chain)]:
        start = max(0, limited_follower.after - 1)
        limited_follower.take_marks(marks_answer(chain[start : start + size + 1]))
        given_out += [
            Answer(after, as_json(limited_follower.marks_after(after, 1000)))
            for after in (start, 0)
        ]

    assert limited_follower.window(position) == MarkHistory(chain).window(position)
    assert (judge(answers=given_out), len(given_out[-1].marks)) == ([], len(chain))


@laws
@given(chains(), st.integers(1, 6), positions)
def test_limited_history_gives_no_wrong_window(
    chain: list[Mark], keep_last: int, position: dict[int, int]
) -> None:
    """With the last marks only, a window is correct or has no lower."""
    limited_follower = follower(keep_last=keep_last)
    whole_window = MarkHistory(chain).window(position)
    for next_mark in chain:
        limited_follower.take_marks(marks_answer([next_mark]))
    window = limited_follower.window(position)

    assert window.lower in (whole_window.lower, None)
    assert (
        window.lower is not None
        or whole_window.lower_seq is None
        or whole_window.lower_seq < limited_follower.after
    )


def test_no_more_marks_are_kept_than_asked_for() -> None:
    """The limit may be exceeded by an eighth, which saves moves."""
    limited_follower = follower(*(mark(n, n, s0=n) for n in range(1, 1001)), keep_last=80)
    kept_marks = limited_follower.marks_after(0, 1000)

    assert (len(kept_marks) <= 90, kept_marks[-1].seq) == (True, 1000)


def test_follower_requests_only_marks_that_it_keeps() -> None:
    new_follower = Follower("default", keep_last=100)
    new_follower.take_stream(stream_answer(last=mark(5000, 5000, s0=1)))

    assert new_follower.after == 4900


def test_a_forgotten_prefix_is_no_gap() -> None:
    """Retention removed the first marks; the follower begins at the first one left."""
    new_follower = follower(mark(41, 10, s0=100), mark(42, 20, s0=200))

    assert new_follower.window({0: 150}) == TimeWindow(10, 25, 41, 42)


def test_marks_forgotten_while_not_following_restart_the_history() -> None:
    """Only marks after the gap count."""
    new_follower = follower(mark(1, 10, s0=100))
    new_follower.take_marks(marks_answer([mark(7, 70, s0=700)]))

    assert (new_follower.window({0: 100}), new_follower.window({0: 700})) == (
        TimeWindow(None, 75, None, 7),
        TimeWindow(70, None, 7, None),
    )


def test_recreated_stream_drops_the_old_windows() -> None:
    new_follower = follower(mark(1, 10, s0=100))
    new_follower.take_marks(marks_answer([mark(1, 3, s0=5)], stream_id="b"))
    needs_stream = new_follower.needs_stream
    new_follower.take_stream(stream_answer("b"))

    assert (needs_stream, new_follower.after, new_follower.window({0: 100})) == (True, 0, NO_WINDOW)


def test_follower_restarts_when_the_chain_of_marks_breaks() -> None:
    """A restored controller continues from the backup, and so does the reader."""
    new_follower = follower(mark(1, 10, s0=100), mark(2, 20, s0=200))
    restored_marks = [mark(1, 10, s0=100), mark(2, 12, s0=120), mark(3, 14, s0=140)]
    new_follower.take_marks(marks_answer(restored_marks[2:]))
    new_follower.take_stream(stream_answer(last=restored_marks[2]))
    new_follower.take_marks(marks_answer(restored_marks))

    assert new_follower.window({0: 120}) == TimeWindow(12, 19, 2, 3)


def test_reader_ahead_of_the_stream_restarts() -> None:
    """The controller's database lost marks; the reader may know only their seq."""
    restored_mark = mark(1, 10, s0=100)
    for new_follower in (
        follower(restored_mark, mark(2, 20, s0=200)),
        Follower("default", keep_last=10, since=StartMark("a", 2)),
    ):
        new_follower.take_stream(stream_answer(last=restored_mark))
        after = new_follower.after
        new_follower.take_marks(replace(marks_answer([]), ahead_of_stream=True))
        new_follower.take_stream(stream_answer(last=restored_mark))
        new_follower.take_marks(marks_answer([restored_mark]))

        assert (after, new_follower.after, new_follower.window({0: 100}).lower) == (2, 1, 10)


def test_marks_wait_for_their_scale_events() -> None:
    """A mark after a split counts once the split is known."""
    new_follower = follower(mark(1, 10, s0=100))
    scale_event = ScaleEvent({0: 500}, {2: (0,), 3: (0,)})
    after_split = marks_answer([mark(2, 20, s0=500, s2=7)], scale_events=1)
    new_follower.take_marks(after_split)
    before = new_follower.after
    new_follower.take_stream(stream_answer(scales=[scale_event]))
    new_follower.take_marks(after_split)

    assert (before, new_follower.window({2: 7})) == (1, TimeWindow(20, None, 2, None))


def test_follower_catches_up_to_the_last_mark_it_asked_for() -> None:
    """Marks that came later do not matter."""
    new_follower = Follower("default", keep_last=10)
    new_follower.take_stream(stream_answer(last=mark(2, 20, s0=2)))
    new_follower.take_marks(marks_answer([mark(1, 10, s0=1)]))
    early = new_follower.caught_up
    new_follower.take_marks(marks_answer([mark(2, 20, s0=2)]))

    assert (early, new_follower.caught_up) == (False, True)
