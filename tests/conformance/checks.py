"""What is tried of a writer. Each check is a function of a trial, and its docstring is its law."""

from __future__ import annotations

import random
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import get_args

from tests.conformance.program import Broken
from tests.conformance.proxy import Fault, Kind
from tests.conformance.trial import Driven, Restarting, Trial, status

Check = Callable[[Trial], None]

CHECKS: list[Check] = []

AWAY_S = 3.0
RETURN_S = 15.0
MOST_ATTEMPTS = 12
"""The most requests in `AWAY_S`, if the pauses double from 0.1 s."""

LOST = (Fault("cut"), Fault("lose"), Fault("double"), Fault("delay"))
LATER = (408, 429, 500, 502, 503, 504)


def check(function: Check) -> Check:
    CHECKS.append(function)
    return function


def _note(driven: Driven, time: int, events: int, *answers: str) -> None:
    driven.write(events)
    driven.expect(f"note {time}", *answers)


@check
def join_makes_a_member(trial: Trial) -> None:
    """A join is accepted, and the watermark waits for the writer."""
    trial.create()
    trial.start()
    trial.note_peer(1000)
    trial.expect_row("live", None, 0)
    trial.judge()


@check
def notes_cover_their_events(trial: Trial) -> None:
    """A note has the time and an offset after all events written before it."""
    trial.create()
    driven = trial.start()
    for step in range(1, 6):
        _note(driven, 1000 * step, step)
    trial.expect_row("live", 5000, 15)
    driven.write(2)
    driven.expect("note 5000")
    trial.expect_row("live", 5000, 17)
    trial.judge()


@check
def heartbeats_keep_the_time(trial: Trial) -> None:
    """A heartbeat is a sign of life, and changes neither the time nor the state."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 3)
    before = trial.row()["noted_at"]
    time.sleep(0.01)
    driven.expect("heartbeat")
    trial.expect_row("live", 1000, 3)
    if trial.row()["noted_at"] <= before:
        raise Broken("the controller did not hear of the heartbeat")
    trial.judge()


@check
def idle_and_finish_cover_all_events(trial: Trial) -> None:
    """`idle` and `finish` have an offset after all events, and the watermark no longer waits."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 3)
    driven.write(2)
    driven.expect("idle")
    trial.expect_row("idle", 1000, 5)
    _note(driven, 2000, 1)
    trial.expect_row("live", 2000, 6)
    driven.write(1)
    driven.expect("finish")
    trial.expect_row("finished", 2000, 7)
    trial.judge()


@check
def leave_ends_the_wait(trial: Trial) -> None:
    """After `leave` the watermark does not wait, and `join` begins a new session."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 3)
    driven.expect("leave")
    if trial.row()["state"] == "live":
        raise Broken("after `leave` the writer is live, so the watermark waits for it")
    driven.expect("join")
    _note(driven, 2000, 1)
    trial.expect_row("live", 2000, 4)
    sessions = {n.get("session") for r in driven.proxy.requests for n in r.notes}
    if len(sessions) != 2:
        raise Broken(f"two joins have {len(sessions)} session")
    trial.judge()


@check
def close_delivers_and_stays(trial: Trial) -> None:
    """`close` ends the program with status 0, and the writer stays a member."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 3)
    driven.program.close()
    trial.expect_row("live", 1000, 3)
    trial.judge()


@check
def lost_requests_are_repeated(trial: Trial) -> None:
    """A request is repeated if its connection ends, before the controller has it or after."""
    trial.create()
    driven = trial.start()
    for step, fault in enumerate(LOST * 2, 1):
        driven.proxy.plan(fault)
        _note(driven, 1000 * step, 2)
        trial.expect_row("live", 1000 * step, 2 * step)
    driven.proxy.plan(Fault("lose"), Fault("lose"))
    driven.write(1)
    driven.expect("finish")
    trial.expect_row("finished", 1000 * len(LOST * 2), 2 * len(LOST * 2) + 1)
    trial.judge()


@check
def lost_joins_are_repeated(trial: Trial) -> None:
    """A join whose answer is lost is repeated, and does not fence its own session."""
    trial.create()
    driven = trial.start(joins=False)
    driven.proxy.plan(Fault("lose"), Fault("cut"), Fault("double"))
    driven.expect("join")
    _note(driven, 1000, 3)
    trial.expect_row("live", 1000, 3)
    trial.judge()


