"""Notices to a writer: exclusion, a sealed stream, and events too far ahead."""

import logging
import re
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from demo.trials.served import Served
from demo.trials.waiting import eventually
from noted_time.values import Accepted, InvalidNote, Refused, Rejected, State
from tests.writer_client.scripted import URL, Scripted, accepted, hasty, results
from writer_client import Exclusion, Pace, SegmentLogWriter, WriterClient
from writer_client.sending.answers import NotesReply
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox

SINCE = 1357041600000

EXCLUDED = results(
    accepted(lower=90, excluded={"reason": "timed_out", "since": SINCE, "lower": 90})
)


def make_client(served: Served, stream: str, **options: Any) -> WriterClient:  # noqa: ANN401
    """Return the client of the slow writer."""
    return WriterClient(served.url, stream, "slow", **options)


def go_on_without(served: Served, stream: str, *, by_hand: bool = False) -> None:
    """Let another writer note 90, and wait for a mark without the slow one."""
    served.note(stream, 90, {"1": 9})
    if by_hand:
        served.call("DELETE", f"/{stream}/writers/slow")
    marks = served.call("GET", f"/{stream}/marks?wait_ms=20000&after=1")["marks"]
    assert [mark["excluded"] for mark in marks] == [["slow"]]


def is_because(exclusion: Exclusion | None, reason: str) -> bool:
    """Return whether the notice is recent, and has this reason and the other writer's lower."""
    assert exclusion is not None
    ago_ms = time.time_ns() // 1_000_000 - exclusion.since
    return (exclusion.reason, exclusion.lower, 0 <= ago_ms < 60_000) == (reason, 90, True)


@pytest.mark.parametrize("by_hand", [False, True], ids=["timed_out", "removed"])
def test_an_excluded_writer_is_notified_in_every_way(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture, *, by_hand: bool
) -> None:
    """`flush`, the state, `on_excluded` and the log show each exclusion once."""
    excluded: list[Exclusion] = []
    timeout_ms = 60_000 if by_hand else 1
    reason = "removed" if by_hand else "timed_out"
    with make_client(served, stream, timeout_ms=timeout_ms, on_excluded=excluded.append) as client:
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


def test_excluded_writer_is_notified_once_time_advances(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Until another writer's time passes, none of its rows are late."""
    excluded: list[Exclusion] = []
    with make_client(served, stream, timeout_ms=1, on_excluded=excluded.append) as client:
        client.note_time(5, {0: 10})
        client.flush()
        row = f"/{stream}/writers/slow"
        eventually(lambda: served.call("GET", row)["state"], "excluded")
        client.join()
        alone, state = client.flush(), client.state
        go_on_without(served, stream)
        client.note_time(6, {0: 10})
        passed = client.flush()

    assert (alone.excluded, state) == (None, "live")
    assert excluded == [passed.excluded]
    assert is_because(passed.excluded, "timed_out")
    assert caplog.text.count("is excluded") == 1


def test_late_rows_are_reported_by_hour(tmp_path: Path, served: Served, stream: str) -> None:
    """Each window has exactly its own late rows; times may be finer than a millisecond."""
    hours = [datetime(2013, 1, 1, hour, 30, 0, 7, tzinfo=UTC) for hour in (8, 9, 9, 11)]
    with make_client(served, stream) as client:
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


def test_late_rows_warning_names_the_latest_time(caplog: pytest.LogCaptureFixture) -> None:
    """There is a warning at the first late row and one when the client closes."""
    noted, hour = 1_357_034_400_000, 3_600_000
    with WriterClient(URL, "s", "UA", transport=Scripted()) as client:
        client.note_time(noted, {0: 10})
        client.wrote_late(1, noted - 2 * hour)
        client.wrote_late(1, noted - hour, noted - 1)
        client.wrote_late(1, noted - 3 * hour)

    after = (
        "written after {} time had been noted. Check the clock, the zone, and whether the input "
        "was sent twice"
    )
    said = [each for each in caplog.messages if " late, " in each]
    assert [each.partition(": ")[2] for each in said] == [
        f"1 row is late, by up to 2h (2013-01-01T08:00:00Z): it was {after.format('its')}",
        f"3 rows are late, by up to 3h (2013-01-01T07:00:00Z): they were {after.format('their')}",
    ]


def test_late_rows_that_end_before_they_begin_are_refused() -> None:
    client = WriterClient(URL, "s", "UA", transport=Scripted())

    with client, pytest.raises(Rejected, match="`most` is before `least`: exchange them"):
        client.wrote_late(2, 9, 8)


def test_a_callback_that_fails_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Exclusion) -> None:
        raise ZeroDivisionError

    network = Scripted(EXCLUDED)
    with WriterClient(URL, "s", "UA", on_excluded=fail, transport=network) as client:
        for noted in range(2):
            client.note_time(noted, {0: 10})
            client.flush()
        state = client.state

    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert (state, logged) == ("live", ["writer 'UA' of stream 's': on_excluded failed"])


