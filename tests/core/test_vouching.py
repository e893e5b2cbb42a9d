"""Which writers vouch for a mark's rows, and which marks meet requirements."""

from collections.abc import Iterable
from operator import attrgetter
from typing import get_args

from hypothesis import event, given
from hypothesis import strategies as st
from msgspec.structs import replace

from noted_time.reading import (
    UNKNOWN_STATUS,
    CountsByWriter,
    Coverage,
    LateReports,
    MarkHistory,
    MissingWriters,
    Tiling,
    find_changed_windows,
)
from noted_time.reading.coverage import Spells
from noted_time.rules import Aggregator
from noted_time.values import (
    MAX_INT64,
    WRITERS_NAMED,
    Absence,
    LateRows,
    LateWriter,
    Mark,
    Missing,
    Note,
    NotVouching,
    Spell,
    StreamSettings,
    VouchedBy,
    WriterStatus,
)
from tests.core.acts import WRITERS, Act, Kind, histories, perform, streams
from tests.core.world import Author, Made, World
from tests.support.honest import Event, is_below

TROUBLE = histories(*get_args(Kind), seals=True)

OPENS_FIRST: list[Act] = [
    ("note", ("a", "order", 3, True, "live", "nothing")),
    ("note", ("a", "ship", 3, True, "live", "nothing")),
    ("advance", ("order",)),
    ("advance", ("ship",)),
]
"""The other writers join after the first mark."""


def count_vouching(stream: Aggregator, domain: str, seq: int, time: int) -> VouchedBy:
    tally = CountsByWriter([(seq, time)])
    for name in stream.writers():
        tally.add(name, *find_spells(stream, name, domain))
    return tally.results(names_known=True)[0]


def find_spells(
    stream: Aggregator, name: str, domain: str, from_seq: int = 0
) -> tuple[Spells, WriterStatus]:
    """Return the periods when marks count a writer in a domain, and its state."""
    if name not in stream:
        return UNKNOWN_STATUS
    member = stream.member(name)
    number = stream.domains.numbers[domain]
    spells = stream.domains[domain].roster.list_spells(member.track(number), from_seq)
    return spells, "returned_later" if member.state == "live" else member.state


def find_whole(world: World, domain: str) -> int:
    """Return the last mark when a member was forgotten last, or 0."""
    lower = world.stream.domains[domain].roster.forgotten_lower
    marks = world.marks(domain)
    return 0 if lower is None else next(mark.seq for mark in marks if mark.lower >= lower)


def rows_beyond(world: World, domain: str, mark: Mark, time: int) -> list[str]:
    """Return the honest writers of rows beyond a mark's cut and below a time."""
    cut = world.stream.succession.normalise(mark.cut.offsets)
    broken_ids = {id(row) for row in world.broken}
    writers = []
    for row in world.events:
        is_beyond = row.times[domain] < time and not is_below(row, cut)
        if is_beyond and id(row) not in broken_ids:
            writers.append(row.writer)
    return writers


def sort_spells(spells: list[Spell]) -> Spells:
    return tuple(sorted(spells, key=attrgetter("from_seq", "end")))


_ends = st.integers(0, 40) | st.none()
_periods = st.lists(st.builds(Spell, st.integers(1, 9), _ends), max_size=2).map(sort_spells)
_standings = st.sampled_from(("live", "idle", "finished"))
_tallied = st.dictionaries(st.sampled_from("abcd"), st.tuples(_periods, _standings))


@given(
    _tallied,
    st.sets(st.sampled_from("abxy")),
    st.lists(st.integers(0, 6), max_size=6),
    st.booleans(),
)
def test_tally_of_many_marks_equals_single_tallies(
    members: dict[str, tuple[Spells, WriterStatus]],
    expected: set[str],
    steps: list[int],
    known: bool,  # noqa: FBT001 - drawn
) -> None:
    marks = [(seq, seq * 4 + step) for seq, step in enumerate(sorted(steps), 2)]
    tally = CountsByWriter(marks, sorted(expected))
    for name, (periods, standing) in members.items():
        tally.add(name, periods, standing)

    scanned_answers = [make_answer(*mark, members, expected, names_known=known) for mark in marks]
    assert tally.results(names_known=known) == scanned_answers


