from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    aggregation,
    heartbeat,
    imports,
    note_batches,
    page,
    single_notes,
    time_windows,
    visible_marks,
    waiting_readers,
)
from benchmarks.figures import Figure, Run, WrongResult
from benchmarks.load import drive
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.stored import sqlite_url
from benchmarks.writers import Writers


def test_benchmark_stops_when_a_note_is_refused(tmp_path: Path) -> None:
    """Notes that go back in time would make the benchmark look fast."""
    database = sqlite_url(tmp_path / "b.db")
    with controller(database) as server:
        create_stream(server, "s")
        drive(server.port, Writers("s", 4).scripts(1, 8, 1))
        second_writers = Writers("s", 4)

        with pytest.raises(WrongResult, match=r"unexpected statuses: .*422"):
            second_writers.check(drive(server.port, second_writers.scripts(1, 4, 1)), database)


@pytest.mark.parametrize(
    ("measure", "sizes", "samples"),
    [
        (single_notes.measure, {"writers": 128, "requests": 3}, [3, 3, 3, 3]),
        (note_batches.measure, {"writers": 160, "notes": 10}, [2]),
        (visible_marks.measure, {"members": 8}, [3, 3]),
        (waiting_readers.measure, {"readers": 40}, [2]),
        (aggregation.measure, {"sizes": (4, 16), "notes": 64}, [2, 2, 2]),
        (heartbeat.measure, {"members": 16}, [1, 1]),
        (imports.measure, {"imports": imports.IMPORTS[:1]}, [3]),
        (time_windows.measure, {"marks": 1000, "positions": 50}, [3, 3]),
    ],
)
def test_a_benchmark_measures(
    run: Run, measure: Callable[..., list[Figure]], sizes: dict[str, Any], samples: list[int]
) -> None:
    """A few requests go through the whole benchmark, with its floor."""
    assert [len(figure.ours.values) for figure in measure(run, **sizes)] == samples


def test_page_of_speed_has_the_recorded_figures() -> None:
    """The table is as `./run bench --page` wrote it, and has every figure with an aim."""
    figures = json.loads(page.FIGURES.read_text())
    text = page.PAGE.read_text()

    assert page.fill_page(text, figures) == text
    assert len([*page.table(figures)]) == 2 + sum(
        figure["target"] is not None for figure in figures
    )
