"""Which writers marks advanced without, against a list of all intervals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import example, given
from hypothesis import strategies as st

from noted_time import Mark, StreamCut
from noted_time.reading import MissingWriters
from noted_time.values import MIN_INT64, WRITERS_NAMED, Absence, Missing, Note
from tests.support.streams import TIMEOUT_MS, advance_after, make_stream, seal

LAST_LOWER = 99
REASONS = ("timed_out", "narrowed", "removed", "not_joined", "not_expected")


class Step(NamedTuple):
    """A mark: how far it advances, which writers it leaves out, since when, and who returns."""

    gain: int
    reasons: dict[str, str]
    behind: int | None
    returned: tuple[str, ...]


steps = st.lists(
    st.builds(
        Step,
        st.integers(1, 9),
        st.dictionaries(st.sampled_from("abc"), st.sampled_from(REASONS), max_size=2),
        st.none() | st.integers(0, 12),
        st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(tuple),
    ),
    max_size=8,
)


@dataclass
class Spell:
    """The times and marks without a writer; `end` and `last` are `None` while it is missing."""

    writer: Absence
    start: int
    first: int
    opened_at: int
    end: int | None = None
    last: int | None = None


@dataclass
class SpellList:
    """The steps as a list of spells, and the intervals built from them."""

    spells: list[Spell] = field(default_factory=list)
    missing: MissingWriters = field(default_factory=MissingWriters)
    marks: list[Mark] = field(default_factory=list)

    def take(self, step: Step) -> None:
        before = self.marks[-1].lower if self.marks else None
        seq = len(self.marks) + 1
        lower = (before or 0) + step.gain
        start = None if step.behind is None else (before or 0) - step.behind
        absences = [
            Absence(name, reason, seq, 5, {}, start)  # type: ignore[arg-type]
            for name, reason in step.reasons.items()
        ]
        self.marks.append(Mark(seq, lower, lower, StreamCut({})))
        entry = seq, seq * 10, (before, lower)
        self.missing.take(*entry, (), step.returned)
        for absence in absences:  # as a large entry is taken, in slices
            self.missing.take(*entry, [absence], ())
        for name in step.returned:
            self.end(name, before, seq - 1)
        for absence in absences:
            if absence.reason == "narrowed":
                self.end(absence.writer, before, seq - 1)
            self.begin(absence, seq, before, lower)

    def end(self, name: str, end: int | None, last: int) -> None:
        for spell in [*self.spells]:
            if spell.last is None and spell.writer.writer == name:
                spell.end = end
                spell.last = last
                if end is None:
                    self.spells.remove(spell)

    def begin(self, absence: Absence, seq: int, before: int | None, lower: int) -> None:
        writer = Absence(absence.writer, absence.reason, absence.began_at, absence.last_time)
        start = absence.from_time if isinstance(absence.from_time, int) else MIN_INT64
        if writer.joined_later:
            if before is not None:
                self.spells.append(Spell(writer, start, 1, seq * 10, before, seq - 1))
            return
        if not self.is_missing(writer.writer):
            self.spells.append(Spell(writer, start, seq, seq * 10))
        if absence.reason == "removed":
            self.end(writer.writer, lower, seq)

    def is_missing(self, name: str) -> bool:
        for spell in self.spells:
            if spell.last is None and spell.writer.writer == name:
                return True
        return False

    def meeting(self, start: int, end: int) -> Iterator[Absence]:
        for spell in self.spells:
            if spell.start < end and (spell.end is None or max(start, spell.start) < spell.end):
                yield spell.writer

    def at(self, mark: Mark) -> list[Absence]:
        spells = [
            spell
            for spell in self.spells
            if spell.start < mark.lower and (spell.last is None or mark.seq <= spell.last)
        ]
        writers = [spell.writer for spell in spells if spell.first <= mark.seq]
        for spell in reversed(spells):  # one that narrowed may have been idle before
            names = [writer.writer for writer in writers]
            if spell.writer.reason == "narrowed" and spell.writer.writer not in names:
                writers.append(spell.writer)
        return writers


def replay_steps(steps: list[Step]) -> SpellList:
    spell_list = SpellList()
    for step in steps:
        spell_list.take(step)
    return spell_list


def name_writers(writers: Iterable[Absence]) -> set[tuple[str, bool]]:
    """Return the names, each with whether the writer joined later."""
    return {(writer.writer, writer.joined_later) for writer in writers}


def list_names(missing: Missing) -> list[str]:
    return [writer.writer for writer in missing.writers]


def are_same(writers: Iterable[Absence], others: Iterable[Absence]) -> bool:
    """Whether both have the same writers, in any order."""
    return sorted(writers, key=repr) == sorted(others, key=repr)


@example([Step(1, {}, None, ()), Step(1, {"a": "timed_out"}, 0, ())], 0, 1, 1)
@given(taken=steps, first=st.integers(-15, 40), size=st.integers(1, 12), count=st.integers(0, 6))
def test_window_names_writers_missing_within_it(
    taken: list[Step], first: int, size: int, count: int
) -> None:
    """A writer counts once as a member, and once as one that joined later."""
    spell_list = replay_steps(taken)
    borders = [first + n * size for n in range(count + 1)]
    windows = spell_list.missing.find_in_windows(borders)

    for window, start in zip(windows, borders[:-1], strict=True):
        pairs = name_writers(spell_list.meeting(start, start + size))
        assert name_writers(window.writers) == pairs
        assert window.count == len(pairs)
        assert window.joined_later == sum(is_later for _, is_later in pairs)


@example([Step(1, {}, None, ()), Step(1, {"a": "removed", "b": "not_joined"}, 5, ())])
@given(taken=steps)
def test_mark_names_the_writers_it_lacks(taken: list[Step]) -> None:
    """Members come first."""
    spell_list = replay_steps(taken)
    for mark in spell_list.marks:
        answer = spell_list.missing.find_at_mark(mark)
        expected = spell_list.at(mark)

        assert are_same(answer.writers, expected)
        assert (answer.count, answer.is_known) == (len(expected), True)
        assert answer.joined_later == sum(writer.joined_later for writer in expected)
        joined_later = [writer.joined_later for writer in answer.writers]
        assert joined_later == sorted(joined_later)


@example(
    [Step(1, {}, None, ()), Step(1, {"a": "timed_out"}, None, ()), Step(1, {}, None, ("a",))], 2, 0
)
@given(taken=steps, first=st.integers(1, 8), more=st.integers(0, 7))
def test_first_mark_without_missing_is_found(taken: list[Step], first: int, more: int) -> None:
    """If there is none, a mark is returned with its missing members."""
    spell_list = replay_steps(taken)
    last = first + more
    missing_members = {
        seq: list_members_missing_at(spell_list, seq) for seq in range(first, last + 1)
    }
    seqs_without = [seq for seq, members in missing_members.items() if not members]
    seq, members = spell_list.missing.find_seq_without(first, last)

    assert seq in (seqs_without[:1] or missing_members)
    assert are_same(members, missing_members[seq])


def list_members_missing_at(spell_list: SpellList, seq: int) -> list[Absence]:
    members = []
    for spell in spell_list.spells:
        last = LAST_LOWER if spell.last is None else spell.last
        if not spell.writer.joined_later and spell.first <= seq <= last:
            members.append(spell.writer)
    return members


@example([Step(1, {"a": "timed_out"}, None, ())], 90, set())
@example([Step(1, {"a": "timed_out"}, None, ())], 10, set())
@example([Step(1, {}, None, ()), Step(1, {"a": "not_joined"}, 0, ())], 90, set())
@given(taken=steps, at=st.integers(0, 90), members=st.sets(st.sampled_from("abc")))
def test_forgotten_intervals_are_unknown(taken: list[Step], at: int, members: set[str]) -> None:
    """Times below the ends of forgotten intervals are unknown. Members' open intervals stay."""
    spell_list = replay_steps(taken)
    last = spell_list.marks[-1].lower if spell_list.marks else None
    spell_list.missing.forget_before(at, last, members)
    known_from = MIN_INT64
    for spell in [*spell_list.spells]:
        is_of_member = spell.last is None and spell.writer.writer in members
        if spell.opened_at >= at or is_of_member:
            continue
        spell_list.spells.remove(spell)
        end = last if spell.end is None else spell.end
        # a spell without times is not kept, so forgetting it makes nothing unknown
        if end is not None and spell.start != spell.end:
            known_from = max(known_from, end)

    assert spell_list.missing.known_from == known_from
    for mark in spell_list.marks:
        answer = spell_list.missing.find_at_mark(mark)
        assert are_same(answer.writers, spell_list.at(mark))
        assert answer.is_known == (mark.lower > known_from)
    windows = spell_list.missing.find_in_windows([known_from - 1, known_from, known_from + 1])
    assert [window.is_known for window in windows] == [False, True]


