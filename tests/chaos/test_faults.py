"""The short version of `./run chaos`: each fault alone, on three replicas under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.trial import Plan, hold
from tests.chaos.turns import each_once

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.postgres import Server

pytestmark = [pytest.mark.acceptance, pytest.mark.anyio]


@pytest.mark.parametrize(
    "faults",
    [
        ("kill-owner", "kill", "lost-answers"),
        ("kill-all", "clocks"),
        ("pause", "isolated"),
        ("database-crash", "database-outage"),
        ("cut", "half-open", "stall"),
        ("empty-start",),
    ],
    ids=" and ".join,
)
async def test_nothing_is_lost_or_wrong_after(
    faults: tuple[str, ...], server: Server, tmp_path: Path
) -> None:
    """Every law of `docs/chaos.md` holds, and there was enough to hold it against."""
    verdict = await hold(server, tmp_path, Plan(seed=1, turns=lambda _: each_once(faults)))

    assert verdict.violations == ()
    assert verdict.faults == dict.fromkeys(sorted(faults), 1)
    assert min(verdict.counts["notes acknowledged"], verdict.marks, verdict.windows) > 0
    assert min(verdict.counts["scalings"], verdict.counts["absences"]) > 0


async def test_an_owner_that_nobody_reaches_keeps_its_streams_and_goes_on_with_them(
    server: Server, tmp_path: Path
) -> None:
    """Who asks the others for them is told so; every law holds, and marks were truncated."""
    verdict = await hold(server, tmp_path, Plan(1, turns=lambda _: each_once(["unreached"])))

    assert verdict.violations == ()
    assert verdict.counts["told of one that nobody reaches: no_owner"] > 0
    assert verdict.counts["marks truncated"] > 0
