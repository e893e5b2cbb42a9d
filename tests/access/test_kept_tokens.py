"""What is kept of tokens, in every store."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from controller.store.open import open_tokens
from controller.store.port import StoreUnavailable
from controller.store.sqlite import file_of
from controller.store.tokens import TokenRecord, Tokens
from noted_time import Conflict

SCOPES = {"admin": False, "read": ["flights*"], "write": [], "writers": ["*"]}
FIRST = TokenRecord("a1", "d1g35t", SCOPES, "the dashboard", created_at=5)
SECOND = replace(FIRST, id="a0", created_at=7, expires_at=9)


def test_a_token_comes_back_as_it_was_kept(tokens: Tokens) -> None:
    """Every field, and the oldest first."""
    tokens.add(SECOND)
    tokens.add(FIRST)

    assert (tokens.all(), tokens.counts()) == ([FIRST, SECOND], (2, 0))


def test_an_id_is_given_once(tokens: Tokens) -> None:
    """The second token of an id is refused, and the first stays."""
    tokens.add(FIRST)

    with pytest.raises(Conflict, match="already"):
        tokens.add(replace(FIRST, digest="another"))
    assert tokens.all() == [FIRST]


def test_a_token_is_revoked_once(tokens: Tokens) -> None:
    """The moment stays that of the first time, and the row stays at all."""
    tokens.add(FIRST)
    done = [tokens.revoke(FIRST.id, 11), tokens.revoke(FIRST.id, 12), tokens.revoke("none", 13)]

    kept = (tokens.all(), tokens.counts())
    assert (done, kept) == ([True, False, False], ([replace(FIRST, revoked_at=11)], (1, 1)))


def test_another_process_finds_them(database: str) -> None:
    """What is added through one is read through the other, which was open before."""
    with closing(open_tokens(database)) as reader, closing(open_tokens(database)) as writer:
        before = reader.counts()
        writer.add(FIRST)

        assert (before, reader.counts(), reader.all()) == ((0, 0), (1, 0), [FIRST])


def test_a_database_without_the_table_is_reported(database: str) -> None:
    """As any database that does not answer."""
    with closing(open_tokens(database)) as opened:
        with closing(sqlite3.connect(file_of(database))) as connection:
            connection.execute("DROP TABLE token")

        with pytest.raises(StoreUnavailable, match="no such table"):
            opened.counts()
