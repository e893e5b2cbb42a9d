"""What the demonstration measures and reports."""

from __future__ import annotations

from examples.flights.data import HOUR_MS
from examples.flights.measurement import Counted, noted_outcome, untimely
from examples.flights.query import Count, Run
from examples.flights.replay import Replayed
from tests.examples.flown import minutes

FIRST, SECOND = HOUR_MS, 2 * HOUR_MS

TRUTH = {(FIRST, "EWR"): 3, (FIRST, "JFK"): 1, (SECOND, "EWR"): 2}

CUTS = {FIRST: {0: 2}, SECOND: {0: 4, 1: 2}}

REPLAYED = Replayed(list(minutes(70, 200)), [{0: 3}, {0: 4, 1: 2}])


def noted_run(*counts: Count, watermark: int = SECOND, batch: int = 2) -> Run:
    """Return a run that gave all of it out in one batch, having read two batches before."""
    return Run(
        given_out={0: [], 1: [], batch: list(counts)},
        positions={0: {0: 2}, 1: {0: 4, 1: 2}, 2: {0: 4, 1: 2}},
        watermark=watermark,
    )


WHOLE = (Count(0, FIRST, "EWR", 3), Count(0, FIRST, "JFK", 1), Count(0, SECOND, "EWR", 2))


def test_a_row_counted_twice_is_as_wrong_as_a_lost_one() -> None:
    """A method that doubles rows does not come out clean."""
    outcome = noted_outcome(Counted(noted_run(*WHOLE, WHOLE[2]), TRUTH, REPLAYED), CUTS)

    assert outcome.lost == 2


def test_a_window_is_timely_in_the_first_batch_after_its_cut() -> None:
    """The first hour's cut was read by batch 0 and so is due in batch 1; it came in batch 2."""
    late = untimely(noted_run(*WHOLE), CUTS)

    assert late == 1
