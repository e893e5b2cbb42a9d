import re
import threading
from typing import Any

import httpx
import pytest

from noted_time.client import Question
from noted_time_cli.client import writers
from noted_time_cli.client.caller import Caller
from tests.cli.conftest import Console, note
from tools.trials.calls import TEN
from tools.trials.served import Served
from writer_client.sending.clock import unix_ms


def test_writers_added_concurrently_are_all_expected(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command writes the list after this one has read it."""
    run.served.call("PUT", f"/{stream}", {"expected_writers": ["lima"]})
    answer = Caller.answer
    other_writers = ["rome", "oslo"]

    def answer_later(self: Caller, question: Question[Any]) -> Any:  # noqa: ANN401 - its answer
        if question.method == "PUT" and other_writers:
            run.served.call(
                "PUT", f"/{stream}", {"expected_writers": ["lima", other_writers.pop()]}
            )
        return answer(self, question)

    monkeypatch.setattr(Caller, "answer", answer_later)
    result = run("stream", "set", stream, "--add-expected-writer", "paris", "--json")

    assert set(result.json["expected_writers"]) == {"lima", "rome", "oslo", "paris"}


def test_json_is_the_controllers_answer(run: Console, stream: str) -> None:
    """Scripts get it in one line."""
    run.note(stream, a=TEN)
    result = run("explain", stream, "--json")
    answer = run.served.call("GET", f"/{stream}/explain")

    changing = ("now", "waiting_for", "sentences")  # they say for how long
    stable_fields = {name: value for name, value in result.json.items() if name not in changing}
    expected = {name: value for name, value in answer.items() if name not in changing}
    assert (stable_fields, result.out.count("\n")) == (expected, 1)


def test_ledger_finds_the_comment_of_an_old_removal(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads page after page of changes, up to a limit."""
    run.note(stream, UA=TEN, DL=TEN)
    run("remove", stream, "UA", "--comment", "its machine burnt", "--yes")
    for number in range(5):
        run.served.call("PUT", f"/{stream}", {"writer_timeout_ms": 60_000 + number})
    monkeypatch.setattr(writers, "MOST_ROWS", 2)
    run.note(stream, DL=TEN + 1)
    comments = [row[-1] for row in run("ledger", stream).table[1:]]
    monkeypatch.setattr(writers, "MOST_PAGES", 2)
    limited_comments = [row[-1] for row in run("ledger", stream).table[1:]]

    assert comments == ["its machine burnt", "-"]
    assert limited_comments == ["(not known)", "-"]


def test_writer_ahead_of_the_clock_is_named(run: Console, stream: str) -> None:
    """Its note was accepted. The other writer holds the watermark."""
    now = unix_ms()
    run.note(stream, DL=now - 1000, UA=now + 600_000)
    explanation = run("explain", stream)
    report = run("doctor", stream)

    lead = r"noted 20\S+Z, 9m \d+s ahead"
    sentence = rf"^UA {lead} of the controller's clock: its later rows below this time are late\."
    fault = rf"\bahead of the controller's clock: UA \({lead}\) .*correct its clock"
    assert re.search(sentence, explanation.out, re.MULTILINE)
    assert re.search(fault, " ".join(report.out.split()))
    assert report.status == 1


def test_writers_of_a_healthy_stream_are_not_ahead(run: Console, stream: str) -> None:
    """Without a bound, the times of a stream are not compared with the controller's clock."""
    now = unix_ms()
    run.note(stream, DL=now - 1000, UA=now)
    healthy = run("explain", stream)
    run.served.call("PUT", f"/{stream}", {"max_time_ahead_ms": None})
    run.note(stream, UA=now + 600_000)
    unbound = run("explain", stream)

    assert (healthy.status, unbound.status) == (0, 0)
    assert "controller's clock" not in healthy.out + unbound.out


def test_wait_continues_while_the_controller_is_away(run: Console) -> None:
    """It reports that, keeps trying, and learns the mark when the controller is back."""
    run.served.create("outlived")
    run.note("outlived", a=TEN)
    run.served.stop()
    timer = threading.Timer(0.3, run.served.start)
    timer.start()
    result = run("wait", "outlived", str(TEN), "--timeout", "30s")
    timer.join()

    is_said = "no answer from" in result.err and result.err.endswith("; trying again\n")
    assert (result.status, is_said) == (0, True)


def note_before_deletes(
    monkeypatch: pytest.MonkeyPatch, served: Served, stream: str, times: list[int]
) -> None:
    """Have `UA` note the next of the times just before each DELETE arrives, while there are any."""
    send = httpx.HTTPTransport.handle_request

    def send_later(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE" and times:
            note(served, stream, UA=times.pop(0))
        return send(transport, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", send_later)


def test_remove_asks_again_after_the_writer_noted(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed as it was seen last."""
    run.note(stream, UA=TEN, DL=TEN + 60_000)
    note_before_deletes(monkeypatch, run.served, stream, [TEN + 1])
    result = run("remove", stream, "UA", "--yes")

    assert (result.status, result.err.count("without UA")) == (0, 2)
    assert "UA has noted meanwhile" in result.err
    assert run.served.writers(stream)["UA"]["state"] == "excluded"


def test_remove_gives_up_on_a_writer_that_keeps_noting(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `--yes` it tries three times."""
    run.note(stream, UA=TEN)
    left = [*range(TEN + 1, TEN + 9)]
    note_before_deletes(monkeypatch, run.served, stream, left)
    result = run("remove", stream, "UA", "--yes")

    assert (result.status, len(left), run.served.writers(stream)["UA"]["state"]) == (1, 5, "live")


def test_note_leaves_out_contact_that_older_controller_refuses(
    run: Console, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = httpx.HTTPTransport.handle_request
    reason = "unknown field; known: writer"
    problem = {
        "type": "urn:noted-time:problem:invalid_request",
        "title": "Invalid request",
        "detail": f"body.notes.0.contact: {reason}",
    }

    def refuse_contact(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        if b'"contact"' in request.read():
            return httpx.Response(422, json=problem)
        return send(transport, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", refuse_contact)
    result = run("note", stream, "UA", str(TEN), "--join", "--contact", "ops")
    row = run.served.call("GET", f"/{stream}/writers/UA")

    warning = "the controller refuses the contact, so it is not stored: 422 Invalid request"
    assert (result.status, warning in result.err, row["contact"]) == (0, True, None)
    assert row["times"] == {"default": TEN}
