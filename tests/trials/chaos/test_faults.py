"""The short version of `./run chaos`: each fault once, on three replicas under load.

Two that leave something of each other come together: that takes half the time of one by one.
"""

from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

import pytest

from tests.trials.actors.workload import HAPPENED
from tests.trials.chaos.__main__ import make_replica_trial
from tests.trials.chaos.faults import REPLICA_FAULTS
from tests.trials.chaos.trial import Plan, Turn
from tools.trials.postgres import Server

pytestmark = [pytest.mark.acceptance, pytest.mark.anyio]

ENDS: tuple[Turn, ...] = (
    ("kill-owner", "lost-answers"),
    ("kill", "database-crash"),
    ("kill-all", "empty-start"),
    ("clocks", "stop"),
    ("database-outage", "power"),
)
SILENCES: tuple[Turn, ...] = (
    ("pause", "cut"),
    ("isolated", "stall"),
    ("half-open",),
    ("database-hang",),
    ("unreached",),
)


def count_faults(turns: Iterable[Turn]) -> dict[str, int]:
    """Return how often each fault comes in the turns, by name."""
    return dict(sorted(Counter(chain.from_iterable(turns)).items()))


@pytest.mark.parametrize(
    ("turns", "counted"), [(ENDS, ()), (SILENCES, ("reported as unreachable: no_owner",))]
)
async def test_nothing_is_lost_or_wrong_after_faults(
    server: Server, tmp_path: Path, turns: tuple[Turn, ...], counted: tuple[str, ...]
) -> None:
    """Replicas and the database end, or are cut off: every law of `docs/explain/chaos.md` holds.

    There was enough to hold it against. An unreachable owner keeps its streams.
    """
    plan = Plan(1, turns=lambda _: turns)
    verdict = await make_replica_trial(server, tmp_path, plan).hold(tmp_path)
    rarest = min(verdict.tried[happening] for happening in HAPPENED)
    if verdict.is_inconclusive or (verdict.share.is_starved and not rarest):
        pytest.skip(f"inconclusive: {verdict.share}")

    assert not verdict.violations, verdict.violations
    assert verdict.faults == count_faults(turns)
    assert min([rarest, *(verdict.counts[fault] for fault in counted)]) > 0


def test_no_fault_is_excluded() -> None:
    """The two trials have all that `./run chaos` has, each fault in one of them."""
    assert count_faults((*ENDS, *SILENCES)) == dict.fromkeys(sorted(REPLICA_FAULTS), 1)
