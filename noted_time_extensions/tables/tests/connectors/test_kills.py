"""Drivers that are killed while the connectors of Delta and Iceberg write tables."""

from pathlib import Path
from random import Random

import pytest

from noted_time_extensions.tables.tests.support.killed_drivers import (
    KILLS,
    Delta,
    Directory,
    Iceberg,
    Trial,
    choose_points,
    read_claimed_time,
    settings,
)
from tools.trials import tables

pytestmark = [pytest.mark.spark, pytest.mark.needs_spark("4.0")]


@pytest.mark.skipif(not tables.connectors(), reason=tables.MISSING)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_killed_drivers_double_no_row_and_claim_nothing_false(tmp_path: Path, kind: str) -> None:
    """A driver is killed between data and commit, or between commit and Spark's own log.

    Drivers with deltalake are killed anywhere, because they start sooner.
    """
    chance = Random(KILLS)
    table = (
        Delta(tmp_path / "table")
        if kind == "delta"
        else Iceberg(tmp_path / "tables" / "lake", "lake.db.rows")
    )
    trial = Trial(Directory(tmp_path / "source"), table, tmp_path, settings(tmp_path / "tables"))
    for point in choose_points(KILLS - 1):
        trial.kill(point, chance)

    assert trial.finish() == []
    assert read_claimed_time(trial.table.history()) is not None
