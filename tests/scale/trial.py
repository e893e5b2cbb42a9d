"""The trial of a crowd of writers that falls silent and returns, twice."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from benchmarks.stored import offsets_stored
from tests.replicas.replica_processes import find_owned_name, wait_until_shared
from tests.scale.crowd import Crowd
from tests.scale.measuring import Meter, Record
from tests.support.processes import ServeProcess

CONTROLLERS = {"sqlite": 1, "postgres": 2}
TIMEOUT_MS = 5000
WAVES = ("wave 1", "wave 2")

OWNER_EVENTS = frozenset(
    (
        *("buckets_acquired", "buckets_released"),
        *("turn_failed", "commit_failed", "committer_failed", "went_back"),
        *("store_unavailable", "store_lost", "session_shared", "leases_not_renewed"),
    )
)
"""The lines of a log that say that the owner changed, or may have changed."""


def hold_trial(database: str, count: int, directory: Path, record: Record) -> None:
    """Hold the trial with that many controllers of a database, and fill the record.

    At its end, each process is killed by its id.
    """
    with run_controllers(database, count, directory) as controllers:
        owner = controllers[0]
        stream = find_owned_name(owner, "crowd")
        other = find_owned_name(owner, "other")
        owner.create(stream, writer_timeout_ms=TIMEOUT_MS)
        owner.make(other)
        lines = [len(controller.log()) for controller in controllers]
        try:
            with (
                closing(Crowd(owner, stream, record.writers)) as crowd,
                Meter(controllers, other, record) as meter,
            ):
                hold_waves(crowd, meter, record)
            record.stored_offsets = offsets_stored(database, stream)
        finally:
            record.events = list_owner_events(controllers, lines)


@contextmanager
def run_controllers(database: str, count: int, directory: Path) -> Iterator[list[ServeProcess]]:
    """Run controllers that share the buckets of a database evenly."""
    controllers: list[ServeProcess] = []
    with ExitStack() as stack:
        for _ in range(count):
            process = ServeProcess(directory, "--database", database, is_forked=False)
            controllers.append(stack.enter_context(process).ready())
        if count > 1:
            wait_until_shared(*controllers)
        yield controllers


def hold_waves(crowd: Crowd, meter: Meter, record: Record) -> None:
    """Let the crowd note, fall silent and note again, twice."""
    crowd.lead(0)
    post_notes(crowd, meter, "fill", step=1)
    meter.measure_idle()
    count_in(crowd, meter, record, "join", step=1)
    for number, wave in enumerate(WAVES, 1):
        silence_step = 2 * number
        with meter.stage(wave):
            led_at = time.time()
            crowd.lead(silence_step)
            record.excluded[wave] = crowd.wait_for_mark(silence_step)
            due_at = max(led_at, record.held_from_s + TIMEOUT_MS / 1000)
            record.excluded_after_s[wave] = time.time() - due_at
        with meter.stage(f"answers {number}"):
            record.missing[wave] = crowd.count_missing(silence_step)
            crowd.read_answers()
        post_notes(crowd, meter, f"return {number}", silence_step + 1)
        count_in(crowd, meter, record, f"rejoin {number}", silence_step + 1)
    record.lowers = crowd.lowers
    record.repeats = crowd.repeats


def post_notes(crowd: Crowd, meter: Meter, stage: str, step: int) -> None:
    """Let all but the leader note a time, which no mark has before the leader notes it."""
    requests = crowd.build_requests(step)
    with meter.stage(stage):
        crowd.post(requests)


def count_in(crowd: Crowd, meter: Meter, record: Record, stage: str, step: int) -> None:
    """Let the leader follow, and wait for the mark. Then the watermark waits for the others."""
    with meter.stage(stage):
        crowd.lead(step)
        record.excluded[stage] = crowd.wait_for_mark(step)
    record.held_from_s = crowd.marked_at_s
    record.missing[stage] = crowd.count_missing(step)


def list_owner_events(controllers: Sequence[ServeProcess], lines: Sequence[int]) -> list[str]:
    """Return the events of the logs from those lines on that concern the owner."""
    events: list[str] = []
    for controller, first in zip(controllers, lines, strict=True):
        names = [str(line["event"]) for line in controller.log()[first:]]
        events += [name for name in names if name in OWNER_EVENTS]
    return events
