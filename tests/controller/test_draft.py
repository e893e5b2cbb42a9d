"""What a draft is going to write, whatever is changed more than once in it."""

from __future__ import annotations

from controller.aggregation.draft import MANY, Draft, Moment
from controller.aggregation.stream import StreamState
from noted_time import Note
from tests.support.stored import stream


def drafted(writers: int) -> tuple[Draft, StreamState]:
    """Return a draft of one request of so many writers, and their stream."""
    state, draft = StreamState(stream()), Draft.at(Moment(0, 0, 0))
    state.take_notes([Note(f"w{n:03}", state="left") for n in range(writers)], draft, 10_000)
    return draft, state


def told(draft: Draft) -> set[str]:
    """Return whose records are written."""
    return {each.writer for one in draft.finished().told for each in one.records()}


def test_a_large_request_has_its_records_made_at_once() -> None:
    """A small one when the batch is finished, so that who notes again is written once."""
    draft, _ = drafted(MANY)
    small, _ = drafted(MANY - 1)

    assert [len(one.batch.told) for one in (draft, small)] == [1, 0]
    assert [one.finished().records for one in (draft, small)] == [MANY, MANY - 1]


def test_who_is_forgotten_is_written_no_more() -> None:
    """Whether its record was made already or not."""
    for writers in (MANY, MANY - 1):
        draft, state = drafted(writers)
        draft.forget(state, ["w001", "w003"])

        assert told(draft) == {f"w{n:03}" for n in range(writers)} - {"w001", "w003"}
        assert draft.batch.forgotten_members == [("id-1", "w001"), ("id-1", "w003")]


def test_a_dropped_stream_is_written_no_more() -> None:
    """Nothing but that it goes."""
    draft, state = drafted(MANY)
    draft.drop(state)

    assert (told(draft), draft.batch.dropped, draft.is_empty) == (set(), ["id-1"], False)


def test_a_request_of_many_is_something_to_write() -> None:
    """Though no record waits to be made."""
    assert not drafted(MANY)[0].is_empty
