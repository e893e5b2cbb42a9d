"""What a look at a log may note, whatever happens around it and amid it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from noted_time import Note, Rejected
from noted_time.wing import Look

Happening = tuple[str, int]
"""`append` to a segment, `pass` that many ms, or `look`: the next reading of clock or ends."""

happenings = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("pass"), st.integers(1, 40)),
        st.tuples(st.just("look"), st.just(0)),
    ),
    max_size=40,
)


@dataclass
class Log:
    """A log that grows while it is observed.

    What happens up to the next `look` comes before the next reading.
    """

    happenings: Iterator[Happening]
    time: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    visible_at: dict[tuple[int, int], int] = field(default_factory=dict)
    over: bool = False

    def clock(self) -> int:
        """Apply what comes before, and read the clock."""
        self._happen()
        return self.time

    def read_ends(self) -> dict[int, int]:
        """Apply what comes before, and read the ends."""
        self._happen()
        return dict(self.ends)

    def is_covered(self, note: Note) -> bool:
        """Whether all that was visible before the note's time lies below its position."""
        assert note.time is not None
        before = [row for row, at in self.visible_at.items() if at < note.time]
        return all(offset < note.position.get(segment, 0) for segment, offset in before)

    def _happen(self) -> None:
        for what, number in self.happenings:
            if what == "look":
                return
            if what == "pass":
                self.time += number
                continue
            offset = self.ends.get(number, 0)
            self.visible_at[number, offset] = self.time
            self.ends[number] = offset + 1
        self.over = True


def take_swapped(look: Look, log: Log) -> Note | None:
    """Look the wrong way round: first the ends, then the clock."""
    ends = log.read_ends()
    return look.due(log.clock(), ends)


def take(look: Look, log: Log) -> Note | None:
    """Look as the noter does."""
    return look.take(log.clock, log.read_ends)


def keeps_its_claims(
    taking: Callable[[Look, Log], Note | None], course: list[Happening], skew_ms: int = 0
) -> bool:
    """Whether each note covers all that was visible before its time."""
    log, look = Log(iter(course)), Look(10, 20, skew_ms)
    while not log.over:
        note = taking(look, log)
        if note is not None and not log.is_covered(note):
            return False
    return True


@given(happenings, st.sampled_from([0, 7]))
def test_whatever_was_visible_before_the_time_lies_below_the_ends(
    course: list[Happening], skew_ms: int
) -> None:
    """However appends and the clock advance before and between the two readings."""
    assert keeps_its_claims(take, course, skew_ms)


def test_a_noter_that_reads_the_ends_first_breaks_its_claims() -> None:
    """So the test above would notice the swap; what shows it is an append between the readings."""
    broken = find(happenings, lambda course: not keeps_its_claims(take_swapped, course))

    assert [what for what, _ in broken] == ["look", "append", "pass"]
    with pytest.raises(NoSuchExample):
        find(happenings, lambda course: not keeps_its_claims(take, course))


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), max_size=30))
def test_neither_times_nor_ends_of_notes_go_back(readings: list[tuple[int, bool]]) -> None:
    """Also if the clock steps back; a change seen then is noted once the clock has caught up."""
    look, end, notes = Look(10, 20), 0, []
    for now, appends in readings:
        end += appends
        notes.append(look.due(now, {0: end}))
    found = [(note.time, note.position.get(0, 0)) for note in notes if note is not None]

    assert found == sorted(found)


def test_a_look_is_noted_if_ends_change_or_the_last_time_is_old() -> None:
    """Equal ends and an earlier time are no news."""
    look = Look(poll_ms=10, max_lag_ms=30)
    looks = [(0, 5), (10, 5), (20, 6), (30, 6), (49, 6), (50, 6), (60, 6)]

    noted = [note.time for now, end in looks if (note := look.due(now, {0: end})) is not None]

    assert noted == [0, 20, 50]


def test_an_empty_log_is_noted_too() -> None:
    """Nothing was visible; a segment that ends at 0 counts as missing."""
    look = Look(10, 30)
    note = look.due(7, {0: 0})

    assert note == Note("ingestion", 7, {}, "ingestion")
    assert look.due(8, {}) is None


def test_nothing_is_noted_until_a_clock_that_stepped_back_has_caught_up() -> None:
    """What was appended meanwhile is in the first note after."""
    look = Look(10, 30)
    looks = [(100, 1), (40, 2), (99, 3), (100, 3)]

    noted = [look.due(now, {0: end}) for now, end in looks]

    assert noted == [
        Note("ingestion", 100, {0: 1}, "ingestion"),
        None,
        None,
        Note("ingestion", 100, {0: 3}, "ingestion"),
    ]


@pytest.mark.parametrize("after", [{0: 5, 7: 2}, {0: 5}])
def test_an_end_that_goes_back_is_refused_by_the_name_of_its_segment(after: dict[int, int]) -> None:
    """Also if it is gone, or the clock was behind when it was seen."""
    look = Look(10, 30)
    look.due(100, {0: 5, 7: 1})
    look.due(50, {0: 5, 7: 3})

    with pytest.raises(Rejected, match=r"the log was .*: segment 7 ends at \d and ended at 3"):
        look.due(101, after)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"poll_ms": 9, "max_lag_ms": 10_000}, "poll_ms must be 10 or more, not 9"),
        (
            {"poll_ms": 1000, "max_lag_ms": 999},
            r"max_lag_ms must be at least poll_ms \(1000\), not 999",
        ),
        ({"poll_ms": 1000, "max_lag_ms": 1000, "skew_ms": -1}, "skew_ms must be 0 or more, not -1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], sentence: str) -> None:
    """The sentence names the option and its bound."""
    with pytest.raises(Rejected, match=sentence):
        Look(**options)


def test_the_skew_is_taken_off() -> None:
    """A clock that may be 50 ms ahead vouches for what was visible 50 ms ago."""
    note = Look(10, 30, skew_ms=50).due(100, {0: 1})

    assert note is not None
    assert note.time == 50
