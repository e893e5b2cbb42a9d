"""Law: a restart changes no answer, after any act."""

from __future__ import annotations

from contextlib import closing
from copy import deepcopy
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st
from msgspec.json import decode

from controller.aggregation.draft import Draft, Moment
from controller.aggregation.missing import merge_parts
from controller.aggregation.stream import StreamState
from controller.store.sqlite import SqliteStore
from noted_time.answers import EntryAnswer
from noted_time.coding import encode
from noted_time.values import ExclusionReason, StreamSettings
from noted_time.values.settings import ReturningWriter
from tests.support.kept_stream import KeptStream, list_answers, list_next_marks
from tests.support.properties import costly
from tools.trials.memory_store import MemoryStore

WRITERS = ("web", "shop", "till")
DOMAINS = ("default", "ship")
SEGMENTS = 3
RETENTION_MS = 3
SILENT = ("hall", "shop", "till")
TIMEOUT_MS = 100

Act = tuple[str, dict[str, Any]]
"""A method of `KeptStream`, and its arguments."""

_writers = st.sampled_from(WRITERS)
_domains = st.sampled_from(DOMAINS)
_segments = st.integers(0, SEGMENTS - 1)
_returning: st.SearchStrategy[ReturningWriter] = st.sampled_from(("wait", "exclude"))


def _act(name: str, **parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Act]:
    return st.tuples(st.just(name), st.fixed_dictionaries(parts))


_notes = _act(
    "note",
    writer=_writers,
    domain=_domains,
    time=st.integers(0, 30),
    position=st.dictionaries(_segments, st.integers(0, 9), max_size=2),
)
_other_notes = _act(
    "note",
    writer=_writers,
    domain=_domains,
    time=st.none() | st.integers(0, 30),
    position=st.dictionaries(_segments, st.integers(0, 9), max_size=2),
    state=st.sampled_from(("live", "live", "idle", "finished")),
    domains=st.none() | st.sampled_from((DOMAINS, DOMAINS[:1], DOMAINS[1:])),
    from_time=st.none() | st.integers(0, 30),
)
_settings = _act(
    "reconfigure",
    returning_writer=_returning,
    domains=st.just(DOMAINS),
    expected_writers=st.lists(_writers, max_size=2, unique=True).map(tuple),
)
_acts = st.one_of(
    *[_notes] * 4,
    *[_other_notes] * 2,
    *[_act("advance")] * 4,
    *[_act("wait", ms=st.integers(0, 9), expire=st.just(value=True))] * 2,
    _act("remove", writer=_writers, domain=st.none() | _domains),
    _act("suspend_timeout", writer=_writers, ms=st.none() | st.integers(0, 9)),
    _settings,
    _act("forget"),
    _act("age"),
    _act(
        "scale",
        sealed=st.dictionaries(_segments, st.integers(0, 9), max_size=1),
        created=st.dictionaries(
            st.integers(SEGMENTS, 5), st.lists(_segments, max_size=1).map(tuple), max_size=1
        ),
    ),
)
_histories = st.tuples(st.lists(_acts, min_size=6, max_size=25), st.sampled_from(([], ["seal"])))
_starts = st.builds(
    StreamSettings,
    writer_timeout_ms=st.integers(3, 12),
    writer_retention_ms=st.just(RETENTION_MS),
    returning_writer=_returning,
    domains=st.sampled_from((DOMAINS, DOMAINS[:1])),
    expected_writers=st.sampled_from(((), ("web", "shop"))),
)


def find_changes(kept_stream: KeptStream) -> list[tuple[str, object, object]]:
    """Return the questions that the stream, read again, answers differently."""
    loaded_stream = kept_stream.load_again()
    original = deepcopy(kept_stream.stream)
    before = answer_all(original, kept_stream.moment)
    after = answer_all(loaded_stream, kept_stream.moment)
    changes = list[tuple[str, object, object]]()
    for question in {**before, **after}:
        if before.get(question) != after.get(question):
            changes.append((question, before.get(question), after.get(question)))
    return changes


