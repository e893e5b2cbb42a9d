"""Verdicts of policies on the lacks of a dataset."""

import pytest

from noted_time.open_enum import list_names
from noted_time.verdict import Completeness, Lack, apply_policy
from noted_time.verdict.completeness import LackKind

POLICIES = ("fail", "wait", "warn", "accept")
FAILED = ("incomplete",) * 4
AWAITED = ("incomplete", "waiting", "complete", "complete")
PASSED = ("incomplete", "incomplete", "complete", "complete")
REMARKS = ("complete",) * 4
BY_MISSING = {"missing": AWAITED, "not_vouching": AWAITED, "open_stream": PASSED, "late": REMARKS}
BY_LATE = dict.fromkeys(BY_MISSING, REMARKS) | {"late": PASSED}


@pytest.mark.parametrize("kind", list_names(LackKind))
def test_policies_pass_writers_but_no_rows(kind: LackKind) -> None:
    """One of `missing` and `late` varies, and the other warns; other lacks always fail."""
    lack = Lack(kind=kind, status="incomplete", sentence="")
    answer = Completeness(status="incomplete", lacks=(lack,), sentence="", remedy="")

    for policy, status in zip(POLICIES, BY_MISSING.get(kind, FAILED), strict=True):
        by_missing = apply_policy(answer, policy, "warn")
        assert (by_missing.status, by_missing.lacks[0].status) == (status, status)
    for policy, status in zip(POLICIES, BY_LATE.get(kind, FAILED), strict=True):
        by_late = apply_policy(answer, "warn", policy)
        assert (by_late.status, by_late.lacks[0].status) == (status, status)
