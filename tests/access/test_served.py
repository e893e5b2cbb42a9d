"""Tokens, addresses and certificates of a running controller and its clients."""

import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from structlog.testing import capture_logs

from controller.api.gate.access import Gate
from controller.api.sockets.server import ListenAddress
from noted_time import Rejected
from noted_time.client import ENVIRONMENT_VARIABLE
from noted_time_cli.server.serving import _check_address, _list_names, _warn_of_address
from reader_client import ReaderClient
from tests.reader_client.answers import MARKS, STREAM
from tests.support.gates import Guarded
from tests.support.processes import ServeProcess, run_command
from tests.support.scrapes import samples
from tools.trials.calls import Calls
from tools.trials.waiting import wait_until
from writer_client import WriterClient

HERE = Path(__file__).parent

CERTIFICATE = HERE / "certificate" / "certificate.pem"
KEY = HERE / "certificate" / "key.pem"

TLS = ["--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY)]

EXPIRY = "noted_time_certificate_expiry_seconds"

NOTES = {"notes": [{"writer": "UA"}]}


def create_token(directory: Path, *options: str) -> str:
    """Make a token on the command line, and its database before the first one."""
    process = run_command("migrate", cwd=directory)
    assert process.returncode == 0, process.stderr
    made = run_command("token", "create", *options, cwd=directory)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


@pytest.mark.acceptance
def test_revoked_token_is_refused_by_a_running_controller(tmp_path: Path) -> None:
    """The command writes to the database; the controller still accepts the other token."""
    revoked_token, stays = (create_token(tmp_path, "--scope", "admin") for _ in range(2))
    with ServeProcess(tmp_path).ready() as controller:
        by_gone, by_other = (Calls(controller.url, token) for token in (revoked_token, stays))
        before = [calls.ask("PUT", "/streams/s").status_code for calls in (by_gone, by_other)]
        process = run_command("token", "revoke", revoked_token.split("_")[1], cwd=tmp_path)
        wait_until(lambda: by_gone.ask("GET", "/streams/s").status_code == 401)
        after = by_other.ask("GET", "/streams/s").status_code
    assert (before, process.returncode, after) == ([201, 200], 0, 200)


@pytest.mark.acceptance
def test_tls_flags_serve_https_only(tmp_path: Path) -> None:
    """Plain HTTP gets no answer."""
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    with ServeProcess(tmp_path, *TLS).ready() as controller:
        with httpx.Client(base_url=controller.url, verify=context) as client:
            put_status = client.put("/v1/streams/s").status_code
            note_status = client.post("/v1/streams/s/notes", json=NOTES).status_code
        with pytest.raises(httpx.HTTPError):
            httpx.get(controller.url.replace("https", "http"))

    assert (controller.url.split(":")[0], put_status, note_status) == ("https", 201, 200)


@pytest.mark.acceptance
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_renewed_certificate_is_loaded_without_restart(tmp_path: Path) -> None:
    """It is loaded with its key; the metric shows when it expires."""
    cert = Path(shutil.copy(CERTIFICATE, tmp_path))
    key = Path(shutil.copy(KEY, tmp_path))
    new_files = [tmp_path / "new.pem", tmp_path / "new-key.pem"]
    words = ["openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=localhost"]
    words += ["-days", "3", "-out", str(new_files[0]), "-keyout", str(new_files[1])]
    subprocess.run(words, check=True, capture_output=True)
    with (
        ServeProcess(
            tmp_path, "--tls-cert", str(cert), "--tls-key", str(key)
        ).ready() as controller,
        httpx.Client(base_url=controller.url, verify=False) as client,  # noqa: S501 - loopback
    ):

        def expiry() -> float:
            return samples(client.get("/metrics").text, EXPIRY)[()]

        before = expiry()
        new_files[0].replace(cert)
        wait_until(lambda: "certificate_not_loaded" in controller.text())
        new_files[1].replace(key)
        wait_until(lambda: expiry() != before)
        after = expiry()
        with httpx.Client(verify=ssl.create_default_context(cafile=str(cert))) as renewed_client:
            served = renewed_client.get(f"https://localhost:{controller.port}/healthz").status_code

    assert (before > after, 2 < (after - time.time()) / 86_400 < 4, served) == (True, True, 200)


@pytest.mark.acceptance
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
    refusal = run_command("serve", *options, cwd=tmp_path)

    assert (refusal.returncode, says in refusal.stderr) == (1, True)


# Addresses of a controller, and their warnings


ANYWHERE = "0.0.0.0"  # noqa: S104 - nothing is bound here
LOOPBACK = ("127.0.0.1", "127.0.0.2", "localhost", "::1")


def list_warnings(gate: Gate, place: ListenAddress) -> list[str]:
    """Return the events of the warnings for an address."""
    with capture_logs() as logs:
        _warn_of_address(gate, place, None)
    return [line["event"] for line in logs]


def make_guarded_gate() -> Gate:
    """Return a gate that requires tokens."""
    guarded_gate = Guarded()
    guarded_gate.token("admin")
    return guarded_gate.gate


@pytest.mark.parametrize(
    ("gate", "place", "events"),
    [
        *((Gate(), ListenAddress(each, 0), []) for each in LOOPBACK),
        (Gate(require=True), ListenAddress(ANYWHERE, 0), ["tokens_in_clear"]),
        (make_guarded_gate(), ListenAddress(ANYWHERE, 0), ["tokens_in_clear"]),
        (make_guarded_gate(), ListenAddress(ANYWHERE, 0, CERTIFICATE, KEY), []),
    ],
)
def test_tokens_over_plain_http_log_a_warning(
    gate: Gate, place: ListenAddress, events: list[str]
) -> None:
    """The loopback needs no tokens; with tokens a controller may listen anywhere."""
    assert list_warnings(gate, place) == events


@pytest.mark.parametrize("host", [ANYWHERE, "::", "10.0.0.1", "controller.example", ""])
def test_network_address_is_refused_without_tokens(host: str) -> None:
    """Otherwise strangers could advance every stream."""
    with pytest.raises(Rejected, match="there is no token"):
        _check_address(Gate(), ListenAddress(host, 0), "sqlite:///a.db", None)


def test_open_controller_logs_a_warning() -> None:
    """The log has the rights of strangers, and the host names of the controller."""
    place = ListenAddress(ANYWHERE, 0)
    names = _list_names(place, "http://controller-1:7464", "time.example, ,a.example")

    with capture_logs() as logs:
        _check_address(Gate(names=names), place, "sqlite:///a.db", names)
        _warn_of_address(Gate(names=names), place, names)

    assert names == [ANYWHERE, "a.example", "controller-1", "time.example"]
    assert logs == [
        {
            "event": "open_to_everybody",
            "log_level": "warning",
            "host": ANYWHERE,
            "may": "read, note, seal and remove every stream",
            "names": names,
        }
    ]


# Clients with tokens


URL = "http://127.0.0.1:7464"

TOKEN = "nt_0123456789ab_s3cr3t"  # noqa: S105 - not a real one


class Answers(httpx.MockTransport):
    """Accepts every note, and remembers the tokens that it got."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.shown: set[str | None] = set()

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.shown.add(request.headers.get("authorization"))
        if request.method == "POST":
            notes = json.loads(request.content)["notes"]
            results = [{"status": "accepted", "lower": None}] * len(notes)
            return httpx.Response(200, json={"results": results})
        if request.url.path.endswith("/marks"):
            return httpx.Response(200, json=MARKS)
        return httpx.Response(200, json=STREAM)


def write(transport: Answers, token: str | None = None) -> None:
    """Note once."""
    with WriterClient("s", "UA", controller=URL, token=token, transport=transport) as client:
        client.note_time(5, {0: 1})
        client.flush()


def read(transport: Answers, token: str | None = None) -> None:
    """Follow the marks until all are known."""
    with ReaderClient("s", controller=URL, token=token, transport=transport) as client:
        client.catch_up()


@pytest.mark.parametrize("act", [write, read])
def test_client_sends_its_token_or_the_environments(
    act: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every request has it; without both, no request has a token."""
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    given_answers = Answers()
    without = Answers()
    within = Answers()
    act(given_answers, TOKEN)
    act(without)
    monkeypatch.setenv(ENVIRONMENT_VARIABLE, TOKEN)
    act(within)

    shown_headers = {f"Bearer {TOKEN}"}
    assert given_answers.shown == shown_headers
    assert without.shown == {None}
    assert within.shown == shown_headers


def test_client_repr_has_no_token() -> None:
    """Its own parts have no token in their `repr`, either."""
    with (
        WriterClient("s", "UA", controller=URL, token=TOKEN, transport=Answers()) as writer,
        ReaderClient("s", controller=URL, token=TOKEN, transport=Answers()) as reader,
    ):
        parts: list[object] = [writer, reader]
        for transport in (writer._transport, reader._transport):
            parts.append(transport)
            for line in transport._lines._lines:
                parts += [line.http, line.http.headers]

        for part in parts:
            assert TOKEN not in repr(part)
