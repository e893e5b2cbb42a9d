"""A crowd of writers falls silent at one moment, and its controllers go on as before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.scale.crowd import time_of
from tests.scale.measuring import Record, Stage
from tests.scale.trial import WAVES

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3600)]

WORST_RATIO = 50.0
"""The worst call at most, as a ratio to the idle 99th percentile of the same run …"""

WORST_S = 2.0
"""… or this many seconds, if that is more: twice the aim, because others may use the machine."""

EXCLUSION_RATIO = 3.0
"""The time from the timeout to the mark at most, as a ratio to the notes of all …"""

EXCLUSION_S = 3.0
"""… or this many seconds, if that is more."""

PEAK_RATIO = 1.5
"""The peak memory of the first wave and return at most, as a ratio to the idle memory."""

SECOND_PEAK_RATIO = 1.1
"""The peak of the second wave and return at most, as a ratio to the first ones."""
GROWTH_MIB = 30.0
"""Growth of the memory that passes in any case."""

LAST_STEP = 1 + 2 * len(WAVES)


def list_peaks(record: Record, number: int) -> list[float]:
    """Return the peak of each controller in a wave and the return after it."""
    stages = [stage for name, stage in record.stages.items() if name.endswith(f" {number}")]
    return [max(peaks) for peaks in zip(*(stage.peaks_mib for stage in stages), strict=True)]


def find_excess(
    before: Sequence[float], after: Sequence[float], most_ratio: float
) -> list[tuple[float, float]]:
    """Return the memory before and after of each controller that has grown too much."""
    return [
        (earlier, later_peak)
        for earlier, later_peak in zip(before, after, strict=True)
        if later_peak > max(earlier * most_ratio, earlier + GROWTH_MIB)
    ]


def test_one_controller_owns_the_stream_throughout(record: Record) -> None:
    assert record.events == []


def test_calls_of_health_and_other_stream_succeed(record: Record) -> None:
    assert record.failures == []


def test_no_mark_is_made_before_all_are_excluded(record: Record) -> None:
    assert record.lowers == [time_of(step) for step in range(LAST_STEP + 1)]


def test_marks_name_all_silent_writers(record: Record) -> None:
    named_counts = {stage: count for stage, count in record.excluded.items() if count}

    assert named_counts == dict.fromkeys(WAVES, record.writers)


def test_all_are_missing_until_they_return(record: Record) -> None:
    missing = {stage: count for stage, count in record.missing.items() if count}

    assert missing == dict.fromkeys(WAVES, record.writers)


def test_no_acknowledged_note_is_lost(record: Record) -> None:
    """The offset of each is its last step."""
    assert record.stored_offsets == LAST_STEP * (record.writers + 1)


@pytest.mark.parametrize("wave", WAVES)
def test_all_are_excluded_soon_after_their_timeout(record: Record, wave: str) -> None:
    """All notes are timed before and after the wave, because others may use the machine."""
    stages = [record.stages[name] for name in ("fill", wave.replace("wave", "return"))]
    most_s = max(EXCLUSION_S, EXCLUSION_RATIO * max(stage.seconds for stage in stages))

    assert record.excluded_after_s[wave] <= most_s


def list_without_load(record: Record) -> list[Stage]:
    """Return the stages without notes of the crowd."""
    loads = ("fill", "return")
    return [stage for name, stage in record.stages.items() if not name.startswith(loads)]


def test_controllers_answer_health_checks_at_once(record: Record) -> None:
    most_s = max(WORST_S, WORST_RATIO * record.idle_p99_health_s)
    worst = {stage.name: stage.worst_health_s for stage in list_without_load(record)}

    assert {name: seconds for name, seconds in worst.items() if seconds > most_s} == {}


def test_other_stream_of_owner_takes_notes_at_once(record: Record) -> None:
    most_s = max(WORST_S, WORST_RATIO * record.idle_p99_note_s)
    worst = {stage.name: stage.worst_note_s for stage in list_without_load(record)}

    assert {name: seconds for name, seconds in worst.items() if seconds > most_s} == {}


def test_first_wave_takes_little_memory(record: Record) -> None:
    assert find_excess(record.idle_mib, list_peaks(record, 1), PEAK_RATIO) == []


def test_second_wave_takes_no_more_memory(record: Record) -> None:
    assert find_excess(list_peaks(record, 1), list_peaks(record, 2), SECOND_PEAK_RATIO) == []
