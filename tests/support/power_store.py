"""A controller on SQLite whose power is cut."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from controller.store.migrate import create_if_new
from controller.store.open import open_store
from tests.support.power import Acknowledged, Cut, Disk
from tests.support.processes import ServeProcess

NOTES = 12


def note_until_kill(
    disk: Disk, variables: dict[str, Any], notes: int = NOTES
) -> list[Acknowledged]:
    """Start a controller, note times one by one, and kill it; return the answered times."""
    with ServeProcess(disk.root, is_forked=False, **variables) as controller:
        controller.ready().make("flights", max_time_ahead_ms=None)
        acknowledged_times = []
        for time in range(1, notes + 1):
            controller.post("flights", {"writer": "UA", "time": time, "position": {"0": time}})
            acknowledged_times.append(Acknowledged.now(time))
    return acknowledged_times


def find_lost(
    cut: Cut, acknowledged_times: Sequence[Acknowledged], target: Path, *, torn: bool
) -> set[str]:
    """Return the answered times that are lost; the database must be whole."""
    database = f"sqlite:///{cut.restore(target, torn=torn) / 'noted-time.db'}"
    create_if_new(database)  # as at a controller's start
    with closing(open_store(database)) as store:
        assert store.damage() is None
        last = 0
        lowers = set()
        for stream in store.streams():
            for member in store.members(stream.id):
                last = max(last, int(member.times["default"]))
            for appended_mark in store.marks(stream.id, "default"):
                lowers.add(str(appended_mark.mark.lower))
    times = cut.find_durable(acknowledged_times)
    return {time for time in times if int(time) > last or time not in lowers}
