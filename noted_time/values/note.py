"""What a writer claims when it notes time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from noted_time.values.times import MAX_INT64, MIN_INT64

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from noted_time.values.membership import LateLike, LateRows

State = Literal["live", "idle", "finished"]
"""`live`; `idle`: don't wait for me, I may return; `finished`: I am done, my position is final."""

MAX_NOTES_PER_REQUEST = 1000

UNCHANGED = 0
"""The `timeout_ms` of a note that says nothing of it; no timeout is 0."""

LEAST_TIME, LARGEST_TIME = MIN_INT64 + 1, MAX_INT64 - 1
"""What may be noted; the ends of int64 are kept for what is before and after all time."""

SEGMENTS_PER_POSITION = 4096
"""So many segments may one position name, and all notes of a writer together."""


class NoteLike(Protocol):
    """The attributes the aggregator reads of a note, whoever decoded it (PDP-33).

    The claim is: all my events with time < `time` (in time domain `domain`) lie below `position`.
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
    def domain(self) -> str | None:
        """The time domain; `None` stands for the stream's default."""

    @property
    def max_time(self) -> int | None:
        """The largest event time written so far, where the writer knows it."""

    @property
    def max_times(self) -> Mapping[str, int] | None:
        """The same by domain, of any that are declared: what is written has times in all of them.

        Of the note's own domain the larger of the two counts.
        """

    @property
    def state(self) -> State:
        """Whether to wait for this writer from now on."""

    @property
    def domains(self) -> Collection[str] | None:
        """The domains that the writer vouches for from now on; `None`: as before, at first all."""

    @property
    def timeout_ms(self) -> int | None:
        """The writer's own timeout from now on; `None`: the stream's, `UNCHANGED`: as before."""

    @property
    def late(self) -> LateLike | None:
        """Rows that it wrote below the lower since it last said so."""

    @property
    def sequence(self) -> int | None:
        """The place of its request among all that the writer makes, from 1 on.

        It rises with each, also with one that says the same again, so that one which is delivered
        late is known as such. `None`: they have no order but that of their arrival.
        """

    @property
    def session(self) -> str | None:
        """The process that notes; `None`: it does not say, and is taken for the right one (S15)."""

    @property
    def takes_over(self) -> bool:
        """Whether it takes the writer's name over from the process that has it."""

    @property
    def label(self) -> str:
        """What people know the process by; kept where its session begins."""


@dataclass(frozen=True, slots=True)
class Note:
    """One writer's claim, as a value; see `NoteLike` for the meaning of each field.

    >>> Note("UA", 1357034220000, {0: 10})  # doctest: +NORMALIZE_WHITESPACE
    Note(writer='UA', time=1357034220000, position={0: 10}, domain=None, max_time=None,
         state='live', sequence=None, domains=None, timeout_ms=0, late=None, session=None,
         takes_over=False, label='', max_times=None)
    """

    writer: str
    time: int | None = None
    position: Mapping[int, int] = field(default_factory=dict)
    domain: str | None = None
    max_time: int | None = None
    state: State = "live"
    sequence: int | None = None
    domains: tuple[str, ...] | None = None
    timeout_ms: int | None = UNCHANGED
    late: LateRows | None = None
    session: str | None = None
    takes_over: bool = False
    label: str = ""
    max_times: Mapping[str, int] | None = None
