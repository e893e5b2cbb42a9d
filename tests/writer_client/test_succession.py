"""The laws of fencing, of the real outboxes and the real aggregator over a bad network."""

from hypothesis import example, given

from tests.writer_client.successors import Successors, restoring, steps


@given(steps)
def test_a_session_that_lost_a_name_has_no_note_accepted_again(
    played: list[tuple[str, int]],
) -> None:
    """Whatever answers were lost, requests delayed, and clocks ahead."""
    assert Successors().play(played).returned() == []


@given(steps)
def test_no_row_is_below_a_lower_and_beyond_its_cut(played: list[tuple[str, int]]) -> None:
    """Of the rows that a process wrote while it had the name, whichever process takes it over."""
    assert Successors().play(played).missed() == []


@given(steps)
def test_an_upper_that_is_a_bound_is_one(played: list[tuple[str, int]]) -> None:
    """The younger process declares the largest time of what the older one wrote."""
    assert Successors().play(played).beyond() == []


@given(restoring)
def test_a_session_that_lost_a_name_since_a_restore_has_no_note_accepted_again(
    played: list[tuple[str, int]],
) -> None:
    """Whoever takes the name over once more names all from which it was taken before."""
    assert Successors().play(played).returned() == []


RESTORED = [
    *[("note", 0), ("send", 0), ("take", 5), ("backup", 0)],
    *[("start", 0), ("note", 0), ("send", 0), ("take", 5)],
    *[("note", 1), ("send", 1), ("take", 5), ("restore", 0)],
]
"""A process takes the name over from another, which learns it; the database forgets it."""


@given(restoring)
@example(RESTORED)
def test_after_a_restore_no_process_is_fenced_by_one_that_it_had_taken_the_name_from(
    played: list[tuple[str, int]],
) -> None:
    """One that ended long ago does not keep the name: the living one takes it over once more."""
    successors = Successors().play(played).settle()

    assert (successors.noting, successors.fenced & successors.taken) == (
        [successors.owner],
        set(),
    )
