"""The calls that each token may make, over the whole API."""

from collections.abc import Iterator
from operator import itemgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.api.app import create_api
from controller.api.gate.access import OPEN_PATHS, find_need
from controller.api.pages.assets import PAGE_PATHS
from controller.service.controller import Controller
from controller.service.telemetry.metrics import refused_calls
from tests.support.gates import Guarded, serve_gate
from tools.trials.memory_store import MemoryStore

S = "/v1/streams/s"


def list_calls() -> Iterator[tuple[str, str]]:
    """Yield every documented call, with names for its parameters."""
    paths = create_api(Controller(MemoryStore())).openapi()["paths"]
    for path, operations in paths.items():
        for method in operations:
            yield (method.upper(), path.format(stream="s", group="g", reader="r", writer="w"))


ASKING = [(method, path) for method, path in list_calls() if path not in OPEN_PATHS]


@pytest.mark.parametrize(("method", "path"), ASKING)
async def test_every_call_needs_a_token(method: str, path: str) -> None:
    """Missing, malformed, unknown, expired and revoked tokens get the same answer."""
    guarded_gate = Guarded()
    expired_token = guarded_gate.token("admin", lifetime_ms=1)
    revoked_token = guarded_gate.token("admin")
    guarded_gate.revoke(revoked_token)
    guarded_gate.now += 1
    async with serve_gate(guarded_gate.gate) as door:
        shown_tokens = (
            None,
            "x",
            "nt_0123456789ab_" + 43 * "s",
            f"{revoked_token}x",
            expired_token,
            revoked_token,
        )
        answers = [await door.answer(method, path, token) for token in shown_tokens]

    for answer in answers:
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.text == answers[0].text


@pytest.mark.parametrize("path", sorted({"/healthz", "/readyz", "/openapi.json"} | PAGE_PATHS))
async def test_health_calls_and_pages_need_no_token(path: str) -> None:
    """Process supervisors need no token, and the pages are not secret."""
    guarded_gate = Guarded()
    guarded_gate.token("admin")
    async with serve_gate(guarded_gate.gate) as door:
        assert await door.call("GET", path) == (200, "")


GIVEN = {
    "read": {"a token", "read", "read all"},
    "write": {"a token", "write"},
    "observe": {"a token", "observe"},
    "admin": {"a token", "read", "read all", "write", "observe", "administer"},
}


@pytest.mark.parametrize("scope", GIVEN)
async def test_token_has_exactly_the_rights_of_its_scope(scope: str) -> None:
    """The right is checked before the body."""
    guarded_gate = Guarded()
    token = guarded_gate.token(scope)
    async with serve_gate(guarded_gate.gate) as door:
        for call in ASKING:
            answer = await door.answer(*call, token)
            has_right = find_need(*call).right in GIVEN[scope]
            assert (answer.status_code != 403) == has_right, call


async def test_audit_log_has_refusals_and_changes_but_no_secret() -> None:
    """Each line has the outcome, the token's id and label, the call, the stream and the address.

    The controller's own line of a change has the label and the id as well.
    """
    guarded_gate = Guarded()
    admin = guarded_gate.token("admin", label="ops, Kim")
    carrier = guarded_gate.token("write", streams=["s"], writers=["UA"], label="carrier")
    reader = guarded_gate.token("read")
    stranger = "nt_0123456789ab_" + 43 * "s"
    async with serve_gate(guarded_gate.gate) as door:
        with capture_logs() as logs:
            await door.call("PUT", S, admin, {"writer_timeout_ms": 7})
            await door.call("POST", f"{S}/notes", carrier, {"notes": [{"writer": "DL"}]})
            await door.call("GET", S, reader)
            await door.call("DELETE", S, reader)
            await door.call("POST", f"{S}/notes?x={stranger}", stranger, {"notes": []})
            await door.call("PUT", S, admin, origin="http://evil.example")

    ids = [token.split("_")[1] for token in (admin, carrier, reader)]
    read_facts = itemgetter("outcome", "who", "label", "what", "stream", "remote")
    audit_lines = [read_facts(log_line) for log_line in logs if log_line["event"] == "audit"]
    place = ("s", "127.0.0.1")
    assert audit_lines == [
        (200, ids[0], "ops, Kim", f"PUT {S}", *place),
        ("forbidden", ids[1], "carrier", "note for DL", *place),
        ("forbidden", ids[2], "", f"DELETE {S}", *place),
        ("unauthenticated", "", "", f"POST {S}/notes", *place),
        ("foreign_origin", "", "", f"PUT {S}", *place),
    ]
    changers = [log_line["by"] for log_line in logs if log_line["event"] == "stream_changed"]
    assert changers == [f"ops, Kim ({ids[0]})"]
    for token in (admin, carrier, reader, stranger):
        secret = token.split("_", 2)[2]
        assert secret not in repr(logs)


