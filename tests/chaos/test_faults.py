"""The short version of `./run chaos`: each fault once, on three replicas under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.trial import Plan, hold
from tests.chaos.turns import each_once

if TYPE_CHECKING:
    from pathlib import Path

    from tests.chaos.verdict import Verdict
    from tests.support.postgres import Server

pytestmark = [pytest.mark.acceptance, pytest.mark.anyio]

ENDS = (
    *("kill-owner", "kill", "kill-all", "clocks"),
    *("lost-answers", "database-crash", "database-outage", "empty-start"),
)
SILENCES = ("pause", "isolated", "cut", "half-open", "stall", "unreached")


def tried(verdict: Verdict) -> int:
    """Return the least of what has to have happened, or nothing was proved."""
    counts = verdict.counts
    happened = ("notes acknowledged", "scalings", "absences", "marks truncated")
    return min(*(counts[each] for each in happened), verdict.marks, verdict.windows)


async def test_nothing_is_lost_or_wrong_after_replicas_and_the_database_end(
    server: Server, tmp_path: Path
) -> None:
    """Every law of `docs/chaos.md` holds, and there was enough to hold it against."""
    verdict = await hold(server, tmp_path, Plan(1, turns=lambda _: each_once(ENDS)))

    assert verdict.violations == ()
    assert verdict.faults == dict.fromkeys(sorted(ENDS), 1)
    assert tried(verdict) > 0


async def test_nothing_is_lost_or_wrong_after_replicas_that_nobody_hears(
    server: Server, tmp_path: Path
) -> None:
    """Likewise; an owner that nobody reaches keeps its streams, and who asks is told so."""
    verdict = await hold(server, tmp_path, Plan(1, turns=lambda _: each_once(SILENCES)))

    assert verdict.violations == ()
    assert verdict.faults == dict.fromkeys(sorted(SILENCES), 1)
    assert min(tried(verdict), verdict.counts["told of one that nobody reaches: no_owner"]) > 0


def test_no_fault_is_excluded() -> None:
    """The two trials have all that `./run chaos` has, each fault in one of them."""
    assert sorted((*ENDS, *SILENCES)) == sorted(FAULTS)
