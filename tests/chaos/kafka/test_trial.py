"""Short trials of Kafka: real processes that are killed, and one that breaks its promise."""

from pathlib import Path

import pytest

from examples.trials import java, kafka
from tests.chaos.kafka.arena import OBSERVERS, Ways
from tests.chaos.kafka.faults import KAFKA_FAULTS
from tests.chaos.kafka.queried import of_kafka
from tests.chaos.kafka.writing import Kind
from tests.chaos.turns import Plan, Turn
from tests.chaos.verdict import Verdict

pytestmark = [
    pytest.mark.acceptance,
    pytest.mark.spark,
    pytest.mark.anyio,
    pytest.mark.skipif(not kafka.installed(), reason=kafka.MISSING),
]

TURNS: tuple[Turn, ...] = (
    ("kill-query", "kill-producer"),
    ("kill-broker", "partition", "kill-far"),
    ("twin", "kill-controller", "kill-observer"),
)


IN_JAVA: dict[str, Kind] = {"HA": "java"} if java.compiler() else {}
NOTING: dict[str, Kind] = {"UA": "transactions", "AA": "plain", "LH": "far", **IN_JAVA}


async def held(
    directory: Path, turns: tuple[Turn, ...], writers: dict[str, Kind], ways: Ways = OBSERVERS
) -> Verdict:
    """Return the verdict of a trial with these turns."""
    plan = Plan(1, turns=lambda _: turns)
    return await of_kafka(directory, plan, writers=writers, ways=ways).hold(directory)


async def test_no_row_is_lost_when_every_process_is_killed(tmp_path: Path) -> None:
    """Every law of `docs/explain/chaos.md` holds, and there was enough to hold it against."""
    verdict = await held(tmp_path, TURNS, NOTING)

    assert not verdict.violations, verdict.violations
    assert {each for turn in TURNS for each in turn} == KAFKA_FAULTS.keys() - {"pause"}
    counted = ["records committed", "transactions aborted", "marks checked", "windows checked"]
    counted += ["records observed", "marks observed", "strays refused"]
    counted += ["records of the other cluster", "marks of the other cluster"]
    assert min(verdict.tried[each] for each in counted) > 0


async def test_a_producer_that_notes_too_early_is_found(tmp_path: Path) -> None:
    """The judge finds its records beyond the cuts, and the query has lost them."""
    verdict = await held(tmp_path, (("partition",),), {"AA": "plain", "early": "early"}, {})

    assert {violation.law for violation in verdict.violations} == {
        "marks are sound",
        "windows are true",
    }
    assert verdict.tried["rows lost"] > 0
