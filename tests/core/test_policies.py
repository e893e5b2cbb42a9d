"""Verdicts of policies on the lacks of a dataset."""

import pytest
from msgspec.structs import replace

from noted_time.open_enum import list_names
from noted_time.reading import NoClaim
from noted_time.verdict import Lack, apply_policy, judge_no_claim
from noted_time.verdict.completeness import LackKind

FAILED = ("incomplete",) * 4
AWAITED = ("incomplete", "waiting", "complete", "complete")
PASSED = ("incomplete", "incomplete", "complete", "complete")
BY_KIND = {
    "missing": AWAITED,
    "not_vouching": AWAITED,
    "open_stream": PASSED,
    "late": ("complete",) * 4,
}


@pytest.mark.parametrize("kind", list_names(LackKind))
def test_policies_pass_writers_but_no_rows(kind: LackKind) -> None:
    """`missing` varies and `late` warns; lacks without a policy always fail."""
    lack = Lack(kind=kind, status="incomplete", sentence="")
    answer = replace(judge_no_claim("delta:t", NoClaim("")), lacks=(lack,))
    judged = [apply_policy(answer, each, "warn") for each in ("fail", "wait", "warn", "accept")]

    seen = tuple((each.status, each.lacks[0].status) for each in judged)
    assert seen == tuple((status, status) for status in BY_KIND.get(kind, FAILED))