@check
def busy_controllers_are_asked_again(trial: Trial) -> None:
    """After 408, 429 and 5xx a request is repeated, and not before `Retry-After`."""
    trial.create()
    driven = trial.start()
    for step, number in enumerate(LATER, 1):
        driven.proxy.plan(status(number))
        _note(driven, 1000 * step, 1)
    driven.proxy.plan(status(429, retry_after_s=1), status(503, "overloaded", retry_after_s=1))
    _note(driven, 9000, 1)
    trial.expect_row("live", 9000, len(LATER) + 1)
    trial.judge()


@check
def late_copies_change_nothing(trial: Trial) -> None:
    """A request that was delayed in the network changes nothing after newer ones."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 3)
    driven.proxy.plan(Fault("hold"))
    driven.expect("idle")
    driven.proxy.plan(Fault("hold"))
    _note(driven, 2000, 2)
    _note(driven, 3000, 2)
    driven.proxy.release()
    trial.expect_row("live", 3000, 7)
    trial.judge()


@check
def an_outage_is_waited_for(trial: Trial) -> None:
    """While the controller is away, requests are repeated with growing pauses."""
    trial.create()
    driven = trial.start()
    driven.proxy.is_away = True
    driven.write(3)
    sent = len(driven.proxy.requests)

    def come_back() -> None:
        nonlocal sent
        sent = len(driven.proxy.requests) - sent
        driven.proxy.is_away = False

    timer = threading.Timer(AWAY_S, come_back)
    timer.start()
    begun = time.monotonic()
    driven.expect("note 1000")
    timer.join()
    if not 1 < sent <= MOST_ATTEMPTS:
        raise Broken(f"{sent} requests in {AWAY_S:.0f} s without an answer, not 2 to 12")
    if time.monotonic() - begun > RETURN_S:
        raise Broken(f"no answer within {RETURN_S:.0f} s, though the controller is back")
    trial.expect_row("live", 1000, 3)
    trial.judge()


@check
def giving_up_loses_nothing(trial: Trial) -> None:
    """A program that gave up acknowledges nothing, and later notes are accepted."""
    trial.create()
    driven = trial.start(NOTED_TIME_GIVE_UP_S="1")
    driven.proxy.is_away = True
    driven.write(3)
    driven.expect("note 1000", "gave up")
    driven.proxy.is_away = False
    driven.write(2)
    until = time.monotonic() + RETURN_S
    while driven.program.ask("note 2000")["answer"] != "accepted":
        if time.monotonic() > until:
            raise Broken("the controller is back, and `note` is not accepted")
    trial.expect_row("live", 2000, 5)
    trial.judge()


@check
def refused_notes_end(trial: Trial) -> None:
    """A refused note is not sent again, and the next one is accepted."""
    trial.create()
    driven = trial.start()
    _note(driven, 2000, 3)
    driven.expect_code("note 1000", "invalid_time", "notes_refused")
    driven.expect_silence()
    driven.proxy.plan(status(422, "invalid_request"))
    driven.expect_code("note 3000", "invalid_request")
    driven.expect_silence()
    _note(driven, 4000, 1)
    trial.expect_row("live", 4000, 4)
    trial.judge()


@check
def unknown_streams_are_reported(trial: Trial) -> None:
    """A missing stream and a missing right are refusals with the API's code."""
    trial.create()
    driven = trial.start(joins=False, NOTED_TIME_STREAM=f"{trial.stream}-missing")
    driven.expect_code("join", "unknown_stream")
    other = trial.start()
    other.proxy.plan(*[status(403, "forbidden")] * 3)
    other.write(1)
    other.expect_code("note 1000", "forbidden")
    other.proxy.planned.clear()
    other.expect("note 2000")
    trial.judge()


@check
def sealed_streams_end_a_writer(trial: Trial) -> None:
    """A note to a sealed stream is refused for good."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 3)
    trial.controller.call("POST", f"/{trial.stream}/seal", {})
    driven.write(1)
    driven.expect_code("note 2000", "sealed", "notes_refused")
    driven.expect_silence()
    trial.judge(keeps=False)


@check
def an_older_process_is_fenced(trial: Trial) -> None:
    """After another process took over the name, the older one stops for good."""
    trial.create()
    older = trial.start()
    _note(older, 1000, 3)
    younger = trial.start(end=3)
    older.write(1)
    older.expect("note 2000", "fenced")
    older.expect_silence()
    older.expect("heartbeat", "fenced")
    younger.write(2)
    younger.expect("note 3000")
    trial.expect_row("live", 3000, 5)
    trial.judge()


@check
def a_crash_says_nothing(trial: Trial) -> None:
    """At the end of input the program ends at once, and the next one covers its events."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 5)
    driven.write(3)
    ended = driven.program.crash()
    time.sleep(0.3)
    if any(each.at > ended for each in driven.proxy.requests):
        raise Broken("the program sends requests after its end")
    trial.expect_row("live", 1000, 5)
    again = trial.start(end=8)
    again.expect("note 2000")
    trial.expect_row("live", 2000, 8)
    trial.judge()


