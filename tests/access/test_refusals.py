"""However many calls are refused, the log stays short and says how many there were."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller.api import audit
from controller.api.audit import Attempt
from controller.service.repeats import APART, LOGGED, OTHERS, PERIOD_S, PassedOver, Repeats
from tests.support.gates import Guarded, behind

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence
    from typing import Any

HERE = "10.0.0.7"
OUTCOMES = ("unauthenticated", "forbidden", "foreign_origin")
S = "/v1/streams/s"


@pytest.fixture(autouse=True)
def _no_refusals_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget those of other tests, which share the process and its log."""
    monkeypatch.setattr(audit, "_refusals", Repeats())


def told(logs: Sequence[MutableMapping[str, Any]]) -> list[tuple[str, object, object]]:
    """Return event, outcome and, where calls were passed over, how many."""
    lines = [line for line in logs if "outcome" in line]
    return [(line["event"], line["outcome"], line.get("count")) for line in lines]


def test_the_first_of_a_minute_are_told_and_the_others_counted() -> None:
    """The next minute begins with the next call."""
    attempt = Attempt("GET /metrics", "", HERE)
    with capture_logs() as logs:
        for now in (*range(LOGGED + 5), PERIOD_S):
            audit.refused(attempt, "unauthenticated", now=now)

    assert told(logs) == [
        *[("audit", "unauthenticated", None)] * LOGGED,
        ("refusals_passed_over", "unauthenticated", 5),
        ("audit", "unauthenticated", None),
    ]


def test_another_remote_or_outcome_is_told_all_the_same() -> None:
    """Who calls once is not hidden by who calls all the time."""
    repeats = Repeats()
    for _ in range(LOGGED + 1):
        repeats.is_logged(HERE, "unauthenticated", 0)

    assert [
        repeats.is_logged(HERE, "unauthenticated", 1),
        repeats.is_logged(HERE, "forbidden", 1),
        repeats.is_logged("10.0.0.8", "unauthenticated", 1),
    ] == [False, True, True]


def test_remotes_beyond_some_are_told_as_one() -> None:
    """A stranger with many addresses takes no more memory and no more lines."""
    repeats = Repeats()
    lines = sum(repeats.is_logged(f"remote {n}", "forbidden", 0) for n in range(10_000))

    assert (lines, repeats.ended(PERIOD_S)) == (
        APART + LOGGED,
        [PassedOver(OTHERS, "forbidden", 10_000 - APART - LOGGED)],
    )


calls = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from("abcdefgh"), st.sampled_from(OUTCOMES)),
    max_size=200,
)


@given(calls)
def test_every_refusal_is_told_or_counted(called: list[tuple[int, str, str]]) -> None:
    """Once, and no minute of a remote and outcome has more than its lines."""
    repeats = Repeats(logged=2, apart=4)
    now, lines, counted, most = 0, 0, 0, 0
    for later, remote, outcome in called:
        now += later
        counted += sum(passed.count for passed in repeats.ended(now))
        lines += repeats.is_logged(remote, outcome, now)
        most = max(most, len(repeats._minutes))
    counted += sum(passed.count for passed in repeats.ended(now + PERIOD_S))

    assert (lines + counted, most <= 4 + len(OUTCOMES)) == (len(called), True)


@pytest.mark.anyio
async def test_what_was_passed_over_is_told_at_the_end_and_administration_always() -> None:
    """Also where nobody calls any more."""
    guarded = Guarded()
    admin = guarded.token("admin")
    with capture_logs() as logs:
        async with behind(guarded.gate) as door:
            for _ in range(LOGGED + 3):
                await door.call("GET", S)
            for _ in range(LOGGED + 3):
                await door.call("PUT", S, admin, {})

    assert told(logs) == [
        *[("audit", "unauthenticated", None)] * LOGGED,
        *[("audit", 200, None)] * (LOGGED + 3),
        ("refusals_passed_over", "unauthenticated", 3),
    ]


@pytest.mark.anyio
async def test_what_was_passed_over_is_told_while_it_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once its minute is over, by a clock that runs fast here."""
    monkeypatch.setattr(audit, "REPORT_EVERY_S", 0.001)
    monkeypatch.setattr(audit, "monotonic", iter(range(0, 10**9, 10)).__next__)
    for _ in range(LOGGED + 1):
        audit.refused(Attempt("GET /metrics", "", HERE), "unauthenticated", now=0)
    with capture_logs() as logs:
        async with asyncio.timeout(30), audit.watching():
            while not logs:  # noqa: ASYNC110 - the log wakes nobody
                await asyncio.sleep(0.001)

            assert told(logs) == [("refusals_passed_over", "unauthenticated", 1)]
