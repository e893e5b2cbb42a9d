"""What a figure is: samples of ours and of a floor, and the target that they have to reach."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class WrongResult(Exception):
    """What was measured did not do its work, so its speed means nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """How much to measure, where to put files (a real disk), and whom to tell of progress."""

    quick: bool
    directory: Path
    say: Callable[[str], None]

    def repeats(self, full: int, quick: int) -> int:
        """Return how many samples to take."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Samples:
    """Repeated measurements of one thing, in the order in which they were taken.

    >>> Samples((3.0, 1.0, 2.0)).median, Samples((3.0, 1.0, 2.0)).spread
    (2.0, (1.0, 3.0))
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The value in the middle."""
        return median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest value."""
        return min(self.values), max(self.values)


@dataclass(frozen=True, slots=True)
class Target:
    """What the ratio, or the value itself, must not fall below or exceed.

    >>> Target("ratio", "at least", 0.33).met_by(0.4), Target("value", "at most", 50).met_by(51)
    (True, False)
    """

    of: Literal["ratio", "value"]
    side: Literal["at least", "at most"]
    bound: float

    def met_by(self, measured: float) -> bool:
        """Whether `measured` is on the right side of the bound, or at it."""
        return measured >= self.bound if self.side == "at least" else measured <= self.bound

    def __str__(self) -> str:
        sign = "≥" if self.side == "at least" else "≤"
        return f"{self.of if self.of == 'ratio' else ''} {sign} {self.bound:g}".strip()


@dataclass(frozen=True, slots=True)
class Figure:
    """One thing measured, with its floor's samples taken in turn with ours."""

    name: str
    unit: str
    ours: Samples
    floor: Samples | None = None
    floor_is: str = ""
    target: Target | None = None
    remark: str = ""

    @property
    def ratio(self) -> Samples | None:
        """Each sample of ours over the floor's that was taken beside it; none without a floor."""
        if self.floor is None:
            return None
        pairs = zip(self.ours.values, self.floor.values, strict=True)
        return Samples(tuple(ours / floor for ours, floor in pairs))

    @property
    def is_short(self) -> bool:
        """Whether the median falls short of the target."""
        if self.target is None:
            return False
        of_ratio = self.target.of == "ratio"
        measured = self.ratio if of_ratio and self.ratio is not None else self.ours
        return not self.target.met_by(measured.median)
