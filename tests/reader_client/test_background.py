"""The background threads of a reader, and the faults that they survive, log or raise."""

import logging
import os
import signal
import sys
import threading
from functools import partial
from types import FrameType
from typing import Any

import httpx
import pytest
from msgspec.structs import replace

from noted_time import ClientFailed, Rejected
from noted_time.client import Backoff
from noted_time.values import Mark, StreamCut
from reader_client import ReaderClient
from reader_client.background.news import News
from reader_client.group import reporting
from reader_client.marks.follower import Follower
from reader_client.protocol import questions
from reader_client.protocol.answers import GroupReply
from tests.reader_client.answers import MARKS, STREAM, list_readers, stream_answer
from tests.support.faults import Fault, Faults
from tests.support.http import as_json, read_json
from tools.trials.served import Served
from tools.trials.waiting import PATIENCE_S, eventually, wait_until

SOON = Backoff(first_s=0.01, cap_s=0.02)
NO_BACKLOG = {"backlog": False, "backlog_causes": [], "backlog_began_at": None}
PAGE = "<html>Sign in to the hotel</html>"


class Misled(httpx.BaseTransport):
    """Gives these answers first, then passes everything on."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.answers = list(answers)
        self._network = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.answers:
            return self.answers.pop(0)
        return self._network.handle_request(request)

    def close(self) -> None:
        self._network.close()


MARK = as_json(Mark(1, 1, 1, StreamCut({})))
MALFORMED: list[dict[str, Any]] = [
    {},
    STREAM | {"domains": 7},
    STREAM | {"scale_events": [{"sealed": {"0": 1}}]},
    MARKS | {"sealed": True},
    MARKS | {"marks": [MARK]},
    MARKS | {"marks": [MARK | {"cut": {"x": 1}}]},
]
FAULTS: tuple[Fault, ...] = ("no connection", "no answer", "busy", "nonsense")
PAGES = [httpx.Response(code, text=PAGE) for code in (200, 204, 301, 302, 400, 404, 405, 413, 418)]
PAGES += [httpx.Response(200, json=body) for body in MALFORMED]


@pytest.mark.parametrize("domains", [None, ["default"]])
@pytest.mark.parametrize("answer", [*FAULTS, *PAGES])
def test_question_is_repeated_until_a_controller_answers(
    served: Served, stream: str, answer: Fault | httpx.Response, domains: list[str] | None
) -> None:
    """A proxy's page does not refuse, and malformed answers are ignored as a whole."""
    network = (
        Misled(*[answer] * 3)
        if isinstance(answer, httpx.Response)
        else Faults(*[answer] * 3, retry_after_s=0)
    )
    with ReaderClient(
        stream, controller=served.url, domains=domains, backoff=SOON, transport=network
    ) as client:
        assert client.wait_for(10, timeout=PATIENCE_S).seq == 1


