"""Each distinct state that a few acts reach, compared with the rows that writers may have written.

`SmallWorld` has the acts. Worlds that differ in names and in the size of numbers only are
judged once.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from controller.aggregation.stream import StreamState
from controller.aggregation.views.view import View
from controller.aggregation.views.vouching import Vouching
from noted_time.reading import Gaps
from noted_time.values import Mark
from noted_time.verdict import Requirement, Verdict, judge_time
from tests.core.small_world import ALL_DOMAINS, TIME_STEP, Act, Author, Row, SmallWorld
from tests.core.small_world_key import find_key
from tests.support.kept_stream import FEW, list_facts

MOST_ACTS = 5 if settings().max_examples > 1000 else 3
"""Three take less than a minute of CPU time for all starts, and each more 15 times as long."""

MOST_FAULTS = 5

COLLECT_EVERY = 200_000


class Start(NamedTuple):
    """The number of writers, the settings, and the acts after which the others begin."""

    writers: int
    settings: dict[str, Any]
    acts: Sequence[Act]

    def make_world(self) -> SmallWorld:
        world = SmallWorld(self.writers, **self.settings)
        for act in self.acts:
            world.perform(act)
        return world


TIMES = [TIME_STEP * number for number in range(2, 7)]

FIRST_MARK: list[Act] = [
    ("note", "A", "default", TIMES[0]),
    ("note", "B", "default", TIMES[0]),
    ("advance",),
]
MARKS_OF_BOTH: list[Act] = [
    ("note", "A", "default", TIMES[2]),
    ("note", "B", "default", TIMES[0]),
    ("note", "A", "ship", TIMES[3]),
    ("note", "B", "ship", TIMES[1]),
    ("advance",),
]
STARTS = {
    "an empty stream": Start(3, {}, ()),
    "two marks": Start(
        3,
        {"expected_writers": ("A", "B")},
        [
            *FIRST_MARK,
            ("note", "A", "default", TIMES[2]),
            ("note", "B", "default", TIMES[1]),
            ("advance",),
        ],
    ),
    "a missing writer": Start(
        2, {}, [*FIRST_MARK, ("note", "A", "default", TIMES[1]), ("wait",), ("advance",)]
    ),
    "a forgotten writer": Start(
        2,
        {},
        [
            *FIRST_MARK,
            ("write", "B", "finished"),
            ("note", "A", "default", TIMES[1]),
            ("advance",),
            ("forget",),
        ],
    ),
    "two domains with marks": Start(2, {"domains": ALL_DOMAINS}, MARKS_OF_BOTH),
    "an added domain": Start(2, {}, [*FIRST_MARK, ("write", "B", "idle"), ("add_domain",)]),
    "a writer that widened": Start(
        2,
        {"domains": ALL_DOMAINS},
        [
            ("vouch", "B", "default"),
            *MARKS_OF_BOTH[:3],
            ("advance",),
            ("vouch", "B", *ALL_DOMAINS),
            ("note", "A", "ship", TIMES[4]),
        ],
    ),
}
"""In most of them, a writer is ahead of the watermark."""


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS.keys())
def test_small_worlds_give_no_false_answer(start: Start) -> None:
    """Law: a complete answer has all rows, a window names who owes some, a restart changes none."""
    with collect_rarely():
        assert [*islice(explore(start, MOST_ACTS), MOST_FAULTS)] == []


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Let Python look for reference cycles less often, as each world has many objects."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class Fault(NamedTuple):
    """A false answer, and the acts that lead to it."""

    acts: Sequence[Act]
    sentence: str


def explore(start: Start, most_acts: int) -> Iterator[Fault]:
    """Judge each distinct world that at most so many acts reach."""
    known_keys = {hash(find_key(start.make_world()))}
    reached_histories: list[tuple[Act, ...]] = [()]
    for _ in range(most_acts):
        histories = reached_histories
        reached_histories = []
        for acts in histories:
            world = replace_acts(start, acts).make_world()
            pickled_world = pickle.dumps(world)
            for act in world.list_acts():
                changed_world: SmallWorld = pickle.loads(pickled_world)  # noqa: S301 - made above
                changed_world.perform(act)
                key = hash(find_key(changed_world))
                if key in known_keys:
                    continue
                known_keys.add(key)
                reached_histories.append((*acts, act))
                faults = [
                    *find_false_answers(changed_world),
                    *find_changes(changed_world, load(changed_world)),
                ]
                if act == ("advance",):
                    faults += find_changes(changed_world, advance_after_restart(pickled_world))
                yield from (Fault((*acts, act), sentence) for sentence in faults)


def replace_acts(start: Start, acts: Sequence[Act]) -> Start:
    return start._replace(acts=[*start.acts, *acts])


def load(world: SmallWorld) -> StreamState:
    return world.kept.load_again()


def advance_after_restart(pickled_world: bytes) -> StreamState:
    """Return the stream of a world after a restart and its next marks."""
    world: SmallWorld = pickle.loads(pickled_world)  # noqa: S301 - made by `explore`
    world.restart()
    world.advance()
    return world.kept.stream


class Debt(NamedTuple):
    """A row that the first `marks` marks of a domain lack.

    A row that is not noted may exist: its writer is a member, or writes before it joins.
    """

    author: Author
    row: Row
    marks: int
    is_noted: bool


class Owed(NamedTuple):
    """The marks of a domain, and all rows that some of them lack."""

    domain: str
    marks: Sequence[Mark]
    debts: Sequence[Debt]

    def list_lacking(self, first: int, time: int) -> list[Debt]:
        """Return the debts of the mark at index `first` with rows below a time."""
        return [
            debt
            for debt in self.debts
            if debt.marks > first and debt.row.find_least_time(self.domain) < time
        ]


def find_owed(world: SmallWorld, domain: str) -> Owed:
    stream = world.kept.stream
    debts = list[Debt]()
    marks = stream.histories[domain].after(0, FEW)
    for author in world.list_active():
        rows = [(row, True) for row in author.rows]
        has_left = author.state == "finished" and author.name in stream.aggregator
        if not has_left and stream.aggregator.sealed is None:
            rows.append((Row(author.end + 1, author.promised), False))
        for row, is_noted in rows:
            lacking = [mark for mark in marks if mark.cut.offsets.get(author.segment, 0) < row.end]
            if lacking:
                debts.append(Debt(author, row, len(lacking), is_noted))
    return Owed(domain, marks, debts)


def find_false_answers(world: SmallWorld) -> Iterator[str]:
    for domain in world.kept.stream.settings.domains:
        owed = find_owed(world, domain)
        if owed.debts:
            yield from find_silent_windows(world, owed)
            yield from find_false_verdicts(world, owed)


def find_silent_windows(world: SmallWorld, owed: Owed) -> Iterator[str]:
    """Yield the windows that lack noted rows of a writer, and do not name it."""
    domain = owed.domain
    marks = owed.marks
    debts = [debt for debt in owed.debts if debt.is_noted and domain not in debt.author.unbound]
    if not debts:
        return
    starts = {mark.lower - before for mark in marks for before in (0, 1)}
    borders = sorted(starts | {start + 1 for start in starts})
    windows = world.kept.stream.coverage(domain).assess_windows(borders)
    gaps = dict(zip(borders, windows, strict=False))
    for debt in debts:
        end = marks[debt.marks - 1].lower
        for start in sorted(starts):
            is_lacking = debt.row.find_least_time(domain) <= start < end
            if is_lacking and not is_named(debt.author.name, gaps[start]):
                yield f"the window {start} of {domain} does not name {debt.author.name}"


def is_named(writer: str, gaps: Gaps) -> bool:
    """Return whether a writer is missing, joined later or late, or may be as far as is known."""
    if not (gaps.missing_is_known and gaps.late_is_known):
        return True
    missing = gaps.missing_writers
    late = gaps.late_writers
    return writer in {writer.writer for writer in missing} | {writer.writer for writer in late}


def find_false_verdicts(world: SmallWorld, owed: Owed) -> Iterator[str]:
    """Yield the complete answers that lack rows."""
    domain = owed.domain
    marks = owed.marks
    vouching = Vouching(View(world.kept.stream, world.kept.moment, domain))
    expected = {*vouching.expected}
    least_times = {debt.row.find_least_time(domain) for debt in owed.debts if debt.is_noted}
    for time in sorted(
        {mark.lower for mark in marks} | {least_time + 1 for least_time in least_times}
    ):
        first = sum(mark.lower < time for mark in marks)
        names = {event.author.name for event in owed.list_lacking(first, time)}
        for requirement in list_requirements(names, expected):
            verdict = judge_time(vouching, requirement, time)
            if verdict.status == "complete":
                required_writers = {*requirement.require} | (
                    expected if requirement.require_all else set()
                )
                for writer in find_lost(world, owed, verdict, required_writers):
                    yield f"{domain} is complete to {time} with {requirement}, and lacks {writer}"


def list_requirements(names: set[str], expected: set[str]) -> Iterator[Requirement]:
    """Yield the questions whose complete answers may lack rows of one of the writers."""
    yield from (Requirement(require=(name,)) for name in sorted(names))
    if names & expected:
        yield Requirement(require_all=True)
    if names:
        yield Requirement(require_known=True)


def find_lost(
    world: SmallWorld, owed: Owed, verdict: Verdict, required_writers: set[str]
) -> Iterator[str]:
    """Yield the writers of rows that a complete answer promises, and that its mark lacks.

    A writer that is not required may be late or have joined later, if that is named. If it owed
    rows when the mark was made, it is missing.
    """
    mark = verdict.mark
    gaps = verdict.gaps
    time = verdict.time
    assert mark is not None
    assert gaps is not None
    assert time is not None
    owing = world.owing[owed.domain, mark.seq]
    for debt in owed.list_lacking(mark.seq - owed.marks[0].seq, time):
        author = debt.author
        is_lost = author.name in required_writers
        if not is_lost and owed.domain not in author.unbound:
            is_silent = debt.is_noted and not is_named(author.name, gaps)
            is_lost = is_silent or author.name in owing
        if is_lost:
            yield author.name


def find_changes(world: SmallWorld, stream: StreamState) -> Iterator[str]:
    """Yield the facts of a world's stream that the same stream does not have after a restart."""
    before = dict(list_facts(world.kept.stream, world.kept.moment))
    after = dict(list_facts(stream, world.kept.moment))
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f"a restart changes the {name}: {before.get(name)} to {after.get(name)}"
