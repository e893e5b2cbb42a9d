"""The epochs and ticks of other systems that write times as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import floor

from noted_time.values import DAY_MS

MINUTES_IN_DAY = 1440
SECONDS_IN_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Epoch:
    """A way to count time: `origin_ms` is its 0 in Unix ms, and a day has `ticks`.

    The `formula` is an expression of Python that returns Unix ms for a `value`.

    >>> filetime = next(epoch for epoch in KNOWN_EPOCHS if "FILETIME" in epoch.name)
    >>> filetime.scale_to_ms(134_401_680_000_000_000), eval(filetime.formula, {"value": 10**17})
    (1795694400000, -1644473600000)
    """

    name: str
    origin_ms: int
    ticks: int
    formula: str

    def scale_to_ms(self, number: float | Decimal) -> int:
        return self.origin_ms + floor(Fraction(number) * DAY_MS / self.ticks)


KNOWN_EPOCHS = (
    Epoch("minutes since 1970", 0, MINUTES_IN_DAY, "value * 60_000"),
    Epoch(
        ".NET ticks",
        -62_135_596_800_000,
        SECONDS_IN_DAY * 10**7,
        "value // 10_000 - 62_135_596_800_000",
    ),
    Epoch(
        "ticks of Windows' FILETIME",
        -11_644_473_600_000,
        SECONDS_IN_DAY * 10**7,
        "value // 10_000 - 11_644_473_600_000",
    ),
    Epoch(
        "WebKit's microseconds since 1601",
        -11_644_473_600_000,
        SECONDS_IN_DAY * 10**6,
        "value // 1000 - 11_644_473_600_000",
    ),
    Epoch(
        "NTP's seconds since 1900",
        -2_208_988_800_000,
        SECONDS_IN_DAY,
        "round(value * 1000) - 2_208_988_800_000",
    ),
    # UTC has had 18 leap seconds since 1980, which GPS does not count
    Epoch(
        "GPS seconds since 1980",
        315_964_782_000,
        SECONDS_IN_DAY,
        "round(value * 1000) + 315_964_782_000",
    ),
    Epoch(
        "seconds since 2000",
        946_684_800_000,
        SECONDS_IN_DAY,
        "round(value * 1000) + 946_684_800_000",
    ),
    Epoch(
        "PostgreSQL's microseconds since 2000",
        946_684_800_000,
        SECONDS_IN_DAY * 10**6,
        "value // 1000 + 946_684_800_000",
    ),
    Epoch(
        "Apple's seconds since 2001",
        978_307_200_000,
        SECONDS_IN_DAY,
        "round(value * 1000) + 978_307_200_000",
    ),
    Epoch(
        "Apple's nanoseconds since 2001",
        978_307_200_000,
        SECONDS_IN_DAY * 10**9,
        "value // 1_000_000 + 978_307_200_000",
    ),
    Epoch("Excel's days since 1900", -2_209_161_600_000, 1, "round((value - 25_569) * 86_400_000)"),
    Epoch("Julian days", -210_866_760_000_000, 1, "round((value - 2_440_587.5) * 86_400_000)"),
)


def list_near(number: float | Decimal, arrival: int, within_ms: int) -> list[Epoch]:
    """Return the epochs that put a number near its arrival in Unix ms.

    >>> [epoch.name for epoch in list_near(29_928_240, 1_795_694_400_000, DAY_MS)]
    ['minutes since 1970']
    """
    return [
        epoch for epoch in KNOWN_EPOCHS if abs(epoch.scale_to_ms(number) - arrival) <= within_ms
    ]
