"""The laws of the outbox: coalescing, and refusals."""

import json
from operator import attrgetter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noted_time import InvalidNote
from noted_time.client import position_to_wire
from noted_time.values import HOUR_MS, MOST_LATE, Accepted, LateRows, Note, Refused, list_reports
from tests.writer_client.posting import DOMAINS, Act, PostOnce, Run, Say, acts
from writer_client.sending.answers import NotesReply
from writer_client.sending.outbox import Outbox

laws = settings(deadline=None)


def notes(outbox: Outbox) -> list[tuple[str | None, int | None, dict[int, int], str]]:
    """Return the next batch as plain values."""
    batch = outbox.take()
    outbox.put_back(batch)
    return [(p.note.domain, p.note.time, dict(p.note.position), p.note.state) for p in batch]


def list_notes_of_time(run: Run) -> list[Note]:
    """Return the sent notes of a live writer that have a time."""
    return [note for note in run.sent if note.time is not None and note.state == "live"]


@laws
@given(acts)
def test_outbox_delivers_the_final_state(played: list[Act]) -> None:
    """Coalescing and losses do not change the writer's final state at the controller.

    But that each note declares all domains, so that less is left undeclared.
    """
    run = Run().play([*played, Say("finished")]).drain()

    records = [run.reference.record(writer) for writer in run.reference.writers()]
    heard = [run.heard.record(writer) for writer in run.heard.writers()]
    assert heard == [record._replace(undeclared=()) for record in records]


@laws
@given(acts)
def test_sent_time_has_a_position_of_its_call_or_later(played: list[Act]) -> None:
    """No time is sent with a position from before its note."""
    run = Run().play(played).drain()

    notes_of_time = list_notes_of_time(run)
    assert all(note.position in run.positions[run.find_claims(note)[0] :] for note in notes_of_time)


@laws
@given(acts)
def test_sent_max_time_bounds_rows_below_its_position(played: list[Act]) -> None:
    """This holds in all declared domains, even after lost answers."""
    run = Run().play(played).drain()

    for note in run.sent:
        declared_times = dict(note.max_times or {})
        if note.domain is not None and note.max_time is not None:
            declared_times[note.domain] = note.max_time
        passed_times = run.find_passed(note)
        for domain, declared_time in declared_times.items():
            assert declared_time >= passed_times.get(domain, declared_time)
        assert passed_times.keys() <= declared_times.keys(), (
            "the facts of one domain go with every note"
        )


@laws
@given(acts)
def test_sent_position_is_exact_without_losses(played: list[Act]) -> None:
    """A time is sent with the position of its call."""
    heard = [act for act in played if not isinstance(act, PostOnce) or act.fate == "answered"]
    run = Run().play(heard).drain()

    for note in list_notes_of_time(run):
        assert note.position in [run.positions[claim] for claim in run.find_claims(note)]


@laws
@given(acts)
def test_ordered_notes_are_never_refused(played: list[Act]) -> None:
    """Repeats and coalescing keep the order."""
    run = Run().play(played).drain()

    assert run.outbox.pop_refused() is None


@laws
@given(acts, st.sampled_from([("unknown_domain", ("default",)), ("too_many_writers", 7)]))
def test_a_writer_that_may_not_join_gives_up(played: list[Act], joins: tuple[Any, Any]) -> None:
    """The controller refuses its notes, and its end because it never joined."""
    outbox = Run().play(played).outbox
    for _ in range(5):
        if outbox:
            batch = outbox.take()
            answers = []
            for pending in batch:
                is_live = pending.note.state == "live"
                answers.append(Refused(*joins) if is_live else Refused("unknown_writer", None))
            outbox.record_answer(batch, NotesReply(tuple(answers)))

    assert (bool(outbox), outbox.durable_through) == (False, outbox.last_ticket)


@laws
@given(acts)
def test_a_batch_is_no_larger_than_the_domains_allow(played: list[Act]) -> None:
    """At most one note of each domain and one change of state wait."""
    run = Run().play(played).drain()

    assert run.largest_batch <= 2 * len(DOMAINS)


@laws
@given(acts)
def test_durable_call_has_reached_the_controller(played: list[Act]) -> None:
    """The controller then has a position that reaches the call's."""
    run = Run()
    positions: list[dict[int, int]] = [{}] * (run.outbox.last_ticket + 1)
    for act in played:
        run.play([act])
        positions += [dict(run.position)] * (run.outbox.last_ticket + 1 - len(positions))
    durable = positions[run.outbox.durable_through]

    heard = run.heard.record("UA").position if len(run.heard) else {}
    assert all(heard.get(segment, 0) >= offset for segment, offset in durable.items())


def test_idle_is_accepted_from_a_writer_that_fell_behind() -> None:
    """It has no time, so a refused time does not matter."""
    run = Run()
    run.heard.note(Note("UA", 9, {}, DOMAINS[0]), now=0)
    run.outbox.note(4, {0: 5}, domain=DOMAINS[0])
    run.outbox.change_state("idle", {})
    run.drain()

    reason = "invalid_time: it noted 9 before, and a time may not go back"
    assert run.heard.record("UA").state == "idle"
    assert str(run.outbox.pop_refused()) == f"note of writer 'UA' refused as {reason}"