@check
def late_times_are_reported(trial: Trial) -> None:
    """A note below the watermark is answered as late or excluded, and one above it is not."""
    trial.create(returning_writer="exclude")
    driven = trial.start()
    _note(driven, 1000, 1)
    driven.expect("idle")
    trial.note_peer(5000)
    answer = driven.expect("note 2000", "accepted", "excluded")
    if answer["answer"] == "accepted" and answer.get("late") is not True:
        raise Broken(f"`note 2000` below the watermark of 5000 is answered {answer}")
    answer = driven.expect("note 6000")
    if answer.get("late"):
        raise Broken(f"`note 6000` above the watermark of 5000 is answered {answer}")
    trial.judge()


@check
def exclusions_are_reported(trial: Trial) -> None:
    """A writer that was removed learns of it from the answer to its next request."""
    trial.create()
    driven = trial.start()
    _note(driven, 1000, 1)
    trial.note_peer(5000)
    trial.controller.call("DELETE", f"/{trial.stream}/writers/writer")
    driven.write(1)
    driven.expect("note 2000", "excluded")
    driven.expect("note 6000", "accepted", "excluded")
    driven.expect("note 7000")
    trial.judge()


@check
def restarts_lose_nothing(trial: Trial) -> None:
    """A controller that is killed and started again has all acknowledged notes."""
    with ExitStack() as stack:
        controller = Restarting(trial.directory, stack)
        trial.controller = controller
        trial.create()
        driven = trial.start()
        _note(driven, 1000, 3)
        controller.restart()
        trial.expect_row("live", 1000, 3)
        restart = threading.Thread(target=controller.restart)
        restart.start()
        for step in range(2, 6):
            _note(driven, 1000 * step, 1)
        restart.join()
        trial.expect_row("live", 5000, 7)
        trial.judge()


@check
def a_database_put_back_is_completed(trial: Trial) -> None:
    """After a backup was restored, or the stream made again, a note has the whole position."""
    with ExitStack() as stack:
        controller = Restarting(trial.directory, stack)
        trial.controller = controller
        trial.create()
        driven = trial.start()
        _note(driven, 1000, 3)
        backup = trial.directory / "backup.db"
        _copy(controller.database, backup)
        _note(driven, 2000, 2)
        controller.restart(lambda: _put_back(backup, controller.database))
        trial.expect_row("live", 1000, 3)
        _note(driven, 3000, 2)
        trial.expect_row("live", 3000, 7)
        controller.call("DELETE", f"/{trial.stream}")
        trial.create()
        driven.expect("note 4000")
        trial.expect_row("live", 4000, 7)
        trial.judge(keeps=False)


def _copy(database: Path, backup: Path) -> None:
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(backup)) as target:
        source.backup(target)


def _put_back(backup: Path, database: Path) -> None:
    for each in database.parent.glob(f"{database.name}-*"):
        each.unlink()
    shutil.copy(backup, database)


@check
def a_storm_breaks_no_law(trial: Trial) -> None:
    """All commands under random faults break no law."""
    trial.create()
    chance = random.Random(7)
    driven = trial.start()
    kinds = [kind for kind in get_args(Kind) if kind != "status"]
    noted = None
    for step in range(1, 25):
        driven.proxy.plan(
            *(chance.choice([Fault(chance.choice(kinds)), status(503)]) for _ in range(2))
        )
        driven.write(chance.randrange(1, 9))
        command = chance.choice([f"note {1000 * step}"] * 3 + ["heartbeat", "idle"])
        driven.expect(command)
        noted = 1000 * step if command.startswith("note") else noted
        if chance.random() < 0.3:
            driven.proxy.release()
    driven.proxy.planned.clear()
    driven.expect("finish")
    driven.proxy.release()
    trial.expect_row("finished", noted, driven.program.end)
    trial.judge()
