from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import (
    against,
    aggregation,
    heartbeat,
    note_batches,
    page,
    single_notes,
    time_windows,
    visible_marks,
    waiting_readers,
)
from benchmarks.against import Change
from benchmarks.figures import Figure, Run, Samples, Target, WrongResult, lines
from benchmarks.processes import controller
from benchmarks.single_notes import create_stream
from benchmarks.stored import sqlite_url
from benchmarks.writers import Writers
from noted_time_cli.bench.load import drive

SLOW = Figure(
    "notes",
    "/s",
    Samples((10.0, 30.0)),
    Samples((100.0, 100.0)),
    "bare",
    Target("ratio", "at least", 0.33),
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """As little as can be measured, reported nowhere."""
    return Run(quick=True, directory=tmp_path, say=lambda _: None)


def test_a_figure_is_one_line_of_80_columns_and_its_remark_below() -> None:
    """Medians in columns; floor, target, spread and remark are wrapped, indented."""
    figure = replace(SLOW, name="durable single notes, 64 connections, SQLite", remark="a " * 40)
    shown = list(lines([SLOW, figure]))

    assert max(map(len, shown)) <= 80
    assert [line for line in shown if not line.startswith(" ")] == [
        "median of                                                 measured  ratio",
        "notes                                                        20 /s    0.2 short",
        "durable single notes, 64 connections, SQLite                 20 /s    0.2 short",
    ]
    below = "    floor 100 /s: bare; target ratio ≥ 0.33; 10 to 30 /s"
    assert shown[2:5:2] == [below, f"{below}; a a a a a a a a a a a"]


def test_a_refused_note_gives_no_result(tmp_path: Path) -> None:
    """A benchmark whose notes go back in time stops instead of looking fast."""
    database = sqlite_url(tmp_path / "b.db")
    with controller(database) as server:
        create_stream(server, "s")
        drive(server.port, Writers("s", 4).scripts(1, 8, 1))
        again = Writers("s", 4)

        with pytest.raises(WrongResult, match=r"unexpected statuses: .*422"):
            again.check(drive(server.port, again.scripts(1, 4, 1)), database)


@pytest.mark.parametrize(
    ("measure", "sizes", "samples"),
    [
        (single_notes.measure, {"writers": 128, "requests": 3}, [3, 3, 3, 3]),
        (note_batches.measure, {"writers": 160, "notes": 10}, [2]),
        (visible_marks.measure, {"members": 8}, [3, 3]),
        (waiting_readers.measure, {"readers": 40}, [2]),
        (aggregation.measure, {"sizes": (4, 16), "notes": 64}, [2, 2, 2]),
        (heartbeat.measure, {"members": 16}, [1, 1]),
        (time_windows.measure, {"marks": 1000, "positions": 50}, [3, 3]),
    ],
)
def test_a_benchmark_measures(
    run: Run, measure: Callable[..., list[Figure]], sizes: dict[str, Any], samples: list[int]
) -> None:
    """A handful of requests go through all of it, with its floor."""
    assert [len(figure.ours.values) for figure in measure(run, **sizes)] == samples


def test_a_change_within_the_spread_of_either_tree_is_noise() -> None:
    """Only where each run of one tree is above each of the other, the line says so."""
    noise = Change("notes", Samples((0.10, 0.20, 0.30)), Samples((0.30, 0.40, 0.50)))
    slower = Change("marks", Samples((10.0, 11.0, 12.0)), Samples((13.0, 14.0, 15.0)))

    assert list(against.lines([noise, slower], "0123456789")) == [
        "median of 5 runs: the ratio, or the value         012345678      here  change",
        "notes                                                   0.2       0.4   +100%",
        "    0.1 to 0.3, 0.3 to 0.5",
        "marks                                                    11        14    +27%",
        "    10 to 12, 13 to 15; beyond the noise",
    ]


def test_the_page_of_speed_has_the_figures_that_are_kept_beside_it() -> None:
    """The table is as `./run bench --page` wrote it, and has every benchmark of a run."""
    figures = json.loads(page.FIGURES.read_text())
    text = page.PAGE.read_text()

    assert page.filled(text, figures) == text
    assert len([*page.table(figures)]) == len(figures) + 2
