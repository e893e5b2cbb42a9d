"""One event that is dated too far ahead does not stop its stream."""

import re
from pathlib import Path
from typing import Any

import pytest

from noted_time import Accepted, InvalidNote, Refused
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.writer_client.scripted import URL, Scripted
from writer_client import SegmentLogWriter, WriterClient
from writer_client.answers import Answered
from writer_client.outbox import Outbox

NOON = 1_357_041_600_000
FAR = 4_000_000_000_000
BOUND = NOON + 3_600_000
OK = Accepted(None)
TOO_FAR = Refused("too_far_ahead", BOUND)


def post(outbox: Outbox, *results: Accepted | Refused) -> list[tuple[object, ...]]:
    """Have the next batch answered; returns what was posted."""
    batch = outbox.take()
    outbox.answered(batch, Answered(results))
    return [(p.note.state, p.note.time, dict(p.note.position), p.note.max_time) for p in batch]


def test_an_event_too_far_ahead_is_named_and_time_advances(
    served: Served, stream: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The note is sent again without its `max_time`, and so are those that follow."""
    with WriterClient(served.url, stream, "UA") as client:
        log = SegmentLogWriter(tmp_path, stream, client=client, event_time="at")
        log.append([{"at": NOON}, {"at": FAR}, {"at": NOON + 1}])
        for time in (NOON, NOON + 5):
            log.note_time(time)
            client.flush()
            log.append([{"at": time + 5}])
    marks = served.call("GET", f"/{stream}/marks")["marks"]

    assert [(m["lower"], m["cut"], m["upper_is_bound"]) for m in marks] == [
        (NOON, {"0": 3}, False),
        (NOON + 5, {"0": 4}, False),
    ]
    (said,) = [record.getMessage() for record in caplog.records if record.levelno >= 30]
    # the offset is named if the note that was refused had a position: one may be sent before
    assert re.match(
        rf"writer 'UA' of stream '{stream}': an event was written with the time "
        r"2096-10-02T07:06:40Z( below the offset 0:3)?: max_time 4000000000000 is ",
        said,
    )
    assert said.endswith(
        "; until the writer notes a later time it leaves max_time out, "
        "and the upper of marks is not a bound"
    )


def test_the_largest_time_is_declared_again_once_time_has_passed_the_event() -> None:
    """Until then a smaller one would not bound what was written."""
    outbox = Outbox("UA")
    posted = []
    for time, results in ((NOON, [TOO_FAR]), (NOON + 1, [OK]), (FAR, [OK])):
        outbox.wrote(FAR if time == NOON else time, None, {0: time - NOON})
        outbox.note(time, {})
        posted += post(outbox, *results)

    assert [(time, largest) for _, time, _, largest in posted] == [
        (NOON, FAR),
        (NOON + 1, None),
        (FAR, FAR),
    ]


def test_a_note_is_sent_again_with_the_position_that_is_known_by_then() -> None:
    """Else it would be refused as behind the note of another domain in the same batch."""
    outbox = Outbox("UA")
    outbox.note(NOON, {0: 5}, domain="a", max_time=FAR)
    outbox.note(NOON, {0: 9}, domain="b")
    post(outbox, TOO_FAR, OK)

    assert post(outbox, OK) == [("live", NOON, {0: 9}, None)]


def test_a_writer_whose_notes_are_all_refused_gives_no_sign_of_life() -> None:
    """Else one with a wrong clock would hold the watermark as long as its process lives."""
    outbox = Outbox("UA")
    outbox.join({0: 5})
    post(outbox, OK)
    outbox.note(FAR, {0: 6})
    post(outbox, TOO_FAR)

    assert (bool(outbox), outbox.state) == (False, "live")


def test_a_writer_that_is_not_waited_for_joins_if_its_note_is_refused() -> None:
    """What it writes next may be late otherwise."""
    outbox = Outbox("UA")
    outbox.join({0: 5})
    outbox.idle({})
    post(outbox, OK, OK)
    outbox.note(FAR, {0: 6})
    post(outbox, TOO_FAR)

    assert post(outbox, OK) == [("live", None, {0: 6}, None)]


def test_a_writer_with_a_wrong_clock_is_excluded(served: Served, stream: str) -> None:
    """Its timeout runs while its notes are refused, and the others' time advances."""
    with WriterClient(served.url, stream, "UA", timeout_ms=300) as client:
        client.join()
        client.flush()
        served.note(stream, NOON, {"0": 1})

        def excluded_though_it_notes() -> bool:
            client.note_time(FAR, {1: 5})
            with pytest.raises(InvalidNote, match="too_far_ahead"):
                client.flush()
            return bool(served.writers(stream)["UA"]["state"] == "excluded")

        eventually(excluded_though_it_notes, expected=True)


SECONDS = 1_357_034_400


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was logged as a warning."""
    return [record.getMessage() for record in caplog.records if record.levelno >= 30]


def test_times_in_seconds_are_doubted_once(caplog: pytest.LogCaptureFixture) -> None:
    """They are noted all the same: a stream may have any clock."""
    network = Scripted()
    with WriterClient(URL, "s", "UA", transport=network) as client:
        for time in (5, SECONDS, SECONDS + 1):
            client.note_time(time, {0: 10})
            client.flush()

    assert [note["time"] for note in network.notes] == [5, SECONDS, SECONDS + 1]
    said = (
        "writer 'UA' of stream 's': it noted 1357034400, which is January 1970: are these seconds? "
        "Times are Unix milliseconds, unless the stream has max_time_ahead_ms: null"
    )
    assert warnings(caplog) == [said]


def test_a_clock_in_seconds_is_doubted_too(caplog: pytest.LogCaptureFixture) -> None:
    """Also if the client notes it by itself."""
    network = Scripted()
    options: dict[str, Any] = {"note_period_ms": 1, "clock": lambda: SECONDS}
    with WriterClient(URL, "s", "UA", transport=network, automatically_note_time=True, **options):
        eventually(lambda: {"time": SECONDS}.items() <= network.notes[-1].items(), expected=True)

    assert ["are these seconds?" in said for said in warnings(caplog)] == [True]


@pytest.mark.parametrize(("factor", "unit"), [(10**3, "microseconds"), (10**6, "nanoseconds")])
def test_a_time_too_far_ahead_is_asked_for_its_unit(
    served: Served, stream: str, factor: int, unit: str
) -> None:
    """With how far it is beyond what is allowed."""
    with WriterClient(served.url, stream, "UA") as client:
        client.note_time(SECONDS * 1000 * factor, {0: 10})
        with pytest.raises(InvalidNote, match=rf"time \d+ is \d+ years too far ahead: {unit}\? "):
            client.flush()