def test_a_callback_may_note_and_cannot_wait() -> None:
    """The callback holds no lock, and runs in the thread that sends."""
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

    sentence = "on_excluded must not wait for the client: it runs in the thread that sends notes"
    assert ([note["time"] for note in network.notes], refused) == ([5, 91], [sentence] * 2)


# Sealed streams


def test_a_writer_learns_that_its_stream_is_sealed(
    served: Served, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    """`flush` raises it, and the log has it; earlier notes stay durable."""
    caplog.set_level(logging.WARNING)
    with hasty(served, stream) as client:
        client.note_time(5, {0: 10})
        client.flush()
        served.call("POST", f"/{stream}/seal")
        client.note_time(6, {0: 11})
        with pytest.raises(InvalidNote, match="takes no more notes") as caught:
            client.flush()

    known = served.writers(stream)["UA"]
    assert (caught.value.status, known["state"], known["position"]) == (
        "sealed",
        "finished",
        {"0": 10},
    )
    assert "the stream is sealed and takes no more notes" in caplog.text


def test_the_only_writer_of_a_stream_may_seal_it(served: Served, stream: str) -> None:
    """The call is repeated after a lost answer; the changes have operator and reason."""
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(5, {0: 10})
        client.finish()
        sealed = [client.seal(), client.seal()]

    last = served.call("GET", f"/{stream}/changes")["changes"][0]
    assert sealed == [True, True]
    assert (last["action"], last["comment"]) == ("sealed", "UA, its only writer, has finished")


def test_a_writer_among_others_does_not_seal_their_stream(served: Served, stream: str) -> None:
    """The others may be finished, or may never have come."""
    served.create(stream, expected_writers=["DL"])
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(5, {0: 10})
        client.finish()
        sealed = client.seal()

    assert (sealed, served.call("GET", f"/{stream}")["seal"]) == (False, None)


# One event that is dated too far ahead does not stop its stream


NOON = 1_357_041_600_000

FAR = 4_000_000_000_000

BOUND = NOON + 3_600_000

OK = Accepted(None)

TOO_FAR = Refused("too_far_ahead", BOUND)


def post(outbox: Outbox, *answers: Accepted | Refused) -> list[tuple[object, ...]]:
    """Answer the next batch, and return its notes."""
    batch = outbox.take()
    outbox.record_answer(batch, NotesReply(answers))
    return [(p.note.state, p.note.time, dict(p.note.position), p.note.max_time) for p in batch]


def test_an_event_too_far_ahead_is_named_and_time_advances(
    served: Served, stream: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The note is sent again without its `max_time`, and so are later notes."""
    with WriterClient(served.url, stream, "UA") as client:
        log = SegmentLogWriter(tmp_path, stream, client=client, event_time="at")
        log.append([{"at": NOON}, {"at": FAR}, {"at": NOON + 1}])
        for at in (NOON, NOON + 5):
            log.note_time(at)
            client.flush()
            log.append([{"at": at + 5}])
    marks = served.call("GET", f"/{stream}/marks")["marks"]

    assert [(m["lower"], m["cut"], m["upper_is_bound"]) for m in marks] == [
        (NOON, {"0": 3}, False),
        (NOON + 5, {"0": 4}, False),
    ]
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= 30]
    # the offset is known only if the refused note had a position
    assert re.match(
        rf"writer 'UA' of stream '{stream}': an event was written with the time "
        r"2096-10-02T07:06:40Z( below the offset 0:3)?: max_time 2096-10-02T07:06:40Z is ",
        said,
    )
    assert said.endswith(
        "; until the writer notes a later time it leaves max_time out, "
        "and the upper of marks is not a bound"
    )


def test_max_time_is_declared_again_once_time_passes_the_event() -> None:
    """Until then a smaller one would not bound all rows."""
    outbox = Outbox("UA")
    posted = []
    for at, answers in ((NOON, [TOO_FAR]), (NOON + 1, [OK]), (FAR, [OK])):
        outbox.record_write(FAR if at == NOON else at, None, {0: at - NOON})
        outbox.note(at, {})
        posted += post(outbox, *answers)

    assert [(at, largest) for _, at, _, largest in posted] == [
        (NOON, FAR),
        (NOON + 1, None),
        (FAR, FAR),
    ]


def test_repeated_note_has_the_latest_position() -> None:
    """Otherwise it would be behind the note of another domain in the same batch."""
    outbox = Outbox("UA")
    outbox.note(NOON, {0: 5}, domain="a", max_time=FAR)
    outbox.note(NOON, {0: 9}, domain="b")
    post(outbox, TOO_FAR, OK)

    assert post(outbox, OK) == [("live", NOON, {0: 9}, None)]


def test_writer_with_only_refused_notes_sends_no_heartbeat() -> None:
    """Otherwise a writer with a wrong clock would hold the watermark while its process lives."""
    outbox = Outbox("UA")
    outbox.change_state("live", {0: 5})
    post(outbox, OK)
    outbox.note(FAR, {0: 6})
    post(outbox, TOO_FAR)

    assert (bool(outbox), outbox.state) == (False, "live")


@pytest.mark.parametrize("idle", [OK, Refused("unknown_writer", None)], ids=["idle", "forgotten"])
def test_writer_that_is_not_live_joins_after_a_refusal(idle: Accepted | Refused) -> None:
    """Otherwise its next rows may be late. A recreated stream has forgotten the writer."""
    outbox = Outbox("UA")
    outbox.change_state("live", {0: 5})
    post(outbox, OK)
    outbox.change_state("idle", {})
    post(outbox, idle)
    outbox.note(FAR, {0: 6})
    post(outbox, TOO_FAR)

    assert post(outbox, OK) == [("live", None, {0: 6}, None)]


@pytest.mark.parametrize("state", ["idle", "finished"])
def test_state_change_omits_the_refused_time(state: State) -> None:
    """A change of state has no time, nor the refused largest event time."""
    outbox = Outbox("UA")
    outbox.note(NOON, {0: 10}, max_time=FAR)
    outbox.change_state(state, {})
    post(outbox, TOO_FAR, TOO_FAR)

    assert post(outbox, OK, OK) == [("live", NOON, {0: 10}, None), (state, None, {0: 10}, None)]


SECONDS = 1_357_034_400


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the logged warnings."""
    return [record.getMessage() for record in caplog.records if record.levelno >= 30]


def test_times_in_seconds_are_doubted_once(caplog: pytest.LogCaptureFixture) -> None:
    """They are still noted, because a stream may have any clock."""
    network = Scripted()
    with WriterClient(URL, "s", "UA", transport=network) as client:
        for at in (5, SECONDS, SECONDS + 1):
            client.note_time(at, {0: 10})
            client.flush()

    assert [note["time"] for note in network.notes] == [5, SECONDS, SECONDS + 1]
    said = (
        "writer 'UA' of stream 's': it noted 1357034400, which is January 1970: are these seconds? "
        "Times are Unix milliseconds, unless the stream has max_time_ahead_ms: null"
    )
    assert warnings(caplog) == [said]


def test_a_clock_in_seconds_is_doubted_too(caplog: pytest.LogCaptureFixture) -> None:
    """This includes automatic notes."""
    network = Scripted()
    options: dict[str, Any] = {"pace": Pace(note_period_ms=1), "clock": lambda: SECONDS}
    with WriterClient(URL, "s", "UA", transport=network, automatically_note_time=True, **options):
        eventually(
            lambda: any(each.get("time") == SECONDS for each in network.notes), expected=True
        )

    assert ["are these seconds?" in said for said in warnings(caplog)] == [True]


def test_clock_behind_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """There is one warning each time."""
    notices = Notices("s", "UA", URL, None)
    for behind_ms in (30_000, 20_000, 0, 1500):
        notices.warn_of_clock(behind_ms)
    notices.emit()

    said = (
        "writer 'UA' of stream 's': its clock is {} s behind the last time that it noted. It notes "
        "this time until the clock has passed it. Events that are stamped below it are late"
    )
    assert warnings(caplog) == [said.format("30.0"), said.format("1.5")]


@pytest.mark.parametrize(("factor", "unit"), [(10**3, "microseconds"), (10**6, "nanoseconds")])
def test_time_too_far_ahead_suggests_its_unit(
    served: Served, stream: str, factor: int, unit: str
) -> None:
    """The error has the distance from the limit."""
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(SECONDS * 1000 * factor, {0: 10})
        with pytest.raises(InvalidNote, match=rf"time \d+ is \d+ years too far ahead: {unit}\? "):
            client.flush()
