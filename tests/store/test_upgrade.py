"""What a database that an earlier version wrote becomes when it is migrated."""

import copy
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import MetaData, Table

from controller.store.migrate import MIGRATIONS, engine_to_migrate, migrate
from controller.store.open import open_store
from controller.store.port import Reading, Transaction
from controller.store.postgres import is_postgres
from tests.store.conftest import DURABLE
from tests.store.models import check_models
from tests.support.http import as_json
from tests.support.postgres import Server

SAVED = json.loads((Path(__file__).parent / "version-0.1.0.json").read_text())
"""The rows that version 0.1.0 left when it was killed in use, and what it read back from them."""


@pytest.fixture(params=DURABLE)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind, without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'noted-time.db'}"
    server: Server = request.getfixturevalue("server")
    return server.make_database()


def restore(url: str, revision: str, rows: dict[str, list[dict[str, Any]]]) -> None:
    """Create the database as that revision left it, with these rows of its tables."""
    engine = engine_to_migrate(url)
    with engine.begin() as connection:
        config = Config(attributes={"connection": connection})
        config.set_main_option("script_location", str(MIGRATIONS))
        command.upgrade(config, revision)
        for name, values in rows.items():
            table = Table(name, MetaData(), autoload_with=connection)
            connection.execute(table.delete())
            if values:
                connection.execute(table.insert(), values)
    engine.dispose()


def everything(store: Reading) -> dict[str, Any]:
    """Return what is kept of each stream, as plain JSON."""
    found: dict[str, Any] = {"streams": store.streams()}
    for each in store.streams():
        domains = each.settings.domains
        found[each.name] = {
            "scales": store.scales(each.id),
            "members": [member._asdict() for member in store.members(each.id)],
            "readers": store.readers(each.id),
            "backlogs": store.backlogs(each.id),
            "changes": store.changes(each.id, before=None, limit=99),
            "marks": {domain: list(store.marks(each.id, domain)) for domain in domains},
            "ledger": {
                domain: store.ledger(each.id, domain, after=0, limit=99) for domain in domains
            },
        }
    plain: dict[str, Any] = as_json(found)
    return plain


def known_to(saved: object, read: object) -> object:
    """Return of what is read what the version that saved it knew: a later one has more fields."""
    if isinstance(saved, dict) and isinstance(read, dict):
        return {key: known_to(each, read.get(key)) for key, each in saved.items()}
    if isinstance(saved, list) and isinstance(read, list) and len(saved) == len(read):
        return [known_to(*pair) for pair in zip(saved, read, strict=True)]
    return read


def as_today(saved: dict[str, Any]) -> dict[str, Any]:
    """Return what was read without alignments, and with corrections as settings in the changes."""
    today: dict[str, Any] = copy.deepcopy(saved)
    del today["alignments"]
    for each in today["streams"]:
        del each["corrections"]
    (change,) = [c for _, c in today["flights"]["changes"] if c["action"] == "corrected"]
    change["action"] = "settings"
    change["was"] = {"position of AA": "2:310"}
    change["became"] = {"position of AA": "2:305, wrong from 2:310"}
    return today


def test_a_database_of_version_0_1_0_is_read_back_after_its_migration(url: str) -> None:
    """Streams, members, marks, readers, the ledger and the changes are what they were."""
    saved = as_today(SAVED["read"])
    restore(url, "0001", SAVED["rows"])
    migrate(url)
    check_models(url)

    with closing(open_store(url)) as store:
        read = everything(store)

    assert known_to(saved, read) == saved


def test_alignments_stay_for_the_controllers_of_earlier_versions(url: str) -> None:
    """They read the table whenever they take streams over, also after a commit of this version."""
    restore(url, "0001", SAVED["rows"])
    migrate(url)
    with closing(open_store(url)) as store:
        store.heartbeat()
        store.commit(Transaction(dropped=[each.id for each in store.streams()]))
    engine = engine_to_migrate(url)
    with engine.connect() as connection:
        table = Table("alignment", MetaData(), autoload_with=connection)
        found = [row._asdict() for row in connection.execute(table.select())]
    engine.dispose()

    assert found == SAVED["rows"]["alignment"]


WRONG = 10**9
ID = SAVED["rows"]["stream"][0]["id"]
CORRECTED: dict[str, Any] = {
    "above": {"0": 1000},
    "offsets": {"0": 20},
    "last_seqs": {"default": 4},
    "named": {"writer": "AA", "time": None, "position": {"0": 20}, "reason": "corrected"},
}
"""Segment 0 was corrected to 20 after mark 4, as version 0.1.0 kept it beside the marks."""


def row_of_mark(seq: int, cut: dict[str, int], *, whole: bool) -> dict[str, Any]:
    """Return the row of a mark whose upper is a bound."""
    times: dict[str, Any] = {
        "lower": seq,
        "upper": seq,
        "written_at": seq,
        "appended_at": seq,
        "excluded": "[]",
    }
    about = {"domain": "default", "upper_is_bound": True, "final": False, "whole": whole}
    return {"stream_id": ID, "seq": seq, "cut": json.dumps(cut)} | times | about


