"""Every check can fail: small histories in which one thing is wrong, and what is said of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.chaos.collecting import Said
from tests.chaos.ending import late
from tests.chaos.history import Chain, History, WindowSeen
from tests.chaos.scaling import ScaledStream
from tests.chaos.verdict import judge
from tests.support.load import LoadWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoil = Callable[[History, Said], None]

KEY = "default"


def mark(seq: int, lower: int, cut: int, **other: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a mark of one segment."""
    made = {"seq": seq, "lower": lower, "upper": 30, "cut": {"0": cut}, "excluded": []}
    return made | {"written_at": 0} | other


def writer(stream: ScaledStream) -> LoadWriter:
    """Return the writer that wrote the stream's two events, and noted 10 and 20."""
    made = LoadWriter(stream, "w0", range(1), random.Random(1))
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
        told={10, 20},
        windows=[WindowSeen({0: 1}, window)],
        lower=20,
    )
    history.reported["s"], history.reporting["s"] = {0: 1}, {0: 2}
    row = {"writer": "w0", "state": "live", "times": {KEY: 20}, "position": {"0": 2}}
    return history, Said({"w0": row}, {KEY: [dict(each) for each in marks]}, {0: 1})


def _broken(history: History, said: Said) -> set[str]:
    """Return the laws that are found _broken."""
    judge(history, {"s": said})
    return {violation.law for violation in history.violations}


def _lose_a_note(_: History, said: Said) -> None:
    said.writers["w0"]["times"] = {KEY: 10}


def _lose_a_position(_: History, said: Said) -> None:
    said.writers["w0"]["position"] = {"0": 1}


def _lose_a_writer(_: History, said: Said) -> None:
    del said.writers["w0"]


def _make_a_note_up(_: History, said: Said) -> None:
    said.writers["w0"]["times"] = {KEY: 25}


def _bring_the_left_back(history: History, _: Said) -> None:
    history.streams["s"].writers[0].state = "finished"


def _skip_a_seq(_: History, said: Said) -> None:
    said.marks[KEY].append(mark(4, 25, 2))


def _turn_time_back(_: History, said: Said) -> None:
    said.marks[KEY].append(mark(3, 20, 2))


def _draw_a_cut_back(_: History, said: Said) -> None:
    said.marks[KEY].append(mark(3, 25, 1))


def _change_a_mark(_: History, said: Said) -> None:
    said.marks[KEY][0]["written_at"] = 1


def _forget_a_mark(_: History, said: Said) -> None:
    said.marks[KEY].pop()


def _write_an_event_that_a_mark_misses(history: History, _: Said) -> None:
    history.streams["s"].append(0, {KEY: 19})


def _write_a_late_event_to_a_new_segment(history: History, _: Said) -> None:
    history.streams["s"].append(7, {KEY: 9})


def _write_an_event_above_the_upper(history: History, _: Said) -> None:
    event = history.streams["s"].events.pop()
    history.streams["s"].ends[0] -= 1
    history.streams["s"].append(event.segment, {KEY: 31})


def _leave_out_a_live_writer(history: History, said: Said) -> None:
    history.chains["s", KEY].seen[2] = said.marks[KEY][1] = mark(2, 20, 2, excluded=["w0"])


def _show_a_writer_excluded(_: History, said: Said) -> None:
    said.writers["w0"]["state"] = "excluded"


def _leave_nobody_out(history: History, _: Said) -> None:
    history.silent["s"] = "w9"


def _answer_a_window(window: dict[str, int | None], at: int) -> Spoil:
    def spoil(history: History, _: Said) -> None:
        history.chains["s", KEY].windows.append(WindowSeen({0: at}, window))

    return spoil


def _tell_a_lower_of_no_mark(history: History, _: Said) -> None:
    history.chains["s", KEY].told.add(15)


def _lose_a_report(_: History, said: Said) -> None:
    said.readers[0] = 0


def _make_a_report_up(_: History, said: Said) -> None:
    said.readers[0] = 3


NOTHING = {"lower": None, "lower_seq": None, "upper": None, "upper_seq": None}


def test_a_history_in_which_all_is_well_breaks_no_law(truth: tuple[History, Said]) -> None:
    """Or the other tests would prove nothing."""
    assert _broken(*truth) == set()


@pytest.mark.parametrize(
    ("spoil", "law"),
    [
        (_lose_a_note, "notes last"),
        (_lose_a_position, "notes last"),
        (_lose_a_writer, "notes last"),
        (_make_a_note_up, "notes last"),
        (_bring_the_left_back, "nobody is excluded"),
        (_skip_a_seq, "chains"),
        (_turn_time_back, "chains"),
        (_draw_a_cut_back, "chains"),
        (_change_a_mark, "marks stay"),
        (_forget_a_mark, "marks stay"),
        (_write_an_event_that_a_mark_misses, "marks are sound"),
        (_write_a_late_event_to_a_new_segment, "marks are sound"),
        (_write_an_event_above_the_upper, "uppers are true"),
        (_leave_out_a_live_writer, "nobody is excluded"),
        (_show_a_writer_excluded, "nobody is excluded"),
        (_leave_nobody_out, "nobody is excluded"),
        (_tell_a_lower_of_no_mark, "lowers"),
        (_lose_a_report, "reports last"),
        (_make_a_report_up, "reports last"),
    ],
)
def test_what_is_wrong_with_a_stream_is_told(
    truth: tuple[History, Said], spoil: Spoil, law: str
) -> None:
    """Each law is found _broken by a history that breaks it."""
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
def test_a_window_that_no_mark_allows_is_told(
    truth: tuple[History, Said], at: int, window: dict[str, int | None]
) -> None:
    """A bound of no mark, of another mark, or of one that the position does not allow."""
    _answer_a_window(window, at)(*truth)

    assert _broken(*truth) == {"windows are true"}


def test_a_window_above_an_event_of_later_is_told(truth: tuple[History, Said]) -> None:
    """An event that was written after the window was answered counts as well."""
    truth[0].streams["s"].append(0, {KEY: 9})

    assert "windows are true" in _broken(*truth)


def test_a_mark_that_two_readers_saw_differently_is_told() -> None:
    """At once, whatever the chain is in the end."""
    chain = Chain()
    chain.see([mark(1, 10, 1)], at=0.0)

    assert chain.see([mark(1, 10, 2)], at=1.0) == [f"{mark(1, 10, 2)} was {mark(1, 10, 1)}"]


def test_time_that_does_not_come_to_its_end_is_told(truth: tuple[History, Said]) -> None:
    """Every live writer has noted 21, and the last lower is 20."""
    assert late(truth[0], 21) == ["s/default stands at 20, not 21"]


def test_a_chain_that_stands_is_told(truth: tuple[History, Said]) -> None:
    """It did not grow since it was looked at."""
    history, _ = truth
    since = history.lengths()

    before = history.standing(since)
    history.chains["s", KEY].see([mark(3, 25, 2)], at=2.0)

    assert (before, history.standing(since)) == (["s/default"], [])
