"""Judges completeness once, for controllers, clients, tables and pages."""

from noted_time.verdict.claimed import (
    NO_DOMAIN,
    add_writers,
    ask_source,
    can_use_counts,
    describe_marks_not_kept,
    find_reported_writers,
    judge_claim,
    judge_no_claim,
    list_asked_sources,
    list_late_writers,
    refuse_late_rows,
)
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