async def test_token_is_required_once_the_first_is_created() -> None:
    """From then on the OpenAPI document has a bearer scheme for all calls but the open ones."""
    guarded_gate = Guarded()
    async with serve_gate(guarded_gate.gate) as door:
        assert await door.call("GET", S) == (200, "")
        document = (await door.answer("GET", "/openapi.json")).json()
        assert document["security"] == [{"token": []}, {}]

        guarded_gate.token("read")
        assert await door.call("GET", S) == (401, "unauthenticated")
        document = (await door.answer("GET", "/openapi.json")).json()
        assert document["security"] == [{"token": []}]

    scheme = document["components"]["securitySchemes"]["token"]
    open_paths = set()
    for path, calls in document["paths"].items():
        for call in calls.values():
            if call.get("security") == []:
                open_paths.add(path)
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    assert open_paths == {"/healthz", "/readyz"}


def test_only_operators_changes_need_the_right_to_administer() -> None:
    """A route without a listed right needs the right to administer."""
    administering = {call for call in list_calls() if find_need(*call).right == "administer"}

    assert administering == {
        ("PUT", S),
        ("DELETE", S),
        ("PUT", f"{S}/event-time-form"),
        ("POST", f"{S}/scale"),
        ("POST", f"{S}/truncate"),
        ("PUT", f"{S}/reader-groups/g"),
        ("POST", f"{S}/seal"),
        ("DELETE", f"{S}/reader-groups/g"),
        ("DELETE", f"{S}/writers/w"),
        ("POST", f"{S}/writers/w/suspension"),
        ("DELETE", f"{S}/writers/w/suspension"),
    }


@given(
    st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
    st.lists(st.sampled_from(["", "v1", "streams", "s", "notes", "marks", "notes\n", "%2f", "."])),
)
def test_an_unknown_call_needs_the_right_to_administer(method: str, parts: list[str]) -> None:
    """A bent path needs at least the right of the call that it may reach."""
    path = "/" + "/".join(parts)
    rights = {("POST", "notes"): "write", ("GET", "marks"): "read", ("GET", ""): "read"}
    subpath = parts[3] if len(parts) > 3 else ""
    is_call = parts[:2] == ["v1", "streams"] and 2 < len(parts) < 5 and parts[2] != ""
    expected = rights.get((method, subpath), "administer") if is_call else "administer"
    if (method, path) == ("GET", "/v1/streams"):
        expected = "a token"
    if path == "/":
        expected = "nothing"
    if is_call and len(parts) == 4 and subpath == "":
        expected = "administer" if method != "GET" else "read"

    assert find_need(method, path).right == expected


async def test_a_refusal_is_counted_and_logged_at_debug() -> None:
    """A stranger cannot forge log lines: there is one short line of ASCII, without the query."""
    refusal_counter = refused_calls.labels("unauthenticated")
    before = refusal_counter._value.get()
    guarded_gate = Guarded()
    guarded_gate.token("admin")
    async with serve_gate(guarded_gate.gate) as door:
        with capture_logs() as logs:
            await door.call("GET", "/v1/streams/a%0a%1b[2J\u00e4" + 500 * "x" + "?token=secret")

    (line,) = logs
    text = line["what"] + line["stream"]
    assert (line["log_level"], refusal_counter._value.get() - before) == ("debug", 1)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) < 700
    assert "secret" not in text


async def test_two_headers_count_as_no_token() -> None:
    guarded_gate = Guarded()
    token = guarded_gate.token("admin")
    async with serve_gate(guarded_gate.gate) as door:
        headers = [("authorization", f"Bearer {token}")] * 2
        answer = await door.client.get(S, headers=headers)

    assert answer.status_code == 401
