"""Flights written down in minutes."""

from __future__ import annotations

from hypothesis import strategies as st

from demo.data import MINUTE_MS, Flight, Flights


def flight(departure: int, landing: int, carrier: str = "UA", origin: str = "EWR") -> Flight:
    """Return a flight that departed and landed at these minutes."""
    return Flight(landing * MINUTE_MS, departure * MINUTE_MS, carrier, origin)


def flown(*flights: Flight) -> Flights:
    """Return the flights in the order in which they landed."""
    return Flights(tuple(sorted(flights)))


def minutes(*times: int) -> tuple[int, ...]:
    """Return minutes in milliseconds."""
    return tuple(time * MINUTE_MS for time in times)


_flights = st.builds(
    lambda departure, in_the_air, carrier, origin: flight(
        departure, departure + in_the_air, carrier, origin
    ),
    st.integers(0, 2000),
    st.integers(1, 700),
    st.sampled_from(("UA", "DL", "HA")),
    st.sampled_from(("EWR", "JFK")),
)
days_of_flights = st.lists(_flights, min_size=1, max_size=40).map(lambda each: flown(*each))
