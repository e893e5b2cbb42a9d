"""A flipped bit in a SQLite file is refused, or harmless."""

import os
import random
import re
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller.store import sqlite
from controller.store.open import open_store
from controller.store.port import Store, StoreDamaged, StoreUnavailable
from controller.store.records import ChangeSet, StoredMembership, StoredScale
from controller.store.sqlite import SqliteStore
from noted_time.rules import Membership
from noted_time.values import ScaleEvent, Spell
from tests.support.stored import build_changes, mark, member, read_kept, records, stream

DOMAINS = "default", "ship_time"
FLIPS = int(os.environ.get("NOTED_TIME_FLIPS", "1"))
"""The number of bits of each page that are tried, one at a time."""

PAGE_BITS = 8 * 1024
OUT = Membership("timed_out", (Spell(1, 5),), "timed_out", 9, is_unreported=True)
MARKS = 60
REMEDY = ": restore the database from a backup"


def read_all(store: Store) -> list[Any]:
    """Return all records that a controller reads."""
    streams = store.streams()
    summaries = store.summaries([record.name for record in streams])
    return [streams, summaries, *(read_kept(store, record.id, DOMAINS) for record in streams)]


@pytest.fixture
def file(database: Path) -> Path:
    """A database at rest with rows of each table; a few marks were dropped."""
    ids = [f"id-{number}" for number in range(1, 5)]
    batch = ChangeSet()
    for stream_id in ids:
        batch.put(stream(stream_id, f"flights {stream_id}"))
        batch.put(
            *(
                StoredScale(stream_id, number, ScaleEvent({number: 5}, {number + 1: (number,)}))
                for number in (0, 1)
            )
        )
        batch.put(*records(*map(member, "abcde"), of=stream_id))
        batch.put(*(StoredMembership(stream_id, domain, "a", OUT) for domain in DOMAINS))
        batch.put(*(mark(seq, stream_id, domain) for domain in DOMAINS for seq in range(1, MARKS)))
    with closing(SqliteStore(database)) as store:
        store.commit(batch)
        drop = ChangeSet()
        drop.drop_marks(ids[0], "default", 3)
        store.commit(drop)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return database


def start_on(file: Path, truth: list[Any]) -> str:
    """Start on the file, and return whether it was refused, harmless or served."""
    try:
        with closing(open_store(f"sqlite:///{file}")) as store:
            return "harmless" if read_all(store) == truth else "served"
    except StoreUnavailable as refusal:
        sentence = str(refusal)
        if f"{file} differ" in sentence and "restore a whole backup" in sentence:
            return "refused"
        is_clear = f"{file} is" in sentence or "the row (" in sentence
        return "refused" if is_clear and sentence.endswith(REMEDY) else sentence


def test_flipped_bit_is_refused_or_changes_nothing(file: Path, tmp_path: Path) -> None:
    with closing(SqliteStore(file)) as store:
        truth = read_all(store)
    content = file.read_bytes()
    chance = random.Random(1)
    outcomes = Counter[str]()
    for begin in range(0, 8 * len(content), PAGE_BITS):
        for place in (begin + chance.randrange(PAGE_BITS) for _ in range(FLIPS)):
            damaged_content = bytearray(content)
            damaged_content[place // 8] ^= 1 << place % 8
            (tmp_path / "flipped").mkdir()
            (tmp_path / "flipped" / "noted-time.db").write_bytes(damaged_content)
            outcomes[start_on(tmp_path / "flipped" / "noted-time.db", truth)] += 1
            shutil.rmtree(tmp_path / "flipped")

    print(outcomes)  # noqa: T201 - for the page, with -s
    assert set(outcomes) == {"refused", "harmless"}


def test_mark_moved_to_another_stream_is_refused(file: Path) -> None:
    """A search by key finds the mark in neither stream."""
    seventh = b"id-1ship_time\x07\x07"
    content = file.read_bytes()
    file.write_bytes(content.replace(seventh, seventh.replace(b"1", b"3")))

    says = "rows id-1 ship_time of the table noted_time_mark are misplaced"
    with pytest.raises(StoreDamaged, match=says):
        open_store(f"sqlite:///{file}")


def test_damage_of_large_file_is_found_on_request(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not checked at the start. SQLite's check accepts a row with another key in order."""
    last = b"id-4ship_time\x3b\x3b"
    content = file.read_bytes()
    assert content.count(last) == 1
    file.write_bytes(content.replace(last, last.replace(b"e", b"g")))
    monkeypatch.setattr(sqlite, "CHECKED_BYTES", 0)
    with closing(open_store(f"sqlite:///{file}")) as store:
        damage = store.damage()

    fault = "rows id-4 ship_timg of the table noted_time_mark are misplaced"
    assert damage == f"{file} is damaged: {fault}{REMEDY}"


def test_damaged_schema_is_refused_with_file_and_remedy(file: Path) -> None:
    """SQLite reports an unknown column, not damage."""
    file.write_bytes(file.read_bytes().replace(b"appended_served_ms", b"appended_served_mt"))

    unknown = f"{file} is damaged: no such column: noted_time_mark.appended_served_ms{REMEDY}"
    assert start_on(file, []) == "refused"
    with closing(SqliteStore(file)) as store, pytest.raises(StoreDamaged, match=re.escape(unknown)):
        list(store.marks("id-1", "default"))


def test_damage_of_served_file_is_found_on_request(file: Path) -> None:
    with closing(SqliteStore(file)) as store:
        before = store.damage()
    content = file.read_bytes()
    name = b"flights id-2"
    assert content.count(name) == 3  # the row, its record and the index
    begin, _, end = content.partition(name)
    file.write_bytes(begin + name.replace(b"2", b"9") + end)
    with closing(SqliteStore(file)) as store:
        after = store.damage()

    missing = "row 2 missing from index sqlite_autoindex_noted_time_stream_2"
    sentence = f"{file} is damaged: {missing}{REMEDY}"
    assert (before, after) == (None, sentence)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("stream SET name = 'freight'", "id-1"),
        ("member SET sequence = 4", "id-1, UA"),
        ("membership SET record = replace(record, '9', '8')", "id-1, default, UA"),
        ("mark SET lower = 4", "id-1, default, 1"),
        ("mark SET cut = '{'", "id-1, default, 1"),
    ],
)
def test_refusal_names_damaged_row(database: Path, change: str, key: str) -> None:
    """The row may have a wrong checksum, or be unreadable."""
    with closing(SqliteStore(database)) as store:
        membership = StoredMembership("id-1", "default", "UA", OUT)
        store.commit(build_changes(*records(member()), membership, upto=1))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"UPDATE noted_time_{change}")

    table = change.partition(" ")[0]
    with closing(SqliteStore(database)) as store, pytest.raises(StoreDamaged) as refusal:
        read_all(store)
    assert str(refusal.value).startswith(f"the row ({key}) of the table noted_time_{table} is")
    assert str(refusal.value).endswith(REMEDY)


def test_row_with_crc_set_to_null_is_read(database: Path) -> None:
    """An operator may edit a row this way."""
    with closing(SqliteStore(database)) as store:
        store.commit(build_changes(*records(member()), upto=1))
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE noted_time_member SET sequence = 1006, crc = NULL")
        connection.execute("""UPDATE noted_time_mark SET cut = '{"0":11}', crc = NULL""")
        connection.commit()

    with closing(SqliteStore(database)) as store:
        (record,) = store.members("id-1")
        (first,) = store.marks("id-1", "default")
    assert (record.sequence, first.mark.cut.offsets) == (1006, {0: 11})
