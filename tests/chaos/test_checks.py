"""Every check can fail: small histories with one fault each, and how it is reported."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from tests.chaos.checks import late
from tests.chaos.collecting import Said
from tests.chaos.history import Chain, History, Violation, WindowSeen
from tests.chaos.scaling import ScaledStream
from tests.chaos.turns import Pulse
from tests.chaos.verdict import STARVED_S, Verdict, judge, tables
from tests.support.load import LoadWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoil = Callable[[History, Said], object]


KEY = "default"


def mark(seq: int, lower: int, cut: int, **other: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a mark of one segment."""
    made = {"seq": seq, "lower": lower, "upper": 30, "cut": {"0": cut}, "excluded": []}
    return made | {"written_at": 0} | other


def writer(stream: ScaledStream) -> LoadWriter:
    """Return the writer that wrote the stream's two events, and noted 10 and 20."""
    made = LoadWriter(name="w0", stream=stream, segments=range(1), chance=random.Random(1))
    made.position = made.acknowledged_position = {0: 2}
    made.promised, made.acknowledged, made.state = {KEY: 20}, {KEY: 20}, "live"
    return made


@pytest.fixture
def truth() -> tuple[History, Said]:
    """A history in which all is well: two events, two marks, a reader, a silent writer."""
    stream = ScaledStream("s", shared=False)
    for time in (5, 15):
        stream.append(0, {KEY: time})
    stream.writers = [writer(stream)]
    marks = [mark(1, 10, 1), mark(2, 20, 2)]
    window = {"lower": 10, "lower_seq": 1, "upper": 30, "upper_seq": 2}
    history = History({"s": stream})
    history.chains["s", KEY] = Chain(
        seen={each["seq"]: each for each in marks},
        reported={10, 20},
        windows=[WindowSeen({0: 1}, window)],
        lower=20,
    )
    history.reported["s"], history.reporting["s"] = {0: 1}, {0: 2}
    row = {"writer": "w0", "state": "live", "times": {KEY: 20}, "position": {"0": 2}}
    return history, Said({"w0": row}, {KEY: [dict(each) for each in marks]}, {0: 1})


def _broken(history: History, said: Said) -> set[str]:
    """Return the laws that are found broken."""
    judge(history, {"s": said})
    return {violation.law for violation in history.violations}


def _exclude(history: History, said: Said) -> None:
    history.chains["s", KEY].seen[2] = said.marks[KEY][1] = mark(2, 20, 2, excluded=["w0"])


SPOILT: dict[str, tuple[str, Spoil]] = {
    "lost note": ("notes last", lambda _, said: said.writers["w0"].update(times={KEY: 10})),
    "lost end": ("notes last", lambda _, said: said.writers["w0"].update(position={"0": 1})),
    "lost writer": ("notes last", lambda _, said: said.writers.clear()),
    "made up": ("notes last", lambda _, said: said.writers["w0"].update(times={KEY: 25})),
    "back again": ("no writer is excluded", lambda history, _: _finish(history)),
    "seq skipped": ("chains", lambda _, said: said.marks[KEY].append(mark(4, 25, 2))),
    "time back": ("chains", lambda _, said: said.marks[KEY].append(mark(3, 20, 2))),
    "cut back": ("chains", lambda _, said: said.marks[KEY].append(mark(3, 25, 1))),
    "changed mark": ("marks stay", lambda _, said: said.marks[KEY][0].update(written_at=1)),
    "lost mark": ("marks stay", lambda _, said: said.marks[KEY].pop()),
    "missed": ("marks are sound", lambda history, _: history.streams["s"].append(0, {KEY: 19})),
    "new segment": ("marks are sound", lambda history, _: history.streams["s"].append(7, {KEY: 9})),
    "above": ("uppers are true", lambda history, _: _put_the_last_event_at(history, 31)),
    "live and out": ("no writer is excluded", _exclude),
    "out": ("no writer is excluded", lambda _, said: said.writers["w0"].update(state="excluded")),
    "none out": ("no writer is excluded", lambda history, _: history.silent.update(s="w9")),
    "no mark's": ("lowers", lambda history, _: history.chains["s", KEY].reported.add(15)),
    "lost report": ("reports last", lambda _, said: said.readers.update({0: 0})),
    "report made up": ("reports last", lambda _, said: said.readers.update({0: 3})),
}
"""The law that is broken, and by what."""