def answer_all(stream: StreamState, moment: Moment) -> dict[str, object]:
    """Return the answer to each question, and the next marks."""
    answers = dict(list_answers(stream, moment))
    answers.update(list_next_marks(stream, moment))
    return answers


def replay(kept_stream: KeptStream, acts: list[Act]) -> None:
    for number, (name, parts) in enumerate(acts):
        getattr(kept_stream, name)(**parts)
        changes = find_changes(kept_stream)
        assert changes == [], (number, name, parts)


_OUTLIVING: list[Act] = [
    ("note", {"writer": "web", "time": 5}),
    ("note", {"writer": "shop", "time": 5}),
    ("advance", {}),
    ("note", {"writer": "web", "time": 9}),
    ("wait", {"ms": 12, "expire": True}),
    ("advance", {}),
    ("age", {}),
]
"""The entry of a missing writer is deleted from the ledger, and only the member keeps it."""

_FORGETTING: list[Act] = [("wait", {"ms": 9, "expire": False}), ("forget", {})]
_RETURNING: list[Act] = [
    ("note", {"writer": "shop", "time": 10}),
    ("note", {"writer": "web", "time": 10}),
    ("advance", {}),
]
_SILENT_TOGETHER: list[Act] = [
    ("note", {"writer": "web", "time": 5}),
    ("note", {"writer": "shop", "time": 5}),
    ("note", {"writer": "till", "time": 5}),
    ("advance", {}),
    ("wait", {"ms": 12, "expire": False}),
    ("note", {"writer": "till", "time": 9}),
    ("wait", {"ms": 0, "expire": True}),
    ("advance", {}),
]
"""One mark names two writers."""

_SILENT_AGAIN: list[Act] = [
    ("wait", {"ms": 12, "expire": False}),
    ("note", {"writer": "till", "time": 12}),
    ("wait", {"ms": 0, "expire": True}),
    ("advance", {}),
]
_REMOVING: list[Act] = [
    ("remove", {"writer": "shop"}),
    ("note", {"writer": "web", "time": 10}),
    ("advance", {}),
]
_MISTAKING: list[Act] = [
    ("note", {"writer": "web", "time": 14, "position": {0: 9}}),
    ("remove", {"writer": "web"}),
    ("note", {"writer": "web", "time": 3, "position": {0: 9}}),
]
_SILENCE = StreamSettings(writer_timeout_ms=12, writer_retention_ms=RETENTION_MS)


@example(settings=_SILENCE, history=(_OUTLIVING + _FORGETTING, []))
@example(settings=_SILENCE, history=(_OUTLIVING + _RETURNING, []))
@example(settings=_SILENCE, history=(_OUTLIVING + _REMOVING, []))
@example(settings=_SILENCE, history=(_MISTAKING, []))
@given(settings=_starts, history=_histories)
def test_restart_changes_no_answer(
    settings: StreamSettings, history: tuple[list[Act], list[str]]
) -> None:
    acts, ends = history
    kept_stream = KeptStream(MemoryStore(), settings)
    replay(kept_stream, acts + [(name, {}) for name in ends])
    mark_count = sum(len(history) for history in kept_stream.stream.histories.values())
    event(f"marks: {mark_count}")


@costly(10)
@given(settings=_starts, history=_histories)
def test_restart_from_a_file_changes_no_answer(
    database_template: Path, settings: StreamSettings, history: tuple[list[Act], list[str]]
) -> None:
    """The same over SQLite."""
    acts, ends = history
    with (
        TemporaryDirectory() as directory,
        closing(SqliteStore(copy(database_template, directory))) as store,
    ):
        replay(KeptStream(store, settings), acts + [(name, {}) for name in ends])


@example(settings=_SILENCE, history=(_SILENT_TOGETHER + _FORGETTING, []))
@example(settings=_SILENCE, history=(_SILENT_TOGETHER + _RETURNING + _SILENT_AGAIN, []))
@given(settings=_starts, history=_histories)
def test_restart_completes_rows_from_the_ledger(
    settings: StreamSettings, history: tuple[list[Act], list[str]]
) -> None:
    """The rows of writers that a mark names are not written before their next change."""
    acts, ends = history
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("controller.aggregation.stream.NAMED_AT_ONCE", 1)
        patch.setattr("controller.aggregation.draft.POSTPONED_AT_ONCE", 0)
        kept_stream = KeptStream(MemoryStore(), settings)
        replay(kept_stream, acts + [(name, {}) for name in ends])


