"""How the time of each carrier is noted on Kafka, and why nothing is lost by it.

Some producers do not note. An observer notes in the name of such a carrier, which has a partition
of its own: an observer sees partitions, not producers. If there is a JDK, one carrier is a producer
in Java, whose configuration alone makes it note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo.data import HOUR_MS
from demo.trials import java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from demo.data import Flights


@dataclass(frozen=True, slots=True)
class Way:
    """A way to note: in a sentence, and in brief; the carriers, and the hours of a delay, go in."""

    sentence: str
    brief: str


ITSELF = Way("{} note themselves, in transactions: exact.", "{} note")
TIMESTAMP = Way(
    "{} does not note: an observer notes the newest timestamp of its partition less {} h. None of "
    "its flights is longer, so none is lost, but time waits longer for it.",
    "{} observed, less {} h",
)
INTERCEPTED = Way(
    "{} produces in Java, knows nothing of noted time, and notes by its configuration: the newest "
    "timestamp that it sent less {} h. None of its flights is longer, so none is lost.",
    "{} by configuration, less {} h",
)
RESOLVED = Way(
    "{} does not note, but writes resolved records as a changefeed does: an observer notes the "
    "time of the last one: exact.",
    "{} observed, exact",
)
WAYS = (ITSELF, RESOLVED, INTERCEPTED, TIMESTAMP)
MOST_NAMED = 3
OBSERVED = {"MQ": TIMESTAMP, "US": RESOLVED}
IN_JAVA = {"EV": INTERCEPTED} if java.compiler() else {}
OTHERS = {**OBSERVED, **IN_JAVA}
DELAYED = tuple(carrier for carrier, way in OTHERS.items() if way in {TIMESTAMP, INTERCEPTED})


def way_of(carrier: str) -> Way:
    """Return the way of a carrier."""
    return OTHERS.get(carrier, ITSELF)


def delays(flights: Flights, carriers: Iterable[str] = DELAYED) -> Mapping[str, int]:
    """Return the delay in ms of each carrier that needs one: full hours, no flight is longer."""
    longest: dict[str, int] = {}
    for flight in flights.landed:
        if flight.carrier in carriers:
            took = flight.landing - flight.departure
            longest[flight.carrier] = max(took, longest.get(flight.carrier, took))
    return {carrier: -(-took // HOUR_MS) * HOUR_MS for carrier, took in longest.items()}


def in_words(flights: Flights) -> list[str]:
    """Return a sentence for each way."""
    return [way.sentence.format(", ".join(names), hours) for way, names, hours in _found(flights)]


def in_brief(flights: Flights) -> str:
    """Return the ways in a line.

    >>> from demo.data import Flight, Flights
    >>> in_brief(Flights(tuple(Flight(2, 1, name, "EWR") for name in ("DL", "MQ", "UA"))))
    'DL, UA note; MQ observed, less 1 h'
    """
    brief = []
    for way, names, hours in _found(flights):
        listed = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} carriers"
        brief.append(way.brief.format(listed, hours))
    return "; ".join(brief)


def _found(flights: Flights) -> Iterator[tuple[Way, list[str], int]]:
    """Yield each way that there is, its carriers, and the hours of its delay."""
    delay_ms = delays(flights)
    for way in WAYS:
        names = [name for name in flights.carriers if way_of(name) is way]
        if names:
            yield way, names, delay_ms.get(names[0], 0) // HOUR_MS
