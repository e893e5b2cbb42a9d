"""The flights of the demo: data, schedule and simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from pathlib import Path

import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from demo.as_files import make_table
from demo.data import HOUR_MS, MINUTE_MS, Flight, Flights, read_flights
from demo.findings import choose_delays
from demo.measurement import Outcome, format_delay
from demo.report import cells, sooner_hours
from demo.schedule import merge_minutes, steps
from demo.simulation import own_watermark, simulate_noted_time, simulate_perfect_watermark

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("README.md", "docs/explain/flights.md")


def make_flight(departure: int, in_the_air: int, carrier: str, origin: str) -> Flight:
    """Return a flight by minutes."""
    landing = departure + in_the_air
    return Flight(landing * MINUTE_MS, departure * MINUTE_MS, carrier, origin)


def sort_flights(flights: list[Flight]) -> Flights:
    return Flights(tuple(sorted(flights)))


flights_in_minutes = st.builds(
    make_flight,
    st.integers(0, 2000),
    st.integers(1, 700),
    st.sampled_from(("UA", "DL", "HA")),
    st.sampled_from(("EWR", "JFK")),
)
days_of_flights = st.lists(flights_in_minutes, min_size=1, max_size=40).map(sort_flights)


@given(days_of_flights)
def test_noted_time_loses_nothing(flights: Flights) -> None:
    """Every hour is emitted, in any order of rows."""
    outcome = simulate_noted_time(flights)

    assert (outcome.lost, len(outcome.latencies_ms)) == (0, len(flights.window_ends))


@given(days_of_flights)
def test_noted_time_reaches_the_perfect_watermark(flights: Flights) -> None:
    """For each hour, also for the ones that the last landing completes."""
    assert simulate_noted_time(flights) == simulate_perfect_watermark(flights)


def run_spark(batches: Iterable[Sequence[Flight]], delay_ms: int) -> tuple[int, list[int]]:
    """Return lost rows and latencies by a model of Spark, which ends with a batch without rows."""
    late = watermark = newest = -(10**15)
    clock = 0
    lost_count = 0
    still_open = set[int]()
    latencies = list[int]()
    for batch in (*batches, ()):
        counted_ends = [flight.window_end for flight in batch if flight.window_end > late]
        lost_count += len(batch) - len(counted_ends)
        still_open.update(counted_ends)
        latencies += [clock - end for end in still_open if end <= watermark]
        still_open = {end for end in still_open if end > watermark}
        newest = max((newest, *(flight.departure for flight in batch)))
        clock = batch[-1].landing if batch else clock
        late = watermark
        watermark = newest - delay_ms
    return lost_count, sorted(latencies)


@given(days_of_flights, st.integers(0, 12))
def test_merged_minutes_match_single_minutes(flights: Flights, hours: int) -> None:
    """The simulation predicts the same."""
    minutes = [list(flight) for _, flight in groupby(flights.landed, attrgetter("landing"))]
    expected = run_spark(minutes, hours * HOUR_MS)

    predicted_delay = own_watermark(flights, hours * HOUR_MS)
    merged_result = run_spark(merge_minutes(flights), hours * HOUR_MS)
    assert (merged_result, (predicted_delay.lost, list(predicted_delay.latencies_ms))) == (
        expected,
        expected,
    )


def simulate_delays(flights: Flights) -> list[Outcome]:
    return [own_watermark(flights, delay_ms) for delay_ms in choose_delays(flights)]


def test_the_pages_have_the_figures_of_the_flights() -> None:
    """README and the tables: of January, with coarser batches, and of the year."""
    january = read_flights(1)
    year = read_flights()
    own_delays = simulate_delays(january)
    passed_hours = accumulate((flight.departure // HOUR_MS for flight in january.landed), max)
    hours = groupby(zip((0, *passed_hours), january.landed, strict=False), itemgetter(0))
    coarse = []
    for _, batch in hours:
        coarse.append([flight for _, flight in batch])
    noted_january = simulate_noted_time(january)
    sooner = sooner_hours((noted_january, *own_delays))
    of_six_hours = own_delays[2]
    six_hours_later = of_six_hours.median_hours - noted_january.median_hours
    table_lines = []
    for delay in (*own_delays, *simulate_delays(year)[::2]):
        table_lines.append("| {} | {} | {} % | {} | {} |".format(delay.name, *cells(delay)))
    for outcome in (noted_january, simulate_noted_time(year)):
        line = "** | **{}** | **{} %** | **{}** | **{}** |".format(*cells(outcome))
        table_lines.append(line)
    figures = [
        *table_lines,
        " | ".join(f"{run_spark(coarse, delay.delay_ms or 0)[0]:,}" for delay in own_delays),
        f"{noted_january.rows:,} rows",
        (
            f"a delay of 6 hours loses {of_six_hours.lost} rows, and its counts come "
            f"{six_hours_later:.1f} hours later"
        ),
        (
            f"the delay must be {format_delay(own_delays[-1].delay_ms or 0)}. Then the counts come "
            f"{sooner:.1f} hours later."
        ),
    ]
    pages = " ".join((ROOT / page).read_text() for page in PAGES)
    assert [figure for figure in figures if figure not in " ".join(pages.split())] == []


@given(days_of_flights)
def test_every_note_is_true(flights: Flights) -> None:
    """Flights that departed below a carrier's note have landed by its step."""
    for step in steps(flights):
        for flight in flights.landed:
            if flight.departure < step.notes.get(flight.carrier, 0):
                assert flight.landing <= step.clock


@given(days_of_flights)
def test_steps_match_hours_closed_by_the_simulation(flights: Flights) -> None:
    """The replay stops only there, and has the latencies of one that stops at each flight."""
    lowers = [(step.clock, min(step.notes.values())) for step in steps(flights)]

    closing_delays = []
    for end in flights.window_ends:
        closed_at = next(clock for clock, lower in lowers if end <= lower)
        closing_delays.append(closed_at - end)
    result = simulate_noted_time(flights)
    assert (result.lost, result.latencies_ms) == (0, tuple(sorted(closing_delays)))


def test_the_year_has_all_its_flights() -> None:
    """Each of the 336,776 rows in the package is an event, or counted as cancelled or untimed."""
    year = read_flights()

    assert (len(year.landed), year.cancelled, year.untimed) == (327_346, 8_255, 1_175)


def test_the_flights_in_the_clone_are_those_of_the_demo() -> None:
    """`./run python -m demo.as_files` writes them."""
    assert pq.read_table(ROOT / "examples" / "flights.parquet") == make_table()