def _finish(history: History) -> None:
    history.streams["s"].writers[0].state = "finished"


def _put_the_last_event_at(history: History, time: int) -> None:
    event = history.streams["s"].events.pop()
    history.streams["s"].ends[0] -= 1
    history.streams["s"].append(event.segment, {KEY: time})


NOTHING = {"lower": None, "lower_seq": None, "upper": None, "upper_seq": None}


def test_a_history_in_which_all_is_well_breaks_no_law(truth: tuple[History, Said]) -> None:
    """Or the other tests would prove nothing."""
    assert _broken(*truth) == set()


@pytest.mark.parametrize(("law", "spoil"), SPOILT.values(), ids=SPOILT)
def test_what_is_wrong_with_a_stream_breaks_its_law(
    truth: tuple[History, Said], law: str, spoil: Spoil
) -> None:
    """Each law is found broken by a history that breaks it."""
    spoil(*truth)

    assert law in _broken(*truth)


@pytest.mark.parametrize(
    ("at", "window"),
    [
        (1, NOTHING | {"lower": 11, "lower_seq": 1}),
        (1, NOTHING | {"lower": 10, "lower_seq": 9}),
        (1, NOTHING | {"lower": 10}),
        (1, NOTHING | {"lower": 20, "lower_seq": 2}),
        (2, NOTHING | {"upper": 29, "upper_seq": 2}),
        (2, NOTHING | {"upper": 30, "upper_seq": 1}),
    ],
)
def test_a_window_that_no_mark_allows_is_reported(
    truth: tuple[History, Said], at: int, window: dict[str, int | None]
) -> None:
    """A bound of no mark, of another mark, or of one that the position does not allow."""
    truth[0].chains["s", KEY].windows.append(WindowSeen({0: at}, window))

    assert _broken(*truth) == {"windows are true"}


def test_a_window_above_an_event_of_later_is_reported(truth: tuple[History, Said]) -> None:
    """An event that was written after the window was answered counts as well."""
    truth[0].streams["s"].append(0, {KEY: 9})

    assert "windows are true" in _broken(*truth)


def test_a_mark_that_two_readers_saw_differently_is_reported() -> None:
    """At once, whatever the chain is in the end."""
    chain = Chain()
    chain.see([mark(1, 10, 1)], at=0.0)

    assert chain.see([mark(1, 10, 2)], at=1.0) == [f"{mark(1, 10, 2)} was {mark(1, 10, 1)}"]


def test_time_that_does_not_come_to_its_end_is_reported(truth: tuple[History, Said]) -> None:
    """Every live writer has noted 21, and the last lower is 20."""
    assert late(truth[0], 21) == ["s/default stands at 20, not 21"]


def test_a_stuck_chain_is_reported(truth: tuple[History, Said]) -> None:
    """It did not grow since it was looked at."""
    history, _ = truth
    since = history.lengths()

    before = history.standing(since)
    history.chains["s", KEY].see([mark(3, 25, 2)], at=2.0)

    assert (before, history.standing(since)) == (["s/default"], [])


@pytest.mark.parametrize(
    ("law", "starved_s", "starved"),
    [
        ("no writer is excluded", STARVED_S, True),
        ("no writer is excluded", STARVED_S - 0.1, False),
        ("marks are sound", STARVED_S, False),
    ],
)
def test_what_a_busy_machine_may_have_done_is_distinguished_from_a_violation(
    law: str, starved_s: float, *, starved: bool
) -> None:
    """If no process ran for half a writer timeout, exclusions are right; other laws still hold."""
    violations = (Violation(law, "s", "…"),)
    verdict = Verdict(1, 1.0, {}, {}, Counter(), {}, violations, starved_s)
    console = Console(width=100)
    with console.capture() as capture:
        console.print(tables(verdict))

    assert (verdict.is_starved, "Starved: " in capture.get()) == (starved, starved)


def test_a_pulse_keeps_the_longest_time_in_which_it_was_not_run() -> None:
    """Less the time that it rests by itself."""
    times = iter([0.0, 0.1, 4.2, 4.3])
    pulse = Pulse(lambda: next(times))
    for _ in range(3):
        pulse.beat()

    assert pulse.longest_s == pytest.approx(4.0)
