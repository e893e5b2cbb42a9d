"""Judges completeness once, for controllers, clients and pages."""

from noted_time.verdict.completeness import (
    Completeness,
    Lack,
    Requirement,
    VerdictStatus,
    apply_policy,
    combine,
    describe_objections,
)
from noted_time.verdict.judging import Latecomer, Verdict, build_answer, check, judge, judge_time
from noted_time.verdict.words import SIMILARITY_CUTOFF
