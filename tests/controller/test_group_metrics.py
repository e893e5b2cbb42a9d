"""How far reader groups are behind, as a scrape shows it."""

import pytest

from controller.aggregation import order
from controller.service.controller import Controller
from noted_time import Note
from noted_time.wing import AlignmentSettings
from tests.support.controllers import GivenTime, Watched, deliver, serve_for, serving
from tests.support.scrapes import scraped


async def test_a_group_is_behind_by_what_its_lower_is_below_the_last(memory: Watched) -> None:
    """A group before all marks is not shown, as every number would be wrong."""
    async with serving(memory) as controller:
        for time in (10, 15, 40):
            await deliver(controller, Note("a", time, {0: time}))
        for group, offset in (("at the end", 40), ("stopped", 39), ("before", 9)):
            await controller.report("s", group.replace(" ", "-"), "r", {0: offset})

        assert scraped(controller, "noted_time_group_behind") == {
            ("default", "at-the-end", "s"): 0.0,
            ("default", "stopped", "s"): 25.0,
        }


@pytest.mark.parametrize(("bound", "most"), [("GROUPS_SHOWN", 2), ("SEGMENTS_READ", 2)])
async def test_a_scrape_looks_at_a_bounded_number_of_groups_and_segments(
    memory: Watched, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """The others are counted."""
    monkeypatch.setattr(order, bound, most)
    async with serving(memory) as controller:
        await deliver(controller, Note("a", 10, {0: 1}))
        for group in "abc":
            await controller.report("s", group, "r", {0: 1})

        shown = scraped(controller, "noted_time_group_behind")
        not_shown = scraped(controller, "noted_time_groups_not_shown")
        assert (len(shown), not_shown) == (2, {(): 1.0})


def shown(controller: Controller) -> list[dict[tuple[str, ...], float]]:
    """Return drift, the most that is allowed, and bound."""
    names = ("drift", "max_drift", "bound")
    return [scraped(controller, f"noted_time_alignment_{name}") for name in names]


async def test_drift_is_from_the_slowest_that_counts_to_the_fastest(memory: Watched) -> None:
    """One at a time of its own has no part in it."""
    async with serving(memory) as controller:
        alignments = controller.alignments
        await alignments.put("a", AlignmentSettings(10))
        for member, time in (("slow", 5), ("between", 8), ("fast", 12)):
            alignments.report("a", member, time, "live")
        alignments.report("a", "gone", 99, "finished")

        assert shown(controller) == [{("a",): 7.0}, {("a",): 10.0}, {("a",): 15.0}]


async def test_without_counted_members_there_is_neither_drift_nor_bound(memory: Watched) -> None:
    """Every number would be wrong."""
    async with serving(memory) as controller:
        await controller.alignments.put("a", AlignmentSettings(10))

        assert shown(controller) == [{}, {("a",): 10.0}, {}]


async def test_members_are_counted_or_shown_with_the_reason_why_not(
    memory: Watched, time: GivenTime
) -> None:
    """Each state has its number, also if that is none."""
    async with serving(memory, time) as controller:
        alignments = controller.alignments
        await alignments.put("a", AlignmentSettings(10, member_timeout_ms=5000))
        alignments.report("a", "silent", 1, "live")
        serve_for(controller, time, 5000)
        for member in ("one", "two"):
            alignments.report("a", member, 2, "live")
        alignments.report("a", "new", None, "live")
        alignments.report("a", "idle", 3, "idle")

        assert scraped(controller, "noted_time_alignment_members") == {
            ("a", "counted"): 2.0,
            ("a", "silent"): 1.0,
            ("a", "no_time"): 1.0,
            ("a", "idle"): 1.0,
            ("a", "finished"): 0.0,
        }