def test_a_note_declares_all_domains_of_its_writer() -> None:
    """The unnamed domain is the default one."""
    outbox = Outbox("UA")
    outbox.record_write(7, None, {0: 1})
    outbox.record_write(9, "ship", {0: 1})
    outbox.note(5, {}, domain="ship")
    outbox.note(6, {})

    posted_notes = [(p.note.domain, p.note.max_time, p.note.max_times) for p in outbox.take()]
    assert posted_notes == [("ship", 9, {"default": 7}), (None, 7, {"ship": 9})]


@pytest.mark.parametrize("answered", [True, False], ids=["refused", "lost"])
def test_late_rows_are_reported_until_a_note_is_accepted(*, answered: bool) -> None:
    """Late rows go with the next note of their domain."""
    outbox = Outbox("UA")
    outbox.note(5, {})
    outbox.count_late_rows(None, LateRows(2, 4))
    outbox.count_late_rows(None, LateRows(1, 3))
    batch = outbox.take()
    if answered:
        outbox.record_answer(batch, NotesReply((Refused("invalid_time", 9),)))
    else:
        outbox.put_back(batch)
    outbox.note(10, {})
    second_batch = outbox.take()
    outbox.record_answer(second_batch, NotesReply((Accepted(None),)))
    outbox.note(11, {})

    reported_rows = []
    for pending_notes in (batch, second_batch, outbox.take()):
        reported_rows.append([pending.note.late_rows for pending in pending_notes])
    assert (reported_rows, outbox.late_rows) == (
        [[(LateRows(3, 3),)], [(LateRows(3, 3),)], [None]],
        3,
    )


def test_late_rows_are_reported_without_a_note_of_time() -> None:
    """There is a note for each domain without a pending one."""
    outbox = Outbox("UA")
    outbox.change_state("live", {})
    outbox.count_late_rows("a", LateRows(2, 4))
    outbox.count_late_rows("b", LateRows(1, 3))

    posted_notes = [(p.note.domain, p.note.state, p.note.late_rows) for p in outbox.take()]
    assert posted_notes == [("a", "live", (LateRows(2, 4),)), ("b", "live", (LateRows(1, 3),))]


def test_late_rows_are_reported_by_full_hours() -> None:
    """A note takes a limited number of hours; the earliest merge."""
    outbox = Outbox("UA")
    outbox.note(5, {})
    for hour in (*range(30), 29):
        outbox.count_late_rows(None, LateRows(1, hour * HOUR_MS, hour * HOUR_MS + 5))
    (pending,) = outbox.take()

    reports = sorted(list_reports(pending.note.late_rows), key=attrgetter("min_time"))
    assert (len(reports), sum(report.rows for report in reports)) == (MOST_LATE, 31)
    assert reports[-1] == LateRows(2, 29 * HOUR_MS, 29 * HOUR_MS + 5)
    assert reports[1] == LateRows(1, 7 * HOUR_MS, 7 * HOUR_MS + 5)
    assert (reports[0].min_time, reports[0].max_time) == (0, 6 * HOUR_MS + 5)


def test_a_large_outbox_leaves_in_parts_and_in_order() -> None:
    """Requests stay below the controller's limits."""
    outbox = Outbox("UA")
    for number in range(30):
        outbox.note(number, dict.fromkeys(range(999), number), domain=f"k{number}")
    outbox.change_state("idle", {})
    parts = []
    while outbox:
        batch = outbox.take()
        outbox.record_answer(batch, NotesReply((Accepted(None),) * len(batch)))
        parts.append([pending.note.domain for pending in batch])

    assert parts == [[f"k{n}" for n in range(20)], [f"k{n}" for n in range(20, 30)] + ["k29"]]


def test_positions_may_come_as_numpy_numbers() -> None:
    """They are sent as integers."""
    outbox = Outbox("UA")
    position: Any = {np.int64(0): np.int64(10)}
    outbox.note(5, position)
    sent = outbox.take()[0].note.position

    assert json.dumps(position_to_wire(sent)) == '{"0": 10}'


def test_writer_vouching_for_undeclared_domains_gives_up() -> None:
    """Its vouched domains go with each note, so every note would be refused."""
    outbox = Outbox("UA", domains=("elsewhere",))
    outbox.note(5, {0: 9}, max_time=4)
    outbox.change_state("idle", {})
    posts = 0
    while outbox and posts < 9:
        batch = outbox.take()
        outbox.record_answer(
            batch, NotesReply((Refused("unknown_domain", ("default",)),) * len(batch))
        )
        posts += 1

    assert (posts, outbox.durable_through) == (3, 2)
    assert isinstance(outbox.pop_refused(), InvalidNote)
