"""How far reader groups are behind, as a scrape shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controller.aggregation import order
from noted_time import Note
from tests.support.controllers import serving, tell
from tests.support.scrapes import scraped

if TYPE_CHECKING:
    from tests.support.controllers import Watched

pytestmark = pytest.mark.anyio


async def test_a_group_is_behind_by_what_its_lower_is_below_the_last(memory: Watched) -> None:
    """One that is before all marks is not shown, as there is no number that would not lie."""
    async with serving(memory) as controller:
        for time in (10, 15, 40):
            await tell(controller, Note("a", time, {0: time}))
        for group, offset in (("at the end", 40), ("stopped", 39), ("before", 9)):
            await controller.report("s", group.replace(" ", "-"), "r", {0: offset})

        assert scraped(controller, "noted_time_group_behind") == {
            ("default", "at-the-end", "s"): 0.0,
            ("default", "stopped", "s"): 25.0,
        }


@pytest.mark.parametrize(("bound", "most"), [("GROUPS_SHOWN", 2), ("SEGMENTS_READ", 2)])
async def test_a_scrape_looks_at_so_many_groups_and_segments(
    memory: Watched, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """The others are counted."""
    monkeypatch.setattr(order, bound, most)
    async with serving(memory) as controller:
        await tell(controller, Note("a", 10, {0: 1}))
        for group in "abc":
            await controller.report("s", group, "r", {0: 1})

        shown = scraped(controller, "noted_time_group_behind")
        not_shown = scraped(controller, "noted_time_groups_not_shown")
        assert (len(shown), not_shown) == (2, {(): 1.0})
