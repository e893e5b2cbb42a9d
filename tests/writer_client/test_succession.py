"""The laws of fencing, of the real outboxes and the real aggregator over a bad network."""

from hypothesis import given

from tests.writer_client.successors import Successors, steps


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
