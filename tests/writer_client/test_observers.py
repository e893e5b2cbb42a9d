"""Observers of a log in memory, with a real controller and with a scripted one."""

import logging
from typing import Any

import httpx
import pytest

from noted_time import AnotherForm, ClientFailed, Rejected, Unreachable
from noted_time.client import polling
from noted_time.observing import IN_MS, describe_form
from tests.writer_client.scripted import URL, Now, Scripted, accepted, results
from tools.trials.served import Served
from tools.trials.waiting import eventually
from writer_client import EventTimeNoter, IngestionNoter, Seen, WriterClient


class MemoryLog:
    """A log in memory. A call returns its ends, and the newest times of segments with new rows."""

    event_time_form = describe_form("time", "number", IN_MS)

    def __init__(self, *segments: int) -> None:
        self._times: dict[int, list[int]] = {segment: [] for segment in segments}
        self._ends: dict[int, int] = {}

    def append(self, segment: int, *times: int) -> None:
        self._times.setdefault(segment, []).extend(times)

    def clear(self) -> None:
        self._times.clear()
        self.forget_ends()

    def forget_ends(self) -> None:
        """Make all rows new, as for another process."""
        self._ends.clear()

    def __call__(self) -> Seen:
        newest: dict[int, int] = {}
        for segment, times in self._times.items():
            new_times = times[self._ends.get(segment, 0) :]
            if new_times:
                newest[segment] = max(new_times)
            self._ends[segment] = len(times)
        return Seen(dict(self._ends), newest, max(newest.values(), default=None))


@pytest.fixture
def log() -> MemoryLog:
    """Return a log without segments."""
    return MemoryLog()


def make_client(transport: Scripted, **options: Any) -> WriterClient:  # noqa: ANN401 - its options
    """Return the client of an observer."""
    return WriterClient("flights", "observer", controller=URL, transport=transport, **options)


def list_notes(transport: Scripted) -> list[tuple[str, int | None, dict[str, int]]]:
    """Return state, time and position of each sent note."""
    return [(n.get("state", "live"), n.get("time"), n.get("position", {})) for n in transport.notes]


