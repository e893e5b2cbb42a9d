"""Claims of a query from the beginning of a topic whose first rows were deleted."""

from pathlib import Path

import pytest

from noted_time_extensions.tables import NotedTable, TableClaims, standing
from noted_time_extensions.tables.table_history import START_UNKNOWN, NoClaim, TableClaim
from tests.support.clock import START_MS, Clock

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]


def test_claim_says_since_when_no_row_is_missing(clock: Clock, tmp_path: Path) -> None:
    """A pending time prevents a claim. Once the time is known, it stays."""
    table = f"delta:{tmp_path / 'table'}"
    clock.write(6, 7)
    clock.broker.truncate(clock.name, {0: 14})

    def run() -> TableClaim | NoClaim:
        claims = TableClaims(str(clock.output.checkpoint), "clock", "timestamp")
        clock.output._take = NotedTable(table, claims)  # type: ignore[assignment, method-assign]
        clock.output.catch_up(clock.read(batch_after_mark=True))
        return standing(table)

    pending = run()
    clock.note_all(8)
    first_claim = run()
    clock.broker.truncate(clock.name, {0: 16})
    clock.write(8)
    clock.note_all(9)
    later_claim = run()

    assert isinstance(first_claim, TableClaim)
    assert isinstance(later_claim, TableClaim)
    assert pending == NoClaim(f"clock: {START_UNKNOWN}")
    assert [(claim.complete_to, claim.from_time) for claim in (first_claim, later_claim)] == [
        (START_MS + 8000, START_MS + 7401),
        (START_MS + 9000, START_MS + 7401),
    ]
