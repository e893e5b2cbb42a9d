"""A writer that time advanced without is notified, at once and in every way."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from noted_time import Rejected
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.writer_client.scripted import URL, Scripted, accepted, results
from writer_client import Exclusion, Flushed, SegmentLogWriter, WriterClient

SINCE = 1357041600000
EXCLUDED = results(
    accepted(lower=90, excluded={"reason": "timed_out", "since": SINCE, "lower": 90})
)


def client_of(served: Served, stream: str, **options: Any) -> WriterClient:  # noqa: ANN401
    """Return the client of the writer that time advances without."""
    return WriterClient(served.url, stream, "slow", **options)


def go_on_without(served: Served, stream: str, *, by_hand: bool = False) -> None:
    """Have another writer note 90, and wait until a mark is there without the slow one."""
    served.note(stream, 90, {"1": 9})
    if by_hand:
        served.call("DELETE", f"/{stream}/writers/slow")
    marks = served.call("GET", f"/{stream}/marks?wait_ms=20000&after=1")["marks"]
    assert [mark["excluded"] for mark in marks] == [["slow"]]


def is_because(exclusion: Exclusion | None, reason: str) -> bool:
    """Whether it has that reason, is recent, and has the lower of the other writer."""
    assert exclusion is not None
    ago_ms = time.time_ns() // 1_000_000 - exclusion.since
    return (exclusion.reason, exclusion.lower, 0 <= ago_ms < 60_000) == (reason, 90, True)


@pytest.mark.parametrize("by_hand", [False, True], ids=["timed_out", "removed"])
def test_an_excluded_writer_is_notified_in_every_way(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture, *, by_hand: bool
) -> None:
    """By what flush returns, the state, `on_excluded` and the log; each exclusion once."""
    excluded: list[Exclusion] = []
    timeout_ms = 60_000 if by_hand else 1
    reason = "removed" if by_hand else "timed_out"
    with client_of(served, stream, timeout_ms=timeout_ms, on_excluded=excluded.append) as client:
        client.note_time(5, {0: 10})
        first = client.flush()
        eventually(lambda: len(served.call("GET", f"/{stream}/marks")["marks"]), 1)
        go_on_without(served, stream, by_hand=by_hand)
        flushed = []
        for noted in (6, 7, 91):
            client.note_time(noted, {0: 10})
            flushed.append((client.flush(), client.state))
        client.note_time(92, {0: 10})
        back = (client.flush().excluded, client.state)

    assert (first.excluded, back) == (None, (None, "live"))
    assert [state for _, state in flushed[:2]] == ["excluded", "excluded"]
    assert is_because(flushed[0][0].excluded, reason)
    assert excluded == [flushed[0][0].excluded]
    warnings = [each.getMessage() for each in caplog.records if each.name == "noted_time.writer"]
    assert len(warnings) == 1
    assert "is excluded: the watermark has been advancing without it since 20" in warnings[0]
    assert f"({reason}: " in warnings[0]


def test_a_writer_that_joins_below_the_lower_is_notified(served: Served, stream: str) -> None:
    """If the stream does not let late joiners hold time back."""
    served.create(stream, returning_writer="exclude")
    served.note(stream, 90, {"1": 9})
    with client_of(served, stream) as client:
        client.note_time(5, {0: 10})

        assert is_because(client.flush().excluded, "returned_late")


def test_late_rows_are_shown_with_the_writer_and_in_the_ledger(
    tmp_path: Path, served: Served, stream: str
) -> None:
    """Three rows below the lower: reported with the next note, and counted."""
    with client_of(served, stream) as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.append([{"time": 8}])
        log.note_time(50)
        client.flush()
        log.append([{"time": at} for at in (40, 30, 60, 45)])
        log.note_time(70)
        flushed = client.flush()
    shown = served.call("GET", f"/{stream}/writers")["writers"][0]["late"]
    ledger = served.call("GET", f"/{stream}/ledger")

    late = {"rows": 3, "least": 30, "most": 45}
    named = [(each["writer"], {name: each[name] for name in late}) for each in ledger["late"]]
    assert (flushed.late_rows, shown) == (3, {"default": late})
    assert (ledger["entries"], named) == ([], [("slow", late)])


def test_late_rows_are_reported_by_the_hours_that_they_belong_to(
    tmp_path: Path, served: Served, stream: str
) -> None:
    """Each window names those of its own, exactly; event times may be finer than a millisecond."""
    hours = [datetime(2013, 1, 1, hour, 30, 0, 7, tzinfo=UTC) for hour in (8, 9, 9, 11)]
    with client_of(served, stream) as client:
        log = SegmentLogWriter(tmp_path, "flights", client=client, event_time="time")
        log.note_time(datetime(2013, 1, 1, 8, tzinfo=UTC))
        client.flush()
        log.note_time(datetime(2013, 1, 1, 11, tzinfo=UTC))
        client.flush()
        log.append([{"time": at} for at in hours])
        log.note_time(datetime(2013, 1, 1, 12, tzinfo=UTC))
        client.flush()
    windows = served.call("GET", f"/{stream}/windows")["windows"]

    found = [[(each["rows"], each["at_most"]) for each in window["late"]] for window in windows]
    assert found == [[(1, False)], [(2, False)], [], []]


def test_a_flush_counts_the_rows_that_came_too_late() -> None:
    """Beside the lower and the exclusion."""
    with WriterClient(URL, "s", "UA", transport=Scripted(EXCLUDED)) as client:
        client.note_time(5, {0: 10})
        first = client.flush()
        client.wrote_late(3, 50)
        client.note_time(96, {0: 13})
        second = client.flush()

    exclusion = Exclusion("timed_out", SINCE, 90)
    assert (first, second) == (Flushed(90, exclusion, 0), Flushed(None, None, 3))


def note_each(
    network: Scripted, times: int, on_excluded: Callable[[Exclusion], object]
) -> list[str]:
    """Note that many times, one post each; return the state after each."""
    states: list[str] = []
    with WriterClient(URL, "s", "UA", on_excluded=on_excluded, transport=network) as client:
        for noted in range(times):
            client.note_time(noted, {0: 10})
            client.flush()
            states.append(client.state)
    return states


def test_a_callback_that_fails_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The sender continues."""

    def fail(_: Exclusion) -> None:
        raise ZeroDivisionError

    states = note_each(Scripted(EXCLUDED), 2, fail)

    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert (states[-1], logged) == ("live", ["writer 'UA' of stream 's': on_excluded failed"])


def test_a_callback_may_note_and_cannot_wait() -> None:
    """It holds no lock, and runs in the thread that sends."""
    refused: list[str] = []
    done = threading.Event()

    def on_excluded(exclusion: Exclusion) -> None:
        client.note_time((exclusion.lower or 0) + 1, {0: 10})
        for wait in (client.flush, client.close):
            with pytest.raises(Rejected) as raised:
                wait()
            refused.append(str(raised.value))
        done.set()

    network = Scripted(EXCLUDED)
    client = WriterClient(URL, "s", "UA", on_excluded=on_excluded, transport=network)
    client.note_time(5, {0: 10})
    assert done.wait(60)
    client.flush()
    client.close()

    sentence = "on_excluded runs where notes are sent: it cannot wait for the client"
    assert ([note["time"] for note in network.notes], refused) == ([5, 91], [sentence] * 2)
