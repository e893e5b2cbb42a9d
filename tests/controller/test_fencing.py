"""Two processes that note under one name: answers, records and views."""

from controller.aggregation.fencing import (
    FENCED_SHOWN,
    MOST_RECORDED,
    SHOWN_MS,
    TAKEOVERS_WATCHED,
    Fences,
)
from controller.service.controller import Controller
from noted_time.values import Note, Session
from tests.support.controllers import GivenTime, Watched, deliver, explain_stream, serve_stream


def note(session: str, time: int, *, takes_over: bool = True, writer: str = "a") -> Note:
    label = f"on-{session}" if takes_over else ""
    return Note(writer, time, session=session, takes_over=takes_over, label=label)


def list_takeover_hints(controller: Controller) -> list[str]:
    """Return the sentences about names that are taken over repeatedly."""
    found = explain_stream(controller)
    assert {f"{each.writer} {each.detail}" for each in found.hints} <= set(found.sentences)
    return [f"{each.writer} {each.detail}" for each in found.hints if each.hint == "taken_over"]


async def restart(controller: Controller, first: int, after: int) -> None:
    """Let processes with these numbers take over the name in turn."""
    for number in range(first, after):
        await deliver(controller, note(f"s{number}", 1))


async def test_counted_takeovers_are_bounded(memory: Watched, time: GivenTime) -> None:
    async with serve_stream(memory, time) as controller:
        await restart(controller, 0, TAKEOVERS_WATCHED + 2)

        (said,) = list_takeover_hints(controller)
        assert said.startswith(f"a was taken over {TAKEOVERS_WATCHED} times in a minute")


async def test_recorded_takeovers_are_bounded(memory: Watched, time: GivenTime) -> None:
    async with serve_stream(memory, time) as controller:
        await restart(controller, 0, 2)
        time.passes(1)
        await restart(controller, 2, MOST_RECORDED + 3)
        time.passes(SHOWN_MS - 1)
        await deliver(controller, note("later", 1))
        found = await controller.views.changes("s", before=None, limit=1000)

    changed = [change.writer for change in found if change.action == "taken_over"]
    assert changed == ["a"] * (MOST_RECORDED + 1)


def test_shown_fenced_notes_are_bounded() -> None:
    fences = Fences()
    held = Session("y", "host-b", 1)
    for number in range(FENCED_SHOWN + 30):
        fences.refuse(note("x", 1, writer=f"w{number}"), held, 2)

    fences.refuse(note("x", 1, writer="w40"), held, 2)
    found = [each.writer for each in fences.list_recent(3)]

    last = range(FENCED_SHOWN + 29, 29, -1)
    assert found == ["w40", *(f"w{number}" for number in last if number != 40)]
