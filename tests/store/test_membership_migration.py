"""The revision that stores a status for six flags: each combination that was stored before."""

from __future__ import annotations

import importlib
import json
from contextlib import closing
from itertools import product
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest
import sqlalchemy as sa

from controller.aggregation.stream import StreamState
from controller.store import migrate as migrating
from controller.store.migrate import migrate, read_revision
from controller.store.open import open_store
from controller.store.records import StoredMembership
from controller.store.schema import SCHEMA_REVISION
from noted_time.rules import Membership
from noted_time.rules.membership import ABSENT_STATUSES, STATUS_EFFECTS
from tests.store.test_migrate import connect

REVISION = importlib.import_module("migrations.versions.0002_membership")
LAST = REVISION.LastMark(4, 40)
NAMED = {"seq": 3, "reason": "timed_out", "began_at": 7, "last_time": 20, "from_time": 20}
EXCLUSION = {"reason": "timed_out", "excluded_at": 7}
STATUSES: set[str] = set().union(*STATUS_EFFECTS)


def list_timelines() -> list[dict[str, Any]]:
    flags = product((None, EXCLUSION), (False, True), (None, 9), (None, 0, 3, 4))
    return [
        {
            "spells": [{"from_seq": 1, "to_time": 20}],
            "exclusion": exclusion,
            "returned_below": returned_below,
            "narrowed_at": narrowed_at,
            "absent_after_seq": after,
        }
        for exclusion, returned_below, narrowed_at, after in flags
    ]


@pytest.mark.parametrize("state", ["live", "idle", "finished"])
@pytest.mark.parametrize("excluded", [None, "timed_out", "removed"])
@pytest.mark.parametrize("vouches", [True, False])
@pytest.mark.parametrize("time", [None, 20, 40])
@pytest.mark.parametrize("last", [None, LAST])
@pytest.mark.parametrize("absence", [None, NAMED])
def test_each_combination_has_one_status(  # noqa: PLR0913, PLR0917 - all facts
    state: str,
    excluded: str | None,
    vouches: bool,  # noqa: FBT001 - a parameter
    time: int | None,
    last: Any,  # noqa: ANN401 - a mark of the revision
    absence: dict[str, Any] | None,
) -> None:
    """What it says of an absence is what a restart inferred from the flags."""
    member = REVISION.Member(state, excluded, vouches, time)
    for timeline in list_timelines():
        row = REVISION.convert(timeline, member, last, absence)
        membership = msgspec.convert(row, Membership)

        assert membership.status in STATUSES
        assert vouches or membership.status in {"narrowed", "not_joined"}
        assert not membership.is_unreported or membership.is_absent
        is_absent = (
            membership.status in ABSENT_STATUSES and timeline["absent_after_seq"] is not None
        )
        if is_absent and membership.status != "removed":
            assert membership.is_unreported or membership.reported is not None
        if absence is not None:
            assert membership.reported is not None
            assert membership.reported.seq == absence["seq"]


@pytest.mark.parametrize(
    ("timeline", "member", "expected"),
    [
        ({}, ("live", None, True, 50), Membership("counted")),
        ({"spells": []}, ("idle", None, True, None), Membership("idle", ())),
        (
            {"exclusion": EXCLUSION, "absent_after_seq": 4},
            ("live", "timed_out", True, 50),
            Membership("timed_out", reason="timed_out", began_at=7, is_unreported=True),
        ),
        (
            {"returned_below": True, "exclusion": EXCLUSION, "absent_after_seq": 4},
            ("live", None, True, 20),
            Membership("returned_below", reason="timed_out", began_at=7, is_unreported=True),
        ),
        (
            {"narrowed_at": 9, "absent_after_seq": 4},
            ("live", None, False, 20),
            Membership("narrowed", reason="narrowed", began_at=9, is_unreported=True),
        ),
        (
            {"exclusion": EXCLUSION, "absent_after_seq": 2},
            ("live", "removed", True, 50),
            Membership("removed", reason="timed_out", began_at=7),
        ),
        ({"joined_after_seq": 4}, ("live", None, True, 50), Membership(joined_after_seq=4)),
    ],
)
def test_timeline_becomes_a_status(
    timeline: dict[str, Any], member: tuple[Any, ...], expected: Membership
) -> None:
    row = REVISION.convert(timeline, REVISION.Member(*member), LAST, None)

    assert msgspec.convert(row, Membership) == expected


