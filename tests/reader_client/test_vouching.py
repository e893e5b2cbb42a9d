"""A reader's list of the writers that vouched for rows."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from msgspec.structs import replace

from controller.service import maintenance
from noted_time import Rejected, UnknownDomain
from noted_time.analysis import WriterPromise
from noted_time.answers import WritersPage
from noted_time.client import Question, run
from noted_time.client.transport import Transport
from noted_time.values import MAX_INT64, Spell
from reader_client.protocol import vouching
from reader_client.protocol.vouching import NotedMarksAnswer, read_noted
from tools.trials.served import Served
from tools.trials.waiting import wait_until


@pytest.fixture
def stream(served: Served) -> str:
    """Return a stream of two writers with a segment each, and a mark at 10."""
    name = served.new(returning_writer="exclude", max_time_ahead_ms=None)
    served.post(name, {"writer": "a"}, {"writer": "b"})
    note(served, name, "a", 10, {"0": 1})
    note(served, name, "b", 10, {"1": 1})
    return name


def note(served: Served, stream: str, writer: str, time: int, position: dict[str, int]) -> None:
    served.post(stream, {"writer": writer, "time": time, "position": position})


def read(
    served: Served, stream: str, domain: str | None = None, **changes: object
) -> NotedMarksAnswer:
    """Ask for everything, with changed fields in the pages of writers."""

    def ask(question: Question[Any]) -> Any:  # noqa: ANN401 - any answer
        answer = transport.ask(question)
        return replace(answer, **changes) if isinstance(answer, WritersPage) else answer

    with closing(Transport(served.url)) as transport:
        return run(read_noted(stream, domain), ask)


def test_writers_that_pause_or_join_later_vouch_in_periods(served: Served, stream: str) -> None:
    """The ledger says why marks advanced without them."""
    served.post(stream, {"writer": "b", "state": "idle"})
    note(served, stream, "a", 20, {"0": 2})
    note(served, stream, "b", 15, {"1": 2})
    note(served, stream, "a", 30, {"0": 3})
    note(served, stream, "b", 40, {"1": 3})
    served.post(stream, {"writer": "c"})
    note(served, stream, "a", 50, {"0": 4})
    note(served, stream, "c", 50, {"2": 1})
    served.call("DELETE", f"/{stream}/writers/a")
    note(served, stream, "b", 60, {"1": 4})
    note(served, stream, "c", 60, {"2": 2})
    vouching = read(served, stream)

    assert list(vouching.marks.lowers) == [10, 20, 30, 40, 50, 60]
    assert vouching.promises == {
        "a": WriterPromise([Spell(1, 40)], [(5, MAX_INT64, "removed")]),
        "b": WriterPromise([Spell(1, 10), Spell(4)], [(3, 3, "returned_below")]),
        "c": WriterPromise([Spell(5)], [(0, 3, "not_joined"), (4, 4, "returned_below")]),
    }
    assert vouching.owners == {0: ("a", 1), 1: ("b", 1), 2: ("c", 1)}


def test_segment_noted_by_several_has_no_owner(served: Served, stream: str) -> None:
    """They are members, observers, and forgotten writers with rows in marks."""
    served.post(stream, {"writer": "eye", "observes": True, "position": {"4": 1}})
    note(served, stream, "b", 11, {"0": 1})
    vouching = read(served, stream)

    assert (vouching.owners, "eye" in vouching.promises) == ({1: ("b", 1)}, False)
    served.create(stream, returning_writer="exclude", max_time_ahead_ms=None, writer_retention_ms=1)
    note(served, stream, "c", 11, {"1": 9})
    served.post(
        stream,
        {"writer": "c", "state": "finished"},
        {"writer": "eye", "observes": True, "state": "idle"},
    )
    note(served, stream, "a", 12, {"0": 2})
    note(served, stream, "b", 12, {"1": 2})
    assert read(served, stream).owners == {}


def test_segment_has_an_owner_after_others_are_forgotten(
    served: Served, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows below the cut may belong to a forgotten writer; the only member owns the rest."""
    note(served, stream, "c", 11, {"2": 5})
    served.create(stream, returning_writer="exclude", max_time_ahead_ms=None, writer_retention_ms=1)
    served.post(stream, {"writer": "c", "state": "finished"})
    note(served, stream, "a", 12, {"0": 2})
    note(served, stream, "b", 12, {"1": 2})
    monkeypatch.setattr(maintenance, "FORGET_EVERY_MS", 0)
    wait_until(lambda: served.get(f"{stream}/writers")["total"] == 2)
    note(served, stream, "a", 20, {"0": 4, "2": 7})
    note(served, stream, "b", 20, {"1": 2})
    note(served, stream, "b", 30, {"1": 3})

    assert read(served, stream).owners == {0: ("a", 4), 1: ("b", 3), 2: ("a", 7)}


def test_segment_has_no_owner_with_an_older_controller(served: Served, stream: str) -> None:
    vouching = read(served, stream, forgotten_seq=None)

    assert (vouching.owners, sorted(vouching.promises)) == ({}, ["a", "b"])


def test_lists_are_read_page_by_page(
    served: Served, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vouching, "ROWS_PER_PAGE", 1)

    assert sorted(read(served, stream).promises) == ["a", "b"]


def test_vouching_without_mark_or_domain_raises(served: Served) -> None:
    name = served.new()

    with pytest.raises(Rejected, match="has no mark in default yet"):
        read(served, name)
    with pytest.raises(UnknownDomain):
        read(served, name, "ship_time")
    served.create(name, domains=["default", "ingestion"])
    with pytest.raises(Rejected, match="marks of ingestion say when rows came in"):
        read(served, name, "ingestion")