def test_an_outage_is_logged_once_and_its_end_once(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """All threads share one line, however often they retry."""
    caplog.set_level(logging.INFO, "noted_time.reader")
    served.create(stream, domains=["default", "other"])
    network = Faults()
    options: dict[str, Any] = {"wait_ms": 20, "refresh_ms": 20, "backoff": SOON}
    with ReaderClient(
        stream, controller=served.url, group="g", reader="r", transport=network, **options
    ) as client:
        client.catch_up()
        network.planned = ["no connection"] * 12
        eventually(lambda: len(caplog.messages), 2)
    away, return_message = caplog.messages

    reader_name = f"the reader of stream {stream!r} (reader 'r' of group 'g')"
    assert away.startswith(f"{reader_name}: no response, retrying: no answer from {served.url}")
    assert return_message.startswith(f"{reader_name}: the controller responds again, after ")


def wait_for_requests(network: Faults, count: int) -> None:
    wait_until(lambda: len(network.bodies) >= count)


def test_a_refusal_is_logged_once(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the remedy, for callers that do not wait."""
    network = Faults()
    with ReaderClient("unheard-of", controller=served.url, backoff=SOON, transport=network):
        wait_for_requests(network, 4)

    beginning = "the reader of stream 'unheard-of': refused, retrying"
    why = "there is no stream 'unheard-of': create it with `noted-time stream create unheard-of`"
    assert caplog.messages == [f"{beginning}: {why}"]


def test_a_fault_of_the_client_is_raised_by_every_later_call(
    served: Served, stream: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that ended silently would look like a quiet stream."""
    fault = ZeroDivisionError("a defect")

    def take_marks(*_: object) -> None:
        raise fault

    monkeypatch.setattr(Follower, "take_marks", take_marks)
    with ReaderClient(stream, controller=served.url) as client:
        causes = []
        for call in (
            partial(client.wait_for, 10, PATIENCE_S),
            partial(client.catch_up, PATIENCE_S),
            client.get_time_window,
            partial(client.advance, {0: 1}),
            partial(client.cut_at, 10),
            lambda: list(client.marks()),
        ):
            with pytest.raises(ClientFailed, match="ZeroDivisionError: a defect") as error:
                call()
            causes.append(error.value.__cause__)

    assert causes == [fault] * 6
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_offline_reader_stays_offline(served: Served, stream: str) -> None:
    """Only its own call brings it back."""
    network = Faults()
    with ReaderClient(
        stream,
        controller=served.url,
        group="g",
        reader="r",
        refresh_ms=20,
        wait_ms=1000,
        transport=network,
    ) as client:
        client.advance({0: 100, 1: 7})
        client.offline()
        request_count = len(network.bodies)
        wait_for_requests(network, request_count + 4)
        away = list_readers(served, stream)
        client.advance({0: 100})
        eventually(
            lambda: {"position": {"0": 100}} in network.bodies[request_count:], expected=True
        )

    assert away == {}


def test_reader_without_news_sends_empty_reports(
    served: Served, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them the controller would take it offline."""
    monkeypatch.setattr(reporting, "LONGEST_SILENCE_S", 0.02)
    network = Faults()
    with ReaderClient(stream, controller=served.url, group="g", reader="r", transport=network):
        eventually(lambda: network.bodies.count({"position": {}}) > 3, expected=True)


def test_signs_of_life_fit_into_the_streams_timeout() -> None:
    """Several fit in, so one may be lost."""
    stream = replace(stream_answer(), reader_timeout_ms=1000)
    reports = reporting.Reporting(reporting.ReaderName("s", "g", "r"), refresh_s=60, news=News())
    reports.learn(stream)
    round_ = reports._step()
    question = next(round_)
    pause = round_.send(read_json(GroupReply, {"position": {}, "readers": {"r": {}}, **NO_BACKLOG}))

    assert (question, pause) == (
        questions.report_position("s", "g", "r", {}),
        questions.Pause(0.25),
    )


def test_group_without_reader_is_reported(served: Served, stream: str) -> None:
    """Its window would stay empty."""
    full = {
        "type": "urn:noted-time:problem:limit_reached",
        "detail": "there are 100 groups already",
    }

    class Full(Misled):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if "reader-groups" in request.url.path:
                return httpx.Response(422, json=full)
            return super().handle_request(request)

    with ReaderClient(
        stream, controller=served.url, group="g", reader="r", transport=Full()
    ) as client:
        with pytest.raises(Rejected, match="there are 100 groups already"):
            client.offline(timeout=PATIENCE_S)
        with pytest.raises(Rejected, match="there are 100 groups already"):
            client.get_time_window()


def test_reader_refuses_to_work_in_a_forked_child(
    served: Served, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread runs there, so a wait would never end."""
    with ReaderClient(stream, controller=served.url) as client, monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(Rejected, match="create one in the child"):
            client.wait_for(99, PATIENCE_S)


def test_thread_started_during_close_ends(served: Served, stream: str) -> None:
    """The first answer starts the thread of a domain, and may come at that moment."""

    def step() -> questions.Steps:
        yield questions.Pause(3600)
        return True

    client = ReaderClient(stream, controller=served.url)
    client.close()
    late = client._begin("late", step)
    late.join(10)

    assert not late._thread.is_alive()


def test_close_may_interrupt_any_line_of_the_reader(served: Served, stream: str) -> None:
    """A signal handler may close during `advance` or a wait; nothing waits forever.

    Each run tries a third of the lines.
    """
    lines = os.getpid() % 3
    has_ended = False
    tracer = sys.gettrace()
    while not has_ended:
        with ReaderClient(
            stream, controller=served.url, group="g", reader="r", wait_ms=100
        ) as client:
            client.catch_up()
            has_ended = _close_at_line(client, lines)
        lines += 3

    assert (lines > 20, sys.gettrace()) == (True, tracer)


def test_a_signal_handler_ends_a_wait(served: Served, stream: str) -> None:
    """The wait raises because the reader was closed."""
    client = ReaderClient(stream, controller=served.url)
    client.catch_up()
    before = signal.signal(signal.SIGUSR1, lambda *_: client.close())
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Exception, match="is closed"):
            client.wait_for(99, timeout=PATIENCE_S)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def _close_at_line(client: ReaderClient, line: int) -> bool:
    """Close at a line of the client's code; return whether it has fewer lines."""
    left = line
    tracer = sys.gettrace()

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal left
        if "reader_client" not in frame.f_code.co_filename:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(tracer)
                client.close()
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        client.advance({0: 1})
        client.get_time_window()
        client.wait_for(99, timeout=0.001)
    except Exception:  # noqa: BLE001, S110 - closed, not complete: it ended
        pass
    finally:
        sys.settrace(tracer)
    return left > 0
