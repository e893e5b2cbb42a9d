"""The id of a request, which the controller that is reached repeats in its answer."""

from typing import Any
from unittest.mock import Mock

import pytest

from controller.api.middleware import MAX_BODY
from tests.support.http import JSON, Caller

S = "/v1/streams/s"
REQUEST_ID = "00f1e2d3c4b5a697"


def read_headers(headers: Any) -> tuple[list[str], list[str]]:  # noqa: ANN401 - of an answer
    """Return each id and each `cache-control`."""
    return headers.get_list("noted-request"), headers.get_list("cache-control")


@pytest.mark.parametrize(
    ("status", "method", "path", "body"),
    [
        (200, "POST", f"{S}/notes", b'{"notes":[{"writer":"a","time":5}]}'),
        (200, "GET", f"{S}/marks?wait_ms=1", b""),
        (200, "POST", f"{S}/completeness", b'{"to":1700000000000,"wait_ms":1}'),
        (200, "GET", S, b""),
        (200, "GET", "/healthz", b""),
        (204, "DELETE", S, b""),
        (400, "POST", f"{S}/notes", b"{"),
        (403, "POST", "/v1/forwarded-notes", b""),
        (404, "GET", "/v1/streams/nowhere", b""),
        (404, "GET", "/nowhere", b""),
        (405, "PATCH", S, b""),
        (413, "POST", f"{S}/notes", b" " * (MAX_BODY + 1)),
        (422, "POST", f"{S}/notes", b"{}"),
        (422, "GET", f"{S}/marks?after=x", b""),
    ],
)
async def test_answer_repeats_the_id_of_its_request(
    call: Caller, status: int, method: str, path: str, body: bytes
) -> None:
    """Errors too; and no cache may store an answer."""
    headers = JSON | {"Noted-Request": REQUEST_ID}
    answer = await call.client.request(method, path, content=body, headers=headers)

    assert answer.status_code == status, answer.text
    assert read_headers(answer.headers) == ([REQUEST_ID], ["no-store"])


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("controller.api.middleware.submit_notes", f"{S}/notes"),
        ("controller.api.routes.readers.judge", f"{S}/completeness"),
        ("controller.api.middleware.read_body", "/v1/streams"),
    ],
)
async def test_answer_to_a_fault_repeats_the_id(
    call: Caller, monkeypatch: pytest.MonkeyPatch, target: str, path: str
) -> None:
    """The outermost layer sends it."""
    monkeypatch.setattr(target, Mock(side_effect=ZeroDivisionError))
    answer = await call.client.post(path, json={}, headers={"Noted-Request": REQUEST_ID})

    assert answer.status_code == 500
    assert read_headers(answer.headers) == ([REQUEST_ID], ["no-store"])


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        [REQUEST_ID[:-1]],
        [REQUEST_ID + "0"],
        ["g" * 16],
        [f" {REQUEST_ID}, {REQUEST_ID}"],
        [REQUEST_ID, REQUEST_ID],
        ["0" * 15 + "\n"],
    ],
)
async def test_other_values_are_not_repeated(call: Caller, values: list[str]) -> None:
    """An answer never has a value that a caller could choose freely."""
    headers = [("noted-request", value) for value in values]
    answer = await call.client.get(S, headers=headers)

    assert read_headers(answer.headers) == ([], ["no-store"])


async def test_id_may_have_capitals(call: Caller) -> None:
    answer = await call.client.get(S, headers={"Noted-Request": "00F1E2D3C4B5A69e"})

    assert answer.headers["noted-request"] == "00F1E2D3C4B5A69e"


async def test_file_of_the_page_keeps_its_caching(call: Caller) -> None:
    answer = await call.client.get("/", headers={"Noted-Request": REQUEST_ID})

    assert read_headers(answer.headers) == ([REQUEST_ID], ["no-cache"])
