"""How clients show their token, and what they make of a refusal."""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from noted_time import Rejected
from noted_time.client import VARIABLE
from noted_time.values import NotAllowed
from reader_client import ReaderClient
from tests.support.processes import ServeProcess, command
from tests.support.waiting import PATIENCE_S
from writer_client import WriterClient

URL = "http://127.0.0.1:7464"
TOKEN = "nt_0123456789ab_s3cr3t"  # noqa: S105 - not a real one
STREAM = {"id": "1", "domains": ["default"], "scale_events": [], "marks": {"default": None}}
ADMIN, READ = ["--scope", "admin"], ["--scope", "read", "--stream", "s"]
WRITE = ["--scope", "write", "--stream", "s", "--writer", "UA"]


class Answers(httpx.MockTransport):
    """Answers as planned, with the statuses of `refusals` first; remembers the headers it got."""

    def __init__(self, *refusals: int) -> None:
        super().__init__(self._answer)
        self.refusals = list(refusals)
        self.shown: set[str | None] = set()
        self.noted: list[int | None] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.shown.add(request.headers.get("authorization"))
        if self.refusals:
            return httpx.Response(self.refusals.pop(0), json={"title": "Unauthenticated"})
        if request.method == "POST":
            notes = json.loads(request.content)["notes"]
            self.noted += [note.get("time") for note in notes]
            return httpx.Response(200, json={"results": [{"status": "accepted"}] * len(notes)})
        if request.url.path.endswith("/marks"):
            about = {"stream_id": "1", "scale_events": 0, "sealed": False, "final_cut": None}
            return httpx.Response(200, json={**about, "marks": []})
        return httpx.Response(200, json=STREAM)


def write(transport: Answers, token: str | None = None) -> None:
    """Note once."""
    with WriterClient(URL, "s", "UA", token=token, transport=transport) as client:
        client.note_time(5, {0: 1})
        client.flush()


def read(transport: Answers, token: str | None = None) -> None:
    """Follow the marks until all are known."""
    with ReaderClient(URL, "s", token=token, transport=transport) as client:
        client.catch_up()


@pytest.mark.parametrize("act", [write, read])
def test_a_client_shows_its_token(act: Callable[[Answers, str | None], None]) -> None:
    """With every request."""
    transport = Answers()
    act(transport, TOKEN)

    assert transport.shown == {f"Bearer {TOKEN}"}


@pytest.mark.parametrize("act", [write, read])
def test_a_client_that_is_given_none_looks_into_the_environment(
    act: Callable[[Answers], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there is none either, it sends nothing."""
    monkeypatch.delenv(VARIABLE, raising=False)
    without, within = Answers(), Answers()
    act(without)
    monkeypatch.setenv(VARIABLE, TOKEN)
    act(within)

    assert (without.shown, within.shown) == ({None}, {f"Bearer {TOKEN}"})


def test_a_client_does_not_show_its_token_to_people() -> None:
    """In no representation of itself or of what it holds."""
    with (
        WriterClient(URL, "s", "UA", token=TOKEN, transport=Answers()) as writer,
        ReaderClient(URL, "s", token=TOKEN, transport=Answers()) as reader,
    ):
        transports = [writer._transport, reader._transport]
        https = [each.http for every in transports for each in every._lines._lines]
        parts = [writer, reader, *transports, *https]
        shown = [repr(part) for part in (*parts, *(http.headers for http in https))]

        assert [each for each in shown if TOKEN in each] == []


@pytest.mark.parametrize("token", ["nt_1 x", "nt_1\r\nx: y", "nt_ä"])
def test_a_token_that_no_header_may_hold_is_refused_without_repeating_it(token: str) -> None:
    """When the client is made."""
    with pytest.raises(Rejected) as refused:
        WriterClient(URL, "s", "UA", token=token, transport=Answers())

    assert str(refused.value) == "the token has characters that no token has"


@pytest.mark.parametrize("status", [401, 403])
def test_a_writer_that_is_not_let_in_keeps_its_notes(status: int) -> None:
    """`flush` raises it; a controller that learns the token later gets what was noted."""
    transport = Answers(status)
    with WriterClient(URL, "s", "UA", token=TOKEN, transport=transport) as client:
        client.note_time(5, {0: 1})
        with pytest.raises(NotAllowed, match=f"{status} Unauthenticated"):
            client.flush()
        client.flush()

        assert transport.noted == [5]


def test_a_reader_that_may_not_go_offline_is_not_taken_for_offline() -> None:
    """A refusal that another token would not meet is raised at once."""
    transport = Answers(*[403] * 1000)
    with (
        ReaderClient(
            URL, "s", token=TOKEN, group="g", reader="r", domains=(), transport=transport
        ) as client,
        pytest.raises(NotAllowed, match="403"),
    ):
        client.offline({0: 1}, timeout=PATIENCE_S)


@pytest.mark.acceptance
def test_writer_and_reader_meet_through_a_controller_that_asks(tmp_path: Path) -> None:
    """Each with its own right only."""
    admin, write, read = (
        command("token", "create", *options, cwd=tmp_path).stdout.strip()
        for options in (ADMIN, WRITE, READ)
    )
    with ServeProcess(tmp_path).ready() as controller:
        url = controller.url
        shown = {"authorization": f"Bearer {admin}"}
        httpx.put(f"{url}/v1/streams/s", json={"mark_interval_ms": 0}, headers=shown)
        with (
            ReaderClient(url, "s", token=read) as reader,
            WriterClient(url, "s", "UA", token=write) as writer,
            WriterClient(url, "s", "DL", token=write) as another,
        ):
            another.join()
            with pytest.raises(NotAllowed, match="may not note for writer 'DL'"):
                another.flush()
            writer.note_time(5, {0: 1})
            writer.flush()
            lower = reader.wait_for(5, timeout=PATIENCE_S).lower
            with pytest.raises(NotAllowed):
                another.close()

    assert lower == 5
