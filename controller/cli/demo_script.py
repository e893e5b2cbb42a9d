"""Who does what at which second of `noted-time demo-stream`; it asks no clock.

Three writers note every second, a second or two behind the clock. The fourth, `SLOW`, notes every
ten seconds and moves on at a tenth of the clock's pace, so it holds the watermark, minutes behind.
Then it is silent until it has timed out, comes back late, and catches up: that is one round.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]


class Quick(NamedTuple):
    """A writer that notes every second."""

    segment: int
    rows_per_second: int
    lag_ms: int


QUICK = {"berlin": Quick(0, 40, 1000), "nairobi": Quick(1, 25, 2000), "osaka": Quick(2, 10, 1500)}
SLOW, SLOW_SEGMENT, SLOW_ROWS = "lima", 3, 5
WRITERS = (*QUICK, SLOW)
GROUP, READER = "hourly-counts", "counts-0"

TIMEOUT_S = 20
SETTINGS: Json = {"writer_timeout_ms": TIMEOUT_S * 1000, "expected_writers": list(WRITERS)}
"""Of the stream: the writers that it expects also tell that it was made for this."""

ROUND_S, FIRST_S = 300, 210
"""How long a round is, and at which second of it the play begins."""

EVERY_S, LAST_S, BACK_S = 10, 240, 290
"""The slow writer notes so often up to `LAST_S` of a round, and again at `BACK_S`."""

LAG_MS, PACE_MS = 5000, 100
"""Its lag at the start of a round, and how far its time moves on in a second."""

READER_LAG_S = 15


@dataclass(frozen=True, slots=True)
class Beginning:
    """When the play begins (Unix ms), and the times and offsets that an earlier one left."""

    at: int
    times: Mapping[str, int] = field(default_factory=dict)
    position: Mapping[int, int] = field(default_factory=dict)


class Scene(NamedTuple):
    """What happens in one second: notes, the reader's position, and what to say of it."""

    notes: list[Json]
    read: dict[str, int]
    says: str | None


def scene(second: int, beginning: Beginning) -> Scene:
    """Return what happens `second` seconds after the beginning.

    >>> first = scene(0, Beginning(at=1357034400000))
    >>> [(note["writer"], (1357034400000 - note["time"]) // 1000) for note in first.notes]
    [('berlin', 1), ('nairobi', 2), ('osaka', 1), ('lima', 194)]
    """
    notes = [_note(name, quick.segment, second, beginning) for name, quick in QUICK.items()]
    if _slow_notes(second):
        notes.append(_note(SLOW, SLOW_SEGMENT, second, beginning))
    read = _position(second - READER_LAG_S, beginning)
    return Scene(notes, {str(segment): offset for segment, offset in read.items()}, _says(second))


def times_at(second: int, beginning: Beginning) -> dict[str, int]:
    """Return the time of each writer; it never goes back, nor below what an earlier play noted."""
    wall = beginning.at + second * 1000
    times = {name: wall - quick.lag_ms for name, quick in QUICK.items()}
    times[SLOW] = beginning.at + _slow_ms(second)
    return {name: max(time, beginning.times.get(name, time)) for name, time in times.items()}


def _note(name: str, segment: int, second: int, beginning: Beginning) -> Json:
    time = times_at(second, beginning)[name]
    offset = _position(second, beginning)[segment]
    return {
        "writer": name,
        "time": time,
        "position": {str(segment): offset},
        "max_time": time,
    }


def _position(second: int, beginning: Beginning) -> dict[int, int]:
    """Return how far each segment is written."""
    since = max(0, second)
    rows = {quick.segment: quick.rows_per_second * since for quick in QUICK.values()}
    rows[SLOW_SEGMENT] = SLOW_ROWS * ((_slow_ms(since) - _slow_ms(0)) // 1000)
    return {segment: beginning.position.get(segment, 0) + more for segment, more in rows.items()}


def _slow_ms(second: int) -> int:
    """Return the slow writer's time, in ms from the beginning."""
    rounds, within = divmod(second + FIRST_S, ROUND_S)
    noted = BACK_S if within >= BACK_S else min(within // EVERY_S * EVERY_S, LAST_S)
    return (rounds * ROUND_S - FIRST_S) * 1000 - LAG_MS + noted * PACE_MS


def _slow_notes(second: int) -> bool:
    within = (second + FIRST_S) % ROUND_S
    return within == BACK_S or (within <= LAST_S and within % EVERY_S == 0)


def _says(second: int) -> str | None:
    if second == 0:
        return f"{SLOW} lags minutes behind the others: it holds the watermark."
    return SAYINGS.get((second + FIRST_S) % ROUND_S)


SAYINGS = {
    0: f"{SLOW} has caught up. From here on it falls behind again.",
    LAST_S + EVERY_S: f"{SLOW} has fallen silent: it times out in {TIMEOUT_S - EVERY_S}s.",
    LAST_S + TIMEOUT_S + 1: f"{SLOW} has timed out: the watermark advances without it.",
    BACK_S: f"{SLOW} is back, below the watermark, which waits until it has caught up.",
}