def insert(connection: sa.Connection, table: str, **row: object) -> None:
    columns: list[sa.ColumnClause[Any]] = [sa.column(name) for name in row]
    table_clause = sa.table(f"noted_time_{table}", *columns)
    connection.execute(table_clause.insert().values(row))


def insert_stream(connection: sa.Connection) -> None:
    """Insert a stream that a version before has stored: DL is missing, and AA has returned."""
    row: dict[str, Any]
    settings = {"writer_timeout_ms": 60000}
    record: dict[str, Any] = {"id": "id-1", "name": "flights", "settings": settings}
    insert(connection, "stream", id="id-1", name="flights", record=json.dumps(record))
    for writer, reason in (("UA", None), ("DL", "timed_out"), ("AA", None)):
        other_values = None if reason is None else json.dumps({"excluded": reason})
        insert(
            connection,
            "member",
            stream_id="id-1",
            writer=writer,
            state="live",
            position=json.dumps({"0": 5}),
            times=json.dumps({"default": 40 if writer == "UA" else 20}),
            max_times="{}",
            noted_served_ms=5,
            changed_served_ms=5,
            sequence=1,
            others=other_values,
        )
    for writer in ("DL", "AA"):
        timeline: dict[str, Any] = {
            "spells": [{"from_seq": 1, "to_time": 20}],
            "exclusion": EXCLUSION,
        }
        timeline |= {"absent_after_seq": 1} if writer == "DL" else {}
        record = {"stream_id": "id-1", "domain": "default", "writer": writer, "timeline": timeline}
        row = {"stream_id": "id-1", "domain": "default", "writer": writer}
        insert(connection, "timeline", **row, record=json.dumps(record))
    for seq, lower in ((1, 10), (2, 40)):
        insert(
            connection,
            "mark",
            stream_id="id-1",
            domain="default",
            seq=seq,
            lower=lower,
            upper=50,
            cut=json.dumps({"0": 5}),
            written_at=9,
            excluded="[]",
            appended_served_ms=9,
            upper_is_bound=False,
            final=False,
            whole=True,
        )
    names = ("DL", "AA")
    writers = [
        {"writer": name, "reason": "timed_out", "began_at": 7, "last_time": 20, "from_time": 20}
        for name in names
    ]
    answer = {"seq": 2, "at": 9, "from_lower": 10, "to_lower": 40, "writers": writers}
    entry = {"stream_id": "id-1", "domain": "default", "appended_served_ms": 9, "answer": answer}
    row = {"stream_id": "id-1", "domain": "default", "seq": 2, "appended_served_ms": 9}
    insert(connection, "ledger", **row, record=json.dumps(entry))


def test_stored_rows_are_converted(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is read again, and its next mark counts whom it counted before."""
    with monkeypatch.context() as patch:
        patch.setattr(migrating, "SCHEMA_REVISION", "0001b")
        patch.setattr(migrating, "_check_tables", Mock())  # they are those of the last revision
        migrate(empty)
    with connect(empty) as connection, connection.begin():
        insert_stream(connection)
    migrate(empty)

    assert read_revision(empty) == SCHEMA_REVISION
    with closing(open_store(empty)) as store:
        statuses = {}
        for stored_membership in store.load(StoredMembership, "id-1"):
            statuses[stored_membership.writer] = stored_membership.membership.status
        (record,) = store.streams()
        stream = StreamState.load(record, store)
    assert statuses == {"DL": "timed_out", "AA": "counted"}
    roster = stream.aggregator.domains["default"].roster
    assert roster.missing == {"DL", "AA"}
    assert stream.missing["default"].open_writers == {"DL", "AA"}
