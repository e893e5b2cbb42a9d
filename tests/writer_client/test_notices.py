"""Notices to a writer: callbacks, late rows, the seal, and events too far ahead."""

import threading

import pytest

from noted_time.values import Accepted, Refused, Rejected, State
from tests.writer_client.scripted import URL, Scripted, accepted, results
from tools.trials.served import Served
from writer_client import Exclusion, WriterClient
from writer_client.sending.answers import NotesReply
from writer_client.sending.notices import Notices
from writer_client.sending.outbox import Outbox

SINCE = 1357041600000

EXCLUDED = results(
    accepted(lower=90, excluded={"reason": "timed_out", "excluded_at": SINCE, "lower": 90})
)


def test_a_callback_that_fails_is_logged_and_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Exclusion) -> None:
        raise ZeroDivisionError

    network = Scripted(EXCLUDED)
    with WriterClient("s", "UA", controller=URL, on_excluded=fail, transport=network) as client:
        for time in range(2):
            client.note_time(time, {0: 10})
            client.flush()
        state = client.state

    log_lines = [record.getMessage() for record in caplog.records if record.exc_info]
    assert (state, log_lines) == ("live", ["writer 'UA' of stream 's': on_excluded failed"])


def test_a_callback_may_note_and_cannot_wait() -> None:
    """The callback holds no lock, and runs in the thread that sends."""
    refusals: list[str] = []
    done_event = threading.Event()

    def on_excluded(exclusion: Exclusion) -> None:
        client.note_time((exclusion.lower or 0) + 1, {0: 10})
        for wait in (client.flush, client.close):
            with pytest.raises(Rejected) as error:
                wait()
            refusals.append(str(error.value))
        done_event.set()

    network = Scripted(EXCLUDED)
    client = WriterClient("s", "UA", controller=URL, on_excluded=on_excluded, transport=network)
    client.note_time(5, {0: 10})
    assert done_event.wait(60)
    client.flush()
    client.close()

    sentence = "on_excluded must not wait for the client: it runs in the thread that sends notes"
    assert ([note["time"] for note in network.notes], refusals) == ([5, 91], [sentence] * 2)


# Sealed streams


def test_the_only_writer_of_a_stream_may_seal_it(served: Served, stream: str) -> None:
    """The call is repeated after a lost answer; the changes have operator and reason."""
    with WriterClient(stream, "UA", controller=served.url) as client:
        client.note_time(5, {0: 10})
        client.finish()
        answers = [client.seal(), client.seal()]

    last = served.call("GET", f"/{stream}/changes")["changes"][0]
    assert answers == [True, True]
    assert (last["action"], last["comment"]) == ("sealed", "UA, its only writer, has finished")


def test_a_writer_among_others_does_not_seal_their_stream(served: Served, stream: str) -> None:
    """The others may be finished, or may never have come."""
    served.create(stream, expected_writers=["DL"])
    with WriterClient(stream, "UA", controller=served.url) as client:
        client.note_time(5, {0: 10})
        client.finish()
        is_sealed = client.seal()

    assert (is_sealed, served.call("GET", f"/{stream}")["seal"]) == (False, None)


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


def test_repeated_note_has_the_latest_position() -> None:
    """Otherwise it would be behind the note of another domain in the same batch."""
    outbox = Outbox("UA")
    outbox.note(NOON, {0: 5}, domain="a", max_time=FAR)
    outbox.note(NOON, {0: 9}, domain="b")
    post(outbox, TOO_FAR, OK)

    assert post(outbox, OK) == [("live", NOON, {0: 9}, None)]


def test_writer_with_only_refused_notes_sends_no_heartbeat() -> None:
    """Otherwise a writer with a wrong clock would hold back the watermark as long as it lives."""
    outbox = Outbox("UA")
    outbox.change_state("live", {0: 5})
    post(outbox, OK)
    outbox.note(FAR, {0: 6})
    post(outbox, TOO_FAR)

    assert (bool(outbox), outbox.state) == (False, "live")


def test_forgotten_writer_joins_after_a_refusal() -> None:
    """Otherwise its next rows may be late. Its stream was recreated."""
    outbox = Outbox("UA")
    outbox.change_state("live", {0: 5})
    post(outbox, OK)
    outbox.change_state("idle", {})
    post(outbox, Refused("unknown_writer", None))
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


def test_clock_behind_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """There is one warning each time."""
    notices = Notices("s", "UA", URL, None)
    for reader_lag_ms in (30_000, 20_000, 0, 1500):
        notices.warn_of_clock(reader_lag_ms)
    notices.emit()

    warning = (
        "writer 'UA' of stream 's': its clock is {} s behind the last time that it noted. It notes "
        "this time until the clock has passed it. Events that are stamped below it are late"
    )
    assert warnings(caplog) == [warning.format("30.0"), warning.format("1.5")]
