"""Tokens: their grants, their stored form, and the headers that the gate accepts."""

import hmac
import re
import sqlite3
import time
from contextlib import closing
from hashlib import sha256
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller.api.gate.access import AccessDenied, Gate, Need, RequestInfo
from controller.service.tokens import LONGEST_HEADER, MOST_SPELLINGS, mint
from controller.store.open import open_tokens
from controller.store.port import StoreUnavailable
from controller.store.records import TokenRecord
from controller.store.sqlite import parse_file
from controller.store.token_table import Tokens
from noted_time import Conflict, Rejected
from noted_time.answers.permissions import FULL_GRANT, Grant, Patterns
from tests.support.gates import NOW, Guarded

READ = Grant.of(["read"])


def build_header(token: str) -> bytes:
    """Return the value of the header."""
    return f"Bearer {token}".encode()


def test_valid_token_is_found_with_its_grant(tokens: Tokens) -> None:
    guarded_gate = Guarded(tokens)
    token = guarded_gate.token("read", streams=["s"])
    holder = guarded_gate.cache.holder(build_header(token))

    assert holder is not None
    assert (holder.token_id, holder.grant) == (token.split("_")[1], Grant.of(["read"], ["s"]))


def test_token_secret_has_256_bits_and_only_its_hash_is_stored() -> None:
    """SHA-256 cannot be reversed."""
    token, record = mint(READ, label="", now_ms=NOW, lifetime_ms=None)
    _, _, secret = token.split("_", 2)

    digest_and_visibility = (record.digest, secret in repr(record))
    assert (len(secret) * 6 >= 256, digest_and_visibility) == (
        True,
        (sha256(secret.encode()).hexdigest(), False),
    )