def row_of_entry(seq: int, *reasons: str) -> dict[str, Any]:
    """Return the row of an entry of the ledger, with one writer for each reason."""
    named: dict[str, Any] = CORRECTED["named"]
    writers = [named | {"reason": reason} for reason in reasons]
    key: dict[str, Any] = {"stream_id": ID, "domain": "default", "seq": seq, "at": seq}
    entry = key | {"from_lower": None, "to_lower": seq, "writers": writers, "returned": []}
    return key | {"record": json.dumps(entry)}


@pytest.mark.parametrize("before", [0, 997, 1000])
def test_a_correction_is_written_into_the_marks_and_none_of_it_stays(url: str, before: int) -> None:
    """Marks are what readers were given; an upper is a bound only where the cut covers no more.

    Also if the marks are more than the migration reads at a time.
    """
    was = SAVED["rows"]["stream"][0]
    settings = {"domains": ["default"]}
    record = {"id": ID, "name": "flights", "settings": settings, "unbounded": []}
    cuts = [
        *[({"0": 10, "1": 3}, True)] * before,
        ({"0": 10, "1": 3}, True),
        ({"0": WRONG}, False),
        ({"1": 4}, False),
        ({"0": WRONG + 1, "1": 5, "2": 1}, True),
        ({"0": 20}, False),
        ({"0": 5000, "2": 2}, False),
    ]
    marks = [row_of_mark(n, cut, whole=whole) for n, (cut, whole) in enumerate(cuts, 1)]
    correction = CORRECTED | {"last_seqs": {"default": before + 4}}
    stream = was | {"record": json.dumps(record | {"corrections": [correction]})}
    entries = [row_of_entry(4, "removed"), row_of_entry(5, "corrected")]
    entries.append(row_of_entry(6, "removed", "corrected"))
    restore(url, "0001", {"stream": [stream], "mark": marks, "ledger": entries})
    migrate(url)

    with closing(open_store(url)) as store:
        read = [each.mark for each in store.marks(ID, "default")]
        (summary,) = store.summaries(["flights"])
        ledger = store.ledger(ID, "default", after=0, limit=9)

    assert [(dict(mark.cut.offsets), mark.upper_is_bound) for mark in read[before:]] == [
        ({0: 10, 1: 3}, True),
        ({0: 20, 1: 3}, False),
        ({0: 20, 1: 4}, False),
        ({0: 20, 1: 5, 2: 1}, False),
        ({0: 20, 1: 5, 2: 1}, False),
        ({0: 5000, 1: 5, 2: 2}, True),
    ]
    assert (summary.last_marks, summary.record.unbounded) == ({"default": read[-1]}, ())
    assert [(each.seq, [w.reason for w in each.writers]) for each in ledger] == [
        (4, ["removed"]),
        (6, ["removed"]),
    ]


@pytest.mark.parametrize("cut", [{"0": 20}, None])
def test_no_upper_is_a_bound_after_a_correction_that_no_mark_is_beyond(
    url: str, cut: dict[str, int] | None
) -> None:
    """The next marks may cover rows that no writer has noted."""
    was, settings = SAVED["rows"]["stream"][0], {"domains": ["default"]}
    record = {"id": ID, "name": "flights", "settings": settings, "unbounded": []}
    stream = was | {"record": json.dumps(record | {"corrections": [CORRECTED]})}
    marks = [row_of_mark(1, cut, whole=True)] if cut else []
    restore(url, "0001", {"stream": [stream], "mark": marks})
    migrate(url)

    with closing(open_store(url)) as store:
        (found,) = store.streams()

    assert found.unbounded == ("default",)


def test_streams_of_version_0_1_0_say_since_when_late_rows_are_known(url: str) -> None:
    """Above the last mark; the first mark that was kept stands for the first there ever was."""
    restore(url, "0001", SAVED["rows"])
    migrate(url)
    with closing(open_store(url)) as store:
        found = {
            each.name: (each.first_lowers, each.late_from, store.late(each.id))
            for each in store.streams()
        }
        lowers = {
            (each.name, domain): [mark.mark.lower for mark in store.marks(each.id, domain)]
            for each in store.streams()
            for domain in each.settings.domains
        }

    marked = {place: found for place, found in lowers.items() if found}
    assert {
        (name, domain): (first[domain], late[domain])
        for name, (first, late, _) in found.items()
        for domain in first
    } == {place: (each[0], each[-1]) for place, each in marked.items()}
    assert [late for _, _, late in found.values()] == [[]] * len(found)


def test_a_database_that_is_created_today_has_buckets_at_0(url: str) -> None:
    """A shared one has 64, one in a file has one."""
    migrate(url)

    with closing(open_store(url)) as store:
        buckets = 64 if is_postgres(url) else 1
        assert (store.clocks(), store.heartbeat().buckets) == (
            dict.fromkeys(range(buckets), 0),
            buckets,
        )


def test_each_database_has_a_secret_of_its_own(tmp_path: Path) -> None:
    """Controllers of one are strangers to those of another."""
    found = set()
    for name in ("a", "b"):
        migrate(url := f"sqlite:///{tmp_path / name}")
        with closing(open_store(url)) as store:
            found.add(store.replicas_secret())

    assert (len(found), {len(each) for each in found}) == (2, {43})