def test_observer_notes_nothing_while_ends_are_unreadable(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged once."""
    clock = Now(1000)
    transport = Scripted()
    broken = [True]

    def ends() -> Seen:
        if broken[0]:
            raise OSError("the disk is away")
        return Seen({0: 5})

    with make_client(transport) as client:
        noter = IngestionNoter(client, ends, clock=clock)
        for _ in range(2):
            noter._try_to_look()
        with pytest.raises(Unreachable, match="the disk is away"):
            noter.look()
        broken[0] = False
        noter._try_to_look()

    assert list_notes(transport) == [("live", None, {}), ("live", 1000, {"0": 5})]
    messages = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert messages == ["nothing is noted of flights: the log cannot be read: the disk is away"]


REFUSED_FORMS = {
    "forbidden": (403, "may not state for the readers of flights: give it a new token"),
    "not_found": (404, "cannot know: its controller is older, so pass them the same zone"),
}


@pytest.mark.parametrize("code", REFUSED_FORMS)
def test_observer_that_cannot_state_its_form_goes_on(
    log: MemoryLog, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It has a token of before, or its controller is older. The right form is sent."""
    status, sentence = REFUSED_FORMS[code]
    transport = Scripted()
    problem = {"type": f"urn:noted-time:problem:{code}", "title": "No", "detail": "no"}
    transport.form_answer = httpx.Response(status, json=problem)
    log.append(0, 10)
    with make_client(transport) as client:
        noter = EventTimeNoter(client, log, delay_ms=0)
        noter.look()
        log.append(0, 20)
        noter.look()
        client.flush()

    assert [n["time"] for n in transport.notes if "time" in n][-1] == 20
    assert [record.getMessage() for record in caplog.records if sentence in record.getMessage()]
    assert len(transport.forms) == 1
    assert transport.forms[0]["column"] == "time"


def test_observer_with_another_form_notes_no_time(log: MemoryLog) -> None:
    """Its times would be others than the readers'."""
    transport = Scripted()
    kind = "urn:noted-time:problem:another_form"
    facts = {"stated": "time as Unix time in s", "other": "time as Unix time in ms"}
    transport.form_answer = httpx.Response(422, json={"type": kind, **facts})
    log.append(0, 10)
    with make_client(transport) as client:
        noter = EventTimeNoter(client, log, delay_ms=0)
        with pytest.raises(AnotherForm, match="as stated, time as Unix time in s, and not in"):
            noter.look()
        client.flush()

    assert [note for note in transport.notes if "time" in note] == []


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let observers wait a tenth of a second for a log that went back."""
    monkeypatch.setattr(polling, "PATIENCE_S", 0.1)


def see_nothing() -> Seen:
    return Seen({})


def wait_for_failure(noter: IngestionNoter) -> None:
    eventually(lambda: noter.failure is not None, expected=True)


@pytest.mark.usefixtures("short_patience")
@pytest.mark.parametrize("again", [0, 1])
def test_a_recreated_log_stops_the_observer(log: MemoryLog, again: int) -> None:
    """The new log is empty, or has fewer rows; the error names the segment."""
    log.append(4, 1, 2, 3)
    with make_client(Scripted()) as client:
        noter = IngestionNoter(client, log, poll_ms=10, max_lag_ms=10)
        noter.look()
        log.clear()
        if again:
            log.append(4, 1)
        noter.start()
        wait_for_failure(noter)

        with pytest.raises(Rejected, match=rf"segment 4 ends at {again} and ended at 3 before"):
            noter.close()


@pytest.mark.usefixtures("short_patience")
def test_a_log_recreated_between_two_observers_stops_the_second(
    log: MemoryLog, served: Served, stream: str
) -> None:
    """The controller has the former end."""
    log.append(0, 1, 2, 3)
    with WriterClient(stream, "observer", controller=served.url) as client:
        IngestionNoter(client, log, domain="default").look()
    log.clear()
    log.append(0, 1)

    with (
        pytest.raises(Rejected, match="segment 0 ends at 1 and ended at 3 before"),
        WriterClient(stream, "observer", controller=served.url) as client,
    ):
        IngestionNoter(client, log, domain="default", poll_ms=10, max_lag_ms=10).run()


@pytest.mark.parametrize(
    ("own", "of_stream", "warned"),
    [(11_000, None, 1), (11_001, None, 0), (None, 11_000, 1), (None, 11_001, 0)],
)
def test_timeout_below_the_note_interval_is_warned_of(
    caplog: pytest.LogCaptureFixture, own: int | None, of_stream: int | None, warned: int
) -> None:
    """Otherwise every quiet stream would exclude it."""
    join = results(accepted(timeout_ms=of_stream))
    with make_client(Scripted(join), timeout_ms=own) as client:
        noter = IngestionNoter(client, see_nothing)
        noter.look()
        noter.look()

    sentence = f"times out after {own or of_stream} ms and may be silent for 11000 ms"
    assert caplog.text.count(sentence) == warned


def event_times(client: WriterClient, log: MemoryLog, clock: Now) -> EventTimeNoter:
    """Return an observer of a log with an idle timeout of 5 s."""
    return EventTimeNoter(client, log, delay_ms=10, idle_timeout_ms=5000, clock=clock)


def test_restarted_observer_begins_at_its_last_time(
    log: MemoryLog, served: Served, stream: str
) -> None:
    """It waits for an idle segment with a lower time, but no note is refused."""
    served.create(stream, max_time_ahead_ms=None)
    clock = Now(1000)
    log.append(1, 100)
    with WriterClient(stream, "observer", controller=served.url) as client:
        noter = event_times(client, log, clock)
        for time in (600, 700):
            log.append(0, time)
            noter.look()
            clock.now += 5000
        noter.look()
    log.forget_ends()
    with WriterClient(stream, "observer", controller=served.url) as client:
        noter = event_times(client, log, clock)
        noted_times = []
        for time in (800, 900):
            log.append(0, time)
            noter.look()
            client.flush()
            noted_times.append(served.writers(stream)["observer"]["times"])
            clock.now += 5000

    assert noted_times == [{"default": 690}, {"default": 890}]


def test_observer_below_its_last_time_joins_as_heartbeat(log: MemoryLog) -> None:
    """A note with this time would be refused, and would not keep the observer alive."""
    known_answer = accepted(position={"0": 1}, times={"default": 70})
    clock = Now(1000)
    transport = Scripted(*[results(known_answer)] * 3)
    log.append(0, 50)
    with make_client(transport) as client:
        noter = event_times(client, log, clock)
        for elapsed_ms in (0, 2000, 2000):
            clock.now += elapsed_ms
            noter.look()
            log.append(0, 60)
            client.flush()
        clock.now += 10_000
        log.append(0, 90)
        noter.look()

    assert list_notes(transport)[1:] == [
        ("live", None, {"0": 1}),
        ("live", None, {"0": 2}),
        ("live", 80, {"0": 5}),
    ]


def test_explain_names_empty_segments_that_are_waited_for(served: Served, stream: str) -> None:
    """Segments with a time or idle ones are left out."""
    served.create(stream, max_time_ahead_ms=None)
    clock = Now(1000)
    log = MemoryLog(1, 2)
    sentences_of_steps: list[list[str]] = []
    log.append(0, 50)
    with WriterClient(stream, "observer", controller=served.url) as client:
        noter = event_times(client, log, clock)
        for elapsed_ms, *segments in ((0, 0), (1000, 1), (4000, 0), (5000,)):
            clock.now += elapsed_ms
            for segment in segments:
                log.append(segment, 60)
            noter.look()
            client.flush()
            sentences = served.call("GET", f"/{stream}/explain")["sentences"]
            sentences_of_steps.append(
                [sentence for sentence in sentences if "waits for a first time" in sentence]
            )

    alive = "observer is alive, but waits for a first time in"
    assert sentences_of_steps == [
        [f"{alive} segment 1, segment 2."],
        [f"{alive} segment 2."],
        [],
        [],
    ]
    assert client.state == "idle"


def test_a_fault_ends_the_thread_and_is_raised_to_the_caller() -> None:
    """A failing clock must not look like an unreadable log."""

    def clock() -> int:
        raise ValueError("no clock")

    with make_client(Scripted()) as client:
        noter = IngestionNoter(client, see_nothing, clock=clock)
        noter.start()
        wait_for_failure(noter)

        with pytest.raises(ClientFailed, match="no clock"):
            noter.close()


def test_observer_without_new_rows_goes_idle_and_returns(log: MemoryLog) -> None:
    """It first notes the highest time, and returns with new rows.

    Meanwhile it notes every ten seconds that it is idle: its process is live.
    """
    clock = Now(1000)
    transport = Scripted()
    with make_client(transport) as client:
        noter = EventTimeNoter(client, log, delay_ms=0, idle_timeout_ms=5000, clock=clock)
        log.append(0, 50)
        log.append(1, 70)
        steps = ((0, ()), (5000, ()), (9999, ()), (1, ()), (1000, (60,)), (1000, (80,)))
        for elapsed_ms, times in steps:
            clock.now += elapsed_ms
            if times:
                log.append(0, *times)
            noter.look()
            client.flush()

    assert list_notes(transport)[-6:] == [
        ("live", 50, {"0": 1, "1": 1}),
        ("live", 70, {"0": 1, "1": 1}),
        ("idle", None, {"0": 1, "1": 1}),
        ("idle", None, {"0": 1, "1": 1}),
        ("live", None, {"0": 2, "1": 1}),
        ("live", 80, {"0": 3, "1": 1}),
    ]


def test_observer_with_unchanged_time_sends_heartbeats(log: MemoryLog) -> None:
    """It sends them every ten seconds, even before its first time."""
    clock = Now(1000)
    transport = Scripted()
    with make_client(transport) as client:
        noter = EventTimeNoter(client, log, delay_ms=0, idle_timeout_ms=0, clock=clock)
        log.append(0, 50)
        for elapsed_ms in (0, 9999, 1, 5000, 5000):
            clock.now += elapsed_ms
            noter.look()
            client.flush()

    assert [time for _, time, _ in list_notes(transport)][-3:] == [50, 50, 50]
