"""Store the status of a member in a domain as one value.

Before, a row had six flags, and a restart inferred from them whether a mark had named an absence.
This infers it a last time, from the last mark and from the ledger. A member without a row has none
afterwards either: what its domain then assumes is in `Roster.find_default`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001b"
branch_labels = None
depends_on = None

oldest_code = "0002"

Row = dict[str, Any]

FROM_FIRST_MARK = [{"from_seq": 1, "to_time": None}]
ABSENT = ("timed_out", "removed", "returned_below", "narrowed")
KEPT_FACTS = ("joined_after_seq", "first_time", "from_time")
ROWS_AT_ONCE = 1000

# by default PostgreSQL sorts names by its locale
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


class Member(NamedTuple):
    """What the row of a member says about a domain."""

    state: str
    excluded: str | None
    vouches: bool
    time: int | None


class LastMark(NamedTuple):
    """The last mark of a domain."""

    seq: int
    lower: int


def upgrade() -> None:
    of_stream = sa.ForeignKey("noted_time_stream.id", ondelete="CASCADE")
    table = op.create_table(
        "noted_time_membership",
        sa.Column("stream_id", name, of_stream, primary_key=True),
        sa.Column("domain", name, primary_key=True, autoincrement=False),
        sa.Column("writer", name, primary_key=True, autoincrement=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("crc", sa.BigInteger),
        sqlite_with_rowid=False,
    )
    streams = op.get_bind().execute(sa.text("SELECT id FROM noted_time_stream"))
    for (stream_id,) in streams.fetchall():
        rows: list[Row] = []
        for row in _convert_stream(stream_id):
            rows.append(row)
            if len(rows) == ROWS_AT_ONCE:
                op.bulk_insert(table, rows)
                rows = []
        if rows:
            op.bulk_insert(table, rows)
    op.drop_table("noted_time_timeline")


def _select(query: str, **values: object) -> Any:  # noqa: ANN401 - a result
    return op.get_bind().execute(sa.text(query), values)


def _convert_stream(stream_id: str) -> Iterator[Row]:
    stored_rows = _select(
        "SELECT domain, writer, record, crc FROM noted_time_timeline WHERE stream_id = :id",
        id=stream_id,
    )
    by_domain: defaultdict[str, list[tuple[str, str, int | None]]] = defaultdict(list)
    for domain, writer, record, crc in stored_rows:
        by_domain[domain].append((writer, record, crc))
    for domain, rows in by_domain.items():
        last, absences = _read_last_mark(stream_id, domain), _read_absences(stream_id, domain)
        for writer, record, crc in rows:
            member = _read_member(stream_id, writer, domain)
            if member is None:
                continue
            timeline = json.loads(record)["timeline"]
            membership = convert(timeline, member, last, absences.get(writer))
            yield _build_row(stream_id, domain, writer, membership, has_crc=crc is not None)


def _build_row(stream_id: str, domain: str, writer: str, membership: Row, *, has_crc: bool) -> Row:
    fields = {"stream_id": stream_id, "domain": domain, "writer": writer, "membership": membership}
    record = _encode(fields)
    crc = crc32(_encode([stream_id, domain, writer, record]).encode()) if has_crc else None
    return {
        "stream_id": stream_id,
        "domain": domain,
        "writer": writer,
        "record": record,
        "crc": crc,
    }


def _encode(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _read_member(stream_id: str, writer: str, domain: str) -> Member | None:
    row = _select(
        "SELECT state, times, others FROM noted_time_member"
        " WHERE stream_id = :id AND writer = :writer",
        id=stream_id,
        writer=writer,
    ).fetchone()
    if row is None:
        return None
    state, times, other_times = row[0], json.loads(row[1]), json.loads(row[2] or "{}")
    domains = other_times.get("terms", {}).get("domains")
    vouches = domains is None or domain in domains
    return Member(state, other_times.get("excluded"), vouches, times.get(domain))


def _read_last_mark(stream_id: str, domain: str) -> LastMark | None:
    row = _select(
        "SELECT seq, lower FROM noted_time_mark WHERE stream_id = :id AND domain = :domain"
        " ORDER BY seq DESC LIMIT 1",
        id=stream_id,
        domain=domain,
    ).fetchone()
    return None if row is None else LastMark(*row)


def _read_absences(stream_id: str, domain: str) -> dict[str, Row]:
    """Return the absences in the ledger that have not ended, by writer, as they are stored."""
    entries = _select(
        "SELECT record FROM noted_time_ledger WHERE stream_id = :id AND domain = :domain"
        " ORDER BY seq",
        id=stream_id,
        domain=domain,
    )
    absences: dict[str, Row] = {}
    for (record,) in entries:
        answer = json.loads(record)["answer"]
        for writer in answer.get("returned_writers", ()):
            absences.pop(writer, None)
        for absence in answer["writers"]:
            writer, reason = absence["writer"], absence["reason"]
            if reason in {"not_joined", "not_expected"}:
                continue
            if reason == "narrowed" or writer not in absences:
                facts = ("reason", "began_at", "last_time", "from_time")
                absences[writer] = {"seq": answer["seq"]} | {
                    fact: absence.get(fact) for fact in facts
                }
            if reason == "removed":
                del absences[writer]
    return absences


def convert(
    timeline: Mapping[str, Any], member: Member, last: LastMark | None, absence: Row | None
) -> Row:
    """Return the membership of a writer with this timeline.

    `absence` is the one that the ledger has of it, if it has not ended.
    """
    status = find_status(timeline, member)
    exclusion = timeline.get("exclusion")
    membership: Row = {"status": status, "spells": timeline.get("spells", FROM_FIRST_MARK)}
    if status == "narrowed":
        membership |= {"reason": "narrowed", "began_at": timeline["narrowed_at"]}
    elif exclusion is not None:
        membership |= {"reason": exclusion["reason"], "began_at": exclusion["excluded_at"]}
    after = timeline.get("absent_after_seq")
    if status in ABSENT and after is not None:
        is_passed = last is not None and _is_passed(member, last)
        is_named = last is not None and after != last.seq and (is_passed or absence is not None)
        membership["is_unreported"] = not is_named
        if is_named and absence is None and status != "removed":
            absence = {
                "seq": after + 1,
                "reason": status,
                "began_at": membership.get("began_at"),
                "last_time": member.time,
                "from_time": member.time,
            }
    if absence is not None:
        membership["reported"] = absence
    return membership | {key: timeline[key] for key in KEPT_FACTS if key in timeline}


def find_status(timeline: Mapping[str, Any], member: Member) -> str:
    if timeline.get("narrowed_at") is not None:
        return "narrowed"
    if not member.vouches:
        return "not_joined"
    if member.excluded is not None:
        return member.excluded
    if member.state != "live":
        return member.state
    return "returned_below" if timeline.get("returned_below") else "counted"


def _is_passed(member: Member, last: LastMark) -> bool:
    is_below = member.time is None or member.time < last.lower
    return member.excluded == "removed" or is_below
