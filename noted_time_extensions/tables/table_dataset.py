"""Judges a table by its claims, and asks their streams who vouches."""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from noted_time.extending import (
    Completeness,
    Dataset,
    Hop,
    Lack,
    LedgerPage,
    NotedTimeError,
    Question,
    Requirement,
)
from noted_time_extensions.tables.checks import standing
from noted_time_extensions.tables.claim import ClaimSource
from noted_time_extensions.tables.claim_verdicts import (
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
from noted_time_extensions.tables.table_history import NoClaim, TableClaim
from noted_time_extensions.tables.table_hop import describe_table
from noted_time_extensions.tables.table_urls import open_history
from reader_client.extending import (
    Asking,
    FeatureDataset,
    NoDomain,
    Steps,
    ask_completeness,
    ask_late_reports,
    find_domain,
)


@dataclass(frozen=True)
class TableDataset:
    """A table that can be judged. `names` are the claims that count."""

    dataset: Dataset
    names: tuple[str, ...] = ()
    asking: Asking = "always"

    def describe_hop(self, time: int | None) -> Hop:
        """Return the table with its sources. Raises as `standing`."""
        history = open_history(self.dataset.name)
        return describe_table(self.dataset, history, time, self.names)

    def judge(self, requirement: Requirement) -> Steps:
        """Judge the table.

        Raises `Unreachable`, `Conflict` and `Rejected` as the controller answers, and
        `Unreadable` if the table cannot be read.
        """
        table = self.dataset.name
        last_claim = standing(table, self.names or None)
        if isinstance(last_claim, NoClaim):
            return judge_no_claim(table, last_claim)
        time = requirement.to
        if time is None:
            time = requirement.tiling.start_of(last_claim.complete_to)
        answer = yield from self._judge_time(last_claim, requirement, time)
        if requirement.to is not None or answer.status != "waiting":
            return answer
        earlier_time = answer.complete_to
        if earlier_time and earlier_time < time:
            earlier_answer = yield from self._judge_time(last_claim, requirement, earlier_time)
            if earlier_answer.is_complete:
                return earlier_answer
        return answer

    def _judge_time(self, last_claim: TableClaim, requirement: Requirement, time: int) -> Steps:
        """Judge by the first claim that is complete to the time, then by the last one."""
        table = self.dataset.name
        version = last_claim.version_at(time)
        requirement = replace(requirement, to=time)
        first_claim = last_claim
        if version is not None:
            claim = standing(table, self.names or None, at=version)
            if not isinstance(claim, NoClaim):
                first_claim = claim
        answers = yield from self._ask_sources(first_claim, requirement)
        answer = judge_claim(table, first_claim, time, requirement, answers)
        if answer.is_complete or first_claim == last_claim:
            return answer
        answers = yield from self._ask_sources(
            last_claim, requirement, is_later=version is not None
        )
        last_answer = judge_claim(table, last_claim, time, requirement, answers)
        return replace(last_answer, version=last_claim.version)

    def _ask_sources(
        self, claim: TableClaim, requirement: Requirement, *, is_later: bool = False
    ) -> Generator[Any, Any, dict[ClaimSource, Completeness | Lack] | None]:
        sources = list_asked_sources(claim, requirement)
        if sources is None or (sources and self.asking == "never"):
            return None
        answers: dict[ClaimSource, Completeness | Lack] = {}
        for source in sources:
            if source.at_most is None:
                answers[source] = describe_marks_not_kept(source)
                continue
            try:
                domain = yield from find_domain(source.stream, source.domain)
                named_source = source._replace(domain=domain)
                answers[source] = yield from ask_claimed_source(
                    claim, named_source, requirement, is_later=is_later
                )
            except NoDomain as error:
                answers[source] = Lack(kind="not_asked", status="unknown", sentence=str(error))
            except NotedTimeError:
                if self.asking == "always":
                    raise
                return None
        return answers


def ask_claimed_source(
    claim: TableClaim, source: ClaimSource, requirement: Requirement, *, is_later: bool
) -> Generator[Question[Any], Any, Completeness]:
    """Ask the stream of a claim as of the claim's marks, and for late rows that the table lacks.

    `is_later` says that an earlier version of the table had the time, and lacked a writer.
    """
    stream_requirement = ask_source(source, requirement)
    answer: Completeness = yield ask_completeness(source.stream, stream_requirement)
    if can_use_counts(claim, source, requirement, answer):
        without_counts = replace(stream_requirement, require_all=False, require_known=True)
        answer_by_counts: Completeness = yield ask_completeness(source.stream, without_counts)
        if answer_by_counts.is_complete:
            answer = answer_by_counts
    writers = list_late_writers(claim, requirement, answer, is_later=is_later)
    if writers and stream_requirement.to is not None:
        writers = yield from _find_reported_writers(source, writers, stream_requirement.to)
    return refuse_late_rows(claim, answer, writers)


def _find_reported_writers(
    source: ClaimSource, writers: Collection[str], to: int
) -> Generator[Question[Any], Any, set[str]]:
    """Return the writers that reported rows below a time, up to the last mark of the claim."""
    last = Requirement(to=source.at_most, domain=source.domain)
    answer: Completeness = yield ask_completeness(source.stream, last)
    if answer.mark is None:
        return {*writers}
    page: LedgerPage = yield ask_late_reports(source.stream, source.domain)
    return find_reported_writers(
        writers, page.late_reports, page.late_report_count, to, answer.mark.written_at
    )


def open_table(dataset: Dataset, *, names: tuple[str, ...], asking: Asking) -> FeatureDataset:
    return TableDataset(dataset, names, asking)
