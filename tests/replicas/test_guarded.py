"""Replicas with tokens and TLS."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from controller.store.migrate import migrate
from controller.store.open import open_tokens
from tests.replicas.replica_processes import Two, find_owned_name, wait_until_shared
from tests.support.gates import Guarded
from tests.support.processes import ServeProcess
from tools.trials.calls import Calls
from tools.trials.postgres import Server

pytestmark = pytest.mark.acceptance

ACCESS = Path(__file__).resolve().parents[1] / "access" / "certificate"
CERTIFICATE = str(ACCESS / "certificate.pem")
KEY = str(ACCESS / "key.pem")
JOINING = {"notes": [{"writer": "UA"}]}


@pytest.fixture(scope="module")
def database(server: Server) -> str:
    """A migrated database."""
    url = server.make_database()
    migrate(url)
    return url


@pytest.fixture(scope="module")
def tokens(database: str) -> Mapping[str, str]:
    """Tokens by their names; all are valid except `unknown`."""
    with closing(open_tokens(database)) as token_store:
        guarded_gate = Guarded(token_store)
        return {
            "admin": guarded_gate.token("admin"),
            "writes": guarded_gate.token("write", streams=["s*"]),
            "reads": guarded_gate.token("read"),
            "unknown": f"nt_0123456789ab_{43 * 's'}",
        }


@pytest.fixture(scope="module")
def two(
    database: str, tokens: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Two]:
    """Two replicas with a certificate that they trust by configuration."""
    directory = tmp_path_factory.mktemp("guarded")
    options = ("--database", database, "--tls-cert", CERTIFICATE, "--tls-key", KEY)
    with (
        ServeProcess(directory, *options, SSL_CERT_FILE=CERTIFICATE) as a,
        ServeProcess(directory, *options, SSL_CERT_FILE=CERTIFICATE) as b,
    ):
        a.token = b.token = tokens["admin"]
        wait_until_shared(a.ready(), b.ready())
        yield Two(a, b)


@pytest.fixture(scope="module")
def name(two: Two) -> str:
    """The name of a stream of `a`, which `b` was asked to make."""
    owned_name = find_owned_name(two.a)
    two.b.create(owned_name)
    return owned_name


def codes(
    two: Two, token: str, method: str, path: str, body: object = None
) -> list[tuple[int, str]]:
    """Return status and code of the answers to a call with that token, by owner and other."""
    answers = [Calls(replica.url, token).ask(method, f"/streams/{path}", body) for replica in two]
    return [(answer.status_code, answer.json().get("code", "")) for answer in answers]


def test_token_is_valid_at_both_replicas(two: Two, name: str, tokens: Mapping[str, str]) -> None:
    """This holds for notes, which are forwarded in frames, and for other requests."""
    answers_to_notes = {}
    for token_name in ("writes", "reads", "unknown"):
        token = tokens[token_name]
        answers_to_notes[token_name] = codes(two, token, "POST", f"{name}/notes", JOINING)

    assert codes(two, tokens["reads"], "GET", f"{name}/explain") == [(200, "")] * 2
    assert codes(two, tokens["reads"], "GET", f"{name}/marks") == [(200, "")] * 2
    assert codes(two, tokens["admin"], "PUT", name) == [(200, "")] * 2
    assert answers_to_notes == {
        "writes": [(200, "")] * 2,
        "reads": [(403, "forbidden")] * 2,
        "unknown": [(401, "unauthenticated")] * 2,
    }


def test_no_log_contains_token(two: Two, name: str, tokens: Mapping[str, str]) -> None:
    """The forwarding and the answering replica log requests without tokens."""
    for token in tokens.values():
        codes(two, token, "POST", f"{name}/notes", JOINING)
        codes(two, token, "PUT", name)

    for replica in two:
        text = replica.text()
        assert "audit" in text
        for token in tokens.values():
            secret = token.split("_", 2)[2]
            assert secret not in text
