"""What a draft is going to write, whatever is changed more than once in it."""

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.stream import StreamState
from noted_time import Note
from tests.support.stored import stream

WRITERS = [f"w{n}" for n in range(5)]


def drafted() -> tuple[Draft, StreamState]:
    """Return a draft of one request of five writers, and their stream."""
    state, draft = StreamState(stream()), Draft.at(Moment(0, 0, 0))
    state.take_notes([Note(writer) for writer in WRITERS], draft, 10_000)
    return draft, state


def written(draft: Draft) -> list[str]:
    """Return whose records are written."""
    return sorted(record.writer for _, record in draft.finished().members)


def test_who_notes_more_than_once_is_written_once() -> None:
    """As its last note left it."""
    draft, state = drafted()
    state.take_notes([Note("w0", 3), Note("w0", 4)], draft, 10_000)

    members = [each for _, each in draft.finished().members if each.writer == "w0"]
    assert [(each.state, each.times) for each in members] == [("live", {"default": 4})]


def test_what_is_noted_after_a_draft_is_finished_does_not_change_it() -> None:
    """It is written on another thread meanwhile."""
    state, draft = StreamState(stream()), Draft.at(Moment(0, 0, 0))
    state.take_notes([Note("a", 1, {0: 1})], draft, 10)
    batch = draft.finished()
    state.take_notes([Note("a", 2, {0: 2})], Draft.at(Moment(0, 0, 0)), 10)

    assert [(each.times, each.position) for _, each in batch.members] == [({"default": 1}, {0: 1})]


def test_who_is_forgotten_is_written_no_more() -> None:
    """Though it noted in the same commit."""
    draft, state = drafted()
    draft.forget(state, ["w3", "w1"])

    assert written(draft) == ["w0", "w2", "w4"]
    assert draft.batch.forgotten_members == [("id-1", "w1"), ("id-1", "w3")]


def test_a_dropped_stream_is_written_no_more() -> None:
    """Nothing but that it goes."""
    draft, state = drafted()
    draft.batch.streams.append(state.record)
    draft.drop(state)

    assert (written(draft), draft.batch.streams, draft.batch.dropped, draft.is_empty) == (
        [],
        [],
        ["id-1"],
        False,
    )


def test_notes_are_something_to_write() -> None:
    """Though no record is created before the draft is finished."""
    assert (drafted()[0].is_empty, Draft.at(Moment(0, 0, 0)).is_empty) == (False, True)
