"""Tokens, addresses and certificates of a controller in a process of its own."""

import json
import ssl
import time
from pathlib import Path

import httpx
import pytest

from tests.support.processes import ServeProcess, command
from tests.support.waiting import wait_until

HERE = Path(__file__).parent
CERTIFICATE, KEY = HERE / "certificate" / "certificate.pem", HERE / "certificate" / "key.pem"
TLS = ["--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY)]
NOTES = {"notes": [{"writer": "UA"}]}

pytestmark = pytest.mark.acceptance


def make(directory: Path, *options: str) -> str:
    """Make a token on the command line."""
    made = command("token", "create", *options, cwd=directory)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows it."""
    return {"authorization": f"Bearer {token}"}


def test_a_token_that_is_revoked_while_it_serves_is_refused_soon(tmp_path: Path) -> None:
    """The command works on the database, beside the controller; others keep working."""
    gone, stays = make(tmp_path, "--scope", "admin"), make(tmp_path, "--scope", "admin")
    with ServeProcess(tmp_path).ready() as controller:
        url = f"{controller.url}/v1/streams/s"
        before = [httpx.put(url, headers=bearer(token)).status_code for token in (gone, stays)]
        revoked = command("token", "revoke", gone.split("_")[1], cwd=tmp_path)
        wait_until(lambda: httpx.get(url, headers=bearer(gone)).status_code == 401)
        after = httpx.get(url, headers=bearer(stays)).status_code
    assert (before, revoked.returncode, after) == ([201, 200], 0, 200)


def test_the_log_has_refused_and_administering_callers_but_no_secret(tmp_path: Path) -> None:
    """The token's id, the call, the stream, the address and the outcome."""
    admin, reader = make(tmp_path, "--scope", "admin"), make(tmp_path, "--scope", "read")
    stranger = "nt_0123456789ab_" + 43 * "s"
    with ServeProcess(tmp_path, "--log-level", "debug").ready() as controller:
        url = f"{controller.url}/v1/streams/s"
        httpx.put(url, headers=bearer(admin))
        httpx.get(url, headers=bearer(reader))
        httpx.delete(url, headers=bearer(reader))
        httpx.post(f"{url}/notes?x={stranger}", json=NOTES, headers=bearer(stranger))
        httpx.post(f"{url}/notes", json=NOTES, headers=bearer(reader))
        httpx.put(url, headers=bearer(admin) | {"origin": "http://evil.example"})
        controller.stop()

        text, lines = controller.text(), controller.log()
    names = ("outcome", "who", "what", "stream", "remote")
    found = [[line[name] for name in names] for line in lines if line["event"] == "audit"]
    secrets = [token.split("_", 2)[2] for token in (admin, reader, stranger)]
    assert (found, [secret for secret in secrets if secret in text]) == (
        [
            [201, admin.split("_")[1], "PUT /v1/streams/s", "s", "127.0.0.1"],
            ["forbidden", reader.split("_")[1], "DELETE /v1/streams/s", "s", "127.0.0.1"],
            ["unauthenticated", "", "POST /v1/streams/s/notes", "s", "127.0.0.1"],
            ["forbidden", reader.split("_")[1], "POST /v1/streams/s/notes", "s", "127.0.0.1"],
            ["foreign_origin", "", "PUT /v1/streams/s", "s", "127.0.0.1"],
        ],
        [],
    )


def test_tls_is_served_by_flags(tmp_path: Path) -> None:
    """Notes go through the same short cut, and plain HTTP gets no answer."""
    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
    with ServeProcess(tmp_path, *TLS).ready() as controller:
        with httpx.Client(base_url=controller.url, verify=trusted) as client:
            made = client.put("/v1/streams/s").status_code
            noted = client.post("/v1/streams/s/notes", json=NOTES).status_code
        with pytest.raises(httpx.HTTPError):
            httpx.get(controller.url.replace("https", "http"))

    assert (controller.url.split(":")[0], made, noted) == ("https", 201, 200)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (TLS[:2], "TLS requires a certificate and its key"),
        ([*TLS[:3], "missing.pem"], "are not a certificate and its key"),
        ([TLS[0], TLS[3], *TLS[2:]], "are not a certificate and its key"),
    ],
)
def test_a_certificate_without_its_key_is_reported(
    tmp_path: Path, options: list[str], says: str
) -> None:
    """Before anything is served."""
    refused = command("serve", *options, cwd=tmp_path)

    assert (refused.returncode, says in refused.stderr) == (1, True)


def test_tokens_are_listed_without_their_secrets(tmp_path: Path) -> None:
    """Id, state, rights and label, the oldest first."""
    options = ["--scope", "write", "--scope", "read", "--stream", "f*", "--writer", "UA"]
    first = make(tmp_path, *options, "--label", "carrier UA")
    second = make(tmp_path, "--scope", "admin", "--expires-in", "1s")
    ids = [token.split("_")[1] for token in (first, second)]
    revoked = [command("token", "revoke", ids[0], cwd=tmp_path).stdout for _ in range(2)]
    time.sleep(1)
    listed = command("token", "list", "--json", cwd=tmp_path)

    tokens = json.loads(listed.stdout)
    found = [[row["id"], row["state"].split()[0], row["rights"], row["label"]] for row in tokens]
    assert listed.stderr == "Tokens kept in sqlite:///noted-time.db:\n"
    assert (revoked, found) == (
        [
            f"Token {ids[0]} is revoked, in sqlite:///noted-time.db.\n",
            f"Token {ids[0]} is revoked already, in sqlite:///noted-time.db.\n",
        ],
        [
            [ids[0], "revoked", "read f*; write f* as UA", "carrier UA"],
            [ids[1], "expired", "administer", ""],
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["revoke", "0123456789ab"], "has no tables of noted-time: run `noted-time migrate"),
        (["list"], "has no tables of noted-time: run `noted-time migrate"),
        (["create", "--scope", "reed"], "unknown scope 'reed'"),
        (["create", "--scope", "read", "--expires-in", "0s"], "the lifetime must be positive"),
        (["create", "--scope", "read", "--stream", "a?"], "pattern 'a?' is not"),
    ],
)
def test_a_token_command_that_cannot_be_done_is_reported(
    tmp_path: Path, arguments: list[str], says: str
) -> None:
    """In a sentence, with status 1, no token shown and no database made."""
    done = command("token", *arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout, says in done.stderr) == (1, "", True)
    assert [*tmp_path.iterdir()] == []


def test_an_unknown_token_is_reported_with_the_database(tmp_path: Path) -> None:
    """The command that lists them names it as well."""
    make(tmp_path, "--scope", "read")
    done = command("token", "revoke", "0123456789ab", cwd=tmp_path)

    says = (
        "noted-time: there is no token '0123456789ab' in sqlite:///noted-time.db: "
        "see `noted-time token list --database sqlite:///noted-time.db`\n"
    )
    assert (done.returncode, done.stderr) == (1, says)
