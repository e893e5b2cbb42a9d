"""The laws of waiting until a time is complete, over random answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noted_time import Conflict, NotedTimeError, Rejected, Unreachable
from noted_time.client import Backoff, run
from noted_time.client.waiting import LONG_POLL_S, NotYet, Sleep, until_complete

ANSWER_S = 10.0
"""How late an answer may come."""

WRITERS = st.sampled_from(["oslo", "lima"])
REASONS = st.builds(NotYet, st.builds("waits for {}".format, WRITERS), st.floats(0.0, 60.0))
FAULTS = st.one_of(
    st.builds(Unreachable, st.just("no route"), st.none() | st.floats(0.0, 60.0)),
    st.builds(Conflict, st.just("read again")),
)
LATENESS = st.floats(0.0, ANSWER_S)
TIMEOUTS = st.floats(0.0, 300.0)


@dataclass
class Trial:
    """Polls with planned answers, on a simulated clock."""

    found: Sequence[tuple[object, float]]
    now: float = 0.0
    looks: list[tuple[float, float]] = field(default_factory=list)
    """The begin and the end of each."""
    pauses: list[Sleep] = field(default_factory=list)

    def wait(self, timeout_s: float, chance: float = 0.5) -> Any:  # noqa: ANN401 - what is found
        """Wait; after the planned answers the time is never complete."""
        late = (NotYet("it waits for oslo", 0.2), 0.0)
        ahead = chain(self.found, repeat(late))

        def judge(wait_ms: int) -> Generator[int, object, object]:
            return (yield wait_ms)

        def perform(step: int | Sleep) -> object:
            if isinstance(step, Sleep):
                self.pauses.append(step)
                self.now += step.seconds
                return None
            wait_s = step / 1000
            assert 0.0 <= wait_s <= LONG_POLL_S
            outcome, takes_s = next(ahead)
            began = self.now
            self.now += takes_s + (wait_s if isinstance(outcome, NotYet) else 0.0)
            self.looks.append((began, self.now))
            if isinstance(outcome, NotedTimeError):
                raise outcome
            return outcome

        steps = until_complete(judge, timeout_s, clock=lambda: self.now, chance=lambda: chance)
        return run(steps, perform)


@given(st.lists(st.tuples(REASONS | FAULTS, LATENESS), max_size=9), TIMEOUTS)
def test_wait_ends_exactly_when_the_time_is_complete(
    before: list[tuple[NotedTimeError, float]], timeout_s: float
) -> None:
    """It returns the answer, or raises the last reason."""
    trial = Trial([*before, ("complete", 0.0)])
    outcome: object = None
    try:
        outcome = trial.wait(timeout_s)
    except (Conflict, Unreachable) as error:
        outcome = error
    planned_outcomes = [outcome for outcome, _ in trial.found]

    assert outcome is planned_outcomes[len(trial.looks) - 1]
    assert outcome == "complete" or trial.now >= timeout_s


@given(st.lists(st.tuples(REASONS | FAULTS, LATENESS), max_size=9), TIMEOUTS)
def test_wait_ends_at_the_timeout(
    before: list[tuple[NotedTimeError, float]], timeout_s: float
) -> None:
    """It ends at most one answer later: the last poll is when time is up."""
    trial = Trial(before)
    with pytest.raises((Conflict, Unreachable)):
        trial.wait(timeout_s)

    began, _ = trial.looks[-1]
    assert began <= timeout_s + 2 * ANSWER_S
    assert timeout_s <= trial.now
    assert all(end < timeout_s for _, end in trial.looks[:-1])


@given(st.lists(st.tuples(REASONS, LATENESS), max_size=9), TIMEOUTS)
def test_wait_pauses_between_polls(
    before: list[tuple[NotedTimeError, float]], timeout_s: float
) -> None:
    """The reason says how long; only the last poll may be sooner."""
    trial = Trial(before)
    with pytest.raises(Conflict):
        trial.wait(timeout_s)

    between = [after[0] - before[1] for before, after in pairwise(trial.looks)]
    asked_pauses = [getattr(pause.why, "pause_s", None) for pause in trial.pauses]
    assert between[:-1] == pytest.approx(asked_pauses[:-1])


@given(st.integers(1, 9), st.floats(0.0, 1.0, exclude_max=True), st.none() | st.floats(0.0, 60.0))
def test_a_fault_is_retried_with_backoff(
    faults: int, chance: float, retry_after_s: float | None
) -> None:
    """Delays grow, and respect Retry-After; an answer resets them."""
    away = Unreachable("no route", retry_after_s)
    trial = Trial(
        [(away, 0.0)] * faults + [(NotYet("it waits for lima"), 0.0), (away, 0.0), ("it", 0.0)]
    )

    assert trial.wait(1e6, chance) == "it"
    delays = [
        Backoff().delay_s(fault, chance=chance, retry_after_s=retry_after_s)
        for fault in range(1, faults + 1)
    ]
    failures_and_delays = [(pause.failures, pause.seconds) for pause in trial.pauses]
    assert failures_and_delays == [*enumerate(delays, 1), (0, 1.0), (1, delays[0])]


@given(st.lists(st.tuples(REASONS | FAULTS, LATENESS), max_size=5))
def test_refusal_ends_the_wait_at_once(before: list[tuple[NotedTimeError, float]]) -> None:
    refusal = Rejected("no such domain")
    trial = Trial([*before, (refusal, 0.0)])
    with pytest.raises(Rejected) as refused:
        trial.wait(1e6)

    assert (refused.value, len(trial.looks)) == (refusal, len(before) + 1)


@given(st.lists(st.tuples(REASONS | FAULTS, LATENESS), min_size=1, max_size=9))
def test_each_reason_is_news_once(before: list[tuple[NotedTimeError, float]]) -> None:
    """A status line can then name the writer that it waits for."""
    trial = Trial([*before, ("complete", 0.0)])
    trial.wait(1e6)

    reasons = [str(reason) for reason, _ in before]
    assert [str(pause.why) for pause in trial.pauses] == reasons
    is_new = [reason != last for last, reason in pairwise(["", *reasons])]
    assert [pause.is_news for pause in trial.pauses] == is_new
    assert trial.looks[0][1] == before[0][1]
