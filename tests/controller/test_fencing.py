"""What the controller answers, records and shows of two processes that note under one name."""

from controller.aggregation.fencing import MOST_RECORDED, MOST_SHOWN, SHOWN_MS, FencedProcess
from controller.service.controller import Controller
from noted_time import Accepted, Note, Refused
from noted_time.values import Session
from noted_time.values.fencing import Former
from tests.support.controllers import GivenTime, Watched, WatchedMemory, deliver, serve_for, serving
from tests.support.scrapes import scraped

WALL = 1_700_000_000_000


def note(session: str, time: int, *, takes_over: bool = True, writer: str = "a") -> Note:
    """Return a note of a process that is labelled by its session."""
    label = f"on-{session}" if takes_over else ""
    return Note(writer, time, session=session, takes_over=takes_over, label=label)


def shown(controller: Controller, time: GivenTime) -> list[FencedProcess]:
    """Return the sessions that explain names as fenced."""
    return controller.stream("s").fences.shown(time.wall)


async def test_a_fenced_process_learns_by_whom_and_since_when(
    store: Watched, time: GivenTime
) -> None:
    """In Unix ms."""
    async with serving(store, time) as controller:
        await deliver(controller, note("old", 1))
        serve_for(controller, time, 1000)
        await deliver(controller, note("new", 2))
        answers = await deliver(controller, note("old", 3), note("new", 4, takes_over=False))

    held = Session("new", "on-new", WALL + 1000, (Former("old", "on-old"),))
    assert answers == [Refused("fenced", held), Accepted(4)]


async def test_a_takeover_from_a_live_session_is_a_change(memory: Watched, time: GivenTime) -> None:
    """One that was idle gave its name up."""
    async with serving(memory, time) as controller:
        await deliver(controller, note("first", 1), Note("a", state="idle", session="first"))
        await deliver(controller, note("second", 2))
        await deliver(controller, note("third", 3))
        (_, change), (_, made) = await controller.views.changes("s", before=None, limit=9)

    was = {"session": "second", "label": "on-second", "since": WALL}
    became = {"session": "third", "label": "on-third", "since": WALL}
    assert (change.action, change.writer, change.was, change.became, made.action) == (
        "taken_over",
        "a",
        was,
        became,
        "created",
    )


async def test_a_bounded_number_of_takeovers_is_recorded_within_an_hour(
    memory: Watched, time: GivenTime
) -> None:
    """A process that starts again and again does not fill the database."""
    async with serving(memory, time) as controller:
        for number in range(MOST_RECORDED + 2):
            await deliver(controller, note(f"s{number}", 1))
        time.passes(SHOWN_MS)
        await deliver(controller, note("later", 1))
        found = await controller.views.changes("s", before=None, limit=1000)

    actions = [change.action for _, change in found]
    assert actions == ["taken_over"] * (MOST_RECORDED + 1) + ["created"]


async def test_explain_names_both_processes_for_an_hour(memory: Watched, time: GivenTime) -> None:
    """A fenced note is the proof that there are two."""
    async with serving(memory, time) as controller:
        await deliver(controller, note("old", 1), note("new", 2), note("old", 3, takes_over=False))
        at_once = shown(controller, time)
        time.passes(SHOWN_MS)

        assert (at_once, shown(controller, time)) == (
            [FencedProcess("a", "on-old", "on-new", since=WALL, at=WALL)],
            [],
        )


async def test_fenced_notes_are_counted(memory: Watched) -> None:
    """For each stream."""
    async with serving(memory) as controller:
        await deliver(controller, note("old", 1), note("new", 2), *[note("old", 3)] * 3)

        assert scraped(controller, "noted_time_fenced_total") == {("s",): 3.0}


async def test_of_many_fenced_writers_the_last_are_shown(
    memory: WatchedMemory, time: GivenTime
) -> None:
    """However many there are, they take no more memory."""
    async with serving(memory, time) as controller:
        for number in range(MOST_SHOWN + 1):
            writer = f"w{number}"
            await deliver(controller, *(note(each, 1, writer=writer) for each in ("x", "y", "x")))

        found = shown(controller, time)
        assert (len(found), found[-1].writer) == (MOST_SHOWN, "w1")
