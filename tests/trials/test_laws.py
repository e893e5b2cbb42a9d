"""Laws can fail: small histories with one fault each break the law of that fault only."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from tests.trials.actors.collecting import Said
from tests.trials.actors.history import Chain, History
from tests.trials.actors.judging import judge
from tests.trials.actors.load import LoadWriter, ScaledStream
from tests.trials.facts import Answer, Look, Scaling, WindowSeen

if TYPE_CHECKING:
    from collections.abc import Callable

    Spoil = Callable[[History, Said], object]


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
    history = History({"s": stream}, reported={"s": {1: 1}}, reporting={"s": {1: 1}})
    windows = [
        WindowSeen({0: 1}, window(20, 2, 2), least=20),
        WindowSeen({2: 0}, window(20, 2, 3)),
        WindowSeen({1: 1}, window(30, 3, 3)),
    ]
    history.chains["s", KEY] = Chain(
        seen={mark["seq"]: mark for mark in marks},
        windows=windows,
        answers=[Answer(0, marks)],
        looks=[Look(0.0, 1.0, 20), Look(1.5, 2.0, 30)],
        sent=[(0.5, 30)],
        lower=30,
        followers=[3, 3],
        first_asked=2,
        first_heard=2,
        scaled_at=[2],
    )
    row = {"writer": "w0", "state": "live", "times": {KEY: 30}, "position": {"0": 2, "1": 1}}
    answer = Said({"w0": row}, {KEY: [dict(mark) for mark in marks[1:]]}, {1: 1}, [SPLIT.to_wire()])
    return history, answer


def _broken(history: History, answer: Said) -> set[str]:
    judge(history, {"s": answer})
    return {violation.law for violation in history.violations}


def split_elsewhere(_: History, answer: Said) -> None:
    answer.scale_events[0].update(sealed={"0": 1})


def mark_a_part(history: History, answer: Said) -> None:
    history.chains["s", KEY].seen[3] = answer.marks[KEY][1] = mark(3, 30, s0=1, s1=1)
    history.chains["s", KEY].windows.clear()
    history.chains["s", KEY].answers.clear()


def keep_a_truncated_mark(history: History, answer: Said) -> None:
    answer.marks[KEY].insert(0, dict(history.chains["s", KEY].seen[1]))


def write_to_a_sealed_segment(history: History, _: Said) -> None:
    history.streams["s"].append(0, {KEY: 29})


def leave_out_a_mark(_: History, answer: Said) -> None:
    answer.marks[KEY].append(mark(5, 35, s0=2, s1=1))


def add_answer(history: History, answer: Answer) -> None:
    history.chains["s", KEY].answers.append(answer)


def repeat_a_mark(history: History, answer: Said) -> None:
    add_answer(history, Answer(3, answer.marks[KEY][-1:]))


def change_a_mark(history: History, _: Said) -> None:
    add_answer(history, Answer(1, [mark(2, 21, s0=1)]))


def skip_a_mark(history: History, answer: Said) -> None:
    add_answer(history, Answer(1, answer.marks[KEY][1:]))


def swap_marks(history: History, answer: Said) -> None:
    add_answer(history, Answer(1, answer.marks[KEY][::-1], first=3))


def lose_a_note(_: History, answer: Said) -> None:
    answer.writers["w0"].update(times={KEY: 20})


def exclude_nobody(history: History, _: Said) -> None:
    history.silent.update(s="w9")


def put_the_last_event_above(history: History, _: Said) -> None:
    event = history.streams["s"].events.pop()
    history.streams["s"].ends[event.segment] -= 1
    history.streams["s"].append(event.segment, {KEY: 41})


def look_too_early(history: History, _: Said) -> None:
    history.chains["s", KEY].looks.append(Look(0.0, 0.1, 30))


def lose_a_report(_: History, answer: Said) -> None:
    answer.readers.update({1: 0})


SPOILT: dict[str, tuple[set[str], Spoil]] = {
    "split elsewhere": ({"scalings last"}, split_elsewhere),
    "part of a cut": ({"cuts are complete"}, mark_a_part),
    "not truncated": ({"marks begin"}, keep_a_truncated_mark),
    "sealed and written": ({"marks are sound", "windows are true"}, write_to_a_sealed_segment),
    "gap": ({"answers have no gaps"}, leave_out_a_mark),
    "again": ({"marks come once"}, repeat_a_mark),
    "changed": ({"marks never change"}, change_a_mark),
    "skipped": ({"answers resume anywhere"}, skip_a_mark),
    "not in order": ({"marks are ordered"}, swap_marks),
    "lost note": ({"notes last"}, lose_a_note),
    "none out": ({"exclusions are due"}, exclude_nobody),
    "above": ({"uppers are true"}, put_the_last_event_above),
    "lower unheard of": ({"lowers are noted"}, look_too_early),
    "lost report": ({"reports last"}, lose_a_report),
}
"""The laws that are broken, and by what."""


def test_history_without_fault_breaks_no_law(truth: tuple[History, Said]) -> None:
    """Or the other tests would prove nothing."""
    assert _broken(*truth) == set()


@pytest.mark.parametrize(("laws", "spoil"), SPOILT.values(), ids=SPOILT)
def test_spoilt_history_breaks_its_laws_only(
    truth: tuple[History, Said], laws: set[str], spoil: Spoil
) -> None:
    """No others, also over sealed segments and behind truncated marks."""
    spoil(*truth)

    assert _broken(*truth) == laws
