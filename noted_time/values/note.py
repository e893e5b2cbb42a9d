"""What a writer claims when it notes time."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - bodies are decoded by the types
from dataclasses import dataclass, field
from typing import Literal

from noted_time.values.membership import LateRows  # noqa: TC001 - bodies are decoded by the types
from noted_time.values.times import MAX_INT64, MIN_INT64

State = Literal["live", "idle", "finished"]
"""`live`; `idle`: don't wait for me, I may return; `finished`: I am done, my position is final."""

MAX_NOTES_PER_REQUEST = 1000

UNCHANGED = 0
"""The `timeout_ms` of a note that says nothing of it; no timeout is 0."""

LEAST_TIME, LARGEST_TIME = MIN_INT64 + 1, MAX_INT64 - 1
"""What may be noted; the ends of int64 are kept for what is before and after all time."""

SEGMENTS_PER_POSITION = 4096
"""So many segments may one position name, and all notes of a writer together."""


@dataclass(frozen=True, slots=True)
class Note:
    """One writer's claim: all my events with time < `time` lie below `position` (PDP-33).

    Times are int64 of the application's own clock, Unix milliseconds by convention. A note without
    a time only says that the writer is there and how far it wrote.

    >>> Note("UA", 1357034220000, {0: 10})  # doctest: +NORMALIZE_WHITESPACE
    Note(writer='UA', time=1357034220000, position={0: 10}, domain=None, max_time=None,
         state='live', sequence=None, domains=None, timeout_ms=0, late=None, session=None,
         takes_over=False, label='', max_times=None)
    """

    writer: str
    """Who claims it."""
    time: int | None = None
    """Up to when all is written, exclusive."""
    position: Mapping[int, int] = field(default_factory=dict)
    """How far: segment → exclusive offset; a segment that is not named stays where it was."""
    domain: str | None = None
    """The time domain; `None` stands for the stream's default."""
    max_time: int | None = None
    """The largest event time written so far, if the writer knows it."""
    state: State = "live"
    """Whether to wait for this writer from now on."""
    sequence: int | None = None
    """The place of its request among all that the writer makes, from 1 on.

    It rises with each, also with one that says the same again, so that one which is delivered late
    is known as such. `None`: they have no order but that of their arrival.
    """
    domains: tuple[str, ...] | None = None
    """The domains that the writer vouches for from now on; `None`: as before, at first all."""
    timeout_ms: int | None = UNCHANGED
    """The writer's own timeout from now on; `None`: the stream's, `UNCHANGED`: as before."""
    late: LateRows | None = None
    """Rows that it wrote below the lower since it last said so."""
    session: str | None = None
    """The process that notes; `None`: not given, and taken for the right one (S15)."""
    takes_over: bool = False
    """Whether it takes the writer's name over from the process that has it."""
    label: str = ""
    """What people know the process by; kept where its session begins."""
    max_times: Mapping[str, int] | None = None
    """The largest time by domain, of any that are declared, if what is written has times in all.

    Of the note's own domain the larger of the two counts.
    """
