"""What a writer claims when it notes time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

State = Literal["live", "idle", "left"]
"""`live`; `idle`: don't wait for me, I may return; `left`: I am done, my position is final."""

MAX_NOTES_PER_REQUEST = 1000

SEGMENTS_PER_POSITION = 4096
"""So many segments may one position name, and all notes of a writer together."""


class NoteLike(Protocol):
    """The attributes the aggregator reads of a note, whoever decoded it (PDP-33).

    The claim is: all my events with time < `time` (in the time domain `key`) lie below `position`.
    Times are int64 of the application's own clock, Unix milliseconds by convention. A note without
    a time only says that the writer is there and how far it wrote.
    """

    @property
    def writer(self) -> str:
        """Who claims it."""

    @property
    def time(self) -> int | None:
        """Up to when all is written, exclusive."""

    @property
    def position(self) -> Mapping[int, int]:
        """How far: segment → exclusive offset; a segment not named stays where it was."""

    @property
    def key(self) -> str | None:
        """The time domain; `None` stands for the stream's default."""

    @property
    def max_time(self) -> int | None:
        """The largest event time written so far, where the writer knows it."""

    @property
    def state(self) -> State:
        """Whether to wait for this writer from now on."""

    @property
    def sequence(self) -> int | None:
        """The place of its request among all that the writer makes, from 1 on.

        It rises with each, also with one that says the same again, so that one which is delivered
        late is known as such. `None`: they have no order but that of their arrival.
        """


@dataclass(frozen=True, slots=True)
class Note:
    """One writer's claim, as a value; see `NoteLike` for the meaning of each field.

    >>> Note("UA", 1357034220000, {0: 10})  # doctest: +NORMALIZE_WHITESPACE
    Note(writer='UA', time=1357034220000, position={0: 10}, key=None, max_time=None, state='live',
         sequence=None)
    """

    writer: str
    time: int | None = None
    position: Mapping[int, int] = field(default_factory=dict)
    key: str | None = None
    max_time: int | None = None
    state: State = "live"
    sequence: int | None = None


def is_above(note: NoteLike, largest_time: int) -> bool:
    """Whether the note tells of a time above the largest allowed.

    >>> is_above(Note("UA", 5), 7), is_above(Note("UA", 5, max_time=9), 7)
    (False, True)
    """
    time, max_time = note.time, note.max_time
    return (time is not None and time > largest_time) or (
        max_time is not None and max_time > largest_time
    )