def build_absences(names: list[str], from_time: int) -> list[Absence]:
    return [Absence(name, "timed_out", 1, 5, {}, from_time) for name in names]


def test_windows_name_who_was_missing_when_asked() -> None:
    """Their intervals may be forgotten meanwhile, and others begin."""
    missing = MissingWriters()
    names = [f"w{n}" for n in range(9)]
    missing.take(2, 5, (10, 20), build_absences(names, from_time=10), ())
    missing.take(3, 6, (20, 30), (), names[:5])
    windows = missing.find_in_windows([10, 20, 30])
    named_windows = [next(windows)]
    missing.forget_before(7, 30, ())
    missing.take(4, 8, (30, 40), [Absence("later", "not_joined", 1, None, {}, 10)], ())
    named_windows += windows

    assert [list_names(window) for window in named_windows] == [names, names[5:]]
    (window,) = missing.find_in_windows([10, 20])
    assert list_names(window) == ["later"]


def test_at_most_a_hundred_missing_writers_are_named() -> None:
    """All are counted."""
    missing = MissingWriters()
    names = [f"w{n:03}" for n in range(WRITERS_NAMED + 1)]
    missing.take(2, 0, (10, 20), build_absences(names, from_time=5), ())
    (window,) = missing.find_in_windows([10, 20])
    mark = missing.find_at_mark(Mark(2, 20, 20, StreamCut({})))

    for answer in (window, mark):
        assert (list_names(answer), answer.count) == (names[:-1], 101)


def test_mark_names_at_most_a_hundred_excluded_writers() -> None:
    """The final mark of a sealed stream, too."""
    silent = [f"w{number:03}" for number in range(WRITERS_NAMED + 1)]
    stream = make_stream(*silent)
    stream.expire(TIMEOUT_MS)
    (mark,) = advance_after(stream, Note("web", 5, {0: 7}), now=TIMEOUT_MS)
    sealed_stream = make_stream(*silent)
    advance_after(sealed_stream, Note("web", 5, {0: 7}))
    seal(sealed_stream)
    final = sealed_stream.domains["default"].last

    for each in (mark, final):
        assert each is not None
        assert (each.excluded, each.excluded_count) == (tuple(silent[:WRITERS_NAMED]), len(silent))
