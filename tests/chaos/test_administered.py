"""Faults of a stream that was scaled or truncated, or excluded a writer, are reported."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.chaos import administering
from tests.chaos.administering import Administering
from tests.chaos.calls import Caller
from tests.chaos.collecting import Said
from tests.chaos.history import Chain, History, WindowSeen
from tests.chaos.scaling import ExcludingStream, ScaledStream, Scaling
from tests.chaos.verdict import judge
from tests.support.load import LoadWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoil = Callable[[History, Said], object]

pytestmark = pytest.mark.anyio

KEY = "default"
SPLIT = Scaling({0: 2}, range(1, 3))


def mark(seq: int, lower: int, **cut: int) -> dict[str, Any]:
    """Return a mark whose cut names segments as `s0`."""
    wire = {name[1:]: end for name, end in cut.items()}
    return {"seq": seq, "lower": lower, "upper": 40, "cut": wire, "written_at": 0, "excluded": []}


def window(lower: int | None, lower_seq: int | None, upper_seq: int | None) -> dict[str, Any]:
    """Return a time window."""
    upper = 40 if upper_seq else None
    return {"lower": lower, "lower_seq": lower_seq, "upper": upper, "upper_seq": upper_seq}


@pytest.fixture
def truth() -> tuple[History, Said]:
    """A history in which all is well: 0 was split after mark 2, mark 1 was truncated.

    The event at 35 was written before the split and the one at 25 after it.
    """
    stream = ScaledStream("s", shared=False, scalings=[SPLIT], heard_at=[0.0])
    for segment, time in ((0, 5), (0, 35), (1, 25)):
        stream.append(segment, {KEY: time})
    writer = LoadWriter(
        name="w0", stream=stream, segments=range(1, 3), chance=random.Random(1), state="live"
    )
    writer.position = writer.acknowledged_position = {1: 1}
    writer.promised = writer.acknowledged = {KEY: 30}
    stream.writers = [writer]
    marks = [mark(1, 10, s0=1), mark(2, 20, s0=1), mark(3, 30, s0=2, s1=1)]
    history = History({"s": stream}, reported={"s": {1: 0}}, reporting={"s": {1: 0}})
    windows = [
        WindowSeen({0: 1}, window(20, 2, 2), least=20),
        WindowSeen({2: 0}, window(20, 2, 3)),
        WindowSeen({1: 1}, window(30, 3, 3)),
    ]
    history.chains["s", KEY] = Chain(
        seen={each["seq"]: each for each in marks},
        windows=windows,
        lower=30,
        followers=[3, 3],
        first_asked=2,
        first_heard=2,
        scaled_at=[2],
    )
    row = {"writer": "w0", "state": "live", "times": {KEY: 30}, "position": {"0": 2, "1": 1}}
    said = Said({"w0": row}, {KEY: [dict(each) for each in marks[1:]]}, {1: 0}, [SPLIT.wire()])
    return history, said


def _broken(history: History, said: Said) -> set[str]:
    judge(history, {"s": said})
    return {violation.law for violation in history.violations}


def _scaled(**changes: Any) -> Spoil:  # noqa: ANN401 - any JSON
    return lambda _, said: said.scale_events[0].update(changes)


def _noted(**position: int) -> Spoil:
    wire = {name[1:]: end for name, end in position.items()}
    return lambda _, said: said.writers["w0"].update(position=wire)


def _mark_a_part(history: History, said: Said) -> None:
    history.chains["s", KEY].seen[3] = said.marks[KEY][1] = mark(3, 30, s0=1, s1=1)
    history.chains["s", KEY].windows.clear()


SPOILT: dict[str, tuple[set[str], Spoil]] = {
    "no split": ({"scalings last"}, lambda _, said: said.scale_events.clear()),
    "split twice": ({"scalings last"}, lambda _, said: said.scale_events.append(SPLIT.wire())),
    "split elsewhere": ({"scalings last"}, _scaled(sealed={"0": 1})),
    "part of a cut": ({"cuts are complete"}, _mark_a_part),
    "part of a position": ({"notes last"}, _noted(s0=1, s1=1)),
    "too much": ({"notes last"}, _noted(s0=3, s1=1)),
    "not truncated": (
        {"marks begin"},
        lambda history, said: said.marks[KEY].insert(0, dict(history.chains["s", KEY].seen[1])),
    ),
    "one too few": ({"marks begin"}, lambda _, said: said.marks[KEY].pop(0)),
    "no last mark": (
        {"marks begin", "windows are true", "marks stay"},
        lambda _, said: said.marks[KEY].clear(),
    ),
    "excluded": ({"no writer is excluded"}, lambda history, said: _exclude(history, said, 3)),
    "excluded twice": (
        {"no writer is excluded"},
        lambda history, said: _exclude(history, said, 2, 3, absences=1),
    ),
    "sealed and written": (
        {"marks are sound", "windows are true"},
        lambda history, _: history.streams["s"].append(0, {KEY: 29}),
    ),
    "changed": (
        {"marks stay", "windows are true"},
        lambda _, said: said.marks[KEY][0].update(lower=19),
    ),
    "gap": ({"chains"}, lambda _, said: said.marks[KEY].append(mark(5, 35, s0=2, s1=1))),
}
"""The laws that are broken, and by what."""


def _exclude(history: History, said: Said, *seqs: int, absences: int = 0) -> None:
    history.absences["s"] = Counter(w0=absences)
    for seq in seqs:
        history.chains["s", KEY].seen[seq]["excluded"] = ["w0"]
        said.marks[KEY][seq - 2]["excluded"] = ["w0"]


def test_a_history_in_which_all_is_well_breaks_no_law(truth: tuple[History, Said]) -> None:
    """Or the other tests would prove nothing."""
    assert _broken(*truth) == set()


@pytest.mark.parametrize(("laws", "spoil"), SPOILT.values(), ids=SPOILT)
def test_what_is_wrong_breaks_its_own_laws(
    truth: tuple[History, Said], laws: set[str], spoil: Spoil
) -> None:
    """No others, also over what was sealed and behind what was truncated."""
    spoil(*truth)

    assert _broken(*truth) == laws


@pytest.mark.parametrize(
    "seen",
    [
        WindowSeen({0: 2}, window(30, 3, None)),
        WindowSeen({0: 1}, window(30, 3, None)),
        WindowSeen({2: 0}, window(20, 2, 2)),
        WindowSeen({0: 1}, window(None, None, 2), least=20),
        WindowSeen({0: 1}, window(10, 1, 2), least=20),
    ],
)
def test_a_window_that_no_mark_allows_is_reported(
    truth: tuple[History, Said], seen: WindowSeen
) -> None:
    """Not all was read; the position is beyond; a truncation took what a reader needs."""
    truth[0].chains["s", KEY].windows.append(seen)

    assert _broken(*truth) == {"windows are true"}


def test_any_writer_may_be_excluded_if_late_writers_are_excluded(
    truth: tuple[History, Said],
) -> None:
    """Time does not wait for it."""
    history, said = truth
    made = ExcludingStream("s", shared=False, scalings=[SPLIT], heard_at=[0.0])
    made.events, made.ends = history.streams["s"].events, history.streams["s"].ends
    made.writers = history.streams["s"].writers
    history.streams = {"s": made}
    _exclude(history, said, 3)

    assert _broken(history, said) == set()


async def administered(
    do: str, stream: ScaledStream, history: History, answers: list[Any]
) -> list[str]:
    """Have an administrator do that once, and be answered so; returns the laws that broke."""
    stopping, left = asyncio.Event(), iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        stopping.set()
        return httpx.Response(200, json=next(left))

    http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    caller = Caller(http, ["http://a"], history, random.Random(1))
    work = getattr(Administering(history, stopping), do)
    async with asyncio.timeout(30):
        await work(caller, stream, random.Random(1))
    return [violation.law for violation in history.violations]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait before anything is done."""
    for name in ("SCALES_S", "TELLS_S", "TRUNCATES_S"):
        monkeypatch.setattr(administering, name, (0.0, 0.0))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("result", "laws"),
    [
        ({"status": "invalid_position", "last": {"0": 1}}, []),
        ({"status": "accepted", "lower": None}, ["scalings last"]),
        ({"status": "invalid_position", "last": {"0": 2}}, ["scalings last"]),
    ],
)
async def test_a_note_beyond_what_was_sealed_has_to_be_refused(
    result: dict[str, Any], laws: list[str]
) -> None:
    """By the end that was given."""
    stream = ScaledStream("s", shared=False)
    writer = stream.writer(random.Random(1))
    writer.acknowledged_position[0] = stream.append(0, {KEY: 5}).offset + 1
    history = History({"s": stream})
    answers = [{"marks": {KEY: {"seq": 7}}}, {"results": [result]}]

    assert await administered("scale", stream, history, answers) == laws
    assert history.chains["s", KEY].scaled_at == [7]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(("last", "laws"), [({"seq": 3}, []), (None, ["marks begin"])])
async def test_a_truncation_has_to_leave_the_last_mark(
    truth: tuple[History, Said], last: object, laws: list[str]
) -> None:
    """And leaves what readers at the cut need."""
    history, _ = truth
    history.chains["s", KEY].first_asked = history.chains["s", KEY].first_heard = 1
    stream = history.streams["s"]

    assert await administered("truncate", stream, history, [{"marks": {KEY: last}}]) == laws
    assert history.chains["s", KEY].first_heard == 2
