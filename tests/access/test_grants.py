"""What a token grants, as values."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.service.access import EVERYTHING, Grant, Patterns
from noted_time import Rejected

letters = st.text("ab.", max_size=8)
patterns = st.text("ab.*", min_size=1, max_size=8)


@given(patterns, letters)
def test_a_pattern_matches_as_the_regular_expression_of_its_meaning(
    pattern: str, name: str
) -> None:
    """A star is any number of characters, all else is itself."""
    meaning = ".*".join(map(re.escape, pattern.split("*")))

    assert Patterns((pattern,)).match(name) == bool(re.fullmatch(meaning, name, re.DOTALL))


def test_a_pattern_of_many_stars_takes_no_time() -> None:
    """No pattern makes the controller search for long, whatever the name."""
    pattern = Patterns(("*a" * 124 + "b",))
    begun = time.process_time()
    matched = pattern.match("a" * 249)

    assert (matched, time.process_time() - begun < 0.1) == (False, True)


@pytest.mark.parametrize("pattern", ["", "a?", "[ab]", "a/b", "a b", "ä", "a\n", "a" * 250])
def test_a_pattern_of_other_signs_is_refused(pattern: str) -> None:
    """They might be meant as patterns."""
    with pytest.raises(Rejected, match="is not 1 to 249 characters"):
        Patterns((pattern,))


@pytest.mark.parametrize(
    ("scopes", "rights"),
    [
        (["read"], (True, False, False, True)),
        (["write"], (False, True, False, False)),
        (["read", "write"], (True, True, False, True)),
        (["admin"], (True, True, True, True)),
    ],
)
def test_a_scope_gives_its_own_rights_and_no_other(
    scopes: list[str], rights: tuple[bool, ...]
) -> None:
    """To read takes no right to write, nor the other way round."""
    grant = Grant.of(scopes)

    may = (grant.may_read("s"), grant.may_write("s", "w"))
    assert (*may, grant.may_administer(), grant.may_read_all()) == rights


def test_rights_end_at_the_streams_that_are_named() -> None:
    """Reading some streams is not reading all."""
    grant = Grant.of(["read", "write"], ["flights*"])

    may = [grant.may_read("flights-eu"), grant.may_write("flights", "w")]
    may_not = [grant.may_read("trains"), grant.may_write("trains", "w"), grant.may_read_all()]
    assert (may, may_not) == ([True, True], [False, False, False])


def test_a_bound_token_names_the_first_writer_it_may_not_note_for() -> None:
    """In the order in which they come."""
    grant = Grant.of(["write"], writers=["UA", "AA-*"])

    assert grant.first_foreign(["UA", "AA-1", "DL", "B6"]) == "DL"


@pytest.mark.parametrize(
    ("scopes", "streams", "writers", "says"),
    [
        ([], [], [], "a token needs a scope"),
        (["reed"], [], [], "unknown scope 'reed'"),
        (["admin"], ["s"], [], "cannot be limited to streams"),
        (["admin", "write"], [], ["w"], "writers or alignments"),
        (["read"], [], ["w"], "requires --scope write"),
        (["read"], ["a"] * 1001, [], "more than 1000 patterns"),
    ],
)
def test_what_would_narrow_nothing_is_refused(
    scopes: list[str], streams: list[str], writers: list[str], says: str
) -> None:
    """The token would seem narrower than it is."""
    with pytest.raises(Rejected, match=says):
        Grant.of(scopes, streams, writers)


@given(
    st.builds(
        Grant,
        admin=st.booleans(),
        read=st.lists(patterns).map(tuple).map(Patterns),
        write=st.lists(patterns).map(tuple).map(Patterns),
        writers=st.lists(patterns).map(tuple).map(Patterns),
    )
)
def test_a_grant_comes_back_as_it_was_kept(grant: Grant) -> None:
    """Through plain JSON."""
    assert Grant.from_scopes(grant.to_scopes()) == grant


@pytest.mark.parametrize("kept", [{}, {"admin": 1}, {"admin": "true"}, {"writers": ["*"]}])
def test_what_was_not_granted_explicitly_is_not_granted(kept: dict[str, object]) -> None:
    """A row of another make opens nothing."""
    grant = Grant.from_scopes(kept)

    may = (grant.may_read("s"), grant.may_write("s", "w"), grant.may_administer())
    assert (may, EVERYTHING.may_administer()) == ((False, False, False), True)
