"""Replicas that ask for tokens and speak TLS, to their callers and to each other."""

import ssl
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from controller.service.permissions import Grant
from controller.service.tokens import mint
from controller.store.migrate import migrate
from controller.store.open import open_tokens
from controller.store.token_table import Tokens
from tests.replicas.served import BUCKETS
from tests.support.postgres import Server
from tests.support.processes import ServeProcess
from tests.support.scrapes import samples
from tests.support.waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.acceptance

ACCESS = Path(__file__).resolve().parents[1] / "access" / "certificate"
CERTIFICATE, KEY = ACCESS / "certificate.pem", ACCESS / "key.pem"
JOINING = {"notes": [{"writer": "UA"}]}


class Guarded(NamedTuple):
    """Clients of the replica that has the stream `name` and of another, and their tokens.

    `tokens` has the headers that show them; each counts.
    """

    owner: httpx.Client
    other: httpx.Client
    name: str
    tokens: Mapping[str, dict[str, str]]
    directory: Path

    def codes(self, token: str, body: object = JOINING) -> list[tuple[int, str]]:
        """Return status and code of the answers to notes with that token, by owner and other."""
        path, shown = f"/v1/streams/{self.name}/notes", self.tokens[token]
        answers = [
            client.post(path, json=body, headers=shown) for client in (self.owner, self.other)
        ]
        return [(each.status_code, each.json().get("code", "")) for each in answers]

    def statuses(self, method: str, below: str, token: str) -> list[int]:
        """Return the statuses of a call about the stream with that token, by owner and other."""
        path, shown = f"/v1/streams/{self.name}{below}", self.tokens[token]
        return [
            client.request(method, path, headers=shown).status_code
            for client in (self.owner, self.other)
        ]


GRANTS: Mapping[str, tuple[tuple[str, ...], dict[str, list[str]]]] = {
    "admin": (("admin",), {}),
    "writes": (("write",), {"streams": ["s*"]}),
    "reads": (("read",), {}),
}


def minted(kept: Tokens) -> dict[str, dict[str, str]]:
    """Make the tokens; returns the headers that show them."""
    shown = {"unknown": bearer(f"nt_0123456789ab_{43 * 's'}")}
    for name, (scopes, bounds) in GRANTS.items():
        token, record = mint(Grant.of(scopes, **bounds), label=name, now_ms=1, lifetime_ms=None)
        kept.add(record)
        shown[name] = bearer(token)
    return shown


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows it."""
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def guarded(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """Two replicas with a certificate that they trust by configuration."""
    database, directory = server.make_database(), tmp_path_factory.mktemp("guarded")
    migrate(database)
    with closing(open_tokens(database)) as kept:
        tokens = minted(kept)
    admin = tokens["admin"]
    options = ("--database", database, "--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY))
    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
    with (
        ServeProcess(directory, *options, SSL_CERT_FILE=str(CERTIFICATE)) as a,
        ServeProcess(directory, *options, SSL_CERT_FILE=str(CERTIFICATE)) as b,
        httpx.Client(base_url=a.ready().url, verify=trusted, timeout=PATIENCE_S) as to_a,
        httpx.Client(base_url=b.ready().url, verify=trusted, timeout=PATIENCE_S) as to_b,
    ):
        wait_until(lambda: all(has_half(each, admin) for each in (to_a, to_b)))
        name = next(f"s{n}" for n in range(BUCKETS) if answers_for(to_a, f"s{n}", admin))
        to_b.put(f"/v1/streams/{name}", headers=admin).raise_for_status()
        yield Guarded(to_a, to_b, name, tokens, directory)


def has_half(client: httpx.Client, admin: dict[str, str]) -> bool:
    """Whether a replica has its share of the buckets."""
    shown = client.get("/metrics", headers=admin).text
    return samples(shown, "noted_time_buckets").get(("this",)) == BUCKETS // 2


def answers_for(client: httpx.Client, name: str, admin: dict[str, str]) -> bool:
    """Whether a replica has the stream, made or not."""
    only_here = admin | {"noted-time-forwarded": "1"}
    return client.get(f"/v1/streams/{name}/explain", headers=only_here).status_code == 404


def test_a_token_counts_at_either_replica(guarded: Guarded) -> None:
    """For notes, which travel in frames, and for all else, over TLS on both ways; no other does."""
    reads = [guarded.statuses("GET", below, "reads") for below in ("/explain", "/marks")]
    refused = guarded.codes("unknown"), guarded.codes("reads")

    assert (guarded.codes("writes"), reads, guarded.statuses("PUT", "", "admin")) == (
        [(200, "")] * 2,
        [[200, 200]] * 2,
        [200, 200],
    )
    assert refused == ([(401, "unauthenticated")] * 2, [(403, "forbidden")] * 2)


def test_no_log_contains_a_token(guarded: Guarded) -> None:
    """Neither that of the replica that forwarded a request nor that of the one that answered it."""
    guarded.codes("admin")
    guarded.statuses("PUT", "", "admin")
    guarded.statuses("PUT", "", "unknown")
    texts = [file.read_text() for file in guarded.directory.glob("*.log")]
    secrets = [
        header.split("_", 2)[2]
        for shown in guarded.tokens.values()
        for header in shown.values()
        if any(header.split("_", 2)[2] in text for text in texts)
    ]

    assert (secrets, ["audit" in text for text in texts]) == ([], [True, True])
