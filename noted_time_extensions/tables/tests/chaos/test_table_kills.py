"""Drivers that are killed while they write a Delta table by deltalake; no session runs here."""

from pathlib import Path
from random import Random

from noted_time_extensions.tables.tests.support.killed_drivers import (
    BEGUN_MS,
    KILLS,
    STEP_MS,
    Delta,
    Log,
    Trial,
    choose_points,
    read_claimed_time,
)
from tests.support.noted_stream import NotedStream
from tools.trials.served import Served


def test_killed_drivers_write_each_row_once_and_claim_no_more(
    served: Served, tmp_path: Path
) -> None:
    """SIGKILL between data and commit, between commit and Spark's own log, and anywhere.

    In the end the table has all rows, and the claim of the last mark.
    """
    chance = Random(KILLS)
    flights = NotedStream(tmp_path / "log", "flights", served)
    trial = Trial(Log(flights), Delta(tmp_path / "table"), tmp_path)
    for point in choose_points(KILLS):
        trial.kill(point, chance)

    assert trial.finish() == []
    assert read_claimed_time(trial.table.history()) == BEGUN_MS + trial.steps * STEP_MS