def test_tokens_have_unique_ids_and_secrets() -> None:
    tokens = set()
    ids = set()
    for _ in range(100):
        token, record = mint(READ, label="", now_ms=NOW, lifetime_ms=None)
        tokens.add(token)
        ids.add(record.id)

    assert (len(tokens), len(ids)) == (100, 100)


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hmac.compare_digest` runs even for an unknown id."""
    compared_pairs: list[tuple[object, object]] = []
    compare_digest = hmac.compare_digest

    def compare(shown_digest: str, kept_digest: str) -> bool:
        compared_pairs.append((shown_digest, kept_digest))
        return compare_digest(shown_digest, kept_digest)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    guarded_gate = Guarded()
    token = guarded_gate.token("read")
    for shown_token in (token, "nt_0123456789ab_" + 43 * "x"):
        guarded_gate.cache.holder(build_header(shown_token))

    assert len(compared_pairs) == 2
    for shown_digest, kept_digest in compared_pairs:
        assert len(str(shown_digest)) == 64
        assert len(str(kept_digest)) == 64


def test_expired_token_is_refused() -> None:
    """This holds for cached headers, too."""
    guarded_gate = Guarded()
    token = guarded_gate.token("read", lifetime_ms=1000)
    guarded_gate.now += 999
    before = guarded_gate.cache.holder(build_header(token))
    guarded_gate.now += 1

    assert (before is None, guarded_gate.cache.holder(build_header(token))) == (False, None)


def test_revoked_token_is_refused(tokens: Tokens) -> None:
    """This holds from the next refresh on, for cached headers, too."""
    guarded_gate = Guarded(tokens)
    revoked_token = guarded_gate.token("read")
    other = guarded_gate.token("read")
    before = guarded_gate.cache.holder(build_header(revoked_token))
    guarded_gate.revoke(revoked_token)

    assert before is not None
    assert guarded_gate.cache.holder(build_header(revoked_token)) is None
    assert guarded_gate.cache.holder(build_header(other)) is not None


def test_tokens_stay_required_after_the_last_is_revoked() -> None:
    guarded_gate = Guarded()
    before = guarded_gate.gate.is_token_required()
    guarded_gate.revoke(guarded_gate.token("admin"))

    assert (before, guarded_gate.gate.is_token_required()) == (False, True)


def test_required_token_refuses_all_until_one_is_created() -> None:
    gate = Gate(Guarded().cache, require=True)

    with pytest.raises(AccessDenied):
        gate.admit(RequestInfo("GET", "/v1/streams", [], "", Need("a token")))


def test_token_refresh_reads_no_rows_without_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two counts show changes."""
    guarded_gate = Guarded()
    guarded_gate.token("read")
    monkeypatch.delattr(type(guarded_gate.tokens), "all")
    guarded_gate.cache.refresh()

    assert guarded_gate.gate.is_token_required()


def test_spellings_of_a_header_are_cached_within_a_limit() -> None:
    """Letters may be of either case, and any number of spaces may follow."""
    guarded_gate = Guarded()
    token = guarded_gate.token("read").encode()
    letters = product(*((letter, letter.upper()) for letter in "bearer"))
    spellings = 0
    for word in letters:
        for space_count in range(1, 180):
            header = "".join(word).encode() + space_count * b" " + token
            assert guarded_gate.cache.holder(header) is not None
            spellings += 1

    assert spellings > MOST_SPELLINGS
    assert len(guarded_gate.cache._known.holders) <= MOST_SPELLINGS


def test_a_header_much_longer_than_a_token_counts_as_no_token() -> None:
    """It is not cached, so the cache stays small."""
    guarded_gate = Guarded()
    token = guarded_gate.token("read").encode()

    def is_known(header_length: int) -> bool:
        header = b"Bearer".ljust(header_length - len(token)) + token
        return guarded_gate.cache.holder(header) is not None

    assert is_known(LONGEST_HEADER)
    assert not is_known(LONGEST_HEADER + 1)
    assert not is_known(60_000)
    (cached_header,) = guarded_gate.cache._known.holders
    assert len(cached_header) == LONGEST_HEADER


GUARDED = Guarded()

TOKEN = GUARDED.token("admin")


def replace_byte(place: int, replacement: bytes) -> bytes:
    """Return the header of the token with a byte replaced."""
    header = build_header(TOKEN)
    return header[:place] + replacement + header[place + 1 :]


forms = st.one_of(
    st.binary(max_size=200),
    st.from_regex(rb"[Bb]earer +nt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", fullmatch=True),
    st.builds(replace_byte, st.integers(0, len(TOKEN) + 6), st.binary(min_size=1, max_size=3)),
)


@given(forms)
@example(b"")
@example(b"Bearer")
@example(b"Bearer " + TOKEN.encode() + b"\n")
@example(b"Bearer " + TOKEN.encode() + b", Bearer x")
@example(b"Basic " + TOKEN.encode())
@example(TOKEN.encode())
@example(b"Bearer nt__")
@example(b"Bearer nt_\xd9\xa0_\xff")
def test_no_other_header_is_accepted(header: bytes) -> None:
    """No header raises, or is taken for the token."""
    holder = GUARDED.cache.holder(header)

    is_same = header.lower().startswith(b"bearer ") and header.split()[1:] == [TOKEN.encode()]
    assert (holder is not None) <= (is_same and not header.endswith(b"\n"))


# Grants


letters = st.text("ab.", max_size=8)

patterns = st.text("ab.*", min_size=1, max_size=8)


@given(patterns, letters)
def test_pattern_matches_like_its_regular_expression(pattern: str, name: str) -> None:
    """A star is any number of characters."""
    meaning = re.escape(pattern).replace(r"\*", ".*")

    assert Patterns((pattern,)).match(name) == bool(re.fullmatch(meaning, name, re.DOTALL))


def test_pattern_of_many_stars_is_matched_fast() -> None:
    """No pattern makes the controller search for long."""
    pattern = Patterns(("*a" * 124 + "b",))
    begin_s = time.process_time()
    is_match = pattern.match("a" * 249)

    assert (is_match, time.process_time() - begin_s < 0.1) == (False, True)


@pytest.mark.parametrize("pattern", ["", "a?", "[ab]", "a/b", "a b", "ä", "a\n", "a" * 250])
def test_pattern_with_invalid_characters_is_refused(pattern: str) -> None:
    """They might be meant as other kinds of patterns."""
    with pytest.raises(Rejected, match="is not 1 to 249 characters"):
        Patterns((pattern,))


@pytest.mark.parametrize(
    ("scopes", "streams", "writers", "says"),
    [
        ([], [], [], "a token needs a scope"),
        (["reed"], [], [], "unknown scope 'reed'"),
        (["admin"], ["s"], [], "has no limits"),
        (["admin", "write"], [], ["w"], "has no limits"),
        (["read"], [], ["w"], "requires --scope write"),
        (["read"], ["a"] * 1001, [], "more than 1000 patterns"),
    ],
)
def test_limits_that_a_scope_would_ignore_are_refused(
    scopes: list[str], streams: list[str], writers: list[str], says: str
) -> None:
    with pytest.raises(Rejected, match=says):
        Grant.of(scopes, streams, writers)


@given(
    st.builds(
        Grant,
        admin=st.booleans(),
        read=st.lists(patterns).map(tuple).map(Patterns),
        write=st.lists(patterns).map(tuple).map(Patterns),
        writers=st.lists(patterns).map(tuple).map(Patterns),
    )
)
def test_grant_survives_json(grant: Grant) -> None:
    assert Grant.from_json(grant.to_json()) == grant


@pytest.mark.parametrize("kept", [{}, {"admin": 1}, {"admin": "true"}, {"writers": ["*"]}])
def test_malformed_grant_permits_nothing(kept: dict[str, object]) -> None:
    grant = Grant.from_json(kept)

    may = (grant.may_read("s"), grant.may_write("s"), grant.may_administer())
    assert (may, FULL_GRANT.may_administer()) == ((False, False, False), True)


# Tokens in every store


SCOPES = {"admin": False, "read": ["flights*"], "write": [], "writers": ["*"]}

FIRST = TokenRecord("a1", "d1g35t", SCOPES, "the dashboard", created_at=5)

SECOND = replace(FIRST, id="a0", created_at=7, expires_at=9)


def test_token_table_returns_tokens_oldest_first(tokens: Tokens) -> None:
    """All fields survive."""
    tokens.add(SECOND)
    tokens.add(FIRST)

    assert (tokens.all(), tokens.counts()) == ([FIRST, SECOND], (2, 0))


def test_token_id_is_unique(tokens: Tokens) -> None:
    tokens.add(FIRST)

    with pytest.raises(Conflict, match="already"):
        tokens.add(replace(FIRST, digest="another"))
    assert tokens.all() == [FIRST]


def test_a_token_is_revoked_once(tokens: Tokens) -> None:
    """The row and the first moment stay."""
    tokens.add(FIRST)
    revocations = [
        tokens.revoke(FIRST.id, 11),
        tokens.revoke(FIRST.id, 12),
        tokens.revoke("none", 13),
    ]

    tokens_and_counts = (tokens.all(), tokens.counts())
    assert (revocations, tokens_and_counts) == (
        [True, False, False],
        ([replace(FIRST, revoked_at=11)], (1, 1)),
    )


def test_tokens_are_read_by_another_process(database: str) -> None:
    """The other process had opened the table before."""
    with closing(open_tokens(database)) as reader, closing(open_tokens(database)) as writer:
        before = reader.counts()
        writer.add(FIRST)

        assert (before, reader.counts(), reader.all()) == ((0, 0), (1, 0), [FIRST])


def test_a_database_without_the_table_is_reported(database: str) -> None:
    """The error is the same as for a database that does not answer."""
    with closing(open_tokens(database)) as opened_tokens:
        with closing(sqlite3.connect(parse_file(database))) as connection:
            connection.execute("DROP TABLE noted_time_token")

        with pytest.raises(StoreUnavailable, match="no such table"):
            opened_tokens.counts()
