"""Queries from the beginning of a topic whose first rows were deleted, on a real broker."""

import threading

import pytest
from pyspark.sql import DataFrame

from tests.support.clock import START_MS, Clock, MakeClock
from tools.trials.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]


@pytest.fixture
def clock(make_clock: MakeClock) -> Clock:
    """Return a topic of six seconds with three marks; partition 0 lost three seconds."""
    clock = make_clock(Clock)
    for second in (0, 2, 4):
        clock.write(second, second + 1)
        clock.note_all(second + 2)
    clock.broker.truncate(clock.name, {0: 6})
    return clock


def test_skip_waits_until_the_first_whole_window_is_known(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows that were read earlier would be in windows, and Spark cannot remove them."""
    clock.write(6, 7, 8)
    clock.broker.truncate(clock.name, {0: 14})
    frames: list[DataFrame] = []
    call = threading.Thread(target=lambda: frames.append(clock.read(first_windows="skip")))
    call.start()
    assert eventually(
        lambda: "no mark's cut reaches the first offsets of the log yet" in caplog.text,
        expected=True,
    )
    began = bool(frames)
    clock.note_all(9)
    call.join()
    clock.run(first_windows="skip")

    assert (began, clock.counts, clock.whole) == (False, [], {"time": START_MS + 8401})


def test_start_chosen_by_the_user_is_not_judged(clock: Clock) -> None:
    start = f'{{"{clock.name}": {{"0": 6, "1": -2}}}}'
    clock.run(options={"startingOffsets": start})

    assert clock.whole is None
