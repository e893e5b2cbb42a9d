"""Which of two processes of one writer name may note (S15)."""

from dataclasses import replace

import pytest

from noted_time import Accepted, Note, Refused
from noted_time.values import Session
from noted_time.values.fencing import FORMER_KEPT, Former
from tests.support.streams import deliver, restarted, stream_of

OLDER = Session("older", "a:1", 0)
YOUNGER = Session("younger", "b:2", 7, (Former("older", "a:1"),))


def older(time: int | None = None, *, takes_over: bool = False, **facts: object) -> Note:
    """Return a note of the process that was there first."""
    return Note("UA", time, session="older", takes_over=takes_over, label="a:1", **facts)  # type: ignore[arg-type]


def younger(time: int | None = None, *, takes_over: bool = True, **facts: object) -> Note:
    """Return a note of the process that takes over."""
    return Note("UA", time, session="younger", takes_over=takes_over, label="b:2", **facts)  # type: ignore[arg-type]


def test_the_younger_process_takes_over_and_the_older_is_fenced() -> None:
    """The refusal names the process that has the name now, and since when."""
    stream = stream_of()
    deliver(stream, older(5))

    answers = deliver(stream, younger(6), older(7), older(8, takes_over=True), now=7)

    accepted = Accepted(None, took_over=("older",))
    assert answers == [accepted, *[Refused("fenced", YOUNGER)] * 2]


def test_a_session_that_does_not_take_over_is_fenced() -> None:
    """Also one that joins: a join delayed on its way must not take the name back."""
    stream = stream_of()
    deliver(stream, older(5))

    answers = deliver(stream, younger(takes_over=False))

    assert answers == [Refused("fenced", OLDER)]


def test_a_fenced_note_changes_nothing_and_is_no_sign_of_life() -> None:
    """Neither its time, nor its position, nor its terms count."""
    stream = stream_of()
    deliver(stream, older(5), younger(6), now=7)
    before = stream.record("UA")

    deliver(stream, older(8, position={0: 9}, timeout_ms=5), now=50)

    assert stream.record("UA") == before


def test_a_session_takes_the_name_over_once_more_from_one_it_had_taken_it_from() -> None:
    """All that it names have lost the name then; from any other session it takes nothing."""
    stream = stream_of()
    deliver(stream, older(5))
    third = Note("UA", 6, session="third", took_over=("younger", "older"))

    answers = deliver(stream, third, younger(7), replace(third, session="fourth"), now=7)

    held = Session("third", "", 7, (Former("younger", ""), Former("older", "a:1")))
    assert answers == [Accepted(None), *[Refused("fenced", held)] * 2]


@pytest.mark.parametrize(
    ("note", "status"),
    [
        (younger(4), "invalid_time"),
        (younger(6, position={0: 1}), "invalid_position"),
        (younger(6, domain="nonsense"), "unknown_domain"),
    ],
)
def test_a_note_refused_for_anything_else_takes_nothing_over(note: Note, status: str) -> None:
    """The older process continues as if the younger had not come."""
    stream = stream_of()
    deliver(stream, older(5, position={0: 3}))

    refused, accepted = deliver(stream, note, older(6))

    assert (getattr(refused, "status", None), accepted) == (status, Accepted(None))


def test_superseded_and_sealed_are_judged_first_and_then_fencing() -> None:
    """An overtaken request is superseded even if fenced; an invalid fenced one is fenced."""
    stream = stream_of()
    deliver(stream, older(5, sequence=3), younger(6, sequence=9), now=7)

    answers = deliver(stream, older(7, sequence=8), older(7, sequence=9, domain="nonsense"))

    assert answers == [Refused("superseded", 9), Refused("fenced", YOUNGER)]


def test_a_note_without_a_session_is_taken_as_ever() -> None:
    """Sent manually, or from another language: it neither takes over nor is fenced."""
    stream = stream_of()

    answers = deliver(stream, Note("UA", 5), older(6), Note("UA", 7), older(8))

    assert answers == [Accepted(None)] * 4


def test_who_has_the_name_outlives_the_process_of_the_controller() -> None:
    """And the process that lost it."""
    stream = stream_of()
    deliver(stream, older(5), younger(6), now=7)

    answers = deliver(restarted(stream), older(8, takes_over=True), younger(8, takes_over=False))

    assert answers == [Refused("fenced", YOUNGER), Accepted(None)]


def test_the_last_eight_that_lost_the_name_are_remembered() -> None:
    """Each of them is fenced for good."""
    stream = stream_of()
    sessions = [f"s{number}" for number in range(FORMER_KEPT + 2)]
    deliver(stream, *(Note("UA", session=each, takes_over=True) for each in sessions))

    lost = [each.id for each in stream.member("UA").session.lost]

    assert lost == sessions[1:-1]


def test_a_name_that_was_lost_to_nobody_is_not_given_back() -> None:
    """The next process has it without taking it over; version 0.1.0 left names so."""
    stream = stream_of()
    deliver(stream, older(5))
    nobody = Session(None, "", 9, (Former("older", "a:1"),))
    stream.member("UA").session = nobody

    answers = deliver(stream, older(6, takes_over=True), younger(6, takes_over=False))

    assert answers == [Refused("fenced", nobody), Accepted(None)]