def make_answer(
    seq: int,
    time: int,
    members: dict[str, tuple[Spells, WriterStatus]],
    expected: set[str],
    *,
    names_known: bool,
) -> VouchedBy:
    """Look at every member and each of its periods."""
    names = list[str]()
    absent = list[NotVouching]()
    for name, (periods, standing) in members.items():
        end_times = [period.to_time for period in periods if period.to_time is not None]
        if any(seq >= period.from_seq and time <= period.end for period in periods):
            names.append(name)
        elif periods and seq >= periods[0].from_seq:
            until = max(end_times, default=None)
            absent.append(NotVouching(name, standing, until, name in expected))
        else:
            absent.append(NotVouching(name, "joined_later", None, name in expected))
    unknown = sorted(expected - members.keys())
    absent += [NotVouching(name, "unknown", None, is_expected=True) for name in unknown]
    return VouchedBy(
        len(names),
        tuple(names),
        len(expected),
        len(expected.intersection(names)),
        tuple(sorted(absent, key=is_unexpected)),
        len(absent),
        names_known,
    )


def is_unexpected(writer: NotVouching) -> bool:
    return not writer.is_expected


def list_names(writers: Iterable[Absence | LateWriter | NotVouching]) -> list[str]:
    return [writer.writer for writer in writers]


def test_a_tally_names_at_most_a_hundred_writers_of_each_mark() -> None:
    """The tally counts all writers, vouching or not."""
    tally = CountsByWriter([(1, 10), (2, 20)])
    names = [f"w{n:03}" for n in range(WRITERS_NAMED + 1)]
    for name in names:
        tally.add(name, (Spell(2),), "returned_later")
    tally.add("new", (), "returned_later")
    before, after = tally.results(names_known=True)

    assert (before.count, before.not_vouching_count, after.count) == (0, 102, 101)
    assert list_names(after.not_vouching) == ["new"]
    assert list_names(before.not_vouching) == names[:-1]
    assert list(after.names) == names[:-1]


class Witness(World):
    """A world that keeps missing writers and late rows, as a controller does."""

    def __init__(self, settings: StreamSettings) -> None:
        super().__init__(settings, WRITERS, segments=3)
        self.missing = {domain: MissingWriters() for domain in self.domains}
        self.late = {domain: LateReports() for domain in self.domains}

    def hear(self, author: Author, note: Note) -> None:
        super().hear(author, note)
        for domain, report in self.stream.report_late(note, noted_at=0):
            self.late[domain].add(report, is_correction=not report.may_have_more)

    def take_mark(self, domain: str, before: Mark | None, mark: Mark) -> Made:
        roster = self.stream.domains[domain].roster
        lowers = (before.lower if before else None, mark.lower)
        absences = roster.named.absences + roster.named.joined
        self.missing[domain].take(mark.seq, 0, lowers, absences, roster.named.returned_writers)
        return super().take_mark(domain, before, mark)

    def coverage(self, domain: str) -> Coverage:
        new_writers = Missing(tuple(self.stream.domains[domain].roster.not_joined))
        return Coverage(self.missing[domain], self.late[domain], None, new_writers)

    def list_named(self, domain: str, mark: Mark) -> set[str]:
        """Return the writers that an answer about a mark names as missing or late."""
        assessment = self.coverage(domain).assess_mark(mark, None, MAX_INT64)
        return {*list_names(assessment.missing.writers), *list_names(assessment.late.writers)}

    def list_named_in_window(self, domain: str, time: int) -> tuple[set[str], set[str]]:
        """Return the missing members and the late writers of the window of a time."""
        (assessment,) = self.coverage(domain).assess_windows([time, time + 1])
        members = [writer for writer in assessment.missing.writers if not writer.joined_later]
        return {*list_names(members)}, {*list_names(assessment.late.writers)}

    def list_unlisted(self, domain: str) -> set[str]:
        """Return the writers of late rows in windows that are not listed as changed."""
        marks = self.marks(domain)
        coverage = self.coverage(domain)
        changed_windows = find_changed_windows(
            MarkHistory(marks), Tiling(1), coverage, 0, after=None
        )
        listed_windows = set()
        for window in changed_windows:
            for late_writer in window.late.writers:
                listed_windows.add((late_writer.writer, window.start))
        unlisted_writers = set()
        for row in self.lacking(domain, *marks):
            time = row.times[domain]
            missing_members, _ = self.list_named_in_window(domain, time)
            is_listed = (row.writer, time) in listed_windows
            if not is_listed and row.writer not in missing_members:
                unlisted_writers.add(row.writer)
        return unlisted_writers

    def lacking(self, domain: str, *marks: Mark) -> list[Event]:
        """Return the noted rows below a mark's lower and beyond its cut, each once."""
        rows = []
        for row in self.events:
            author = self.authors[row.writer]
            is_noted = is_below(row, author.noted) and domain not in author.unbound
            if is_noted and any(is_lacking(row, domain, mark) for mark in marks):
                rows.append(row)
        return rows


