"""What unsuccessful answers mean, and when to try again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import noted_time
from noted_time.client import Backoff, error_of
from noted_time.client.retrying import LONGEST_RETRY_AFTER_S
from noted_time.values import (
    Conflict,
    NotAllowed,
    NotCompleteYet,
    NotedMeanwhile,
    NotedTimeError,
    Rejected,
    UnexpectedAnswer,
    UnknownDomain,
    UnknownStream,
    Unreachable,
)

URN = "urn:noted-time:problem:"


@pytest.mark.parametrize(
    ("status", "problem", "kind"),
    [
        (301, {}, UnexpectedAnswer),
        (400, {}, UnexpectedAnswer),
        (400, {"type": URN + "malformed_json"}, Rejected),
        (401, {}, NotAllowed),
        (403, {"title": "Forbidden"}, NotAllowed),
        (404, {"type": URN + "unknown_stream"}, UnknownStream),
        (404, {"type": URN + "not_complete_yet", "complete_to": 9, "lower": None}, NotCompleteYet),
        (404, {"type": "about:blank"}, UnexpectedAnswer),
        (405, {}, UnexpectedAnswer),
        (408, {}, Unreachable),
        (409, {"type": URN + "conflict"}, Conflict),
        (409, {"type": URN + "noted_meanwhile", "writer": "w", "noted_at": 5}, NotedMeanwhile),
        (413, {"title": "too large"}, UnexpectedAnswer),
        (
            422,
            {"type": URN + "unknown_domain", "domain": "k", "domains": ["default"]},
            UnknownDomain,
        ),
        (429, {}, Unreachable),
        (500, {"type": URN + "unknown_stream"}, Unreachable),
        (503, {"type": URN + "unavailable"}, Unreachable),
    ],
)
def test_a_status_determines_what_to_do(
    status: int, problem: dict[str, Any], kind: type[NotedTimeError]
) -> None:
    """Each answer belongs to the branch of the tree that decides whether to try again."""
    assert type(error_of(status, problem, stream="flights")) is kind


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True), st.none() | st.floats(0, 1e9))
def test_a_delay_stays_within_its_bounds(
    failures: int, chance: float, retry_after_s: float | None
) -> None:
    """A delay is at least what was asked for, and at most the cap beyond it."""
    backoff = Backoff(first_s=0.1, cap_s=5.0)
    asked = min(retry_after_s or 0.0, LONGEST_RETRY_AFTER_S)

    delay = backoff.delay_s(failures, chance=chance, retry_after_s=retry_after_s)
    assert asked + 0.05 <= delay <= asked + 5.0


def test_a_refused_token_comes_with_the_remedy() -> None:
    """The client says where it takes its token from, since it knows."""
    problem = {"title": "Unauthenticated", "detail": "missing, expired or revoked token"}

    assert str(error_of(401, problem, stream="flights")) == (
        "401 Unauthenticated: missing, expired or revoked token; "
        "show one by token=… or the variable NOTED_TIME_TOKEN"
    )


def test_every_error_is_exported_at_the_top() -> None:
    """Callers that handle an error import it from `noted_time`."""
    errors = {
        name
        for name, value in vars(noted_time.values.errors).items()
        if isinstance(value, type) and issubclass(value, NotedTimeError)
    }

    assert errors - set(noted_time.__all__) == set()
