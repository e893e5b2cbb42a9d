"""Change the tables of version 0.1.0 to those of the next version."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# PostgreSQL would order names by its locale otherwise
name = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

SECRET_BYTES = 32

ROWS_AT_A_TIME = 1000
stream, mark, ledger, change = (
    sa.table(table, *map(sa.column, columns.split()))
    for table, columns in (
        ("stream", "id record"),
        ("mark", "stream_id domain seq lower cut upper_is_bound whole"),
        ("ledger", "stream_id domain seq record"),
        ("change", "stream_id number record"),
    )
)


def upgrade() -> None:
    """Make each change."""
    _secret()
    _corrections()
    _late()


def _secret() -> None:
    """Create the secret by which the controllers of the database know each other."""
    secret = op.create_table(
        "secret",
        sa.Column("name", name, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    value = secrets.token_urlsafe(SECRET_BYTES)
    op.bulk_insert(secret, [{"name": "replicas", "value": value}])


def _corrections() -> None:
    """Write into the marks how operators corrected positions, and drop what is kept of it.

    Version 0.1.0 kept the marks as they were, and applied the corrections whenever it read them.
    """
    for stream_id, text in _rows(sa.select(stream.c.id, stream.c.record)):
        record = json.loads(text)
        made: list[dict[str, Any]] = record.pop("corrections", [])
        if made:
            record["unbounded"] = [
                domain
                for domain in record["settings"]["domains"]
                if _correct_marks(stream_id, domain, made) or domain in record["unbounded"]
            ]
            _drop_from_ledger(stream_id)
            _rename_changes(stream_id)
        of_it = sa.update(stream).where(stream.c.id == stream_id)
        op.get_bind().execute(of_it.values(record=_json(record)))


def _correct_marks(stream_id: str, domain: str, made: list[dict[str, Any]]) -> bool:
    """Correct the cuts of a chain; returns whether the uppers of later marks are no bounds.

    A corrected cut may cover rows that were written after its mark, so its upper is no bound, nor
    is that of a later mark whose cut is not yet beyond the corrected offsets.
    """
    of_chain = mark.c.stream_id == stream_id, mark.c.domain == domain
    columns = mark.c.seq, mark.c.cut, mark.c.upper_is_bound, mark.c.whole
    chain = sa.select(*columns).where(*of_chain).order_by(mark.c.seq).limit(ROWS_AT_A_TIME)
    before: dict[str, int] = {}
    cut: dict[str, int] = {}
    after = 0
    while rows := _rows(chain.where(mark.c.seq > after)):
        for seq, text, is_bound, whole in rows:
            stored = json.loads(text)
            before, known = stored if whole else before | stored, cut
            cut, is_doubtful = _corrected(before, made, {domain: seq})
            moved = {s: offset for s, offset in cut.items() if whole or known.get(s) != offset}
            if moved != stored or (is_bound and is_doubtful):
                values = {"cut": _json(moved), "upper_is_bound": is_bound and not is_doubtful}
                row = sa.update(mark).where(*of_chain, mark.c.seq == seq)
                op.get_bind().execute(row.values(**values))
            after = seq
    return _corrected(cut, made, {})[1]


def _corrected(
    cut: Mapping[str, int], made: Iterable[dict[str, Any]], seqs: Mapping[str, int]
) -> tuple[dict[str, int], bool]:
    """Return the corrected cut of the mark with that seq of a domain, and whether it covers more.

    Without a seq it is a mark after all corrections.
    """
    found, is_doubtful = dict(cut), False
    for each in made:
        if any(seq <= each["last_seqs"].get(domain, 0) for domain, seq in seqs.items()):
            wrong = [s for s, least in each["above"].items() if found.get(s, -1) >= least]
            found.update((s, each["offsets"][s]) for s in wrong)
            is_doubtful |= bool(wrong)
        else:
            is_doubtful |= any(found.get(s, 0) <= offset for s, offset in each["offsets"].items())
    return found, is_doubtful


def _drop_from_ledger(stream_id: str) -> None:
    """Drop what entries of the ledger say of corrections, and entries that say nothing else."""
    of_stream = ledger.c.stream_id == stream_id
    columns = sa.select(ledger.c.domain, ledger.c.seq, ledger.c.record)
    for domain, seq, text in _rows(columns.where(of_stream)):
        entry = json.loads(text)
        named = [each for each in entry["writers"] if each["reason"] != "corrected"]
        key = of_stream, ledger.c.domain == domain, ledger.c.seq == seq
        if not named and not entry["returned"]:
            op.get_bind().execute(sa.delete(ledger).where(*key))
        elif len(named) < len(entry["writers"]):
            row = sa.update(ledger).where(*key)
            op.get_bind().execute(row.values(record=_json(entry | {"writers": named})))


def _rename_changes(stream_id: str) -> None:
    """Let the changes show a correction as a setting, the position of the writer."""
    of_stream = change.c.stream_id == stream_id
    for number, text in _rows(sa.select(change.c.number, change.c.record).where(of_stream)):
        made = json.loads(text)
        if made["action"] == "corrected":
            name, was, became = f"position of {made['writer']}", made["was"], made["became"]
            offsets, above = (_shown(became[each]) for each in ("position", "above"))
            made["was"] = {name: _shown(was["position"])}
            made["became"] = {name: f"{offsets}, wrong from {above}"}
            row = sa.update(change).where(of_stream, change.c.number == number)
            op.get_bind().execute(row.values(record=_json(made | {"action": "settings"})))


def _rows(query: sa.Select[Any]) -> list[Any]:
    return list(op.get_bind().execute(query))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _shown(position: Mapping[str, int]) -> str:
    return " ".join(f"{segment}:{offset}" for segment, offset in position.items())


def _late() -> None:
    """Create the table of late rows, and record what is known of the streams that there are.

    The first mark that is kept stands for the first there ever was. Which rows were late below the
    last one is not known.
    """
    of_stream = sa.ForeignKey("stream.id", ondelete="CASCADE")
    hours = ("least_hour", "most_hour", "seen_hour")
    op.create_table(
        "late",
        sa.Column("stream_id", name, of_stream, primary_key=True),
        sa.Column("domain", name, primary_key=True),
        sa.Column("writer", name, primary_key=True),
        *(sa.Column(each, sa.BigInteger, primary_key=True, autoincrement=False) for each in hours),
        sa.Column("record", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    lowers = sa.func.min(mark.c.lower), sa.func.max(mark.c.lower)
    for stream_id, text in _rows(sa.select(stream.c.id, stream.c.record)):
        chains = sa.select(mark.c.domain, *lowers).where(mark.c.stream_id == stream_id)
        found = _rows(chains.group_by(mark.c.domain))
        record = json.loads(text)
        record["first_lowers"] = {domain: least for domain, least, _ in found}
        record["late_from"] = {domain: most for domain, _, most in found}
        of_it = sa.update(stream).where(stream.c.id == stream_id)
        op.get_bind().execute(of_it.values(record=_json(record)))