def is_lacking(row: Event, domain: str, mark: Mark) -> bool:
    return row.times[domain] < mark.lower and not is_below(row, mark.cut.offsets)


IDLE_AT_FIRST: list[Act] = [
    ("note", ("a", "order", 1, True, "live", "nothing")),
    ("note", ("a", "order", 0, True, "idle", "nothing")),
    ("note", ("b", "order", 6, True, "live", "nothing")),
    ("advance", ("order",)),
]
"""The watermark goes on without a writer that is not missing."""

JOINS_LATE: list[Act] = [
    ("write", ("c", 0, {})),
    ("note", ("c", "order", 2, True, "live", "nothing")),
]


def watch_silent_writers(settings: StreamSettings, history: list[Act]) -> Witness:
    """Return a world of writers that declare no event times."""
    world = Witness(settings)
    for name, parts in IDLE_AT_FIRST + JOINS_LATE + history:
        silent = (*parts[:-1], "nothing") if name == "note" else parts
        perform(world, (name, silent))
    return world


@given(settings=streams, history=TROUBLE)
def test_writers_of_lacking_rows_are_named(settings: StreamSettings, history: list[Act]) -> None:
    """Law: a row below a lower and beyond its cut belongs to a missing or late writer."""
    world = watch_silent_writers(settings, history)
    count = 0
    for made_mark in world.made:
        rows = world.lacking(made_mark.domain, made_mark.mark)
        writers = {row.writer for row in rows}
        count += len(writers)

        assert writers <= world.list_named(made_mark.domain, made_mark.mark), made_mark
    event(f"lacking: {min(count, 5)}")
    for domain in world.domains:
        for row in world.lacking(domain, *world.marks(domain)):
            missing_members, late_writers = world.list_named_in_window(domain, row.times[domain])
            assert row.writer in missing_members | late_writers, (domain, row)


@given(settings=streams, history=histories("waits", "removals"))
def test_late_windows_are_listed_or_unknown(settings: StreamSettings, history: list[Act]) -> None:
    """Law: also after each writer without a least time has reported one."""
    world = watch_silent_writers(settings, history)
    for domain, late in world.late.items():
        unknown = late.writers_without_least(since_served_ms=0)
        event(f"unknown: {len(unknown)}")

        assert world.list_unlisted(domain) <= {*unknown}
        for name in unknown:
            times = [row.times[domain] for row in world.events if row.writer == name]
            note = Note(name, domain=domain, late_rows=LateRows(1, min(times, default=0)))
            world.hear(world.authors[name], replace(note, sequence=1000))
        assert (world.list_unlisted(domain), late.writers_without_least(since_served_ms=0)) == (
            set(),
            [],
        )
