"""Which headers open the gate, and until when."""

import hmac
import time
from hashlib import sha256
from itertools import product

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.api.access import AccessDenied, Gate, Need, RequestInfo
from controller.service.access import Grant
from controller.service.tokens import LONGEST, MOST_SPELLINGS, mint
from controller.store.tokens import Tokens
from tests.support.gates import NOW, Guarded

READ = Grant.of(["read"])


def bearer(token: str) -> bytes:
    """Return the header's value."""
    return f"Bearer {token}".encode()


def test_a_token_opens(tokens: Tokens) -> None:
    """It is known by its id, with its own grant."""
    guarded = Guarded(tokens)
    token = guarded.token("read", streams=["s"])
    holder = guarded.cache.holder(bearer(token))

    assert holder is not None
    assert (holder.token_id, holder.grant) == (token.split("_")[1], Grant.of(["read"], ["s"]))


def test_a_secret_has_256_bits_and_is_not_kept() -> None:
    """Only its SHA-256 is kept, which cannot be reversed."""
    token, record = mint(READ, label="", now_ms=NOW, lifetime_ms=None)
    _, _, secret = token.split("_", 2)

    kept = (record.digest, secret in repr(record))
    assert (len(secret) * 6 >= 256, kept) == (True, (sha256(secret.encode()).hexdigest(), False))


def test_no_two_tokens_are_alike() -> None:
    """Neither in their id nor in their secret."""
    made = [mint(READ, label="", now_ms=NOW, lifetime_ms=None) for _ in range(100)]

    assert (len({token for token, _ in made}), len({r.id for _, r in made})) == (100, 100)


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `hmac.compare_digest`, also if there is no token of that id."""
    compared: list[tuple[object, object]] = []
    compare_digest = hmac.compare_digest

    def compare(shown: str, kept: str) -> bool:
        compared.append((shown, kept))
        return compare_digest(shown, kept)

    monkeypatch.setattr(hmac, "compare_digest", compare)
    guarded = Guarded()
    token = guarded.token("read")
    for shown in (token, "nt_0123456789ab_" + 43 * "x"):
        guarded.cache.holder(bearer(shown))

    assert [len(str(each)) for pair in compared for each in pair] == [64, 64, 64, 64]


def test_an_expired_token_opens_no_more() -> None:
    """From that moment on, also if its header was seen before."""
    guarded = Guarded()
    token = guarded.token("read", lifetime_ms=1000)
    guarded.now += 999
    before = guarded.cache.holder(bearer(token))
    guarded.now += 1

    assert (before is None, guarded.cache.holder(bearer(token))) == (False, None)


def test_a_revoked_token_opens_no_more(tokens: Tokens) -> None:
    """From the next look on, also if its header was seen before; others keep working."""
    guarded = Guarded(tokens)
    revoked, other = guarded.token("read"), guarded.token("read")
    before = guarded.cache.holder(bearer(revoked))
    guarded.revoke(revoked)

    after = [guarded.cache.holder(bearer(each)) is None for each in (revoked, other)]
    assert (before is None, after) == (False, [True, False])


def test_the_last_token_revoked_opens_no_door() -> None:
    """A controller that once required tokens keeps requiring them."""
    guarded = Guarded()
    before = guarded.gate.asks()
    guarded.revoke(guarded.token("admin"))

    assert (before, guarded.gate.asks()) == (False, True)


def test_a_token_may_be_required_before_there_is_one() -> None:
    """Then no caller is admitted."""
    gate = Gate(Guarded().cache, require=True)

    with pytest.raises(AccessDenied):
        gate.admit(Need("a token"), RequestInfo("GET", "/v1/streams", [], ""))


def test_a_look_reads_no_rows_if_nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two counts show it."""
    guarded = Guarded()
    guarded.token("read")
    monkeypatch.delattr(type(guarded.tokens), "all")
    guarded.cache.refresh()

    assert guarded.gate.asks()


def test_spellings_of_a_header_do_not_pile_up() -> None:
    """With any mix of letters and spaces before a token."""
    guarded = Guarded()
    token = guarded.token("read").encode()
    letters = product(*((each, each.upper()) for each in "bearer"))
    spellings = ["".join(word).encode() + n * b" " for word in letters for n in range(1, 180)]
    holders = [guarded.cache.holder(spelling + token) for spelling in spellings]

    assert len(spellings) > MOST_SPELLINGS
    assert None not in holders
    assert len(guarded.cache._known.holders) <= MOST_SPELLINGS


def test_a_header_much_longer_than_a_token_counts_as_no_token() -> None:
    """It is neither read nor remembered, so that what is remembered stays small."""
    guarded = Guarded()
    token = guarded.token("read").encode()
    holders = [
        guarded.cache.holder(b"Bearer".ljust(length - len(token)) + token)
        for length in (LONGEST, LONGEST + 1, 60_000)
    ]

    assert [holder is not None for holder in holders] == [True, False, False]
    assert max(map(len, guarded.cache._known.holders)) == LONGEST


GUARDED = Guarded()
TOKEN = GUARDED.token("admin")
forms = st.one_of(
    st.binary(max_size=200),
    st.from_regex(rb"[Bb]earer +nt_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", fullmatch=True),
    st.tuples(st.integers(0, len(TOKEN) + 6), st.binary(min_size=1, max_size=3)).map(
        lambda cut: bearer(TOKEN)[: cut[0]] + cut[1] + bearer(TOKEN)[cut[0] + 1 :]
    ),
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
def test_no_other_header_opens(header: bytes) -> None:
    """Whatever it consists of, it neither opens nor breaks anything."""
    holder = GUARDED.cache.holder(header)

    same = header.lower().startswith(b"bearer ") and header.split()[1:] == [TOKEN.encode()]
    assert (holder is not None) <= (same and not header.endswith(b"\n"))


def test_to_be_let_in_takes_two_microseconds() -> None:
    """The gate of every request, with six headers and a bound token among a thousand."""
    guarded = Guarded()
    for _ in range(1000):
        guarded.token("read")
    token = guarded.token("write", streams=["flights"], writers=["UA"])
    headers = [(name, b"value") for name in (b"accept", b"user-agent", b"content-type")]
    headers = [(b"host", b"controller"), *headers, (b"authorization", bearer(token)), (b"x", b"y")]
    need, asked = Need("write", "flights"), RequestInfo("POST", "/", headers, "127.0.0.1")
    rounds = []
    for _ in range(5):
        begun = time.process_time()
        for _ in range(2000):
            guarded.gate.admit(need, asked)
        rounds.append((time.process_time() - begun) / 2000)

    # twice the bound: a loaded machine must not fail this
    assert min(rounds) < 4e-6
