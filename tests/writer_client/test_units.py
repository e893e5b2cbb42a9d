"""A writer that notes in another unit than milliseconds is asked about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from noted_time import InvalidNote
from tests.support.scripted import URL, Scripted
from tests.support.waiting import eventually
from writer_client import WriterClient

if TYPE_CHECKING:
    from tests.support.served import Served

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
    """Also where the client notes it by itself."""
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