def restart(kept_stream: KeptStream) -> None:
    loaded_stream = kept_stream.load_again()
    kept_stream.streams.remove(kept_stream.stream)
    kept_stream.streams.add(loaded_stream)


def let_all_fall_silent(kept_stream: KeptStream) -> None:
    for number, writer in enumerate(SILENT):
        kept_stream.note(writer, time=number)
    kept_stream.note("web", time=20)
    kept_stream.advance()
    kept_stream.now += TIMEOUT_MS
    kept_stream.note("web", time=30)


@pytest.mark.parametrize("parts", range(len(SILENT)))
def test_crash_between_parts_of_a_mark_changes_nothing(
    parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next mark names all writers, and the parts of before have no meaning."""
    monkeypatch.setattr("controller.aggregation.stream.NAMED_AT_ONCE", 1)
    kept_stream = KeptStream(MemoryStore(), StreamSettings(writer_timeout_ms=TIMEOUT_MS))
    let_all_fall_silent(kept_stream)
    kept_stream.stream._next_mark_at = {"default": kept_stream.now}

    def exclude_and_advance(draft: Draft) -> None:
        kept_stream.stream.exclude_silent_writers(draft)
        kept_stream.stream.advance_due(draft)

    kept_stream.commit(exclude_and_advance)
    for _ in range(parts):
        kept_stream.commit(kept_stream.stream.advance_due)
    was_naming = kept_stream.stream.is_naming

    restart(kept_stream)
    for writer in SILENT:
        (track,) = kept_stream.stream.aggregator.member(writer).tracks
        assert track.membership.is_unreported
        assert track.membership.reported is None
    kept_stream.advance()

    (mark,) = kept_stream.stream.history("default").after(1, 10)
    assert was_naming
    assert (mark.excluded, find_changes(kept_stream)) == (SILENT, [])
    entries = kept_stream.store.ledger(kept_stream.stream.id, "default", after=1, limit=10)
    answer, count = merge_parts(entries[0], kept_stream.store)
    named_writers = [writer.writer for writer in decode(encode(answer), type=EntryAnswer).writers]
    assert ([entry.part_count for entry in entries], named_writers, count) == ([2], [*SILENT], 3)


def list_exclusions(kept_stream: KeptStream) -> list[ExclusionReason | None]:
    return [kept_stream.stream.aggregator.member(writer).excluded for writer in SILENT]


@pytest.mark.parametrize("pieces", range(len(SILENT) + 1))
def test_crash_between_exclusions_loses_none(pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was excluded before the crash stays so; the others time out anew."""
    monkeypatch.setattr("controller.aggregation.stream.EXCLUDED_AT_ONCE", 1)
    kept_stream = KeptStream(MemoryStore(), StreamSettings(writer_timeout_ms=TIMEOUT_MS))
    let_all_fall_silent(kept_stream)
    for _ in range(pieces):
        kept_stream.commit(kept_stream.stream.exclude_silent_writers)
    exclusions = list_exclusions(kept_stream)

    restart(kept_stream)
    after_crash = list_exclusions(kept_stream)
    kept_stream.advance()
    kept_stream.now += TIMEOUT_MS
    kept_stream.note("web", time=40)
    for _ in range(len(SILENT) + 1):
        kept_stream.commit(kept_stream.stream.exclude_silent_writers)
    kept_stream.advance()

    marks = kept_stream.stream.history("default").after(0, 10)
    excluded_writers = list[str]()
    for mark in marks:
        excluded_writers += mark.excluded
    assert exclusions == after_crash == ["timed_out"] * pieces + [None] * (len(SILENT) - pieces)
    assert (sorted(excluded_writers), marks[-1].lower) == (sorted(SILENT), 40)
