"""Alignments as a scrape shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from noted_time.wing import AlignmentSettings
from tests.support.controllers import serve_for, serving
from tests.support.scrapes import scraped

if TYPE_CHECKING:
    from controller.service.controller import Controller
    from tests.support.controllers import GivenTime, Watched

pytestmark = pytest.mark.anyio


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


async def test_where_nobody_counts_there_is_neither_drift_nor_bound(memory: Watched) -> None:
    """There is no number that would not lie."""
    async with serving(memory) as controller:
        await controller.alignments.put("a", AlignmentSettings(10))

        assert shown(controller) == [{}, {("a",): 10.0}, {}]


async def test_members_are_counted_or_it_is_said_why_not(memory: Watched, time: GivenTime) -> None:
    """Each state has its number, also where that is none."""
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
